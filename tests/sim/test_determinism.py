"""The same scenario and seed give the same log, byte for byte, wherever they run."""

import json
import os
import random
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor

import pytest

from bayplan.sim import Result, ScenarioClient, run_scenario
from bayplan.sim.library import path_of
from bayplan.sim.script import load_script


def chance(seed: int) -> Result:
    """Run a scenario of random steps; the seed is that of the steps and of the world."""

    async def scenario(client: ScenarioClient) -> None:
        rng = random.Random(seed)
        await client.nodes(rng.randint(1, 5), zones=["a", "b"], cpu=str(rng.randint(1, 4)))
        for i in range(rng.randint(2, 8)):
            await STEPS[rng.randrange(len(STEPS))](client, rng, i)
            await client.sleep(rng.choice([0, 0.05, 1, 30]))
        client.faults.api_errors(0)
        await client.sleep(120)

    return run_scenario(scenario, seed=seed)


async def _pods(client: ScenarioClient, rng: random.Random, i: int) -> None:
    shape = {"cpu": rng.choice(["100m", "500m", "1"]), "labels": {"app": rng.choice("xy")}}
    if rng.random() < 0.3:
        shape["lifetime"] = rng.randint(1, 60)
    await client.pods(rng.randint(1, 4), f"p{i}-", **shape)


async def _deployment(client: ScenarioClient, rng: random.Random, i: int) -> None:
    labels = {"app": f"d{i}"}
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "250m"}}}
    await client.create(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": f"d{i}"},
            "spec": {
                "replicas": rng.randint(1, 4),
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            },
        }
    )


async def _node(client: ScenarioClient, rng: random.Random, i: int) -> None:
    await client.node(f"extra{i}", cpu="2", zone="c")


async def _delete(client: ScenarioClient, rng: random.Random, i: int) -> None:
    names = sorted(key.partition("/")[2] for key in client.tracker.pods)
    if names:
        await client.delete("Pod", rng.choice(names))


async def _cordon(client: ScenarioClient, rng: random.Random, i: int) -> None:
    await client.cordon("node0", rng.random() < 0.5)


async def _faults(client: ScenarioClient, rng: random.Random, i: int) -> None:
    client.faults.api_errors(rng.choice([0.0, 0.2]))


async def _restart(client: ScenarioClient, rng: random.Random, i: int) -> None:
    await client.faults.restart_scheduler(rng.choice([0.0, 2.0]))


STEPS = [_pods, _pods, _pods, _deployment, _node, _delete, _cordon, _faults, _restart]


def hash_of(seed: int) -> str:
    return chance(seed).hash


def some_hashes() -> list[str]:
    """Of random scenarios, and of some with volumes, owners and evictions, in both lanes."""
    found = [hash_of(seed) for seed in range(4)]
    for name in ("volumes", "drain", "node-lost", "daemonset"):
        path = path_of(name)
        assert path is not None
        script = load_script(path)
        found += [script.run(seed=3, faithful=faithful).hash for faithful in (True, False)]
    return found


@pytest.mark.xdist_group("determinism")
@pytest.mark.parametrize("count", [10, pytest.param(50, marks=pytest.mark.long)])
def test_random_scenarios_have_equal_hashes_on_one_and_two_processes(count):
    here = [hash_of(seed) for seed in range(count)]
    with ProcessPoolExecutor(2) as pool:
        there = list(pool.map(hash_of, range(count), chunksize=count // 5))

    assert here == there
    assert count == len(set(here))


@pytest.mark.xdist_group("determinism")
def test_hash_seeds_of_python_do_not_matter():
    code = (
        "import json; from tests.sim.test_determinism import some_hashes;"
        "print(json.dumps(some_hashes()))"
    )
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
        )
        for hash_seed in ("0", "4242")
    ]
    here = some_hashes()
    there = [json.loads(run.communicate()[0].splitlines()[-1]) for run in runs]

    assert [here, here] == there
    assert len(here) == len(set(here))


def test_virtual_and_real_time_end_in_the_same_placements():
    async def scenario(client: ScenarioClient) -> None:
        await client.nodes(3, zones=["a", "b", "c"], cpu="2")
        for i in range(8):
            await client.pod(f"web{i}", cpu="500m", labels={"app": "web"})
            await client.wait_until_bound(f"web{i}")
        await client.pod("big", cpu="2")
        await client.expect.pending("big", "Insufficient cpu")
        await client.delete("Pod", "web0")
        await client.expect.gone("web0")
        await client.pod("late", cpu="500m")
        await client.expect.bound("late")

    virtual = run_scenario(scenario)
    real = run_scenario(scenario, real_time=True)

    assert virtual.ok, virtual.problems()
    assert real.ok, real.problems()
    assert virtual.placements == real.placements
