"""Where attempts are made: on the event loop while plugins are quick, in a thread while they wait.

A turn on the loop costs nothing more, but a plugin that sleeps, or asks a server, holds up watches,
bindings, health and the Lease. In a thread it holds up other pods alone, as in kube-scheduler. So
plugins from outside begin in a thread, and any profile goes back there after a slow turn; enough
quick turns in a row lead to the loop.
"""

from __future__ import annotations

from bayplan.framework import Profile, Registry
from bayplan.plugins import in_tree_registry

SLOW_TURN = 0.2
"""Seconds; a turn begins no pod after ten milliseconds, and few attempts take longer than that."""
QUICK_TURNS = 256


class Wariness:
    """Whether to expect that a plugin waits."""

    def __init__(self) -> None:
        self._wanted = 0  # quick turns before the loop is trusted with one

    def __bool__(self) -> bool:
        return self._wanted > 0

    def begin(self) -> None:
        """Trust nobody until enough turns were quick."""
        self._wanted = QUICK_TURNS

    def took(self, seconds: float, allowed: float = SLOW_TURN) -> None:
        """Note how long something took in which plugins were asked."""
        if seconds > allowed:
            self._wanted = QUICK_TURNS
        elif self._wanted:
            self._wanted -= 1


def has_outsiders(profiles: list[Profile], registry: Registry) -> bool:
    """Say whether a plugin is not one of ours."""
    ours = in_tree_registry()
    names = {name for profile in profiles for name in profile.plugins}
    return any(registry.get(name) is not ours.get(name) for name in names)
