"""What single calls may cost at most: one small function for each group of upstream's rules."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING

from bayplan.cel.cost import LIST_BASE, STRUCT_BASE
from bayplan.cel.syntax import Call, Literal, Node

if TYPE_CHECKING:
    from bayplan.cel.estimate import Estimator, Range

Estimate = tuple["Range", "Range | None"]
Rule = Callable[["Estimator", Call, str], Estimate]
_LIMIT = 2**64 - 1


def estimate_call(sizes: Estimator, node: Call, overload: str) -> Estimate:
    """The cost of a call without its arguments, and the size of its result if known."""
    rule = _overload_rule(overload) or _BY_FUNCTION.get(node.function) or _BY_OVERLOAD.get(overload)
    return ((1, 1), None) if rule is None else rule(sizes, node, overload)


def _ops() -> tuple[Callable[..., Range], ...]:
    from bayplan.cel import estimate

    return estimate.plus, estimate.times, estimate.factor


def _target(node: Call) -> Node:
    return node.args[0] if node.target is None else node.target


def _text(by: float, *, sized: bool) -> Rule:
    def rule(sizes: Estimator, node: Call, overload: str) -> Estimate:
        _, _, factor = _ops()
        size = sizes.bound(_target(node))
        return factor(size, by), size if sized else None

    return rule


def _argument(sizes: Estimator, node: Call, overload: str) -> Estimate:
    return _ops()[2](sizes.bound(node.args[0]), 0.1), None


def _fixed(cost: int) -> Rule:
    return lambda sizes, node, overload: ((cost, cost), None)


def _items(sizes: Estimator, node: Call, overload: str) -> Estimate:
    """A walk over a list, or over a string for `indexOf`."""
    plus, times, factor = _ops()
    size = sizes.bound(_target(node))
    item = sizes.item_size(_target(node))
    if item is None:
        return factor(size, 0.1), None
    each = (1, 1)
    if item[0].kind in ("string", "bytes"):
        each = plus(each, factor(item[1], 0.1))
    return times(size, each), None


def _replace(sizes: Estimator, node: Call, overload: str) -> Estimate:
    plus, times, factor = _ops()
    size, old, new = (sizes.bound(each) for each in (_target(node), *node.args[:2]))
    if old[0] == 0:
        most, kept = min(size[1] + 1, _LIMIT), size[1]
    elif new[1] <= old[0]:
        most, kept = 0, size[1]
    else:
        most, kept = ceil(size[1] / old[0]), 0
    if old[1] == 0:
        least, kept_least = min(size[0] + 1, _LIMIT), size[0]
    elif old[1] <= new[0]:
        least, kept_least = 0, size[0]
    else:
        least, kept_least = ceil(size[0] / old[1]), 0
    result = plus(times((least, most), new), (kept_least, kept))
    return factor(size, 0.2), result


def _split(sizes: Estimator, node: Call, overload: str) -> Estimate:
    size = sizes.bound(_target(node))
    most = size[1]
    if len(node.args) > 1 and isinstance(node.args[1], Literal):
        most = node.args[1].value % 2**64
    return _ops()[2](size, 0.2), (0, most)


def _join(sizes: Estimator, node: Call, overload: str) -> Estimate:
    plus, times, factor = _ops()
    count = sizes.bound(_target(node))
    item = sizes.item_size(_target(node))
    size = times(count, item[1]) if item else (0, 0)
    if node.args:
        gaps = (max(count[0] - 1, 0), max(count[1] - 1, 0))
        size = plus(size, times(sizes.bound(node.args[0]), gaps))
    return factor(size, 0.1), size


def _pattern(sizes: Estimator, node: Call, overload: str) -> Estimate:
    plus, times, factor = _ops()
    size = sizes.bound(_target(node))
    cost = times(factor(plus(size, (1, 1)), 0.1), factor(sizes.bound(node.args[-1]), 0.25))
    return cost, (0, size[1])


def _find(sizes: Estimator, node: Call, overload: str) -> Estimate:
    plus, times, factor = _ops()
    size = sizes.bound(_target(node))
    cost = times(factor(plus(size, (1, 1)), 0.1), factor(sizes.bound(node.args[0]), 0.25))
    return cost, (0, size[1])


def _matches(sizes: Estimator, node: Call, overload: str) -> Estimate:
    return _pattern(sizes, node, overload)[0], None


def _ip(sizes: Estimator, node: Call, overload: str) -> Estimate:
    return ((1, 1), None) if overload == "cidr_ip" else _argument(sizes, node, overload)


def _contains_address(sizes: Estimator, node: Call, overload: str) -> Estimate:
    plus, _, factor = _ops()
    cost = factor((8, 32), 0.1)
    if node.function == "containsCIDR":
        cost = plus(plus(cost, factor((4, 16), 0.1)), (1, 1))
    if overload.endswith("_string"):
        cost = plus(cost, factor(sizes.bound(node.args[0]), 0.1))
    return cost, None


def _validate(sizes: Estimator, node: Call, overload: str) -> Estimate:
    factor = _ops()[2]
    return factor(factor(sizes.bound(node.args[0]), 0.1), 128 * 0.25), None


def _selector(sizes: Estimator, node: Call, overload: str) -> Estimate:
    plus, _, factor = _ops()
    length = sizes.bound(node.args[0])
    each = factor(factor(length, 0.5), LIST_BASE + STRUCT_BASE)
    return plus(plus((LIST_BASE, LIST_BASE), factor(length, 0.1)), each), None


def _bytes(sizes: Estimator, node: Call, overload: str) -> Estimate:
    size = sizes.bound(node.args[0])
    result = {
        "string_to_bytes": (size[0], min(size[1] * 4, _LIMIT)),
        "bytes_to_string": (size[0] // 4, size[1]),
    }.get(overload, (size[0] + 2, min(size[1] * 2 + 2, _LIMIT)))
    return _ops()[2](size, 0.1), result


def _in_list(sizes: Estimator, node: Call, overload: str) -> Estimate:
    return sizes.bound(node.args[1]), None


def _contains(sizes: Estimator, node: Call, overload: str) -> Estimate:
    _, times, factor = _ops()
    return times(
        factor(sizes.bound(_target(node)), 0.1), factor(sizes.bound(node.args[0]), 0.1)
    ), None


def _added(sizes: Estimator, node: Call, overload: str) -> Estimate:
    plus, _, factor = _ops()
    from bayplan.cel.estimate import _union

    size = plus(*(sizes.bound(each) for each in node.args))
    entries = _union(sizes.entry(node.args[0]), sizes.entry(node.args[1]))
    if entries is not None:
        sizes.entries[node] = entries
    return (1, 1) if overload == "add_list" else factor(size, 0.1), size


_UNIT = (
    "kubernetes.Quantity",
    "kubernetes.Semver",
    "net.IP",
    "net.CIDR",
    *(
        f"kubernetes.authorization.{each}"
        for each in ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision")
    ),
)


def _compared(sizes: Estimator, node: Call, overload: str) -> Estimate:
    first, second = (sizes.checked.types[each] for each in node.args)
    factor = _ops()[2]
    if node.function == "_==_" and first == second:
        if first.name in _UNIT:
            return (1, 1), None
        if first.name == "kubernetes.NamedFormat":
            return factor((1, 64), 0.1), None
        if first.name == "kubernetes.URL":
            known = sizes.size(node.args[1])
            return factor((1, known[1] if known else 1), 0.1), None
    most = min(sizes.bound(each)[1] for each in node.args)
    return factor((1 if most else 0, most), 0.1), None


def _allocated(by: float, size: Range) -> Estimate:
    plus, _, factor = _ops()
    return plus(factor(size, by), (1 + LIST_BASE, 1 + LIST_BASE)), size


def _whole(node: Node, default: int) -> int:
    if isinstance(node, Literal) and type(node.value) is int:
        return max(node.value, 0)
    return default


def _slice(sizes: Estimator, node: Call, overload: str) -> Estimate:
    start = _whole(node.args[0], 0)
    end = _whole(node.args[1], sizes.bound(_target(node))[1])
    return _allocated(1, ((end - start) % 2**64,) * 2)


def _range(sizes: Estimator, node: Call, overload: str) -> Estimate:
    count = _whole(node.args[0], _LIMIT)
    return _allocated(1, (count, count))


def _reverse(sizes: Estimator, node: Call, overload: str) -> Estimate:
    return _allocated(1, sizes.bound(_target(node)))


def _flatten(sizes: Estimator, node: Call, overload: str) -> Estimate:
    depth = _whole(node.args[0], _LIMIT) if node.args else 1
    return _allocated(float(depth), sizes.bound(_target(node)))


def _sorted(sizes: Estimator, node: Call, overload: str) -> Estimate:
    by_keys = overload.endswith("_sortByAssociatedKeys")
    size = sizes.bound(node.args[0] if by_keys else _target(node))
    texts = overload.startswith(("list_string", "list_bytes"))
    return _allocated(2.1 if texts else 2.0, _ops()[1](size, size))


def _sets(by: float) -> Rule:
    def rule(sizes: Estimator, node: Call, overload: str) -> Estimate:
        plus, times, factor = _ops()
        product = times(*(sizes.bound(each) for each in node.args))
        return plus(factor(product, by), (1, 1)), None

    return rule


def _overload_rule(overload: str) -> Rule | None:
    if overload.endswith(("_sort", "_sortByAssociatedKeys")) or overload == "list_distinct":
        return _sorted
    return _LISTS.get(overload)


_LISTS: dict[str, Rule] = {
    "list_slice": _slice,
    "lists_range": _range,
    "list_reverse": _reverse,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
}
_BY_FUNCTION: dict[str, Rule] = {
    "check": _fixed(350_000),
    **dict.fromkeys(("fieldSelector", "labelSelector"), _selector),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _items),
    **dict.fromkeys(("url", "jsonpatch.escapeKey"), _text(0.1, sized=True)),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _text(0.1, sized=True)),
    "replace": _replace,
    "split": _split,
    "join": _join,
    **dict.fromkeys(("find", "findAll"), _find),
    **dict.fromkeys(("cidr", "isIP", "isCIDR"), _argument),
    **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver"), _argument),
    "ip": _ip,
    "ip.isCanonical": _text(0.2, sized=False),
    **dict.fromkeys(("containsIP", "containsCIDR"), _contains_address),
    "validate": _validate,
}
_BY_OVERLOAD: dict[str, Rule] = {
    "string_format": _text(0.1, sized=False),
    **dict.fromkeys(("string_to_bytes", "bytes_to_string", "strings_quote"), _bytes),
    **dict.fromkeys(("starts_with_string", "ends_with_string"), _argument),
    "in_list": _in_list,
    "matches_string": _matches,
    "contains_string": _contains,
    **dict.fromkeys(("add_string", "add_bytes", "add_list"), _added),
    **dict.fromkeys(("equals", "not_equals"), _compared),
    **{
        f"{word}_{kind}": _compared
        for word in ("less", "less_equals", "greater", "greater_equals")
        for kind in ("string", "bytes")
    },
}
