"""Formats of single values beside names (`api.names`): ports, environment names, IPs, paths.

Each checker returns upstream's list of complaints, empty if the value is fine; each complaint
becomes a cause of its own. The common case is one regular expression match.
"""

from __future__ import annotations

import ipaddress
import re

from bayplan.api.names import Checker, form, max_length, regex_text
from bayplan.apiserver.validation.causes import Causes, invalid, required

_UNDERSCORE_LABEL_FMT = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_UNDERSCORE_FMT = rf"{_UNDERSCORE_LABEL_FMT}(\.{_UNDERSCORE_LABEL_FMT})*"
_CONFIG_KEY_FMT = "[-._a-zA-Z0-9]+"
_HEADER_FMT = "[-A-Za-z0-9]+"
_C_IDENTIFIER_FMT = "[A-Za-z_][A-Za-z0-9_]*"
_PERCENT_FMT = "[0-9]+%"

_config_key = re.compile(_CONFIG_KEY_FMT).fullmatch
_header = re.compile(_HEADER_FMT).fullmatch
_c_identifier = re.compile(_C_IDENTIFIER_FMT).fullmatch
_percent = re.compile(_PERCENT_FMT).fullmatch
_port_charset = re.compile("[-a-z0-9]+").fullmatch
_letter = re.compile("[a-z]").search


dns1123_subdomain_with_underscore = form(
    253,
    _UNDERSCORE_FMT,
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
    "'_', '-' or '.', and must start and end with an alphanumeric character",
    "example.com",
)


def path_segment(value: str) -> list[str]:
    """Names of RBAC objects: anything that can stand in a URL path."""
    if value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{part}'" for part in ("/", "%") if part in value]


def config_key(value: str) -> list[str]:
    """Keys of ConfigMaps and Secrets."""
    problems = max_length(value, 253)
    if not _config_key(value):
        text = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        problems.append(regex_text(text, _CONFIG_KEY_FMT, "key.name", "KEY_NAME", "key-name"))
    if value in (".", ".."):
        problems.append(f"must not be '{value}'")
    elif value.startswith(".."):
        problems.append("must not start with '..'")
    return problems


def env_name(value: str) -> list[str]:
    if value.isascii() and value.isprintable() and "=" not in value:
        return []
    return [
        "a valid environment variable name must consist only of printable ASCII characters other "
        "than '='"
    ]


def c_identifier(value: str) -> list[str]:
    if _c_identifier(value):
        return []
    text = (
        "a valid C identifier must start with alphabetic character or '_', followed by a string "
        "of alphanumeric characters or '_'"
    )
    return [regex_text(text, _C_IDENTIFIER_FMT, "my_name", "MY_NAME", "MyName")]


def http_header_name(value: str) -> list[str]:
    if _header(value):
        return []
    text = "a valid HTTP header must consist of alphanumeric characters or '-'"
    return [regex_text(text, _HEADER_FMT, "X-Header-Name")]


def percent(value: str) -> list[str]:
    if _percent(value):
        return []
    text = "a valid percent string must be a numeric string followed by an ending '%'"
    return [regex_text(text, _PERCENT_FMT, "1%", "93%")]


def port_number(value: int) -> list[str]:
    return [] if 1 <= value <= 65535 else ["must be between 1 and 65535, inclusive"]


def port_name(value: str) -> list[str]:
    problems = max_length(value, 15)
    if not _port_charset(value):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not _letter(value):
        problems.append("must contain at least one letter (a-z)")
    if "--" in value:
        problems.append("must not contain consecutive hyphens")
    if value and (value[0] == "-" or value[-1] == "-"):
        problems.append("must not begin or end with a hyphen")
    return problems


_BYTE = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_PLAIN_IPV4 = re.compile(rf"(?:{_BYTE}\.){{3}}{_BYTE}")  # nearly all; the rest is parsed


def ip_address(value: str) -> list[str]:
    if _PLAIN_IPV4.fullmatch(value):
        return []
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
    return []


def check(field: str, value: str, checker: Checker) -> Causes:
    """Return one cause for each complaint of a checker."""
    return [invalid(field, value, problem) for problem in checker(value)]


def named(field: str, value: str | None, checker: Checker, detail: str = "") -> Causes:
    """Demand a value, and then that a checker does not complain."""
    return check(field, value, checker) if value else [required(field, detail)]


def port_or_name(field: str, value: object) -> Causes:
    """Validate an IntOrString that names a port."""
    if isinstance(value, str):
        return check(field, value, port_name)
    number = value if isinstance(value, int) else 0
    return [invalid(field, number, problem) for problem in port_number(number)]


def between(field: str, value: int, low: int, high: int) -> Causes:
    if low <= value <= high:
        return []
    return [invalid(field, value, f"must be between {low} and {high}, inclusive")]


def no_backsteps(field: str, path: str) -> Causes:
    if ".." in path.split("/"):
        return [invalid(field, path, "must not contain '..'")]
    return []


def descending(field: str, path: str) -> Causes:
    """Demand a relative path that does not leave its start."""
    causes: Causes = []
    if path.startswith("/"):
        causes.append(invalid(field, path, "must be a relative path"))
    return causes + no_backsteps(field, path)


def non_reserved(field: str, path: str) -> Causes:
    """Demand a descending path whose first element does not start with two dots."""
    causes = descending(field, path)
    if path.startswith("..") and path != ".." and not path.startswith("../"):
        causes.append(invalid(field, path, "must not start with '..'"))
    return causes


def file_mode(field: str, mode: int | None) -> Causes:
    if mode is None or 0 <= mode <= 0o777:
        return []
    text = "must be a number between 0 and 0777 (octal), both inclusive"
    return [invalid(field, mode, text)]
