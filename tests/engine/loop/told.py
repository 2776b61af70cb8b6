"""A world that writes down all that the scheduler says, in words."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

from bayplan.engine.loop import (
    Bind,
    CallApi,
    Evict,
    ExtenderBind,
    PatchPod,
    RecordEvent,
)
from bayplan.engine.loop.actions import Observe
from bayplan.engine.loop.timing import Timing
from bayplan.framework import ApiCall, Code, Status
from bayplan.framework.contract.events import ActionType, Resource, on
from bayplan.testing import make_node
from tests.engine.loop.helper import World, config_of

START = 1000.0
NODE = make_node("a").capacity(cpu="2", memory="4Gi", pods="10")
LARGE = make_node("large").capacity(cpu="8", memory="4Gi", pods="10")
FULL = "0/1 nodes are available: 1 Insufficient cpu."
HELPLESS = (
    f"{FULL} preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
)
ROOM = f"{FULL} preemption: found a potential placement for pod on node a, preempting"
NOBODY = (
    f"{FULL} preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
)
GANG = (
    "minCount (2) cannot be satisfied: 1 scheduled, 0 remaining, pod group preemption: No "
    "preemption victims found for incoming preemptor"
)
PRIORITY = (
    "all pods in a single pod group should have the same priority as the pod group's priority, got "
    "100 and 0"
)
PLAN = (
    "pod group is unschedulable, pod group preemption: found a placement for podgroup, "
    "preempting 1 victims"
)
PREEMPTED = "Normal Preempted Preempting, with high: Preempted by pod uid-default-high on node a"
TIMEOUT = "rejected due to timeout after waiting 1m0s at plugin Steps"
WORDS = {
    "TIMEOUT": TIMEOUT,
    "GANG": GANG,
    "PRIORITY": PRIORITY,
    "PLAN": PLAN,
    "PREEMPTED": PREEMPTED,
    "ROOM": ROOM,
    "HELPLESS": HELPLESS,
    "NOBODY": NOBODY,
    "FULL": FULL,
}
"""Short for what is said most, longer ones first."""


class Told(World):
    """The clock of metrics is the world's own, so an attempt itself takes no time."""

    def __init__(self, *objects, **options):
        self.now = START
        self.times: list[tuple[str, tuple[str, ...], float]] = []
        self.lines: list[str] = []
        timing = Timing(lambda: self.now, lambda *told: self.times.append(told))
        super().__init__(*objects, timing=timing, **options)

    def step(self, limit=1):
        actions = super().step(limit)
        self.lines += [f"{self.now - START:g} {in_words(action)}" for action in actions]
        return actions

    def told(self) -> list[str]:
        """What was said since somebody asked last."""
        lines, self.lines = self.lines, []
        return lines

    def story(self, name: str) -> list[str]:
        notes = self.scheduler.story(f"default/{name}")
        return [
            f"{note.time - START:g} {note.what}: {note.detail}".removesuffix(": ") for note in notes
        ]

    def said(self, expected: str, *names: str) -> None:
        """Compare with what was said since somebody asked last, and the stories of some pods."""
        lines = self.told() + [f"{name}: {note}" for name in names for note in self.story(name)]
        for short, long in WORDS.items():
            lines = [line.replace(long, short) for line in lines]
        assert dedent(expected).strip().splitlines() == lines

    def took(self, *kinds: str) -> list[tuple[Any, ...]]:
        """The times of some kinds that were measured since somebody asked last."""
        found = [told for told in self.times if told[0] in kinds]
        self.times.clear()
        return found


ORDINARY = {
    "Warning FailedScheduling Scheduling": "failed",
    "Normal Scheduled Binding": "scheduled",
}
"""The words of events that there are most of."""


CONDITIONS = {"PodGroupInitiallyScheduled": "scheduled"}


def _of(scheduler: str) -> str:
    return "" if scheduler == "default-scheduler" else f" of {scheduler}"


def asks(call: ApiCall) -> str:
    """A call; of a status its conditions."""
    made = f"{call.verb} {call.resource.partition('.')[0]}/{call.name}"
    body = call.body if isinstance(call.body, dict) else {}
    said = [
        f" {CONDITIONS[each['type']]}={each['status']} {each['reason']}: {each['message']}"
        for each in body.get("status", {}).get("conditions", ())
    ]
    return made + "".join(said).removesuffix(": ")


def in_words(action: object) -> str:
    match action:
        case Bind(pod, node):
            return f"bind {pod.name} to {node}"
        case ExtenderBind(pod, node, extender):
            return f"let {extender.name} bind {pod.name} to {node}"
        case CallApi(work, pod, plugin, calls):
            return (
                f"call {work} of {plugin or 'nobody'} for {pod.name}: {', '.join(map(asks, calls))}"
            )
        case Evict(victim, preemptor, node, scheduler, now, kind):
            when = f"{now - START:g}"
            by = f"{kind} {preemptor.name}{_of(scheduler)}"
            return f"evict {victim.name} from {node} for {by} at {when}"
        case PatchPod(pod, condition, node, now):
            nominated = "" if node is None else f" nominated to {node or 'nothing'}"
            said = "" if condition is None else f" {condition.reason}: {condition.message}"
            return f"patch {pod.name} at {now - START:g}{nominated}{said}"
        case RecordEvent(pod, kind, reason, act, note, scheduler, related):
            beside = "" if related is None else f", with {related.name}"
            said = f"{kind} {reason} {act}{_of(scheduler)}{beside}"
            return f"event {pod.name} {ORDINARY.get(said, said)}: {note}"
        case Observe():
            plain = Observe(action.pod, action.scheduler_name, action.result)
            more = {name: getattr(action, name) for name in Observe.__struct_fields__}
            said = [f" {k}={v:g}" for k, v in more.items() if v != getattr(plain, k)]
            what = f"{action.pod.name}{_of(action.scheduler_name)} {action.result}"
            return f"observe {what}{''.join(said)}"
    raise AssertionError(f"nobody has words for {action}")


class Steps:
    """A plugin that does at each point what the test says."""

    name = "Steps"

    def __init__(self, **does):
        self.does = {"permit": (None, 0.0), "flight": (None, Status(Code.SKIP))} | does
        self.unreserved = []

    def reserve(self, state, pod, node_name):
        return self.does.get("reserve")

    def unreserve(self, state, pod, node_name):
        self.unreserved.append((pod.name, node_name))

    def permit(self, state, pod, node_name):
        return self.does["permit"]

    def pre_bind_pre_flight(self, state, pod, node_name):
        return self.does["flight"]

    def pre_bind(self, state, pod, node_name):
        return self.does.get("pre_bind")

    def events_to_register(self):
        return (on(Resource.ASSIGNED_POD, ActionType.DELETE),)


def world_with(plugin, *objects, **options):
    enabled = {"multiPoint": {"enabled": [{"name": plugin.name}]}}
    config = config_of(profiles=[{"plugins": enabled}])
    registry = {plugin.name: lambda args, handle: plugin}
    return Told(NODE, *objects, config=config, registry=registry, **options)
