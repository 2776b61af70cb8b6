"""What goes wrong in a run; each fault lasts a while and returns a word."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from bayplan.client.resources import NODES
from bayplan.dst.disk import MOMENTS, Disk
from bayplan.sim.objects import SIMULATED

if TYPE_CHECKING:
    from bayplan.dst.processes import Process
    from bayplan.dst.world import World


async def loss(world: World, rng: random.Random) -> str:
    rate, seconds = rng.choice((0.05, 0.2, 0.5)), rng.uniform(1, 15)
    world.network.loss = rate
    await asyncio.sleep(seconds)
    world.network.loss = 0.0
    return f"{rate:.0%} for {seconds:.1f} s"


async def delay(world: World, rng: random.Random) -> str:
    most, seconds = rng.choice((0.2, 2.0, 8.0)), rng.uniform(1, 15)
    world.network.delay = most
    await asyncio.sleep(seconds)
    world.network.delay = 0.01
    return f"up to {most:g} s for {seconds:.1f} s"


async def errors(world: World, rng: random.Random) -> str:
    rate, seconds = rng.choice((0.1, 0.4)), rng.uniform(1, 10)
    world.network.errors = rate
    await asyncio.sleep(seconds)
    world.network.errors = 0.0
    return f"{rate:.0%} for {seconds:.1f} s"


async def partition(world: World, rng: random.Random) -> str:
    name = rng.choice(sorted(world.network.links))
    seconds = rng.choice((2.0, 8.0, 20.0, 40.0))
    world.network.links[name].cut()
    await asyncio.sleep(seconds)
    world.network.links[name].join()
    return f"{name} for {seconds:g} s"


async def _crash(process: Process, rng: random.Random, disk: Disk | None = None) -> str:
    if disk is not None and rng.random() < 0.7:  # where it hurts, which chance alone hardly finds
        await disk.until(rng.choice(MOMENTS))
    if not process.up:
        return "it is down already"
    down = rng.choice((0.0, 0.5, 5.0, 20.0))
    await process.crash()
    await asyncio.sleep(down)
    await process.start()
    return f"down for {down:g} s"


async def crash_api(world: World, rng: random.Random) -> str:
    return await _crash(world.api, rng, world.disks[0])


async def crash_scheduler(world: World, rng: random.Random) -> str:
    part = rng.choice(world.schedulers)
    return f"{part.name}, {await _crash(part, rng)}"


async def crash_controllers(world: World, rng: random.Random) -> str:
    return await _crash(world.controllers, rng)


async def crash_global(world: World, rng: random.Random) -> str:
    return await _crash(world.globals, rng, world.disks[1])


async def clock(world: World, rng: random.Random) -> str:
    number = rng.randrange(len(world.processes))
    jump = rng.choice((-3600.0, -30.0, -0.5, 3.0, 120.0, 86400.0))
    world.processes[number].clock.skew += jump
    return f"process {number} by {jump:g} s"


async def silence(world: World, rng: random.Random) -> str:
    """Let the kubelet of a node say nothing more."""
    names = sorted(key for key in world.truth.now if key.startswith("core/nodes/"))
    name = rng.choice(names).rpartition("/")[2]
    lost = {"metadata": {"annotations": {SIMULATED: "lost"}}}
    await world.users[0].client().patch(NODES, name, lost)
    return name


async def disk_full(world: World, rng: random.Random) -> str:
    number, seconds = rng.randrange(2), rng.uniform(1, 10)
    world.disks[number].full = True
    await asyncio.sleep(seconds)
    world.disks[number].full = False
    return f"disk {number} for {seconds:.1f} s"


async def disk_errors(world: World, rng: random.Random) -> str:
    number, seconds = rng.randrange(2), rng.uniform(1, 10)
    world.disks[number].errors = rng.choice((0.05, 0.3))
    await asyncio.sleep(seconds)
    world.disks[number].errors = 0.0
    return f"disk {number} for {seconds:.1f} s"


async def disk_slow(world: World, rng: random.Random) -> str:
    number, seconds = rng.randrange(2), rng.uniform(1, 10)
    world.disks[number].latency = rng.choice((0.1, 1.0))
    await asyncio.sleep(seconds)
    world.disks[number].latency = 0.002
    return f"disk {number} for {seconds:.1f} s"


async def extender(world: World, rng: random.Random) -> str:
    world.extender.delay = rng.choice((0.2, 2.0, 60.0))
    await asyncio.sleep(rng.uniform(1, 10))
    world.extender.delay = 0.0
    return "slow for a while"
