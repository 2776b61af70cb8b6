"""Pods that arrive and leave over time: by a rate, or as a trace says.

    workload:
      name: web                     # pods are web-0, web-1 …
      rate: 2/m                     # or `trace: [{at: 0s, cpu: 1, lifetime: 5m}, …]`
      for: 1h                       # or `count: 100`
      arrivals: poisson             # or even
      lifetime: {exponential: 10m}  # or 10m, or {uniform: [1m, 5m]}; none: they stay
      leave: delete                 # or succeed: they end by themselves and stay as objects
      cpu: 500m                     # … as in `pods:`

A lifetime counts from the binding. All chance comes from the scenario's seed and the name.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections.abc import Iterator, Mapping

import msgspec

from bayplan.client import NotFound
from bayplan.client.resources import PODS
from bayplan.sim import objects
from bayplan.sim.client import ScenarioClient

RETRY = 5.0


class Lifetime(msgspec.Struct, frozen=True):
    """How long pods live: `fixed`, `exponential` (mean) or `uniform` (from, to)."""

    kind: str
    a: float
    b: float = 0.0

    def draw(self, rng: random.Random) -> float:
        if self.kind == "exponential":
            return rng.expovariate(1.0 / self.a)
        return rng.uniform(self.a, self.b) if self.kind == "uniform" else self.a


class Arrival(msgspec.Struct, frozen=True):
    """One pod of a trace."""

    at: float
    shape: Mapping[str, object] = {}
    lifetime: float | None = None


class Workload(msgspec.Struct, frozen=True):
    """One workload; either `rate` or `trace`."""

    name: str
    shape: Mapping[str, object] = {}
    rate: float = 0.0
    """Pods a second."""
    duration: float | None = None
    count: int | None = None
    poisson: bool = True
    lifetime: Lifetime | None = None
    succeed: bool = False
    trace: tuple[Arrival, ...] = ()

    def arrivals(self, rng: random.Random) -> Iterator[Arrival]:
        """When pods come, and how long they live."""
        if self.trace:
            for item in self.trace:
                given = item.lifetime
                yield (
                    item
                    if given is not None or self.lifetime is None
                    else Arrival(item.at, item.shape, self.lifetime.draw(rng))
                )
            return
        time, number = 0.0, 0
        while True:
            time += rng.expovariate(self.rate) if self.poisson else 1.0 / self.rate
            over = self.duration is not None and time > self.duration
            if over or (self.count is not None and number >= self.count):
                return
            yield Arrival(time, {}, self.lifetime.draw(rng) if self.lifetime else None)
            number += 1


async def run_workload(client: ScenarioClient, work: Workload, seed: int) -> None:
    """Create and delete the pods of a workload; returns when the last one has left."""
    rng = random.Random(f"{seed}/{work.name}")
    loop = asyncio.get_running_loop()
    begin = loop.time()
    leaving: list[tuple[float, int, str]] = []
    for number, arrival in enumerate(work.arrivals(rng)):
        due = begin + arrival.at
        while leaving and leaving[0][0] <= due:
            await _leave(client, leaving)
        await _until(due)
        name = f"{work.name}-{number}"
        namespace = await _arrive(client, name, work, arrival)
        if arrival.lifetime is not None and not work.succeed:
            heapq.heappush(leaving, (loop.time() + arrival.lifetime, number, f"{namespace}/{name}"))
    while leaving:
        await _leave(client, leaving)


async def _until(due: float) -> None:
    wait = due - asyncio.get_running_loop().time()
    if wait > 0:
        await asyncio.sleep(wait)


async def _arrive(client: ScenarioClient, name: str, work: Workload, arrival: Arrival) -> str:
    shape = {**work.shape, **arrival.shape}
    if work.succeed and arrival.lifetime is not None:
        shape["lifetime"] = arrival.lifetime
    body = objects.pod(name, **shape)  # type: ignore[arg-type]
    namespace = str(shape.get("namespace", "default"))
    await client.client.create(PODS, body, namespace)
    return namespace


async def _leave(client: ScenarioClient, leaving: list[tuple[float, int, str]]) -> None:
    """Take away the pod whose time is over, or look again later if it was bound later."""
    due, number, key = heapq.heappop(leaving)
    await _until(due)
    life = client.tracker.pods.get(key)
    if life is None:
        return
    loop = asyncio.get_running_loop()
    if not life.node:
        heapq.heappush(leaving, (loop.time() + RETRY, number, key))
        return
    namespace, _, name = key.partition("/")
    try:
        await client.client.delete(PODS, name, namespace)
    except NotFound:
        return
