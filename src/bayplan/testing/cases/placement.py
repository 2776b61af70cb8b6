"""What a pod asks of places: tolerations, node affinity, pod affinity, spreading, ports."""

from __future__ import annotations

from bayplan.testing.cases.draw import Body, Draw
from bayplan.testing.cases.nodes import EFFECTS, TAINTS, ZONE
from bayplan.testing.cases.selectors import (
    NAMESPACES,
    TOPOLOGIES,
    label_selector,
    namespace_selector,
    node_term,
)


def place(draw: Draw, spec: Body, names: list[str]) -> None:
    """Add what the traits want to a pod's spec."""
    if draw.wants("tolerations"):
        spec["tolerations"] = [_toleration(draw) for _ in range(draw.number(1, 3))]
    if draw.wants("node selector"):
        spec["nodeSelector"] = draw.pick(({"disk": "ssd"}, {ZONE: "z1"}, {"gen": "5"}))
    affinity: Body = {}
    if node := _node_affinity(draw, names):
        affinity["nodeAffinity"] = node
    for kind in ("podAffinity", "podAntiAffinity"):
        if body := _pod_affinity(draw, kind):
            affinity[kind] = body
    if affinity:
        spec["affinity"] = affinity
    if constraints := _spreading(draw):
        spec["topologySpreadConstraints"] = constraints


def _toleration(draw: Draw) -> Body:
    body: Body = {"operator": draw.pick(("Exists", "Equal"))}
    if draw.wants("comparing tolerations"):
        body["operator"] = draw.pick(("Lt", "Gt"))
        return {
            **body,
            "key": draw.pick(TAINTS),
            "value": draw.pick(("0", "7", "-3")),
            **_effect(draw),
        }
    if body["operator"] == "Equal" or draw.chance(0.85):
        body["key"] = draw.pick(TAINTS)
    if body["operator"] == "Equal":
        body["value"] = draw.pick(("", "a", "b"))
        if draw.chance(0.3):
            del body["operator"]
    return {**body, **_effect(draw)}


def _effect(draw: Draw) -> Body:
    effect = draw.pick((*EFFECTS, ""))
    return {"effect": effect} if effect else {}


def _node_affinity(draw: Draw, names: list[str]) -> Body:
    found: Body = {}
    if draw.wants("required nodes"):
        terms = [node_term(draw, names) for _ in range(draw.number(1, 2))]
        found["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if draw.wants("preferred nodes"):
        found["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": draw.number(1, 100), "preference": node_term(draw, names)}
            for _ in range(draw.number(1, 3))
        ]
    return found


def _pod_affinity(draw: Draw, kind: str) -> Body:
    found: Body = {}
    if draw.wants(f"required {kind}"):
        found["requiredDuringSchedulingIgnoredDuringExecution"] = [
            _term(draw) for _ in range(draw.number(1, 2))
        ]
    if draw.wants(f"preferred {kind}"):
        found["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": draw.number(1, 100), "podAffinityTerm": _term(draw)}
            for _ in range(draw.number(1, 2))
        ]
    return found


def _term(draw: Draw) -> Body:
    term: Body = {"topologyKey": draw.pick(TOPOLOGIES)}
    if (selector := label_selector(draw)) is not None:
        term["labelSelector"] = selector
    if draw.chance(0.25):
        term["namespaces"] = draw.some(tuple(NAMESPACES), 2, 1)
    if draw.chance(0.25):
        term["namespaceSelector"] = namespace_selector(draw)
    return term


def _spreading(draw: Draw) -> list[Body]:
    """Constraints with different pairs of key and action, as the API server demands."""
    found: dict[tuple[str, str], Body] = {}
    for trait, action in (("hard spread", "DoNotSchedule"), ("soft spread", "ScheduleAnyway")):
        if not draw.wants(trait):
            continue
        for _ in range(draw.number(1, 2)):
            body = _constraint(draw, action)
            found[body["topologyKey"], action] = body
    return list(found.values())


def _constraint(draw: Draw, action: str) -> Body:
    body: Body = {
        "maxSkew": draw.number(1, 3),
        "topologyKey": draw.pick(TOPOLOGIES),
        "whenUnsatisfiable": action,
    }
    if (selector := label_selector(draw)) is not None:
        body["labelSelector"] = selector
    if action == "DoNotSchedule" and draw.chance(0.25):
        body["minDomains"] = draw.number(1, 4)
    for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if draw.chance(0.3):
            body[field] = draw.pick(("Honor", "Ignore"))
    if "labelSelector" in body and (draw.chance(0.2) or draw.wants("label keys")):
        _match_label_keys(body)
    return body


def _match_label_keys(body: Body) -> None:
    """Add a key that the selector does not name, as the API server demands."""
    selector = body["labelSelector"]
    named = {*selector.get("matchLabels", {})}
    named |= {item["key"] for item in selector.get("matchExpressions", ())}
    if free := sorted({"ver", "tier"} - named):
        body["matchLabelKeys"] = [free[0]]
