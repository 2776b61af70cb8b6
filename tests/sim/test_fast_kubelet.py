"""Plain pods of the fast lane start in one go and look as those of the faithful lane do."""

import asyncio
import json
import random
import threading
import uuid

import pytest

from bayplan.clock import run_virtual
from bayplan.sim import ScenarioClient, Settings, run_scenario
from bayplan.sim.fast.kubelet import FastKubelet
from bayplan.sim.fast.world import FastWorld

SHAPES = [
    {"cpu": "100m"},
    {"cpu": "100m", "memory": "64Mi", "extra": {"example.com/gpu": 1}},
    {"terminationGracePeriodSeconds": 30},
    {"lifetime": 7.25},
    {"lifetime": 0.25, "terminationGracePeriodSeconds": 30},
    {"annotations": {"bayplan.dev/run-seconds": "3"}},  # starts again
    {"annotations": {"bayplan.dev/start-seconds": "2"}},
    {"annotations": {"bayplan.dev/run-seconds": "soon"}},
]


async def look(client: ScenarioClient) -> dict[str, str]:
    """All pods as they are, but for uids and addresses, which are given in the order of writes."""
    found = {}
    for pod in await client.list("Pod"):
        meta, status = pod["metadata"], pod["status"]
        for name in ("podIP", "podIPs"):
            status.pop(name, None)
        for condition in status["conditions"]:
            condition.pop("lastProbeTime", None)  # null in one lane, missing in the other
        text = json.dumps(status, sort_keys=True).replace(meta["uid"], "UID")
        found[meta["name"]] = (
            f"{pod['spec'].get('nodeName')} {meta.get('deletionTimestamp')} {text}"
        )
    return found


def lives(seed: int, *, faithful: bool) -> list[dict[str, str]]:
    """What pods look like from time to time while somebody evicts, labels and loses them."""
    seen = []

    async def scenario(client: ScenarioClient) -> None:
        rng = random.Random(seed)
        await client.nodes(3, zones=["a", "b"], cpu="8", extra={"example.com/gpu": 8})
        names = []
        for i in range(12):
            names.append(f"p{i}")
            await client.pod(names[-1], **rng.choice(SHAPES))
            await client.sleep(rng.choice([0, 0.05, 0.3, 2]))
            name = rng.choice(names)
            if name in {key.partition("/")[2] for key in client.tracker.pods}:
                await rng.choice([_evict, _annotate, _nothing, _lose])(client, name, rng)
            seen.append(await look(client))
        await client.sleep(40)
        seen.append(await look(client))

    result = run_scenario(scenario, seed=seed, faithful=faithful)
    assert result.ok, result.problems()
    return seen


async def _nothing(client: ScenarioClient, name: str, rng: random.Random) -> None:
    pass


async def _evict(client: ScenarioClient, name: str, rng: random.Random) -> None:
    await client.evict(name)


async def _annotate(client: ScenarioClient, name: str, rng: random.Random) -> None:
    await client.patch("Pod", name, {"metadata": {"annotations": {"a": "b"}}})


async def _lose(client: ScenarioClient, name: str, rng: random.Random) -> None:
    await client.faults.lose_node("node1", after=5.0)
    await client.sleep(rng.choice([1, 7]))
    await client.faults.bring_back("node1")


@pytest.mark.parametrize("seed", range(6))
def test_pods_look_the_same_in_both_lanes(seed):
    assert lives(seed, faithful=False) == lives(seed, faithful=True)


def test_plain_pods_need_no_run_until_something_happens_to_them():
    counts = []

    async def scenario(client: ScenarioClient) -> None:
        world = client.faults
        assert isinstance(world, FastWorld)
        await client.nodes(1, cpu="8")
        await client.pods(5, "p", terminationGracePeriodSeconds=30)
        await client.sleep(10)
        kubelet = world._manager._controllers["kubelet"]
        assert isinstance(kubelet, FastKubelet)
        counts.append(len(kubelet.runs))
        await client.evict("p1")
        counts.append(len(kubelet.runs))

    assert run_scenario(scenario, faithful=False).ok
    assert counts == [0, 1]


def test_a_thread_is_heard_on_a_virtual_loop():
    async def main() -> str:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[str] = loop.create_future()
        thread = threading.Thread(
            target=lambda: loop.call_soon_threadsafe(answer.set_result, "here")
        )
        thread.start()
        said = await answer
        thread.join()
        return said

    assert run_virtual(main()) == "here"


def test_uids_are_those_of_the_library():
    rng = random.Random(3)

    assert FastWorld(Settings(seed=3))._uid() == str(uuid.UUID(int=rng.getrandbits(128), version=4))
