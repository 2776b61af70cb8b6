"""The difference between two schedulers on one cluster, as data."""

from __future__ import annotations

from bayplan.inspect.whatif.answer import Model

PENDING = "(pending)"


class Changed(Model, frozen=True, kw_only=True):
    """A pod that the two schedulers treat differently."""

    pod: str
    owner: str
    a: str
    """The node with the first, empty if it stays pending."""
    b: str
    direct: bool
    """Whether the second decides differently in the very same cluster; else it follows from
    other pods that went elsewhere before."""
    plugin: str = ""
    """Who is responsible, for direct differences."""
    detail: str = ""


class Totals(Model, frozen=True, kw_only=True):
    """How a whole run ended."""

    placed: int
    pending: int
    evictions: int
    nodes_used: int
    packing: float
    """The share of what the used nodes offer that is requested, of the resource used most."""
    spread: float
    """The standard deviation of that share over all usable nodes."""


class Diff(Model, frozen=True, kw_only=True):
    """Two schedulers on one cluster."""

    a: str
    b: str
    pods: int
    changed: tuple[Changed, ...]
    plugins: dict[str, int]
    """Direct differences by the plugin that is responsible."""
    totals_a: Totals
    totals_b: Totals
    notes: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        return not self.changed

    def __str__(self) -> str:
        from bayplan.inspect.diff.text import render

        return "\n".join(render(self))
