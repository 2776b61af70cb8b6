"""The answer to "how many more", as data."""

from __future__ import annotations

from bayplan.inspect.whatif.answer import Model


class Fit(Model, frozen=True, kw_only=True):
    """How many more of one template."""

    template: str
    share: int
    """How many of it make up one set, together with the other templates' shares."""
    together: int
    """In the whole sets of the mix."""
    alone: int
    """If only these were added."""
    zones: dict[str, int]
    """By zone, in the mix."""
    nodes: int
    """How many nodes the mix uses for it."""
    message: str
    """Why no further one fits, in kube-scheduler's words."""


class Stranded(Model, frozen=True, kw_only=True):
    """Room that is free and that no template can use."""

    resource: str
    free: int
    nodes: int
    because: str
    """What is missing on those nodes."""
    holders: dict[str, int]
    """Who uses most of what is missing there, with how much of it."""


class Capacity(Model, frozen=True, kw_only=True):
    """How many more, and what ends it."""

    sets: int
    """How many whole sets fit (each template as often as its share)."""
    fits: tuple[Fit, ...]
    binding: dict[str, int]
    """What ends it, by the number of nodes that say so."""
    ends: str = ""
    """What else forbids one more set: the API server, or which loss if room for one was kept."""
    stranded: tuple[Stranded, ...]
    keep_free: str = ""
    """`node` or `zone` if room to lose one was kept."""
    checked: int = 0
    """How many nodes or zones were tried for it."""
    limited: bool = False
    """Whether it ended at the limit rather than for lack of room."""
    notes: tuple[str, ...] = ()
    version: str = ""
    """As which version it was decided."""
    version_note: str = ""
    """Why as that one, if it does not go without saying."""

    def __str__(self) -> str:
        from bayplan.inspect.capacity.text import render

        return "\n".join(render(self))
