"""Differences that are known and accepted, each with its reason.

The list is the one in `docs/design/conformance.md`; the fuzzer counts them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice, permutations, product
from typing import Any, NamedTuple

from bayplan.api import quantity
from bayplan.conformance.compare import differences, leaving

Body = dict[str, Any]
MOST_ORDERS = 200
"""So many orders of volumes are tried."""


class Sides(NamedTuple):
    """The two answers to a case, and how the engine decides others."""

    want: Body
    got: Body
    decide: Callable[[Body], Body]


def _drawn_capacity(case: Body, lines: list[str], sides: Sides) -> bool:
    """Several CSIStorageCapacities of one class may mean a node; the real scheduler takes any.

    Which it takes shows in the score alone: it looks for one that is large enough. We take the
    first: both scores of a node must lie within what other orders give.
    """
    shown = ("raw.VolumeBinding", "scores.VolumeBinding", "totals", "best")
    capacities = case["objects"].get("csiStorageCapacities") or ()
    if len(capacities) < 2 or not all(line.startswith(shown) for line in lines):
        return False
    seen: dict[str, set[int]] = {}
    for order in islice(permutations(capacities), MOST_ORDERS):
        other = {**case, "objects": {**case["objects"], "csiStorageCapacities": list(order)}}
        for node, score in _binding_scores(sides.decide(other)).items():
            seen.setdefault(node, set()).add(score)
    return all(
        node in seen and min(seen[node]) <= score <= max(seen[node])
        for side in (sides.want, sides.got)
        for node, score in _binding_scores(side).items()
    )


def _binding_scores(side: Body) -> dict[str, int]:
    found: dict[str, int] = side.get("raw", {}).get("VolumeBinding") or {}
    return found


def _drawn_volume(case: Body, lines: list[str], sides: Sides) -> bool:
    """A claim may have one of several volumes of one size, of which another claim wants one too.

    The real scheduler takes the first of a Go map. We go by names: with other names of volumes
    alike we must come to its answer, and with some to the one that we gave.
    """
    gone = leaving(case)
    wanted = given = False
    for other in islice(_renamed(case), MOST_ORDERS):
        decided = sides.decide(other)
        wanted = wanted or not differences(sides.want, decided, gone)
        given = given or not differences(sides.got, decided, gone)
        if wanted and given:
            return True
    return False


def _renamed(case: Body) -> Iterator[Body]:
    """The case with the names of free volumes of one class and size exchanged in every way."""
    volumes = case["objects"].get("persistentVolumes") or ()
    alike: dict[tuple[str, int], list[Body]] = {}
    for body in volumes:
        spec = body["spec"]
        if not spec.get("claimRef"):
            size = quantity.nanos(spec["capacity"]["storage"])
            alike.setdefault((spec.get("storageClassName", ""), size), []).append(body)
    several = [group for group in alike.values() if len(group) > 1]
    claims = [v for v in case["pod"]["spec"].get("volumes") or () if "persistentVolumeClaim" in v]
    if not several or len(claims) < 2:
        return
    for orders in product(*(permutations(group) for group in several)):
        names = {
            id(body): source["metadata"]["name"]
            for group, order in zip(several, orders, strict=True)
            for body, source in zip(group, order, strict=True)
        }
        fresh = [_named(body, names.get(id(body), body["metadata"]["name"])) for body in volumes]
        yield {**case, "objects": {**case["objects"], "persistentVolumes": fresh}}


def _named(body: Body, name: str) -> Body:
    return {**body, "metadata": {**body["metadata"], "name": name}}


KNOWN: dict[str, Callable[[Body, list[str], Sides], bool]] = {
    "one of several capacities is drawn": _drawn_capacity,
    "one of several volumes is drawn": _drawn_volume,
}


def known(case: Body, lines: list[str], sides: Sides) -> str:
    """The name of the accepted difference that explains every line, or nothing."""
    return next((name for name, explains in KNOWN.items() if explains(case, lines, sides)), "")
