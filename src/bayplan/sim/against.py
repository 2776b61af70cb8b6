"""Runs a scenario on any cluster that a client reaches: a real one, or one of this process.

What happens is learned from watches of pods, nodes and events instead of from the store. Time is
the loop's. Nothing that was there before is touched, nor cleaned up; faults are refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager

import msgspec

from bayplan.client import ApiError, Client, Resource, TransportError
from bayplan.client.resources import EVENTS, NODES, PODS
from bayplan.sim.client import ScenarioClient
from bayplan.sim.faults import NoFaults
from bayplan.sim.log import Entry
from bayplan.sim.run import Result, Scenario, play
from bayplan.sim.tracker import Tracker
from bayplan.supervised import end

RETRY = 1.0


class _Line(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _Meta(msgspec.Struct):
    uid: str = ""


class _Object(msgspec.Struct):
    metadata: _Meta


_uid = msgspec.json.Decoder(_Object).decode
_line = msgspec.json.Decoder(_Line).decode
_list = msgspec.json.Decoder(_List).decode


class Follower:
    """Feeds lines of a watch to whoever wants them: `see(time, action, resource, object)`."""

    def __init__(
        self,
        client: Client,
        elapsed: Callable[[], float],
        see: Callable[[float, str, Resource, bytes], None],
    ) -> None:
        self._client = client
        self._elapsed = elapsed
        self._see = see
        self._known: dict[Resource, dict[str, bytes]] = {}

    async def begin(self, resource: Resource) -> str:
        """Tell what is there; return the version from which to watch."""
        body = _list(await self._client.list(resource))
        self._listed(resource, [bytes(item) for item in body.items or ()])
        return body.metadata.resource_version

    async def follow(self, resource: Resource, version: str) -> None:
        """Watch for ever; a broken watch begins again with a list."""
        while True:
            try:
                await self._watch(resource, version or await self.begin(resource))
            except (ApiError, TransportError):
                await asyncio.sleep(RETRY)
            version = ""

    async def _watch(self, resource: Resource, version: str) -> None:
        events = self._client.watch(resource, resource_version=version, bookmarks=False)
        async with aclosing(events):
            async for lines in events:
                for line in lines:
                    change = _line(line)
                    if change.type == "ERROR":
                        return
                    self._tell(change.type, resource, bytes(change.object))

    def _listed(self, resource: Resource, items: list[bytes]) -> None:
        """Tell what a list shows, and that what it shows no more is gone."""
        gone = set(self._known.get(resource, ())) - {_uid(item).metadata.uid for item in items}
        for uid in sorted(gone):
            self._tell("DELETED", resource, self._known[resource][uid])
        for item in items:
            known = _uid(item).metadata.uid in self._known.get(resource, ())
            self._tell("MODIFIED" if known else "ADDED", resource, item)

    def _tell(self, action: str, resource: Resource, item: bytes) -> None:
        known = self._known.setdefault(resource, {})
        uid = _uid(item).metadata.uid
        if action == "DELETED":
            known.pop(uid, None)
        else:
            known[uid] = item
        self._see(self._elapsed(), action, resource, item)


@asynccontextmanager
async def following(
    client: Client,
    elapsed: Callable[[], float],
    see: Callable[[float, str, Resource, bytes], None],
    resources: tuple[Resource, ...],
) -> AsyncIterator[None]:
    """Follow resources while the block runs; all have been listed when it begins.

    Raises if one cannot be listed: who may not read would wait for nothing.
    """
    follower = Follower(client, elapsed, see)
    versions = [await follower.begin(resource) for resource in resources]
    tasks = [
        asyncio.create_task(follower.follow(resource, version))
        for resource, version in zip(resources, versions, strict=True)
    ]
    try:
        yield
    finally:
        await end(*tasks)


async def play_on(
    client: Client,
    scenario: Scenario,
    *,
    limit: float,
    seed: int = 0,
    name: str = "scenario",
    echo: Callable[[str], None] | None = None,
) -> Result:
    """Run a scenario on the cluster of a client; the result's hash is empty."""
    loop = asyncio.get_running_loop()
    begin = loop.time()
    tracker = Tracker()
    entries: list[Entry] = []

    def elapsed() -> float:
        return loop.time() - begin

    def see(time: float, action: str, resource: Resource, value: bytes) -> None:
        tracker.see(time, action, resource.plural, value)
        if resource is not EVENTS:
            entries.append(Entry(time, 0, action, f"core/{resource.plural}/", value))

    async with following(client, elapsed, see, (NODES, PODS, EVENTS)):
        before = set(tracker.pods)
        hand = ScenarioClient(client, tracker, elapsed, NoFaults(), seed=seed, echo=echo)
        failures = await play(scenario, hand, limit)
        lives = [life for life in tracker.every_pod() if life.key not in before]
        return Result(
            name=name,
            seed=seed,
            hash="",
            seconds=elapsed(),
            outcomes=hand.expect.outcomes,
            failures=failures,
            placements={life.key: life.node for life in lives},
            tracker=tracker,
            lines=[],
            entries=entries,
        )
