"""Random labels and selectors over small vocabularies, so that they match often."""

from __future__ import annotations

from bayplan.testing.cases.draw import Body, Draw
from bayplan.testing.cases.nodes import HOSTNAME, REGION, ZONE, ZONES

NAMESPACES: Body = {
    "default": {"team": "a"},
    "prod": {"team": "b", "env": "prod"},
    "dev": {},
}
LABELS = {"app": ("web", "db", "cache"), "ver": ("1", "2"), "tier": ("front", "back")}
TOPOLOGIES = (ZONE, ZONE, HOSTNAME, REGION, "rack")


def namespaces() -> list[Body]:
    """Every namespace; each carries its name as a label, as the API server sees to."""
    return [
        {"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name, **labels}}}
        for name, labels in NAMESPACES.items()
    ]


def labels(draw: Draw) -> Body:
    return {key: draw.pick(values) for key, values in LABELS.items() if draw.chance(0.7)}


def label_selector(draw: Draw) -> Body | None:
    """A selector of pods; rarely none or the empty one."""
    if draw.chance(0.04):
        return None
    selector: Body = {}
    if draw.chance(0.7):
        key = draw.pick(tuple(LABELS))
        selector["matchLabels"] = {key: draw.pick(LABELS[key])}
    if draw.chance(0.35):
        selector["matchExpressions"] = [
            _expression(draw, key, LABELS[key]) for key in draw.some(tuple(LABELS), 2, 1)
        ]
    return selector


def namespace_selector(draw: Draw) -> Body:
    return draw.pick(
        (
            {},
            {"matchLabels": {"team": "a"}},
            {"matchExpressions": [{"key": "team", "operator": "Exists"}]},
            {"matchExpressions": [{"key": "env", "operator": "NotIn", "values": ["prod"]}]},
        )
    )


def _expression(draw: Draw, key: str, values: tuple[str, ...]) -> Body:
    operator = draw.pick(("In", "NotIn", "Exists", "DoesNotExist"))
    body: Body = {"key": key, "operator": operator}
    if operator in ("In", "NotIn"):
        body["values"] = draw.some(values, 2, 1)
    return body


def node_requirement(draw: Draw) -> Body:
    """One expression on a node's labels."""
    if draw.chance(0.25):
        operator, value = draw.pick(("Gt", "Lt")), draw.pick(("1", "4", "5", "0", "100"))
        return {"key": "gen", "operator": operator, "values": [value]}
    key, values = draw.pick(
        ((ZONE, ZONES), (REGION, ("r1", "r2")), ("disk", ("ssd", "hdd")), ("rack", ("r1", "r9")))
    )
    return _expression(draw, key, values)


def node_term(draw: Draw, names: list[str]) -> Body:
    """A term of a node selector; it may be empty, and then matches nothing."""
    term: Body = {}
    if draw.chance(0.9):
        term["matchExpressions"] = [node_requirement(draw) for _ in range(draw.number(1, 2))]
    if draw.wants("match fields"):
        field = {"key": "metadata.name", "operator": draw.pick(("In", "In", "NotIn"))}
        term["matchFields"] = [{**field, "values": [draw.pick([*names, "absent"])]}]
    return term
