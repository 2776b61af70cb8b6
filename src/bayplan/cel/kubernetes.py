"""Kubernetes' own functions: quantities, versions, addresses, URLs, formats, JSON patch keys."""

from __future__ import annotations

import ipaddress
import math
import operator
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from bayplan.api import quantity
from bayplan.api.names import (
    Checker,
    dns1035_label,
    dns1123_label,
    dns1123_subdomain,
    label_value,
    masked,
    qualified_name,
)
from bayplan.cel.errors import EvaluationError
from bayplan.cel.overloads import Declaring
from bayplan.cel.values import NONE, Cidr, Format, Ip, Optional, Quantity, Semver, Url

_declare = Declaring()
add, overload = _declare.add, _declare.overload
KUBERNETES = _declare.library
_WHOLE = 1_000_000_000


def _succeeds(make: Callable[..., Any]) -> Callable[..., bool]:
    def test(*args: Any) -> bool:
        try:
            make(*args)
        except EvaluationError:
            return False
        return True

    return test


@overload("quantity", "string_to_quantity", "(string) quantity")
def _quantity(text: str) -> Quantity:
    try:
        return Quantity(quantity.nanos(text))
    except quantity.QuantityError as problem:
        raise EvaluationError(
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        ) from problem


@overload("asInteger", "quantity_get_int", "quantity.() int")
def _as_integer(given: Quantity) -> int:
    if not _is_integer(given):
        raise EvaluationError("cannot convert value to integer")
    return given.nanos // _WHOLE


def _is_integer(given: Quantity) -> bool:
    return given.nanos % _WHOLE == 0 and -(2**63) <= given.nanos // _WHOLE < 2**63


def _order(a: Any, b: Any) -> int:
    return int(a > b) - int(a < b)


add("isQuantity", "is_quantity_string", "(string) bool", _succeeds(_quantity))
add("sign", "quantity_sign", "quantity.() int", lambda given: _order(given.nanos, 0))
add("isInteger", "quantity_is_integer", "quantity.() bool", _is_integer)


@overload("asApproximateFloat", "quantity_get_float", "quantity.() double")
def _as_float(given: Quantity) -> float:
    try:
        return given.nanos / _WHOLE
    except OverflowError:
        return math.inf if given.nanos > 0 else -math.inf


for _kind in ("quantity", "semver"):
    _args = f"{_kind}.({_kind})"
    add("isGreaterThan", f"{_kind}_is_greater_than", f"{_args} bool", operator.gt)
    add("isLessThan", f"{_kind}_is_less_than", f"{_args} bool", operator.lt)
    add("compareTo", f"{_kind}_compare_to", f"{_args} int", _order)
for _word, _sign in (("add", 1), ("sub", -1)):
    add(
        _word,
        f"quantity_{_word}",
        "quantity.(quantity) quantity",
        lambda a, b, sign=_sign: Quantity(a.nanos + sign * b.nanos),
    )
    add(
        _word,
        f"quantity_{_word}_int",
        "quantity.(int) quantity",
        lambda a, b, sign=_sign: Quantity(a.nanos + sign * b * _WHOLE),
    )


@overload("semver", "string_bool_to_semver", "(string, bool) semver")
def _semver(text: str, normalize: bool = False) -> Semver:
    found = Semver.parse(_normalized(text) if normalize else text)
    if found is None:
        raise EvaluationError(_version_problem(text))
    return found


def _version_problem(text: str) -> str:
    if not text:
        return "Version string empty"
    if text.count(".") < 2:
        return "No Major.Minor.Patch elements found"
    for part in text.split(".", 2)[:2]:
        if not part.isdigit():
            which = "major" if text.startswith(part) else "minor"
            return f'Invalid character(s) found in {which} number "{part}"'
    patch = re.split(r"[-+]", text.split(".", 2)[2])[0]
    for which, part in zip(("Major", "Minor", "Patch"), (*text.split(".")[:2], patch), strict=True):
        if len(part) > 1 and part.isdigit() and part[0] == "0":
            return f'{which} number must not contain leading zeroes "{part}"'
    return f'Invalid character(s) found in patch number "{patch}"'


def _normalized(text: str) -> str:
    parts = text.removeprefix("v").split(".", 2)
    for at, part in enumerate(parts):
        if len(part) > 1:
            short = part.lstrip("0")
            parts[at] = short if short[:1].isdigit() else "0" + short
    if len(parts) < 3 and ("+" in parts[-1] or "-" in parts[-1]):
        raise EvaluationError("short version cannot contain PreRelease/Build meta data")
    return ".".join([*parts, "0", "0"][:3])


