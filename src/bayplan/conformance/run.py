"""A run of our scheduler over all waiting pods of a case, told as the oracle tells its own.

Every waiting pod is tried once, in the order of the queue. What is written in a step is delivered
before the next one, as an API server would.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from bayplan.api import KINDS, Object, Pod, ResourceClaim, convert, to_builtins
from bayplan.config import FeatureGates, default_config, from_data
from bayplan.conformance.compare import differences
from bayplan.conformance.fuzz import Difference
from bayplan.conformance.oracle import Oracle
from bayplan.engine.loop import Scheduler
from bayplan.engine.loop.actions import Action, Bind, CallApi, Evict, PatchPod, RecordEvent
from bayplan.engine.loop.inputs import BindDone, CallsDone, Evicted
from bayplan.engine.replay import LATER
from bayplan.framework.contract.results import ApiCall
from bayplan.plugins import in_tree_registry

Body = dict[str, Any]
PLACEMENTS = "TopologyAwareWorkloadScheduling"
_CHANCE = ("shareID", "allocationTimestamp")
_MADE = re.compile("-extended-resources-.*")
_ABOUT = ("bound", "pods", "events")
_STABLE = ("type", "status", "reason", "message")
"""Of a condition what does not depend on the clock."""


class Run:
    """One run; `steps` is what came of it."""

    def __init__(self, case: Body, gates: FeatureGates) -> None:
        config = case.get("config")
        loaded = default_config(gates) if config is None else from_data(dict(config), gates)
        self._scheduler = Scheduler(loaded, in_tree_registry(), gates=gates, now=LATER)
        self._now = LATER
        self._known: dict[tuple[str, str], Object] = {}
        kinds = {kind.RESOURCE.lower(): kind for kind in KINDS.values()}
        last = ("pods",)
        for key in sorted(case["objects"], key=lambda key: (key in last, key)):
            for body in case["objects"][key] or ():
                self._put(convert(kinds[key.lower()], body))
        self.steps: list[Body] = []

    def run(self) -> list[Body]:
        """Try until every pod that could be tried was."""
        scheduler = self._scheduler
        scheduler.queue.pop_from_backoff = False
        while scheduler.queue.ready:
            step: Body = {}
            todo = scheduler.step(self._now, 1)
            while todo:
                self._perform(todo, step)
                todo = scheduler.step(self._now, 0)
            self.steps.append(step)
        return self.steps

    def _put(self, item: Object) -> None:
        self._now += 0.001
        self._known[item.KIND, item.key] = item
        self._scheduler.put(item, self._now)

    def _perform(self, actions: Sequence[Action], step: Body) -> None:
        for action in actions:
            match action:
                case Bind(pod=pod, node_name=node):
                    step.setdefault("bound", {})[pod.key] = {"node": node}
                    body = to_builtins(pod)
                    body["spec"]["nodeName"] = node
                    self._scheduler.handle(BindDone(pod.uid, ""), self._now)
                    self._put(convert(Pod, body))
                case PatchPod(pod=pod):
                    self._patch("Pod", "pods", pod.key, action.body(), step)
                case Evict(victim=victim, preemptor=preemptor):
                    self._patch("Pod", "pods", victim.key, action.condition_body(), step)
                    step.setdefault("deleted", []).append(victim.key)
                    gone = self._known.pop(("Pod", victim.key), victim)
                    self._scheduler.handle(Evicted(preemptor.uid, victim.uid, ""), self._now)
                    self._scheduler.delete(gone, self._now)
                case RecordEvent(pod=pod, reason=reason, note=note):
                    step.setdefault("events", {}).setdefault(pod.key, {})[reason] = note
                case CallApi(work=work, calls=calls):
                    for call in calls:
                        self._call(call, step)
                    if work:
                        self._scheduler.handle(CallsDone(work, ""), self._now)

    def _call(self, call: ApiCall, step: Body) -> None:
        key = f"{call.namespace}/{call.name}"
        part = call.resource.partition(".")[0]
        kind = {"podgroups": "PodGroup", "resourceclaims": "ResourceClaim"}.get(part)
        if kind == "ResourceClaim" and call.verb == "create":
            body = {**(call.body or {}), "status": {}}
            self._put(convert(ResourceClaim, body))
        elif kind is not None and call.verb == "patch" and (call.body or {}).get("status"):
            self._patch(kind, part, key, call.body, step)
            if kind == "ResourceClaim":
                step[part][key] = to_builtins(self._known[kind, key])["status"]

    def _patch(self, kind: str, part: str, key: str, change: Any, step: Body) -> None:
        known = self._known.get((kind, key))
        if known is None:
            return
        changed = {k: v for k, v in change["status"].items() if not k.startswith("$")}
        body = to_builtins(known)
        status = body.setdefault("status", {})
        conditions = {item["type"]: item for item in status.get("conditions") or ()}
        told = dict(changed)
        if kind == "PodGroup":  # of which upstream writes what differs
            told["conditions"] = [_news(item, conditions) for item in changed["conditions"]]
        step.setdefault(part, {}).setdefault(key, {}).update(told)
        for item in changed.get("conditions", ()):
            conditions[item["type"]] = {**conditions.get(item["type"], {}), **item}
        status.update(changed)
        if conditions:
            status["conditions"] = list(conditions.values())
        self._put(convert(type(known), body))


def _news(condition: Body, known: Mapping[str, Body]) -> Body:
    """What of a condition was not known before."""
    before = known.get(condition["type"], {})
    return {k: v for k, v in condition.items() if k == "type" or before.get(k) != v}


TRIES = 16
"""How often the oracle runs before a difference counts: preemption draws among equal candidates."""
MORE_TRIES = 100
"""The same where the order of placements is drawn, too, which the texts of all pods show."""


def check(oracle: Oracle, gates: FeatureGates, case: Body) -> Difference | None:
    """Run both; None if they do the same, step by step."""
    got = ours(case, gates)
    want, lines = got, [""]
    for _ in range(MORE_TRIES if case.get("gates", {}).get(PLACEMENTS) else TRIES):
        want = by_number(oracle.run(case)["steps"], alike(case, gates))
        lines = differences(want, got)
        if not lines:
            return None
    return Difference({**case, "expect": want}, lines)


def ours(case: Body, gates: FeatureGates) -> Body:
    """What our scheduler does, by the number of the step."""
    changed = gates.with_changes(case["gates"]) if case.get("gates") else gates
    return by_number(Run(case, changed).run(), alike(case, gates))


def alike(case: Body, gates: FeatureGates) -> dict[str, str]:
    """The pods that are not told apart, each with its group."""
    return {} if gates.since("1.37") else members_of(case)


def members_of(case: Body) -> dict[str, str]:
    """The waiting pods of groups, each with its group."""
    return {
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']}": group["podGroupName"]
        for pod in case["objects"]["pods"]
        if (group := pod["spec"].get("schedulingGroup")) and not pod["spec"].get("nodeName")
    }


def nameless(steps: Sequence[Body], groups: Mapping[str, str]) -> list[Body]:
    """Steps in which the pods of a group, which are alike, are told apart by what they got only."""
    found = []
    for told_step in steps if groups else ():
        step = {part: _copied(value) for part, value in told_step.items()}
        for group in sorted(set(groups.values())):
            members = [key for key in groups if groups[key] == group]
            told = []
            for key in members:
                about = {part: step[part].pop(key) for part in _ABOUT if key in step.get(part, ())}
                if about:
                    own = key.rpartition("/")[2]
                    told.append(json.dumps(about, sort_keys=True).replace(own, "<pod>"))
            if told:
                step.setdefault("groups", {})[group] = sorted(told)
        found.append(_unnamed({part: value for part, value in step.items() if value}, groups))
    return found if groups else list(steps)


def _unnamed(step: Body, groups: Mapping[str, str]) -> Body:
    """A step that names groups where it would name one of their pods, as in victims' events."""
    text = json.dumps(step)
    for key, group in groups.items():
        text = re.sub(rf"\b{re.escape(key.rpartition('/')[2])}\b", f"<pod of {group}>", text)
    found: Body = json.loads(text)
    return found


