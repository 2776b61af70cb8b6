"""CEL's standard functions and operators, and optional values."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any

from bayplan.api.patterns import PatternError, compile_pattern
from bayplan.cel import times, types
from bayplan.cel.errors import EvaluationError
from bayplan.cel.overloads import Declaring
from bayplan.cel.types import Type
from bayplan.cel.values import (
    NONE,
    Duration,
    MapList,
    Optional,
    SetList,
    Timestamp,
    Uint,
    compare,
    contains,
    equal,
    kind_name,
)

_declare = Declaring()
add, overload = _declare.add, _declare.overload
STANDARD = _declare.library
_MOST_DIGITS = 20  # of 64 bits
_LIMITS = {"int": (-(2**63), 2**63 - 1), "uint": (0, 2**64 - 1)}


class Growing(list[Any]):
    """A list that a comprehension builds: appending changes it in place."""


def _whole(kind: str, run: Callable[[int, int], int]) -> Callable[[int, int], int]:
    low, high = _LIMITS[kind]
    make = Uint if kind == "uint" else int

    def calculate(a: int, b: int) -> int:
        result = run(a, b)
        if not low <= result <= high:
            raise EvaluationError("unsigned integer overflow" if low == 0 else "integer overflow")
        return make(result)

    return calculate


def _divide(a: int, b: int) -> int:
    if b == 0:
        raise EvaluationError("division by zero")
    quotient = abs(a) // abs(b)
    return quotient if (a >= 0) == (b >= 0) else -quotient


def _modulo(a: int, b: int) -> int:
    if b == 0:
        raise EvaluationError("modulus by zero")
    return int(math.fmod(a, b)) if abs(a) < 2**53 and abs(b) < 2**53 else a - b * _divide(a, b)


def _double_divide(a: float, b: float) -> float:
    if b == 0:
        return (
            math.nan
            if a == 0 or math.isnan(a)
            else math.copysign(math.inf, a) * (math.copysign(1, b))
        )
    return a / b


for _kind in ("int64", "uint64"):
    _short = _kind.removesuffix("64")
    for _symbol, _word, _run in (
        ("_+_", "add", operator.add),
        ("_-_", "subtract", operator.sub),
        ("_*_", "multiply", operator.mul),
        ("_/_", "divide", _divide),
        ("_%_", "modulo", _modulo),
    ):
        add(_symbol, f"{_word}_{_kind}", f"({_short}, {_short}) {_short}", _whole(_short, _run))
for _symbol, _word, _double in (
    ("_+_", "add", operator.add),
    ("_-_", "subtract", operator.sub),
    ("_*_", "multiply", operator.mul),
    ("_/_", "divide", _double_divide),
):
    add(_symbol, f"{_word}_double", "(double, double) double", _double)
add("_+_", "add_string", "(string, string) string", operator.add)
add("_+_", "add_bytes", "(bytes, bytes) bytes", operator.add)


@overload("_+_", "add_list", "(list(A), list(A)) list(A)")
def _add_list(a: list[Any], b: list[Any]) -> list[Any]:
    if type(a) is Growing:
        a.extend(b)
        return a
    if isinstance(a, SetList):
        return SetList([*a, *(item for item in b if not contains(a, item))])
    if isinstance(a, MapList):
        return _add_map_list(a, b)
    return [*a, *b]


def _add_map_list(a: MapList, b: list[Any]) -> MapList:
    merged = {a.key(item): item for item in a}
    merged.update((a.key(item), item) for item in b)
    joined = MapList(merged.values())
    joined.keys = a.keys
    return joined


def _moved(nanos: int) -> Timestamp:
    return times.checked_time(nanos)


add(
    "_+_",
    "add_duration_duration",
    "(duration, duration) duration",
    lambda a, b: times.checked(a.nanos + b.nanos),
)
for _name, _text in (
    ("add_duration_timestamp", "(duration, timestamp) timestamp"),
    ("add_timestamp_duration", "(timestamp, duration) timestamp"),
):
    add("_+_", _name, _text, lambda a, b: _moved(a.nanos + b.nanos))
add(
    "_-_",
    "subtract_duration_duration",
    "(duration, duration) duration",
    lambda a, b: times.checked(a.nanos - b.nanos),
)
add(
    "_-_",
    "subtract_timestamp_duration",
    "(timestamp, duration) timestamp",
    lambda a, b: _moved(a.nanos - b.nanos),
)
add(
    "_-_",
    "subtract_timestamp_timestamp",
    "(timestamp, timestamp) duration",
    lambda a, b: times.checked(a.nanos - b.nanos),
)
add("-_", "negate_int64", "(int) int", lambda a: _whole("int", operator.sub)(0, a))
add("-_", "negate_double", "(double) double", operator.neg)
add("!_", "logical_not", "(bool) bool", operator.not_)
add("@not_strictly_false", "not_strictly_false", "(bool) bool", lambda a: a)
add("_&&_", "logical_and", "(bool, bool) bool", lambda a, b: a and b)
add("_||_", "logical_or", "(bool, bool) bool", lambda a, b: a or b)
add("_?_:_", "conditional", "(bool, A, A) A", lambda a, b, c: b if a else c)
add("_==_", "equals", "(A, A) bool", equal)
add("_!=_", "not_equals", "(A, A) bool", lambda a, b: not equal(a, b))

_COMPARED = (
    ("bool", "bool", "bool"),
    ("int64", "int", "int"),
    ("int64_double", "int", "double"),
    ("int64_uint64", "int", "uint"),
    ("uint64", "uint", "uint"),
    ("uint64_double", "uint", "double"),
    ("uint64_int64", "uint", "int"),
    ("double", "double", "double"),
    ("double_int64", "double", "int"),
    ("double_uint64", "double", "uint"),
    ("string", "string", "string"),
    ("bytes", "bytes", "bytes"),
    ("timestamp", "timestamp", "timestamp"),
    ("duration", "duration", "duration"),
)


def _ordering(test: Callable[[int, int], bool]) -> Callable[[Any, Any], bool]:
    return lambda a, b: test(compare(a, b), 0)


for _symbol, _word, _test in (
    ("_<_", "less", operator.lt),
    ("_<=_", "less_equals", operator.le),
    ("_>_", "greater", operator.gt),
    ("_>=_", "greater_equals", operator.ge),
):
    for _suffix, _left, _right in _COMPARED:
        add(_symbol, f"{_word}_{_suffix}", f"({_left}, {_right}) bool", _ordering(_test))


add("@in", "in_list", "(A, list(A)) bool", lambda item, items: contains(items, item))


@overload("@in", "in_map", "(A, map(A, B)) bool")
def _in_map(key: Any, items: dict[Any, Any]) -> bool:
    return key in items if type(key) is str else find(items, key) is not NONE


def find(items: dict[Any, Any], key: Any) -> Any:
    """The value of a key, or NONE; 1 and 1.0 are one key, 1 and true are not."""
    if type(key) is str:
        return items.get(key, NONE)
    if type(key) is float and not key.is_integer():
        return NONE
    try:
        found = items.get(key, NONE)
    except TypeError:
        raise EvaluationError(f"unsupported key type: {kind_name(key)}") from None
    if found is NONE or key not in (0, 1):
        return found
    return found if any(equal(known, key) for known in items) else NONE


@overload("_[_]", "index_list", "(list(A), int) A")
def index_list(items: list[Any], at: Any) -> Any:
    place = _place(at)
    if not 0 <= place < len(items):
        raise EvaluationError(f"index out of bounds: {place}")
    return items[place]


def _place(at: Any) -> int:
    if type(at) is float and at.is_integer():
        return int(at)
    if type(at) not in (int, Uint):
        raise EvaluationError(f"unsupported index type '{kind_name(at)}' in list")
    return int(at)


@overload("_[_]", "index_map", "(map(A, B), A) B")
def index_map(items: dict[Any, Any], key: Any) -> Any:
    found = find(items, key)
    if found is NONE:
        raise EvaluationError(f"no such key: {shown_key(key)}")
    return found


def shown_key(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


for _suffix, _kind in (("bytes", "bytes"), ("list", "list(A)"), ("map", "map(A, B)")):
    add("size", f"size_{_suffix}", f"({_kind}) int", len)
    add("size", f"{_suffix}_size", f"{_kind}.() int", len)
add("size", "size_string", "(string) int", len)
add("size", "string_size", "string.() int", len)


def _same(value: Any) -> Any:
    return value


add("dyn", "to_dyn", "(A) dyn", _same)
add("type", "type", "(A) type(A)", lambda value: Type("type", kind_name(value)))


def not_converted(kind: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from 'string' to '{kind}'")


@overload("bool", "string_to_bool", "(string) bool")
def _string_to_bool(text: str) -> bool:
    if text in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    if text in ("0", "f", "F", "FALSE", "false", "False"):
        return False
    raise not_converted("bool")


for _kind, _id in (
    ("bool", "bool_to_bool"),
    ("bytes", "bytes_to_bytes"),
    ("double", "double_to_double"),
    ("int", "int64_to_int64"),
    ("string", "string_to_string"),
    ("uint", "uint64_to_uint64"),
    ("duration", "duration_to_duration"),
    ("timestamp", "timestamp_to_timestamp"),
):
    add(_kind, _id, f"({_kind}) {_kind}", _same)
add("bytes", "string_to_bytes", "(string) bytes", lambda text: text.encode())
add("double", "int64_to_double", "(int) double", float)
add("double", "uint64_to_double", "(uint) double", float)


@overload("double", "string_to_double", "(string) double")
def _string_to_double(text: str) -> float:
    try:
        if text.strip() != text or "_" in text:
            raise ValueError
        return float(text)
    except ValueError:
        raise not_converted("double") from None


add("duration", "int64_to_duration", "(int) duration", Duration)


def _reading(read: Callable[[str], Any], kind: str) -> Callable[[str], Any]:
    def convert(text: str) -> Any:
        try:
            return read(text)
        except EvaluationError:
            raise not_converted(f"google.protobuf.{kind}") from None

    return convert


add(
    "duration",
    "string_to_duration",
    "(string) duration",
    _reading(times.parse_duration, "Duration"),
)
add(
    "timestamp",
    "string_to_timestamp",
    "(string) timestamp",
    _reading(times.parse_timestamp, "Timestamp"),
)
add(
    "timestamp",
    "int64_to_timestamp",
    "(int) timestamp",
    lambda seconds: times.checked_time(seconds * times.SECOND),
)


def _to_whole(kind: str) -> Callable[[Any], int]:
    low, high = _LIMITS[kind]
    make = Uint if kind == "uint" else int

    def convert(value: Any) -> int:
        inside = math.isfinite(value) and low <= value <= high
        if not inside or (type(value) is float and not -(2.0**63) < value < float(high)):
            raise EvaluationError("unsigned integer overflow" if low == 0 else "integer overflow")
        return make(value)

    return convert


def _parse_whole(kind: str) -> Callable[[str], int]:
    low, high = _LIMITS[kind]
    make = Uint if kind == "uint" else int

    def convert(text: str) -> int:
        body = text[1:] if low and text[:1] in ("+", "-") else text
        digits = body.lstrip("0") or body[-1:]
        if not (body.isascii() and body.isdigit()) or len(digits) > _MOST_DIGITS:
            raise not_converted(kind)
        value = make(f"-{digits}" if text[0] == "-" else digits)
        if not low <= value <= high:
            raise not_converted(kind)
        return value

    return convert


add("int", "double_to_int64", "(double) int", _to_whole("int"))
add("int", "uint64_to_int64", "(uint) int", _to_whole("int"))
add("int", "string_to_int64", "(string) int", _parse_whole("int"))
add("int", "duration_to_int64", "(duration) int", lambda given: given.nanos)
add("int", "timestamp_to_int64", "(timestamp) int", lambda given: given.nanos // times.SECOND)
add("uint", "double_to_uint64", "(double) uint", _to_whole("uint"))
add("uint", "int64_to_uint64", "(int) uint", _to_whole("uint"))
add("uint", "string_to_uint64", "(string) uint", _parse_whole("uint"))


def show_double(value: float) -> str:
    """As Go's %g: the shortest digits, with an exponent below 1e-4 and from 1e+06 on."""
    if math.isnan(value) or math.isinf(value):
        return "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    shown = "".join(map(str, digits)).rstrip("0") or "0"
    power = len(digits) + int(exponent) - 1
    minus = "-" if sign else ""
    if shown != "0" and (power < -4 or power >= 6):
        rest = f".{shown[1:]}" if len(shown) > 1 else ""
        return f"{minus}{shown[0]}{rest}e{power:+03d}"
    return minus + format(abs(Decimal(repr(value))), "f").removesuffix(".0")


