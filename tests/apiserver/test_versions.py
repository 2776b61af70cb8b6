"""What is shown of events that others have converted already."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from bayplan.apiserver.versions import Cache, Versions
from bayplan.store import Event, KeyValue

CODEC = cast("Any", SimpleNamespace(kind=SimpleNamespace(api_version="b.c/v1", converter=object())))


class Shouting(Versions):
    """Converts to capitals."""

    def __init__(self) -> None:
        super().__init__(cast("Any", None), cast("Any", None))

    async def shown(self, codec: object, items: list[KeyValue]) -> list[KeyValue]:
        return [KeyValue(kv.key, kv.value.upper(), 2, 2) for kv in items]


def _events(name: str, count: int) -> list[Event]:
    return [
        Event(KeyValue(f"/{name}{n}", f"{name}{n}".encode(), 2, 2), None, False)
        for n in range(count)
    ]


def _cache_of(event: Event) -> Cache:
    if event.cache is None:
        event.cache = {}
    return event.cache


async def test_an_event_in_the_place_of_one_that_is_gone_is_converted_itself() -> None:
    """A place in memory tells an event from others only as long as it is kept."""
    versions = Shouting()
    for _ in range(20):
        kept, *gone = _events("old", 50)
        await versions.events(CODEC, [kept, *gone], _cache_of)
        gone.clear()
        batch = [kept, *_events("new", 50)]
        made = await versions.events(CODEC, batch, _cache_of)

        assert [event.kv.value.upper() for event in batch] == [event.kv.value for event in made]
