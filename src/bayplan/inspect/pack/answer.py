# ruff: noqa: RUF012 - msgspec copies empty mutable defaults
"""The answer of `bayplan pack`, as data."""

from __future__ import annotations

import msgspec

from bayplan.inspect.whatif.answer import Model


class Step(Model, frozen=True, kw_only=True):
    """One thing to do; after it every budget holds and no pod waits."""

    do: str
    """`cordon`, `uncordon`, `evict` or `place` (a pending pod finds its node by itself)."""
    nodes: tuple[str, ...] = ()
    pod: str = ""
    owner: str = ""
    source: str = msgspec.field(name="from", default="")
    target: str = msgspec.field(name="to", default="")
    stopover: bool = False
    """Whether the pod moves on later: its last place is not free yet."""


class Plan(Model, frozen=True, kw_only=True):
    """Moves in an order that works; each was decided by the engine, one after the other."""

    steps: tuple[Step, ...]
    moves: int
    empties: tuple[str, ...]
    """Nodes that have no pods afterwards but those that stay with their node."""
    complete: bool
    """Whether it reaches the whole placement."""
    why_not: str = ""

    def commands(self) -> list[str]:
        """The steps for a shell."""
        from bayplan.inspect.pack.commands import commands

        return commands(self)


class Wanted(Model, frozen=True, kw_only=True):
    """Pending pods that are asked about together: one pod, or a gang."""

    name: str
    pods: tuple[str, ...]
    needed: int
    """How many of them must find a node."""
    answer: str
    """`fits`, `moves`, `preempts`, `impossible` or `open` (the time was over)."""
    moves: tuple[Step, ...] = ()
    victims: tuple[str, ...] = ()
    """Less important pods that would have to go."""
    nodes: dict[str, str] = {}
    """Where each pod would go."""
    because: tuple[str, ...] = ()
    """If it is impossible: constraints that cannot all hold; without any one of them they could."""
    text: str = ""


class Packing(Model, frozen=True, kw_only=True):
    """How many nodes are in use, how many would do, and how many are proven to be needed."""

    in_use: int
    """Nodes with pods other than those that stay with every node."""
    would_do: int
    proven_least: int
    cost_now: int
    cost_best: int
    cost_bound: int
    """No placement costs less. Without prices every node costs 1."""
    priced: bool = False
    proven: bool
    """Whether the placement is the best there is."""
    gap: float
    """How far the placement may be from the best, as a share of the bound."""
    moves: int
    """How many pods the placement puts elsewhere."""
    empties: tuple[str, ...]
    """Nodes that are in use now and would not be."""
    placement: dict[str, str]
    """Pods that move, and where to."""
    stay: dict[str, int]
    """Pods that are not moved, by why."""
    plan: Plan | None = None
    pending: tuple[Wanted, ...] = ()
    seconds: float = 0.0
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        from bayplan.inspect.pack.text import render

        return "\n".join(render(self))