@overload("string", "bytes_to_string", "(bytes) string")
def _bytes_to_string(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


add("string", "bool_to_string", "(bool) string", lambda value: "true" if value else "false")
add("string", "double_to_string", "(double) string", show_double)
add("string", "int64_to_string", "(int) string", str)
add("string", "uint64_to_string", "(uint) string", str)
add("string", "duration_to_string", "(duration) string", times.show_duration)
add("string", "timestamp_to_string", "(timestamp) string", times.show_timestamp)
add("contains", "contains_string", "string.(string) bool", operator.contains)
add("endsWith", "ends_with_string", "string.(string) bool", str.endswith)
add("startsWith", "starts_with_string", "string.(string) bool", str.startswith)


def _matches(text: str, pattern: str) -> bool:
    try:
        return compile_pattern(pattern).search(text) is not None
    except PatternError as problem:
        raise EvaluationError(str(problem)) from problem


add("matches", "matches", "(string, string) bool", _matches)
add("matches", "matches_string", "string.(string) bool", _matches)

_ASKED: tuple[tuple[str, str, Callable[[datetime], int]], ...] = (
    ("getFullYear", "timestamp_to_year", lambda when: when.year),
    ("getMonth", "timestamp_to_month", lambda when: when.month - 1),
    ("getDayOfYear", "timestamp_to_day_of_year", lambda when: when.timetuple().tm_yday - 1),
    ("getDayOfMonth", "timestamp_to_day_of_month", lambda when: when.day - 1),
    ("getDate", "timestamp_to_day_of_month_1_based", lambda when: when.day),
    ("getDayOfWeek", "timestamp_to_day_of_week", lambda when: when.isoweekday() % 7),
    ("getHours", "timestamp_to_hours", lambda when: when.hour),
    ("getMinutes", "timestamp_to_minutes", lambda when: when.minute),
    ("getSeconds", "timestamp_to_seconds", lambda when: when.second),
    ("getMilliseconds", "timestamp_to_milliseconds", lambda when: when.microsecond // 1000),
)


def _asking(part: Callable[[datetime], int]) -> Callable[..., int]:
    return lambda when, zone="UTC": part(times.in_zone(when, zone))


for _function, _id, _part in _ASKED:
    add(_function, _id, "timestamp.() int", _asking(_part))
    add(_function, f"{_id}_with_tz", "timestamp.(string) int", _asking(_part))
for _function, _id, _unit in (
    ("getHours", "duration_to_hours", 3600 * times.SECOND),
    ("getMinutes", "duration_to_minutes", 60 * times.SECOND),
    ("getSeconds", "duration_to_seconds", times.SECOND),
):
    add(_function, _id, "duration.() int", lambda d, unit=_unit: _divide(d.nanos, unit))
add(
    "getMilliseconds",
    "duration_to_milliseconds",
    "duration.() int",
    lambda d: _divide(d.nanos, 1_000_000),
)

add("optional.of", "optional_of", "(V) optional(V)", Optional)
add("optional.none", "optional_none", "() optional(V)", lambda: NONE)
add("hasValue", "optional_hasValue", "optional(V).() bool", lambda given: not given.empty)


@overload("optional.ofNonZeroValue", "optional_ofNonZeroValue", "(V) optional(V)")
def _non_zero(value: Any) -> Optional:
    zero = value is None or value in (Duration(0), Timestamp(0)) or not value
    return NONE if zero else Optional(value)


@overload("value", "optional_value", "optional(V).() V")
def _value(given: Optional) -> Any:
    if given.empty:
        raise EvaluationError("optional.none() dereference")
    return given.value


add("or", "optional_or_optional", "optional(V).(optional(V)) optional(V)", lambda a, b: a)
add("orValue", "optional_orValue_value", "optional(V).(V) V", lambda a, b: a)
add("_?._", "select_optional_field", "(dyn, string) optional(V)", lambda a, b: NONE)


def optional_index(container: Any, key: Any) -> Optional:
    """`a[?b]`, also of an optional list or map."""
    if isinstance(container, Optional):
        return container if container.empty else optional_index(container.value, key)
    if isinstance(container, list):
        place = _place(key)
        return Optional(container[place]) if 0 <= place < len(container) else NONE
    if not isinstance(container, dict):
        raise EvaluationError("no such overload")
    found = find(container, key)
    return NONE if found is NONE else Optional(found)


for _id, _text in (
    ("list_optindex_optional_int", "(list(V), int) optional(V)"),
    ("optional_list_optindex_optional_int", "(optional(list(V)), int) optional(V)"),
    ("map_optindex_optional_value", "(map(K, V), K) optional(V)"),
    ("optional_map_optindex_optional_value", "(optional(map(K, V)), K) optional(V)"),
):
    add("_[?_]", _id, _text, optional_index)
add("_[_]", "optional_list_index_int", "(optional(list(V)), int) optional(V)", optional_index)
add("_[_]", "optional_map_index_value", "(optional(map(K, V)), K) optional(V)", optional_index)


@overload("cel.@mapInsert", "@mapInsert_map_key_value", "(map(K, V), K, V) map(K, V)")
def _insert(items: dict[Any, Any], key: Any, value: Any) -> dict[Any, Any]:
    if find(items, key) is not NONE:
        raise EvaluationError(f"insert failed: key {shown_key(key)} already exists")
    items[key] = value  # only ever a comprehension's own map
    return items


@overload("cel.@mapInsert", "@mapInsert_map_map", "(map(K, V), map(K, V)) map(K, V)")
def _insert_all(items: dict[Any, Any], more: dict[Any, Any]) -> dict[Any, Any]:
    for key, value in more.items():
        _insert(items, key, value)
    return items


TYPE_NAMES = {
    **{name: types.type_of(each) for name, each in types.SIMPLE.items() if name != "any"},
    "null_type": types.type_of(types.NULL),
    "list": types.type_of(types.list_of(types.DYN)),
    "map": types.type_of(types.map_of(types.DYN, types.DYN)),
    "google.protobuf.Timestamp": types.type_of(types.TIMESTAMP),
    "google.protobuf.Duration": types.type_of(types.DURATION),
    "optional_type": types.type_of(types.optional_of(types.DYN)),
    "net.IP": types.type_of(types.opaque("net.IP")),
    "net.CIDR": types.type_of(types.opaque("net.CIDR")),
    "kubernetes.Quantity": types.type_of(types.struct("kubernetes.Quantity")),
    "kubernetes.URL": types.type_of(types.struct("kubernetes.URL")),
    "kubernetes.Semver": types.type_of(types.struct("kubernetes.Semver")),
}
