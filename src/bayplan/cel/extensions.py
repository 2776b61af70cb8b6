"""Functions over strings, lists and sets that Kubernetes adds to the standard ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cmp_to_key, reduce
from itertools import pairwise
from typing import Any

from bayplan.api.patterns import PatternError, compile_pattern
from bayplan.cel.errors import EvaluationError, check_made
from bayplan.cel.formatting import format_string
from bayplan.cel.overloads import Declaring
from bayplan.cel.standard import STANDARD
from bayplan.cel.values import Duration, Timestamp, Uint, check_unfolded, compare, contains, equal

_declare = Declaring()
add, overload = _declare.add, _declare.overload
EXTENSIONS = _declare.library


def _outside(at: int) -> EvaluationError:
    return EvaluationError(f"index out of range: {at}")


@overload("charAt", "string_char_at_int", "string.(int) string")
def _char_at(text: str, at: int) -> str:
    if not 0 <= at <= len(text):
        raise _outside(at)
    return text[at : at + 1]


@overload("indexOf", "string_index_of_string_int", "string.(string, int) int")
def _index_of(text: str, part: str, start: int = 0) -> int:
    if not part:
        return start
    if start < 0:
        raise _outside(start)
    return text.find(part, start)


@overload("lastIndexOf", "string_last_index_of_string_int", "string.(string, int) int")
def _last_index_of(text: str, part: str, start: int) -> int:
    if not part:
        return start
    if start < 0:
        raise _outside(start)
    return -1 if start >= len(text) else text.rfind(part, 0, start + len(part))


add("indexOf", "string_index_of_string", "string.(string) int", _index_of)
add("lastIndexOf", "string_last_index_of_string", "string.(string) int", lambda t, p: t.rfind(p))

_UPPER = {ord(a): ord(a) - 32 for a in "abcdefghijklmnopqrstuvwxyz"}
_LOWER = {upper: small for small, upper in _UPPER.items()}
_SPACE = " \t\n\v\f\r\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
add("lowerAscii", "string_lower_ascii", "string.() string", lambda text: text.translate(_LOWER))
add("upperAscii", "string_upper_ascii", "string.() string", lambda text: text.translate(_UPPER))
add("trim", "string_trim", "string.() string", lambda text: text.strip(_SPACE))
add(
    "replace",
    "string_replace_string_string",
    "string.(string, string) string",
    lambda text, old, new: _replace(text, old, new),
)
add(
    "replace",
    "string_replace_string_string_int",
    "string.(string, string, int) string",
    lambda text, old, new, n: _replace(text, old, new, n),
)


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    times = text.count(old) if limit < 0 else min(text.count(old), limit)
    check_made(len(text) + times * (len(new) - len(old)))
    return text.replace(old, new, limit)


@overload("split", "string_split_string_int", "string.(string, int) list(string)")
def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if separator:
        return text.split(separator, limit - 1 if limit > 0 else -1)
    if 0 < limit < len(text):
        return [*text[: limit - 1], text[limit - 1 :]]
    return list(text)


add("split", "string_split_string", "string.(string) list(string)", _split)


@overload("substring", "string_substring_int_int", "string.(int, int) string")
def _substring(text: str, start: int, end: int) -> str:
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for at in (start, end):
        if not 0 <= at <= len(text):
            raise _outside(at)
    return text[start:end]


@overload("substring", "string_substring_int", "string.(int) string")
def _rest(text: str, start: int) -> str:
    if not 0 <= start <= len(text):
        raise _outside(start)
    return text[start:]


@overload("join", "list_join_string", "list(string).(string) string")
def _join(items: list[Any], separator: str = "") -> str:
    for item in items:
        if type(item) is not str:
            raise EvaluationError(f"join: invalid input: {item}")
    check_made(sum(map(len, items)) + len(separator) * len(items))
    return separator.join(items)


add("join", "list_join", "list(string).() string", _join)
add("format", "string_format", "string.(list(dyn)) string", format_string)
_QUOTED = {
    **{"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"},
    **{"\v": "\\v", "\\": "\\\\", '"': '\\"'},
}


@overload("strings.quote", "strings_quote", "(string) string")
def _quote(text: str) -> str:
    return '"' + "".join(_QUOTED.get(char, char) for char in text) + '"'


def _found(text: str, pattern: str) -> Iterable[str]:
    try:
        return (match.group() for match in compile_pattern(pattern).finditer(text))
    except PatternError as problem:
        raise EvaluationError(f"Illegal regex: {problem}") from problem


@overload("find", "string_find_string", "string.(string) string")
def _find(text: str, pattern: str) -> str:
    return next(iter(_found(text, pattern)), "")


@overload("findAll", "string_find_all_string_int", "string.(string, int) list(string)")
def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found: list[str] = []
    for each in _found(text, pattern):
        if len(found) == limit:
            break
        found.append(each)
    return found


add("findAll", "string_find_all_string", "string.(string) list(string)", _find_all)


@overload("indexOf", "list_a_index_of_int", "list(A).(A) int")
def _item_index(items: list[Any], wanted: Any) -> int:
    return next((at for at, item in enumerate(items) if equal(item, wanted)), -1)


@overload("lastIndexOf", "list_a_last_index_of_int", "list(A).(A) int")
def _last_item_index(items: list[Any], wanted: Any) -> int:
    back = _item_index(items[::-1], wanted)
    return -1 if back < 0 else len(items) - 1 - back


def _is_sorted(items: list[Any]) -> bool:
    return all(compare(a, b) <= 0 for a, b in pairwise(items))


def _extreme(name: str, sign: int) -> Callable[[list[Any]], Any]:
    def pick(items: list[Any]) -> Any:
        if not items:
            raise EvaluationError(f"{name} called on empty list")
        return reduce(lambda best, item: item if sign * compare(item, best) > 0 else best, items)

    return pick


_ADD = {each.id: each.run for each in STANDARD["_+_"]}
_SUMMED = {
    "int": (0, _ADD["add_int64"]),
    "uint": (Uint(0), _ADD["add_uint64"]),
    "double": (0.0, _ADD["add_double"]),
    "duration": (Duration(0), _ADD["add_duration_duration"]),
}


def _summing(kind: str) -> Callable[[list[Any]], Any]:
    start, plus = _SUMMED[kind]
    return lambda items: reduce(plus, items, start)


for _kind in ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"):
    _list = f"list({_kind})"
    add("isSorted", f"list_{_kind}_is_sorted_bool", f"{_list}.() bool", _is_sorted)
    add("max", f"list_{_kind}_max_{_kind}", f"{_list}.() {_kind}", _extreme("max", 1))
    add("min", f"list_{_kind}_min_{_kind}", f"{_list}.() {_kind}", _extreme("min", -1))
    if _kind in _SUMMED:
        add("sum", f"list_{_kind}_sum_{_kind}", f"{_list}.() {_kind}", _summing(_kind))


@overload("slice", "list_slice", "list(T).(int, int) list(T)")
def _slice(items: list[Any], start: int, end: int) -> list[Any]:
    what = f"cannot slice({start}, {end})"
    if start < 0 or end < 0:
        raise EvaluationError(f"{what}, negative indexes not supported")
    if start > end:
        raise EvaluationError(f"{what}, start index must be less than or equal to end index")
    if len(items) < end:
        raise EvaluationError(f"{what}, list is length {len(items)}")
    return list(items[start:end])


@overload("flatten", "list_flatten_int", "list(dyn).(int) list(dyn)")
def _flatten(items: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    check_unfolded(items)
    return _flat(items, depth)


def _flat(items: list[Any], depth: int) -> list[Any]:
    flat: list[Any] = []
    for item in items:
        if isinstance(item, list) and depth:
            flat.extend(_flat(item, depth - 1))
        else:
            flat.append(item)
    return flat


_declare.library["flatten"].reverse()
add("flatten", "list_flatten", "list(list(T)).() list(T)", _flatten)


def _sort_by(items: list[Any], keys: list[Any]) -> list[Any]:
    if keys and not isinstance(keys[0], int | float | str | bytes | bool | Duration | Timestamp):
        raise EvaluationError("list elements must be comparable")
    if any(type(key) is not type(keys[0]) for key in keys):
        raise EvaluationError("list elements must have the same type")
    order = cmp_to_key(compare)
    pairs = sorted(zip(keys, items, strict=True), key=lambda pair: order(pair[0]))
    return [item for _, item in pairs]


for _kind, _word in (
    *((each, each) for each in ("int", "uint", "double", "bool", "string", "bytes")),
    ("duration", "google.protobuf.Duration"),
    ("timestamp", "google.protobuf.Timestamp"),
):
    add(
        "sort",
        f"list_{_word}_sort",
        f"list({_kind}).() list({_kind})",
        lambda items: _sort_by(items, items),
    )
    add(
        "@sortByAssociatedKeys",
        f"list_{_word}_sortByAssociatedKeys",
        f"list(T).(list({_kind})) list(T)",
        _sort_by,
    )
RANGE_LIMIT = 1_000_000  # what one evaluation may cost anyway


@overload("lists.range", "lists_range", "(int) list(int)")
def _range(count: int) -> list[int]:
    if count > RANGE_LIMIT:
        raise EvaluationError("operation cancelled: actual cost limit exceeded")
    return list(range(count))


add("reverse", "list_reverse", "list(T).() list(T)", lambda items: items[::-1])


@overload("distinct", "list_distinct", "list(T).() list(T)")
def _distinct(items: list[Any]) -> list[Any]:
    kept: list[Any] = []
    seen: set[tuple[type, Any]] = set()
    for item in items:
        if type(item) in (str, bool):
            if (type(item), item) not in seen:
                seen.add((type(item), item))
                kept.append(item)
        elif not contains(kept, item):
            kept.append(item)
    return kept


def _within(items: list[Any], wanted: list[Any]) -> bool:
    return all(contains(items, item) for item in wanted)


add("sets.contains", "list_sets_contains_list", "(list(T), list(T)) bool", _within)
add(
    "sets.equivalent",
    "list_sets_equivalent_list",
    "(list(T), list(T)) bool",
    lambda a, b: _within(a, b) and _within(b, a),
)
add(
    "sets.intersects",
    "list_sets_intersects_list",
    "(list(T), list(T)) bool",
    lambda a, b: any(contains(b, item) for item in a),
)
