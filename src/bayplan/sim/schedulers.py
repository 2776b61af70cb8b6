"""A scheduler of a simulated cluster that can be stopped, started again, and lose its lease.

What runs is the live driver itself. Two things differ: extenders are asked without a thread, and
the virtual time that their answers take passes before the decision takes effect; and an election,
where a scenario wants one, begins again after a loss, as a restarted process would.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from bayplan.client import Client, LeaderElector
from bayplan.client.fence import Holds, fenced
from bayplan.client.resources import LEASES
from bayplan.engine.loop.actions import Action
from bayplan.framework import Extender
from bayplan.scheduler.event_recorder import EventRecorder
from bayplan.scheduler.live import LiveScheduler
from bayplan.sim.extender import SimulatedExtender

Make = Callable[[EventRecorder, Holds], LiveScheduler]


class PatientCaller:
    """Asks extenders one pod at a time and lets the virtual time of their answers pass."""

    def __init__(self, extenders: Sequence[Extender]) -> None:
        self._extenders = [e for e in extenders if isinstance(e, SimulatedExtender)]

    async def __call__(
        self, step: Callable[..., list[Action]], now: float, /, *, limit: int
    ) -> list[Action]:
        actions = step(now, limit=min(limit, 1))
        owed = sum(extender.owed() for extender in self._extenders)
        if owed:
            await asyncio.sleep(owed)
        return actions


class SimulatedScheduler:
    """Starts and stops one scheduler, as often as a scenario likes."""

    def __init__(
        self,
        make: Make,
        client: Callable[[], Client],
        now: Callable[[], float],
        *,
        elect: bool = False,
        identity: str = "scheduler-0",
    ) -> None:
        self._make = make
        self._client = client
        self._now = now
        self._elect = elect
        self._identity = identity
        self.tasks: list[asyncio.Task[None]] = []
        self._recorder: EventRecorder | None = None
        self.scheduler: LiveScheduler | None = None
        self.elector: LeaderElector | None = None
        self.starts = 0

    @property
    def elects(self) -> bool:
        return self._elect

    async def start(self) -> None:
        """Start it; returns when its caches are filled."""
        scheduler = await self._begin()
        work = self._elected(scheduler) if self._elect else scheduler.run()
        self.tasks.append(asyncio.create_task(work))

    async def _begin(self) -> LiveScheduler:
        client = fenced(self._client(), self._holds)
        recorder = EventRecorder(client, hostname="simulation", wall=self._wall)
        scheduler = self._make(recorder, self._holds)
        self._recorder, self.scheduler = recorder, scheduler
        self.tasks[:2] = [
            asyncio.create_task(recorder.run()),
            asyncio.create_task(scheduler.run_informers()),
        ]
        self.starts += 1
        await scheduler.wait_synced()
        return scheduler

    async def _elected(self, scheduler: LiveScheduler) -> None:
        while True:
            self.elector = LeaderElector(self._client(), self._identity, wall=self._wall)
            if await self.elector.run(scheduler.run):
                return
            # A process that has lost its lease ends; the next one knows nothing of its bindings.
            for task in self.tasks[:2]:
                task.cancel()
            scheduler = await self._begin()

    def _holds(self) -> bool:
        return not self._elect or (self.elector is not None and self.elector.holds())

    async def stop(self, *, drain: bool = False) -> None:
        """End it at once; `drain` lets events be written first."""
        if drain and self._recorder is not None:
            await self._recorder.drain(1.0)
        for task in reversed(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.tasks = []
        self.scheduler = None

    def _wall(self) -> datetime:
        return datetime.fromtimestamp(self._now(), UTC)


async def hold_lease(client: Client, duration: float, wall: Callable[[], float]) -> None:
    """Be another holder of the scheduler's lease for a while, then renew no more."""
    loop = asyncio.get_running_loop()
    end = loop.time() + duration
    while True:
        stamp = datetime.fromtimestamp(wall(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": "intruder", "leaseDurationSeconds": 15, "renewTime": stamp}
        await client.patch(LEASES, "kube-scheduler", {"spec": spec}, "kube-system")
        if loop.time() >= end:
            return
        await asyncio.sleep(min(2.0, end - loop.time()))