def _copied(value: Any) -> Any:
    return dict(value) if isinstance(value, dict) else value


def by_number(steps: Sequence[Body], groups: Mapping[str, str]) -> Body:
    """Steps in the form in which runs are compared."""
    found: Body = {"count": len(steps)}
    told = nameless(comparable(steps), groups)
    found.update((f"step {number}", step) for number, step in enumerate(told))
    return found


def comparable(steps: Sequence[Body]) -> list[Body]:
    """Steps without what depends on the clock, and without order where there is none."""
    found = []
    for step in steps:
        plain = {**step}
        for part in ("pods", "podgroups"):
            about = {
                key: _plain(status)
                for key, status in plain.pop(part, {}).items()
                # a pod may be told its node while it waits for others of its group, or not in time
                if key not in step.get("bound", ())
            }
            if about:
                plain[part] = about
        if claims := plain.pop("resourceclaims", None):
            plain["resourceclaims"] = {
                _MADE.sub("-extended-resources-made", key): _without(_CHANCE, status)
                for key, status in claims.items()
            }
        if "deleted" in plain:
            plain["deleted"] = sorted(plain["deleted"])
        found.append(plain)
    return found


def _without(names: Collection[str], value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without(names, v) for k, v in value.items() if k not in names}
    return [_without(names, item) for item in value] if isinstance(value, list) else value


def _plain(status: Body) -> Body:
    if "conditions" not in status:
        return status
    conditions = [
        {name: item[name] for name in _STABLE if name in item} for item in status["conditions"]
    ]
    return {**status, "conditions": conditions}
