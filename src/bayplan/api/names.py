"""Names as Kubernetes takes them: DNS labels and subdomains, label keys and values.

Each checker returns upstream's list of complaints, empty if the value is fine. The common case is
one regular expression match.
"""

from __future__ import annotations

import re
from collections.abc import Callable

Checker = Callable[[str], list[str]]

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
# Keys repeat from object to object; what was once found valid need not be matched again.
_KNOWN_KEYS: set[str] = set()
_KNOWN_KEYS_LIMIT = 20_000


def regex_text(text: str, pattern: str, *examples: str) -> str:
    if not examples:
        return f"{text} (regex used for validation is '{pattern}')"
    listed = " or ".join(f"'{example}', " for example in examples)
    return f"{text} (e.g. {listed}regex used for validation is '{pattern}')"


def max_length(value: str, limit: int, unit: str = "characters") -> list[str]:
    too_long = len(value) > limit or (not value.isascii() and len(value.encode()) > limit)
    return [f"must be no more than {limit} {unit}"] if too_long else []


def form(limit: int, pattern: str, text: str, *examples: str, unit: str = "characters") -> Checker:
    """Make a checker of a longest length and a pattern, which `text` puts into words."""
    matches = re.compile(pattern).fullmatch

    def check(value: str) -> list[str]:
        if len(value) <= limit and matches(value):
            return []
        problems = max_length(value, limit, unit)
        return problems if matches(value) else [*problems, regex_text(text, pattern, *examples)]

    return check


_subdomain = re.compile(SUBDOMAIN).fullmatch
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character"
)
dns1123_subdomain = form(253, SUBDOMAIN, _SUBDOMAIN_TEXT, "example.com")
_prefix = form(253, SUBDOMAIN, _SUBDOMAIN_TEXT, "example.com", unit="bytes")
_dns1123_label = form(
    63,
    _LABEL,
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character",
    "my-name",
    "123-abc",
)
dns1035_label = form(
    63,
    "[a-z]([-a-z0-9]*[a-z0-9])?",
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character",
    "my-name",
    "abc-123",
)
label_value = form(
    63,
    f"({_KEY})?",
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character",
    "MyValue",
    "my_value",
    "12345",
    unit="bytes",
)
_KEY_TEXT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character"
)
_name_part = form(63, _KEY, _KEY_TEXT, "MyName", "my.name", "123-abc", unit="bytes")


def dns1123_label(value: str) -> list[str]:
    problems = _dns1123_label(value)
    if problems and "." in value and _subdomain(value):
        problems[-1] = "must not contain dots"
    return problems


def qualified_name(value: str) -> list[str]:
    """Label keys, annotation keys, resource names: `[prefix/]name`."""
    if value in _KNOWN_KEYS:
        return []
    problems = _qualified_name(value)
    if not problems and len(_KNOWN_KEYS) < _KNOWN_KEYS_LIMIT:
        _KNOWN_KEYS.add(value)
    return problems


def _qualified_name(value: str) -> list[str]:
    prefix, slash, name = value.rpartition("/")
    if "/" in prefix:
        text = regex_text(_KEY_TEXT, _KEY, "MyName", "my.name", "123-abc")
        tail = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {text}{tail}"]
    problems: list[str] = []
    if slash:
        wrong = _prefix(prefix) if prefix else ["must be non-empty"]
        problems += [f"prefix part {text}" for text in wrong]
    if not name:
        problems.append("name part must be non-empty")
    return problems + [f"name part {text}" for text in _name_part(name)]


def masked(name: str) -> str:
    """Replace a trailing dash of a generateName, which gets a suffix later."""
    return f"{name[:-2]}a" if len(name) > 1 and name.endswith("-") else name
