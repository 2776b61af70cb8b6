"""Label and field selectors as they stand in a query string.

Labels are parsed by `bayplan.api.labels`; here they are cached, and field selectors (`a=b,c!=d`)
get their parser, because which fields can be selected depends on the kind. Matchers work on plain
values, so that one decode of an object serves any number of watchers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from bayplan.api.labels import Selector, SelectorError, parse_selector
from bayplan.api.remembered import remembered
from bayplan.apiserver.errors import ApiError, bad_request
from bayplan.apiserver.kinds import Kind


@remembered(1024)
def parse_labels(text: str) -> Selector | None:
    """Parse a label selector; None when it selects everything. Raises a 400."""
    try:
        selector = parse_selector(text)
    except SelectorError as error:
        raise bad_request(str(error)) from error
    return None if selector.empty else selector


class FieldSelector(NamedTuple):
    """Equalities and inequalities of field values, all of which must hold."""

    terms: tuple[tuple[str, bool, str], ...]  # path, equal?, value

    def matches(self, value_of: Callable[[str], str]) -> bool:
        return all((value_of(path) == value) is equal for path, equal, value in self.terms)

    def exact(self, path: str) -> str | None:
        """Return the value that the path must equal, if the selector says so."""
        return next((v for p, equal, v in self.terms if equal and p == path), None)


def _split_terms(text: str) -> list[str]:
    """Split at commas that no backslash escapes."""
    return [part for part in re.split(r"(?<!\\),", text) if part]


def _unescape(value: str) -> str:
    out, escaped = [], False
    for char in value:
        if escaped:
            if char not in "\\,=":
                raise bad_request(
                    f"invalid field selector: invalid escape sequence in value: {value}"
                )
            out.append(char)
            escaped = False
        elif char == "\\":
            escaped = True
        elif char in ",=":
            raise bad_request(f"invalid field selector: {value}; unescaped {char}")
        else:
            out.append(char)
    if escaped:
        raise bad_request(f"invalid field selector: {value}; ends in a backslash")
    return "".join(out)


def exact_name(text: str) -> str:
    """Return the name that a field selector asks for; empty where it does not, or is wrong."""
    try:
        found = parse_fields(text)
    except ApiError:
        return ""
    name = (found.exact("metadata.name") if found else None) or ""
    return "" if name in (".", "..") or "/" in name or "%" in name else name


@remembered(1024)
def parse_fields(text: str) -> FieldSelector | None:
    """Parse a field selector; None when it selects everything. Raises a 400."""
    terms: list[tuple[str, bool, str]] = []
    for part in sorted(_split_terms(text)):  # so that of two names the same counts as upstream
        match = re.match(r"((?:[^\\=!]|\\.)*?)(!=|==|=)(.*)$", part, re.DOTALL)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        terms.append((match[1], match[2] != "!=", _unescape(match[3])))
    return FieldSelector(tuple(terms)) if terms else None


# Kinds whose conversion functions word the refusal in their own way,
_NOT_SUPPORTED = "field label not supported: {path}"
_OWN_WORDS = {
    "CertificateSigningRequest": _NOT_SUPPORTED,
    "ClusterTrustBundle": _NOT_SUPPORTED,
    "Event": _NOT_SUPPORTED,
    "Job": 'field label "{path}" not supported for Job',
    "Namespace": _NOT_SUPPORTED,
    "Node": _NOT_SUPPORTED,
    "Pod": _NOT_SUPPORTED,
    "PodCertificateRequest": _NOT_SUPPORTED,
    "ReplicationController": _NOT_SUPPORTED,
    "ResourceSlice": "field label not supported for {version}, Kind=ResourceSlice: {path}",
    "Secret": _NOT_SUPPORTED,
    "Service": _NOT_SUPPORTED,
}
# and those that know no namespace.
_NAME_ONLY = frozenset(
    (
        "CertificateSigningRequest",
        "ClusterTrustBundle",
        "Namespace",
        "Node",
        "PodCertificateRequest",
        "ResourceSlice",
    )
)


def check_fields(kind: Kind, selector: FieldSelector) -> None:
    """Raise upstream's 400 if the kind cannot be selected by one of the fields."""
    for path, _, _ in selector.terms:
        if path == "metadata.name" or path in kind.field_labels:
            continue
        if path == "metadata.namespace" and (kind.custom or kind.kind not in _NAME_ONLY):
            continue
        if kind.custom:
            raise bad_request(f"field label not supported: {path}")
        words = _OWN_WORDS.get(kind.kind)
        if words:
            raise bad_request(words.format(path=path, version=kind.api_version))
        raise bad_request(
            f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"'
        )
