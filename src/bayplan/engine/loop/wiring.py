"""What the queue and the driver take from the profiles: hints, gates, order, watched kinds."""

from __future__ import annotations

from bayplan.engine.engine import Engine
from bayplan.engine.queue import Gate, HintIndex, sort_key_of
from bayplan.engine.queue.heap import SortKey


def hints_of(engine: Engine) -> HintIndex:
    """Which events may help pods that plugins rejected."""
    events = {name: profile.events() for name, profile in engine.profiles.items()}
    plugins = [p for item in engine.profiles.values() for p in item.plugins.values()]
    promised = {plugin.name for plugin in plugins if getattr(plugin, "class_hint", False)}
    selectors = {
        (name, plugin.name): plugin.hint_selectors
        for name, profile in engine.profiles.items()
        for plugin in profile.plugins.values()
        if hasattr(plugin, "hint_selectors")
    }
    return HintIndex(
        events, extenders=bool(engine.extenders), class_hints=promised, selectors=selectors
    )


def gates_of(engine: Engine) -> dict[str, list[Gate]]:
    """The PreEnqueue plugins of each profile."""
    return {
        name: [(plugin.name, plugin.pre_enqueue) for plugin in profile.pre_enqueue]
        for name, profile in engine.profiles.items()
    }


def order_of(engine: Engine) -> SortKey:
    """How the active queue is sorted; the same in all profiles."""
    first = next(iter(engine.profiles.values()))
    return sort_key_of(first.queue_sort)
