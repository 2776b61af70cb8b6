"""The string formats that schemas of custom resources may demand; unknown ones accept all."""

from __future__ import annotations

import binascii
import ipaddress
import re
from collections.abc import Callable
from datetime import date
from urllib.parse import urlsplit

from bayplan.api.schema import canonical_time

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_UUID = r"[0-9a-f]{8}-?[0-9a-f]{4}-?%s[0-9a-f]{3}-?%s[0-9a-f]{3}-?[0-9a-f]{12}"
_PATTERNS = {
    "uuid": re.compile(_UUID % ("[0-9a-f]", "[0-9a-f]"), re.IGNORECASE),
    "uuid3": re.compile(_UUID % ("3", "[0-9a-f]"), re.IGNORECASE),
    "uuid4": re.compile(_UUID % ("4", "[89ab]"), re.IGNORECASE),
    "uuid5": re.compile(_UUID % ("5", "[89ab]"), re.IGNORECASE),
    "hostname": re.compile(r"(?=.{1,255}$)([a-zA-Z0-9_](-?[a-zA-Z0-9_])*\.?)+"),
    "email": re.compile(r"[^@\s<>]+@[^@\s<>]+"),
    "mac": re.compile(r"([0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}|([0-9A-Fa-f]{4}\.){2}[0-9A-Fa-f]{4}"),
    "hexcolor": re.compile(r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "rgbcolor": re.compile(r"rgb\(\s*\d{1,3}\s*,\s*\d{1,3}\s*,\s*\d{1,3}\s*\)"),
    "ssn": re.compile(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "creditcard": re.compile(r"[0-9 -]{13,19}"),
    "duration": re.compile(r"(-?(\d+(\.\d*)?|\.\d+)\s*(ns|us|µs|ms|s|m|h|d|w)\s*)+|0"),
    "k8s-short-name": re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"),
    "k8s-long-name": re.compile(rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*"),
}  # fmt: skip


def _uri(text: str) -> bool:
    parts = urlsplit(text)
    return bool(parts.scheme) or text.startswith("/")


_CHECKS: dict[str, Callable[[str], object]] = {
    "date-time": canonical_time,
    "datetime": canonical_time,
    "date": date.fromisoformat,
    "ipv4": ipaddress.IPv4Address,
    "ipv6": ipaddress.IPv6Address,
    "cidr": lambda text: "/" in text and ipaddress.ip_interface(text),
    "uri": _uri,
    "byte": lambda text: binascii.a2b_base64(text, strict_mode=True) is not None,
}


def matches_format(name: str, text: str) -> bool:
    """Whether a string has a format."""
    pattern = _PATTERNS.get(name)
    if pattern is not None:
        return pattern.fullmatch(text) is not None
    check = _CHECKS.get(name)
    if check is None:
        return True
    try:
        return bool(check(text))
    except ValueError:
        return False
