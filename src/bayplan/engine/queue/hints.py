"""Which plugins wait for which events, looked up once per kind of event.

Plugins register events with an optional hint. The index answers, for an incoming event: which
plugins of any profile care (so that only pods rejected by them are looked at), and which hints to
ask. Answers are kept by the event's resource and action, of which there are a few dozen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from bayplan.api import Pod
from bayplan.api.labels import Selector
from bayplan.framework.contract.events import (
    ClusterEvent,
    ClusterEventWithHint,
    HintFn,
    Resource,
)
from bayplan.framework.runtime.profile import ALL_EVENTS

EXTENDER = "Extender"
"""The name that stands for all extenders among the plugins that rejected a pod."""

CLASS_RESOURCES = frozenset({Resource.NODE, Resource.ASSIGNED_POD})
"""Where a plugin with `class_hint` need be asked about one pod of a template only."""

Registrations = Mapping[str, Sequence[ClusterEventWithHint]]
"""Plugin to the events that it waits for; `Profile.events()` gives it."""
HintSelectors = Callable[[Pod], Sequence[Selector] | None]
Hints = tuple[tuple[str, HintFn | None], ...]


class Match:
    """What an incoming event means: the plugins that care, and their hints by profile."""

    __slots__ = ("by_profile", "plugins")

    def __init__(self, by_profile: dict[str, Hints]) -> None:
        self.by_profile = by_profile
        named = [name for hints in by_profile.values() for name, _ in hints]
        self.plugins = tuple(dict.fromkeys(named))  # no set: pods are woken in this order


class HintIndex:
    """The registrations of all profiles, by scheduler name."""

    def __init__(
        self,
        profiles: Mapping[str, Registrations],
        *,
        extenders: bool = False,
        class_hints: Collection[str] = (),
        selectors: Mapping[tuple[str, str], HintSelectors] | None = None,
    ) -> None:
        """`extenders` adds them as one more plugin that waits for everything.

        `class_hints` names the plugins that have said so of themselves; `selectors` has the
        `hint_selectors` of those with one, by profile and plugin.
        """
        self._selectors = dict(selectors or {})
        self.class_hints = frozenset(class_hints)
        more = {EXTENDER: ALL_EVENTS} if extenders else {}
        self._profiles: dict[str, dict[str, Sequence[ClusterEventWithHint]]] = {
            name: {**items, **more} for name, items in profiles.items()
        }
        self._matches: dict[tuple[str, int], Match] = {}
        self._gates: dict[tuple[str, str, str, int], bool] = {}

    def selectors_of(self, plugin: str, pod: Pod) -> Sequence[Selector] | None:
        """Which labels an assigned pod must have to matter to a pod that a plugin rejected."""
        ask = self._selectors.get((pod.spec.scheduler_name, plugin))
        return None if ask is None else ask(pod)

    def match(self, event: ClusterEvent) -> Match:
        """Who waits for the event."""
        key = (event.resource, int(event.action))
        found = self._matches.get(key)
        if found is None:
            found = self._matches[key] = self._find(event)
        return found

    def _find(self, event: ClusterEvent) -> Match:
        by_profile = {}
        for profile, items in self._profiles.items():
            hints = tuple(
                (plugin, registered.hint)
                for plugin, events in items.items()
                for registered in events
                if registered.event.matches(event)
            )
            if hints:
                by_profile[profile] = hints
        return Match(by_profile)

    def knows_profile(self, profile: str) -> bool:
        return profile in self._profiles

    def opens_gate(self, profile: str, plugin: str, event: ClusterEvent) -> bool:
        """Whether a pod that `plugin` gates should be looked at on this event."""
        key = (profile, plugin, event.resource, int(event.action))
        found = self._gates.get(key)
        if found is None:
            found = self._gates[key] = any(
                registered.event.matches(event)
                for registered in self._profiles.get(profile, {}).get(plugin, ())
            )
        return found
