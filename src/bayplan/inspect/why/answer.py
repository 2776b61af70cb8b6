"""What an answer to "why" is made of; the JSON of `-o json` and of the HTTP face is this."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from bayplan.inspect.cluster import Unread

FITS: Literal["fits"] = "fits"
REJECTED: Literal["rejected"] = "rejected"
NOT_LOOKED_AT: Literal["notLookedAt"] = "notLookedAt"
"""Enough nodes fit before the scheduler came to this one."""


class FunnelRow(msgspec.Struct, frozen=True, rename="camel"):
    """Nodes that were rejected in the same way; the rows of a funnel add up to all nodes."""

    plugin: str
    reasons: tuple[str, ...]
    nodes: int
    facts: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()


class Near(msgspec.Struct, frozen=True, rename="camel"):
    """A node that almost fits, and what exactly is missing there."""

    node: str
    missing: tuple[str, ...]
    plugins: tuple[str, ...] = ()


class Fix(msgspec.Struct, frozen=True, rename="camel"):
    """A change after which the pod fits: decided again before it is shown."""

    change: str
    side: str
    """`pod`, `cluster` or `both`."""
    node: str
    """Where the pod would land."""
    patch: tuple[dict[str, Any], ...] = ()
    """A JSON patch of the pod."""
    commands: tuple[str, ...] = ()
    objects: tuple[dict[str, Any], ...] = ()
    """What would have to be created."""
    removes: tuple[str, ...] = ()
    """Pods that would have to leave their node."""
    equals: tuple[str, ...] = ()
    """Other nodes with the same score: which of them is taken hangs on the order of nodes."""
    disturbs: int = 0
    """How much it disturbs, for the order."""


class Score(msgspec.Struct, frozen=True, rename="camel"):
    """One node's weighted scores by plugin."""

    node: str
    total: int
    plugins: dict[str, int]


class Judged(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One node's verdict: what rejected it first, or its weighted scores."""

    node: str
    verdict: Literal["fits", "rejected", "notLookedAt"]
    plugin: str = ""
    reasons: tuple[str, ...] = ()
    total: int | None = None
    scores: dict[str, int] = {}


class Answer(msgspec.Struct, frozen=True, rename="camel"):
    """Why one pod is where it is."""

    pod: str
    state: str
    """pending, gated, bound, fits, nominated, notMade, otherScheduler, finished, terminating."""
    summary: str
    scheduler: str = ""
    message: str = ""
    observed: str | None = None
    observed_reason: str = ""
    event: str | None = None
    identical: bool | None = None
    """Whether our sentence is what the cluster's scheduler said; null if it said nothing."""
    difference: str = ""
    nodes: int = 0
    asked_node: str = ""
    """The node that was asked about; `summary`, `nearest` and `fixes` are then of it."""
    funnel: tuple[FunnelRow, ...] = ()
    nearest: tuple[Near, ...] = ()
    preemption: tuple[str, ...] = ()
    fixes: tuple[Fix, ...] = ()
    node: str = ""
    scores: tuple[Score, ...] = ()
    judged: tuple[Judged, ...] = ()
    """Every node, by name, if that was asked for; none where no node is looked at."""
    nodes_left_out: int = 0
    """Of how many nodes `judged` does not tell because it was not asked to."""
    notes: tuple[str, ...] = ()
    age_seconds: int = 0
    owner: str = ""
    history: tuple[str, ...] = ()
    unread: tuple[Unread, ...] = ()
    version: str = ""
    """As which version it was decided."""
    version_note: str = ""
    """Why as that one, if it does not go without saying."""


class Group(msgspec.Struct, frozen=True, rename="camel"):
    """Pending pods with the same cause."""

    cause: str
    count: int
    oldest_seconds: int
    pods: tuple[str, ...]
    """Some of them."""
    owners: tuple[str, ...] = ()
    """Some of those that made them; a pod that nobody made stands for itself."""
    owner_count: int = 0
    message: str = ""
    fix: Fix | None = None
    """The one change that frees most of them."""
    frees: int = 0
    """How many of them it frees."""
    frees_more: bool = False
    """Whether counting ended before all were placed."""


class Pending(msgspec.Struct, frozen=True, rename="camel"):
    """All pending pods."""

    count: int
    groups: tuple[Group, ...]
    pods: tuple[Answer, ...]
    identical: int = 0
    """Of how many our sentence is what the cluster's scheduler said."""
    observed: int = 0
    """Of how many it said anything."""
    nodes: int = 0
    fix: Fix | None = None
    """The one change that frees most of all of them."""
    frees: int = 0
    frees_more: bool = False
    unread: tuple[Unread, ...] = ()
    version: str = ""
    version_note: str = ""
