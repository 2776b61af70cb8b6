"""The answer to a what-if, as data: what `-o json` prints and a notebook reads."""

from __future__ import annotations

import msgspec

from bayplan.inspect.whatif.headroom import Room


class Model(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Base: camelCase as Kubernetes writes."""

    def to_dict(self) -> dict[str, object]:
        """Plain data."""
        found: dict[str, object] = msgspec.json.decode(msgspec.json.encode(self))
        return found


class Move(Model, frozen=True, kw_only=True):
    """A pod that ran and runs elsewhere afterwards (or again on the same node)."""

    pod: str
    owner: str
    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    why: str = ""
    anyway: bool = False
    """Whether it would move there without any change as well."""


class Start(Model, frozen=True, kw_only=True):
    """A pod that did not run before and does afterwards."""

    pod: str
    owner: str
    node: str
    new: bool
    """Whether it came to be by the change; else it was pending."""


class Stuck(Model, frozen=True, kw_only=True):
    """A pod without a node afterwards, and why."""

    pod: str
    owner: str
    source: str = msgspec.field(name="from")
    """Where it ran before; empty if it did not."""
    state: str
    """`pending`, `lost` (nobody makes it again), `blocked` (it could not be evicted) or `refused`
    (the API server does not let its owner make it)."""
    reason: str
    new: bool = False
    """Whether it came to be by the change; else it is there now."""
    anyway: bool = False
    """Whether it would have no node without any change as well."""


class Eviction(Model, frozen=True, kw_only=True):
    """A pod that had to make way for a more important one."""

    pod: str
    node: str
    by: str
    violates_budget: bool = False
    anyway: bool = False
    """Whether it is evicted without any change, for a pod that is pending now."""


class NodeCount(Model, frozen=True, kw_only=True):
    """Nodes in all, and those that may be used."""

    total: int
    usable: int


class Side(Model, frozen=True, kw_only=True):
    """The cluster as it is now, or afterwards."""

    nodes: NodeCount
    running: int
    pending: int
    headroom: dict[str, Room]


class WhatIf(Model, frozen=True, kw_only=True):
    """What follows from some changes."""

    changes: tuple[str, ...]
    ok: bool
    """Whether everything that runs now still runs, and every drain came to its end."""
    moves: tuple[Move, ...] = ()
    starts: tuple[Start, ...] = ()
    stuck: tuple[Stuck, ...] = ()
    evictions: tuple[Eviction, ...] = ()
    deleted: tuple[str, ...] = ()
    anyway: tuple[Start, ...] = ()
    """Pods that are pending now and find a node, with the changes and without."""
    still_pending: int = 0
    """Pods that are pending now and would be, with the changes and without."""
    before: Side
    after: Side
    commands: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    version: str = ""
    """As which version it was decided."""
    version_note: str = ""
    """Why as that one, if it does not go without saying."""

    @property
    def new_pending(self) -> list[Stuck]:
        """Pods without a node that the change brought, or that would have one without it."""
        return [item for item in self.stuck if not item.source]

    def __str__(self) -> str:
        from bayplan.inspect.whatif.text import render

        return "\n".join(render(self))
