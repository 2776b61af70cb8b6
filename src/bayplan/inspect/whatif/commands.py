"""What carries each change out for real, in kubectl's words; a line with `#` is for a person."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bayplan.api import Pod
from bayplan.inspect.commands import anew, change_owner, create, json_patch, where
from bayplan.inspect.objects import Owner
from bayplan.inspect.settings import Settings
from bayplan.inspect.step import Ops, set_to
from bayplan.inspect.whatif import changes as c
from bayplan.inspect.whatif.making import asking

if TYPE_CHECKING:
    from bayplan.inspect.whatif.carrying import Carrying


def commands_of(carrying: Carrying, change: c.AnyChange) -> list[str]:
    """The commands of a change that is about to be carried out; a drain tells its own."""
    match change:
        case c.Cordon() | c.Uncordon():
            verb = type(change).__name__.lower()
            return [f"kubectl {verb} {' '.join(carrying.nodes(change.nodes))}"]
        case c.Remove():
            return [f"kubectl delete node {' '.join(carrying.nodes(change.nodes))}"]
        case c.Add():
            return [f"# let {change.count} x {change.shape} join: from your cloud or autoscaler"]
        case c.Apply():
            return _apply(carrying, change)
        case c.Drain():
            return []
        case c.Patch() if change.kind in c.NODE_WORDS:
            names = " ".join(carrying.nodes(change.name))
            return [f"kubectl patch node {names} {json_patch(change.patch)}"]
    target = carrying.target(change)
    match change:
        case c.Delete():
            return [f"kubectl delete {target.KIND.lower()} {where(target)}"]
        case c.Scale():
            named = f"{target.KIND.lower()} {where(target)}"
            return [f"kubectl scale {named} --replicas={change.replicas}"]
        case c.Priority():
            return _priority(carrying, target, change.priority)
        case c.Request():
            return _changed(target, _requests(target, change.requests))
        case _:
            return _changed(target, change.patch)


def scheduler_commands(settings: Settings) -> tuple[str, ...]:
    """What gives the cluster's scheduler other settings."""
    return (f"# run the scheduler with {settings.title}",)


def _apply(carrying: Carrying, change: c.Apply) -> list[str]:
    found = [create(document, "apply") for document in change.documents]
    if change.path:
        folder = " -R" if Path(change.path).is_dir() else ""
        namespace = carrying.cluster.origin.namespace
        found.append(f"kubectl apply -n {namespace}{folder} -f {change.path}")
    return found


def _changed(target: Owner | Pod, ops: Ops) -> list[str]:
    return [anew(target, ops)] if isinstance(target, Pod) else change_owner(target, ops)


def _requests(target: Owner | Pod, requests: dict[str, str]) -> Ops:
    spec = target.spec if isinstance(target, Pod) else target.spec.template.spec
    ops = []
    for number, container in enumerate(spec.containers):
        new = asking(container, requests).resources
        at = ("spec", "containers", number, "resources")  # a server always writes it
        ops.append(set_to(new.requests, *at, "requests"))
        if new.limits != container.resources.limits:
            ops.append(set_to(new.limits, *at, "limits"))
    return tuple(ops)


def _priority(carrying: Carrying, target: Owner | Pod, priority: str) -> list[str]:
    """A pod gets its number from a class, so a number without one needs a class first."""
    classes = carrying.trial.engine.cache.objects.priority_classes
    name, before = priority, []
    if priority.lstrip("-").isdigit():
        value = int(priority)
        known = sorted(item.name for item in classes if item.value == value)
        name = known[0] if known else f"priority{value}"
        before = [] if known else [f"kubectl create priorityclass {name} --value={value}"]
    ops = (set_to(name, "spec", "priorityClassName"),)
    return [*before, *_changed(target, ops)]
