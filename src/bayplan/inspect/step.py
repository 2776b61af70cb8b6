"""One change to a pod or to the cluster that may make the pod fit; nothing is believed here.

A change of the pod is a JSON patch, and what is decided again is the pod with that very patch
applied. A change of the cluster is objects put or taken away, with the commands that would do it.
"""

from __future__ import annotations

from typing import Any, TypeVar

import jsonpatch
import msgspec

from bayplan.api import Object, convert, to_builtins

Ops = tuple[dict[str, Any], ...]
T = TypeVar("T", bound=Object)

POD, CLUSTER, BOTH = "pod", "cluster", "both"


class Step(msgspec.Struct, frozen=True):
    """A change, how much it disturbs, and how to make it."""

    change: str
    cost: int
    kind: str = ""
    """Changes of one kind stand for each other: the first that works is shown."""
    patch: Ops = ()
    """Of the pod."""
    put: tuple[Object, ...] = ()
    delete: tuple[Object, ...] = ()
    commands: tuple[str, ...] = ()
    creates: tuple[dict[str, Any], ...] = ()
    """Manifests of those of `put` that would have to be created."""
    lands: tuple[str, ...] = ()
    """Where the pod ends, if the change has been carried out already; then nodes as good."""

    @property
    def side(self) -> str:
        outside = self.put or self.delete
        return CLUSTER if outside and not self.patch else BOTH if outside else POD


def patched(item: T, ops: Ops) -> T:
    """An object after a JSON patch."""
    if not ops:
        return item
    return convert(type(item), jsonpatch.apply_patch(to_builtins(item), list(ops)))


def together(steps: tuple[Step, ...]) -> Step:
    """Several changes as one."""
    return Step(
        ", and ".join(step.change for step in steps),
        sum(step.cost for step in steps) + 30 * (len(steps) - 1),
        "+".join(step.kind for step in steps),
        tuple(op for step in steps for op in step.patch),
        tuple(item for step in steps for item in step.put),
        tuple(item for step in steps for item in step.delete),
        tuple(text for step in steps for text in step.commands),
        tuple(item for step in steps for item in step.creates),
    )


def pointer(*parts: str | int) -> str:
    """A JSON pointer."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in parts)


def set_to(value: object, *path: str | int) -> dict[str, Any]:
    return {"op": "add", "path": pointer(*path), "value": value}


def remove(*path: str | int) -> dict[str, Any]:
    return {"op": "remove", "path": pointer(*path)}
