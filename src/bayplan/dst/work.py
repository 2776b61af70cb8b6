"""What clients do in a run: pods, deployments, jobs, registers, allocations."""

from __future__ import annotations

import asyncio
import random
import uuid
from typing import TYPE_CHECKING

from bayplan.client.resources import DEPLOYMENTS, JOBS, PODS
from bayplan.dst.invariants import ENDS, ROGUE
from bayplan.dst.network import LONGEST
from bayplan.dst.truth import Broken
from bayplan.errors import BayplanError
from bayplan.global_scheduler.ledger import RECORDS
from bayplan.global_scheduler.stack import Allocation, FlavorChoice, Resource, Selector, Stack
from bayplan.sim.objects import RUN_SECONDS, pod

if TYPE_CHECKING:
    from bayplan.client import Client
    from bayplan.dst.truth import Truth
    from bayplan.dst.world import World
    from bayplan.global_scheduler.service import Allocations

SIZES = ("500m", "1", "2")
NODES_PREFIX = "core/nodes/"


def _user(world: World, rng: random.Random) -> Client:
    return rng.choice(world.users).client()


def _name(world: World, letter: str) -> str:
    world.serial += 1
    return f"{letter}{world.serial}"


def _choose(truth: Truth, rng: random.Random, prefix: str) -> str:
    keys = sorted(key.removeprefix(prefix) for key in truth.now if key.startswith(prefix))
    return rng.choice(keys) if keys else ""


async def pods(world: World, rng: random.Random) -> str:
    names = [_name(world, "p") for _ in range(rng.randint(1, 6))]
    client, cpu = _user(world, rng), rng.choice(SIZES)
    made = [client.create(PODS, pod(name, cpu=cpu), "default") for name in names]
    done = await asyncio.gather(*made, return_exceptions=True)
    return f"{', '.join(names)} of {cpu}; {sum(isinstance(d, bytes) for d in done)} acknowledged"


def _template(app: str, cpu: str, lifetime: float | None = None) -> dict[str, object]:
    made = pod("x", cpu=cpu, lifetime=lifetime)
    notes = {} if lifetime is None else {RUN_SECONDS: f"{lifetime:g}"}
    return {"metadata": {"labels": {"app": app}, "annotations": notes}, "spec": made["spec"]}


async def deployment(world: World, rng: random.Random) -> str:
    name, replicas = _name(world, "d"), rng.randint(1, 4)
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": name}},
        "template": _template(name, rng.choice(SIZES)),
    }
    await _user(world, rng).create(
        DEPLOYMENTS, {"metadata": {"name": name}, "spec": spec}, "default"
    )
    return f"{name} with {replicas} replicas"


async def job(world: World, rng: random.Random) -> str:
    name = _name(world, "j")
    template = _template(name, "500m", lifetime=2.0)
    spec = {"completions": rng.randint(1, 3), "parallelism": 2, "template": template}
    await _user(world, rng).create(JOBS, {"metadata": {"name": name}, "spec": spec}, "default")
    return name


async def scale(world: World, rng: random.Random) -> str:
    key = _choose(world.truth, rng, "apps/deployments/")
    if not key:
        return "nothing to scale"
    replicas = rng.randint(0, 5)
    namespace, name = key.split("/")
    patch = {"spec": {"replicas": replicas}}
    await _user(world, rng).patch(DEPLOYMENTS, name, patch, namespace)
    return f"{key} to {replicas}"


async def delete(world: World, rng: random.Random) -> str:
    resource, prefix = rng.choice(((PODS, "core/pods/"), (DEPLOYMENTS, "apps/deployments/")))
    key = _choose(world.truth, rng, prefix)
    if not key:
        return "nothing to delete"
    namespace, name = key.split("/")
    await _user(world, rng).delete(resource, name, namespace)
    return key


async def node(world: World, rng: random.Random) -> str:
    await world.add_node(rng.choice((2, 4)))
    return f"n{world.serial}"


async def rogue(world: World, rng: random.Random) -> str:
    """Be two schedulers that know of nobody: bind the same pods to two nodes, all at once."""
    client, nodes = _user(world, rng), [_choose(world.truth, rng, NODES_PREFIX) for _ in range(2)]
    names = [_name(world, "r") for _ in range(rng.randint(2, 5))]
    made = [pod(name, cpu=rng.choice(SIZES), schedulerName=ROGUE) for name in names]
    await asyncio.gather(
        *(client.create(PODS, each, "default") for each in made), return_exceptions=True
    )
    binds = (client.bind("default", name, "", node) for node in nodes for name in names)
    done = await asyncio.gather(*binds, return_exceptions=True)
    taken = sum(not isinstance(d, BaseException) for d in done)
    return f"{', '.join(names)} to {' and '.join(nodes)}; {taken} taken"


async def register(world: World, rng: random.Random) -> str:
    """Read and change a value under rivalry; see `registers`."""
    return await world.registers.use(_user(world, rng), rng)


async def allocate(world: World, rng: random.Random) -> str:
    """Ask both global schedulers for more than there is, all at once."""
    if not world.globals.up:
        return "the global scheduler is down"
    asked = [
        _allocate(world, service, random.Random(rng.random()))
        for service in world.globals.services
        for _ in range(rng.randint(1, 3))
    ]
    return "; ".join(await asyncio.gather(*asked))


async def _allocate(world: World, service: Allocations, rng: random.Random) -> str:
    identity = str(uuid.UUID(int=rng.getrandbits(128), version=4))
    flavors = tuple(FlavorChoice(flavor) for flavor in rng.sample(("f4", "f2"), 2))
    stack = Stack("s", (Resource("r", flavors=flavors, count=rng.randint(1, 2)),), {})
    wanted = Allocation(identity, stack, Selector(), rng.randint(1, 2))
    try:
        async with asyncio.timeout(LONGEST):
            await service.create(wanted, ttl=rng.choice((0.0, 5.0, 10.0)))
    except BayplanError as problem:
        return f"{type(problem).__name__}"
    except TimeoutError:
        return _unanswered(world, service)
    world.noted(lambda: world.sold.has_seen(f"{RECORDS}{identity}"))
    return f"{identity[:8]} placed by {service.name}"


def _unanswered(world: World, service: Allocations) -> str:
    """Only a global scheduler that has crashed meanwhile may leave a question open."""
    if world.globals.up and service in world.globals.services:
        world.breaks(Broken(ENDS, f"global scheduler {service.name} does not answer"))
    return "never answered"


async def settle(world: World, rng: random.Random) -> str:
    """Commit or release an allocation."""
    key = _choose(world.sold, rng, RECORDS)
    if not key or not world.globals.up:
        return "nothing to settle"
    service = rng.choice(world.globals.services)
    keep = rng.random() < 0.5
    if not keep:
        world.stock.given_back.add(key)
    try:
        async with asyncio.timeout(LONGEST):
            await (service.commit(key) if keep else service.release(key))
    except BayplanError as problem:
        return f"{type(problem).__name__}"
    except TimeoutError:
        return _unanswered(world, service)
    world.noted(lambda: world.stock.settled(key, keep=keep))
    return f"{'committed' if keep else 'released'} {key[:8]} by {service.name}"