add("semver", "string_to_semver", "(string) semver", _semver)
add("isSemver", "is_semver_string", "(string) bool", _succeeds(_semver))
add("isSemver", "is_semver_string_bool", "(string, bool) bool", _succeeds(_semver))
for _at, _word in enumerate(("major", "minor", "patch")):
    add(_word, f"semver_{_word}", "semver.() int", lambda v, at=_at: v.key[at])


@overload("ip", "string_to_ip", "(string) ip")
def _ip(text: str) -> Ip:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise EvaluationError(
            f'IP Address "{text}" parse error during conversion from string: '
            f'ParseAddr("{text}"): unable to parse IP'
        ) from None
    if "%" in text:
        raise EvaluationError(f'IP address "{text}" with zone value is not allowed')
    _refuse_mapped(address, text)
    return Ip(address)


def _refuse_mapped(address: Any, text: str) -> None:
    if address.version == 6 and address.ipv4_mapped is not None:
        raise EvaluationError(f'IPv4-mapped IPv6 address "{text}" is not allowed')


add("family", "ip_family", "ip.() int", lambda given: given.address.version)
add("isIP", "is_ip", "(string) bool", _succeeds(_ip))
add("ip.isCanonical", "ip_is_canonical", "(string) bool", lambda t: str(_ip(t).address) == t)
add("isUnspecified", "ip_is_unspecified", "ip.() bool", lambda g: g.address.is_unspecified)
add("isLoopback", "ip_is_loopback", "ip.() bool", lambda g: g.address.is_loopback)
add("string", "ip_to_string", "(ip) string", lambda given: str(given.address))


def _link_local_multicast(given: Ip) -> bool:
    raw = given.address.packed
    return raw[:3] == b"\xe0\0\0" if len(raw) == 4 else raw[0] == 0xFF and raw[1] & 0x0F == 2


def _global_unicast(given: Ip) -> bool:
    address = given.address
    odd = address.is_unspecified or address.is_loopback or address.is_multicast
    return not (odd or address.is_link_local or str(address) == "255.255.255.255")


add("isLinkLocalMulticast", "ip_is_link_local_multicast", "ip.() bool", _link_local_multicast)
add(
    "isLinkLocalUnicast",
    "ip_is_link_local_unicast",
    "ip.() bool",
    lambda given: given.address.is_link_local,
)
add("isGlobalUnicast", "ip_is_global_unicast", "ip.() bool", _global_unicast)


@overload("cidr", "string_to_cidr", "(string) cidr")
def _cidr(text: str) -> Cidr:
    address, slash, bits = text.partition("/")
    problem = f"netip.ParsePrefix(\"{text}\"): no '/'"
    try:
        if slash:
            problem = f'netip.ParsePrefix("{text}"): bad bits after slash: "{bits}"'
            if bits.isascii() and bits.isdigit() and (bits == "0" or bits[0] != "0"):
                network = ipaddress.ip_interface(text)
                _refuse_mapped(network.ip, text)
                return Cidr(network)
    except ValueError:
        problem = f'netip.ParsePrefix("{text}"): ParseAddr("{address}"): unable to parse IP'
    words = "network address parse error during conversion from string"
    raise EvaluationError(f"{words}: {words}: {problem}")


def _contains_ip(given: Cidr, other: Any) -> bool:
    address = (_ip(other) if isinstance(other, str) else other).address
    return address in given.network.network


def _contains_cidr(given: Cidr, other: Any) -> bool:
    inner = (_cidr(other) if isinstance(other, str) else other).network.network
    outer: Any = given.network.network
    return outer.version == inner.version and bool(inner.subnet_of(outer))


add("isCIDR", "is_cidr", "(string) bool", _succeeds(_cidr))
add("containsIP", "cidr_contains_ip_string", "cidr.(string) bool", _contains_ip)
add("containsIP", "cidr_contains_ip_ip", "cidr.(ip) bool", _contains_ip)
add("containsCIDR", "cidr_contains_cidr_string", "cidr.(string) bool", _contains_cidr)
add("containsCIDR", "cidr_contains_cidr", "cidr.(cidr) bool", _contains_cidr)
add("ip", "cidr_ip", "cidr.() ip", lambda given: Ip(given.network.ip))
add(
    "prefixLength",
    "cidr_prefix_length",
    "cidr.() int",
    lambda given: given.network.network.prefixlen,
)
add(
    "masked",
    "cidr_masked",
    "cidr.() cidr",
    lambda given: Cidr(ipaddress.ip_interface(given.network.network)),
)
add("string", "cidr_to_string", "(cidr) string", lambda given: given.network.with_prefixlen)
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")


