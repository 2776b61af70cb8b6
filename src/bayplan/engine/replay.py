"""One decision from plain data: objects, a pod, a configuration in; what kube-scheduler would say
out.

For conformance tests and for explaining: the answer has the shape of the recorded decisions (see
`docs/design/conformance.md`), with every node's status and every plugin's weighted score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bayplan.api import KINDS, Node, Object, Pod, convert
from bayplan.config import DEFAULT_GATES, FeatureGates, default_config, from_data
from bayplan.engine.answers import AttemptFailed
from bayplan.engine.cache import Cache
from bayplan.engine.cycle.decisions import Decision
from bayplan.engine.engine import Engine
from bayplan.framework import IntArray, Status
from bayplan.framework.contract.registry import Factory
from bayplan.plugins import in_tree_registry

PRE_FILTER_RESULT = "PreFilterResult"
"""Stands for the plugin of nodes that a PreFilter's node set left out."""
LATER = 4102444800.0
"""When cases are decided: the year 2100, after anything in them has happened."""


def load_objects(cache: Cache, objects: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Feed objects by plural key (`nodes`, `persistentVolumeClaims`, ...) to a cache."""
    known = {_plural(kind): kind for kind in KINDS.values()}
    for key, items in objects.items():
        kind = known.get(key.lower())
        if kind is None:
            continue
        for body in items or ():
            item: Object = convert(kind, body)
            if isinstance(item, Node):
                cache.add_node(item)
            elif isinstance(item, Pod) and _is_nominated(item):
                cache.nominator.add(cache.infos.make(item), item.status.nominated_node_name)
            else:
                cache.put(item)


def _is_nominated(pod: Pod) -> bool:
    return bool(pod.status.nominated_node_name) and not pod.spec.node_name


def _plural(kind: type[Object]) -> str:
    return kind.RESOURCE.lower()


def decide(
    objects: Mapping[str, Sequence[Mapping[str, Any]]],
    pod: Mapping[str, Any],
    config: Mapping[str, Any] | None = None,
    registry: Mapping[str, Factory] | None = None,
    *,
    gates: FeatureGates = DEFAULT_GATES,
    now: float = LATER,
) -> dict[str, Any]:
    """Decide one pod and describe the decision."""
    loaded = default_config(gates) if config is None else from_data(dict(config), gates)
    engine = Engine.build(loaded, registry or in_tree_registry(), gates=gates)
    load_objects(engine.cache, objects)
    decision = engine.schedule(convert(Pod, pod), now)
    try:
        return describe(engine, decision)
    except AttemptFailed as problem:  # scoring may fail where a single fitting node hid it
        return {"error": problem.status.message}


def describe(engine: Engine, decision: Decision) -> dict[str, Any]:
    """A decision in the shape of the recorded ones."""
    error = decision.fit_error
    if decision.status is not None and not decision.status.rejected:
        return {"error": decision.message}
    if error is None and not decision.node_name:
        return {"message": decision.message}
    if error is not None and error.pre_filter_message:
        return _rejected_early(decision)
    described: dict[str, Any] = {"preFilter": {"code": "Success"}}
    described["nodes"] = _nodes(engine, decision)
    if decision.node_name:
        described.update(_scores(engine, decision))
    else:
        described.update(_failure(decision))
    return described


def _rejected_early(decision: Decision) -> dict[str, Any]:
    error = decision.fit_error
    assert error is not None
    status = _status(error.diagnosis.absent)
    nodes = dict.fromkeys(error.diagnosis.names, status)
    return {"preFilter": status, "nodes": nodes, **_failure(decision)}


def _nodes(engine: Engine, decision: Decision) -> dict[str, Any]:
    found: dict[str, Any] = {}
    statuses = engine.node_statuses(decision)
    for name, status in statuses.items():
        found[name] = {"code": "Success"} if status is None else _status(status)
    return found


def _status(status: Status) -> dict[str, Any]:
    found: dict[str, Any] = {"code": status.code.text}
    if status.plugin:
        found["plugin"] = status.plugin
    if status.plugin != PRE_FILTER_RESULT and status.reasons:
        found["reasons"] = sorted(status.reasons)
    return found


def _scores(engine: Engine, decision: Decision) -> dict[str, Any]:
    found = engine.all_scores(decision)
    totals = dict(zip(found.names, found.totals.tolist(), strict=True))
    top = max(totals.values())
    return {
        "raw": _by_name(found.names, found.raw),
        "scores": _by_name(found.names, found.weighted),
        "totals": totals,
        "best": sorted(name for name, total in totals.items() if total == top),
    }


def _by_name(names: list[str], columns: Mapping[str, IntArray]) -> dict[str, dict[str, int]]:
    return {
        plugin: dict(zip(names, column.tolist(), strict=True)) for plugin, column in columns.items()
    }


def _failure(decision: Decision) -> dict[str, Any]:
    status = decision.post_filter_status
    found: dict[str, Any] = {"message": decision.message}
    if status is None:
        return found
    described: dict[str, Any] = {"code": status.code.text}
    if status.plugin:
        described["plugin"] = status.plugin
    if status.all_reasons:
        described["reasons"] = list(status.all_reasons)
    result = decision.post_filter
    nominating = None if result is None else result.nominating_info
    victims = decision.victims
    found["postFilter"] = {
        "status": described,
        "nominatedNodeName": "" if nominating is None else nominating.nominated_node_name,
        "victims": None if victims is None else sorted(pod.key for pod in victims.pods),
    }
    return found
