"""Where a webhook is: the client configuration that admission and conversion webhooks share."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from bayplan.api.names import dns1123_subdomain
from bayplan.apiserver.validation.causes import Causes, invalid, required
from bayplan.apiserver.validation.formats import port_number

_FORM = "; desired format: https://host[/path]"


def validate_client_config(
    field: str, config: Mapping[str, Any], *, authority: bool = True
) -> Causes:
    """Demand either a URL or a Service, and what each needs; admission reads no `authority`."""
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [required(field, "exactly one of url or service is required")]
    causes = (
        _validate_url(f"{field}.url", url)
        if url is not None
        else _validate_service(f"{field}.service", service or {})
    )
    bundle = config.get("caBundle") or ""
    if authority and bundle and not _is_bundle(bundle):
        text = "unable to load root certificates: unable to parse bytes as PEM block"
        causes.append(invalid(f"{field}.caBundle", bundle, text))
    return causes


def _is_bundle(bundle: str) -> bool:
    try:
        text = base64.b64decode(bundle)
    except binascii.Error:
        return False
    return not text.strip() or b"-----BEGIN CERTIFICATE-----" in text


def _validate_url(field: str, url: str) -> Causes:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        return [required(field, f"url must be a valid URL: {error}{_FORM}")]
    causes: Causes = []
    host = parts.netloc.rpartition("@")[2]
    if parts.scheme != "https":
        text = f"'https' is the only allowed URL scheme{_FORM}"
        causes.append(invalid(field, parts.scheme, text))
    if not host:
        causes.append(invalid(field, host, f"host must be specified{_FORM}"))
    for value, what in (
        (parts.netloc.rpartition("@")[0], "user information is"),
        (parts.fragment, "fragments are"),
        (parts.query, "query parameters are"),
    ):
        if value:
            causes.append(invalid(field, value, f"{what} not permitted in the URL"))
    return causes


def _validate_service(field: str, service: Mapping[str, Any]) -> Causes:
    causes = [required(f"{field}.{key}") for key in ("name", "namespace") if not service.get(key)]
    port = service.get("port", 443)
    if problems := port_number(port):
        text = f"port is not valid: {', '.join(problems)}"
        causes.append(invalid(f"{field}.port", port, text))
    return causes + _validate_path(f"{field}.path", service.get("path") or "/")


def _validate_path(field: str, path: str) -> Causes:
    if path == "/":
        return []
    if path == "//":
        return [invalid(field, path, "segment[0] may not be empty")]
    causes = [] if path.startswith("/") else [invalid(field, path, "must start with a '/'")]
    for index, step in enumerate(path[1:].removesuffix("/").split("/")):
        if not step:
            causes.append(invalid(field, path, f"segment[{index}] may not be empty"))
            continue
        causes += [
            invalid(field, path, f"segment[{index}]: {problem}")
            for problem in dns1123_subdomain(step)
        ]
    return causes