@overload("url", "string_to_url", "(string) url")
def _url(text: str) -> Url:
    words = f'URL parse error during conversion from string: parse "{text}": '
    if not text:
        raise EvaluationError(words + "empty url")
    if any(ord(char) < 0x20 or ord(char) == 0x7F for char in text):
        raise EvaluationError(words + "net/url: invalid control character in URL")
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError as problem:
        raise EvaluationError(f"{words}{problem}") from None
    if not _SCHEME.match(text) and not text.startswith("/"):
        raise EvaluationError(words + "invalid URI for request")
    if parts.scheme and not parts.netloc and not parts.path.startswith("/") and "//" not in text:
        raise EvaluationError(words + "invalid URI for request")
    return Url(parts, text)


def _host(given: Url) -> str:
    return given.parts.netloc.rpartition("@")[2]


def _hostname(given: Url) -> str:
    host = _host(given)
    if host.startswith("["):
        return host[1 : host.find("]")]
    return host.partition(":")[0]


def _port(given: Url) -> str:
    return "" if given.parts.port is None else str(given.parts.port)


def _escaped_path(given: Url) -> str:
    return quote(unquote(given.parts.path), safe="/$&+,:;=@!'()*~")


add("isURL", "is_url_string", "(string) bool", _succeeds(_url))
add("getScheme", "url_get_scheme", "url.() string", lambda given: given.parts.scheme)
add("getHost", "url_get_host", "url.() string", _host)
add("getHostname", "url_get_hostname", "url.() string", _hostname)
add("getPort", "url_get_port", "url.() string", _port)
add("getEscapedPath", "url_get_escaped_path", "url.() string", _escaped_path)
add(
    "getQuery",
    "url_get_query",
    "url.() map(string, list(string))",
    lambda given: parse_qs(given.parts.query, keep_blank_values=True),
)


def _prefix_of(checker: Checker) -> Checker:
    return lambda text: checker(masked(text))


def _matching(pattern: str, words: str) -> Checker:
    return lambda text: [] if re.fullmatch(pattern, text, re.ASCII) else [words]


def _uri(text: str) -> list[str]:
    try:
        _url(text)
    except EvaluationError as problem:
        return [str(problem).removeprefix("URL parse error during conversion from string: ")]
    return []


_BASE64 = r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"
_UUID = r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}"
_DATE = r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"
_TIME = _DATE + r"[tT ]\d\d:\d\d:\d\d(?:\.\d+)?(?:[zZ]|[+-]\d\d:\d\d)"
# How long a pattern upstream takes each format for, and how it is checked.
FORMATS: dict[str, tuple[int, Checker]] = {
    "dns1123Label": (30, dns1123_label),
    "dns1123Subdomain": (60, dns1123_subdomain),
    "dns1035Label": (30, dns1035_label),
    "qualifiedName": (60, qualified_name),
    "dns1123LabelPrefix": (30, _prefix_of(dns1123_label)),
    "dns1123SubdomainPrefix": (60, _prefix_of(dns1123_subdomain)),
    "dns1035LabelPrefix": (30, _prefix_of(dns1035_label)),
    "labelValue": (40, label_value),
    "uri": (1103, _uri),
    "uuid": (70, _matching(_UUID, "does not match the UUID format")),
    "byte": (84, _matching(_BASE64, "invalid base64")),
    "date": (71, _matching(_DATE, "invalid date")),
    "datetime": (71, _matching(_TIME, "invalid datetime")),
}


@overload("format.named", "format-named", "(string) optional(format)")
def _named_format(name: str) -> Optional:
    return Optional(Format(name)) if name in FORMATS else NONE


@overload("validate", "format-validate", "format.(string) optional(list(string))")
def _validate(given: Format, text: str) -> Optional:
    problems = FORMATS[given.name][1](text)
    return Optional(problems) if problems else NONE


for _name in FORMATS:
    add(f"format.{_name}", f"format.{_name}", "() format", lambda name=_name: Format(name))

PATCHES = Declaring()
PATCHES.add(
    "jsonpatch.escapeKey",
    "string_jsonpatch_escapeKey_string",
    "(string) string",
    lambda text: text.replace("~", "~0").replace("/", "~1"),
)
