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
import random
from collections.abc import Iterator, Mapping
from contextlib import suppress
from heapq import heappop, heappush

import msgspec

from bayplan.client import NotFound
from bayplan.client.resources import PODS
from bayplan.clock import rest
from bayplan.sim import objects
from bayplan.sim.client import ScenarioClient
from bayplan.sim.fast.client import FastClient
from bayplan.sim.tracker import PodLife

UNKNOWN = -1.0
"""Stands for the lifetime of pods that are not of the workload."""


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


async def run_workload(client: ScenarioClient, work: Workload) -> None:
    """Create the pods of a workload and end them; returns when the last one has left.

    Of pods that stay the last one is tried before that.
    """
    rng = random.Random(f"{client.seed}/{work.name}")
    begin = asyncio.get_running_loop().time()
    leaving = _Leaving(client)
    try:
        for number, arrival in enumerate(work.arrivals(rng)):
            await _until(begin + arrival.at)
            leaving.check()
            name = f"{work.name}-{number}"
            key = f"{await _arrive(client, name, work, arrival)}/{name}"
            if arrival.lifetime is not None:
                leaving.add(key, None if work.succeed else arrival.lifetime)
        await leaving.all_left()
        await rest(last=True)
    finally:
        leaving.close()


async def _until(due: float) -> None:
    wait = due - asyncio.get_running_loop().time()
    if wait > 0:
        await asyncio.sleep(wait)


async def _arrive(client: ScenarioClient, name: str, work: Workload, arrival: Arrival) -> str:
    fast = client.client if isinstance(client.client, FastClient) else None
    ends = work.succeed and arrival.lifetime is not None
    shape = {**work.shape, **arrival.shape} if arrival.shape or ends else work.shape
    namespace = str(shape.get("namespace", "default"))
    alike = work if shape is work.shape else None
    if fast is not None and alike and fast.add_another(PODS, name, namespace, alike):
        return namespace
    if ends:
        shape = {**shape, "lifetime": arrival.lifetime}
    body = objects.pod(name, **shape)  # type: ignore[arg-type]
    if fast is not None:
        await fast.add(PODS, body, namespace, alike)  # nobody reads the answer
    else:
        await client.client.create(PODS, body, namespace)
    return namespace


class _Leaving:
    """The pods of a workload that will leave: each is deleted when it has been bound for its
    lifetime; those that end by themselves (None) are only waited for.

    One timer rings for the next of them: thousands in the loop would cost each other time.
    """

    def __init__(self, client: ScenarioClient) -> None:
        self._client = client
        self._lifetimes: dict[str, float | None] = {}
        self._plans: list[tuple[float, int, str]] = []
        """When pods are to leave, and which: the next one first, equals in the order they came."""
        self._planned = 0
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._problem: BaseException | None = None
        self._empty = asyncio.Event()
        client.tracker.listen(self._seen)

    def add(self, key: str, lifetime: float | None) -> None:
        self._lifetimes[key] = lifetime
        life = self._client.tracker.pods.get(key)
        if life is not None:
            self._seen(life)

    def check(self) -> None:
        """Raise what went wrong with a deletion."""
        if self._problem is not None:
            raise self._problem

    async def all_left(self) -> None:
        while self._lifetimes and self._problem is None:
            self._empty.clear()
            await self._empty.wait()
        self.check()

    def close(self) -> None:
        self._client.tracker.unlisten(self._seen)
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()

    def _seen(self, life: PodLife) -> None:
        lifetime = self._lifetimes.get(life.key, UNKNOWN)
        if lifetime is UNKNOWN:
            return
        if life.end is not None:
            del self._lifetimes[life.key]
            self._empty.set()
        elif lifetime is not None and life.node:
            self._lifetimes[life.key] = None
            self._planned += 1
            due = asyncio.get_running_loop().time() + lifetime
            heappush(self._plans, (due, self._planned, life.key))
            self._set_timer()

    def _set_timer(self) -> None:
        due = self._plans[0][0]
        if self._timer is not None:
            if self._timer.when() <= due:
                return
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(due, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        while self._plans and self._plans[0][0] <= now:
            key = heappop(self._plans)[2]
            if key not in self._lifetimes:
                continue
            if isinstance(self._client.client, FastClient):
                self._remove(self._client.client, key)
            else:
                task = asyncio.ensure_future(self._delete(key))
                self._tasks.add(task)
                task.add_done_callback(self._deleted)
        if self._plans:
            self._set_timer()

    def _remove(self, client: FastClient, key: str) -> None:
        try:
            client.remove(PODS, key)
        except Exception as problem:  # raised by `check`
            self._problem = problem
            self._empty.set()

    async def _delete(self, key: str) -> None:
        namespace, _, name = key.partition("/")
        with suppress(NotFound):
            await self._client.client.delete(PODS, name, namespace)

    def _deleted(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._problem = task.exception()
            self._empty.set()
