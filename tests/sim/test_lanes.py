"""The fast lane decides as the faithful one does: the same, at the same times."""

import random

import msgspec
import pytest

from bayplan.sim import Result, ScenarioClient, ScenarioError, run_scenario
from bayplan.sim.library import names, path_of
from bayplan.sim.script import Script, load_script, parse_script
from tests.sim import test_determinism as chance

TOLD = ("bound", "nominated", "evicted", "gone", "running", "succeeded", "failed", "node")
SEEDS = 20


def told(result: Result) -> list[tuple[float, str]]:
    """What happened to pods and nodes; in one moment the order of writes is nobody's promise."""
    seen = [m for m in result.timeline if m.what in TOLD]
    return sorted((round(moment.time, 5), moment.text) for moment in seen)


def built_in(name: str) -> Script:
    path = path_of(name)
    assert path is not None
    return load_script(path)


ONLY_FAITHFUL = [name for name in names() if built_in(name).settings.faithful]


@pytest.mark.parametrize("name", ONLY_FAITHFUL)
def test_the_fast_lane_says_what_it_cannot_do(name):
    script = built_in(name)
    settings = msgspec.structs.replace(script.settings, faithful=False)
    try:
        problems = msgspec.structs.replace(script, settings=settings).run().problems()
    except ScenarioError as problem:
        problems = [str(problem)]

    assert "--faithful" in "".join(problems)


@pytest.mark.parametrize("name", [name for name in names() if name not in ONLY_FAITHFUL])
def test_built_in_scenarios_go_the_same_way(name):
    script = built_in(name)

    fast, faithful = script.run(), script.run(faithful=True)

    assert fast.ok, fast.problems()
    assert faithful.ok, faithful.problems()
    assert told(faithful) == told(fast)
    assert faithful.placements == fast.placements


def random_scenario(seed: int, *, faithful: bool) -> Result:
    steps = [step for step in chance.STEPS if step is not chance._faults]
    steps += [_urgent, _budget, _drain, _lose, _jobs]

    async def scenario(client: ScenarioClient) -> None:
        rng = random.Random(seed)
        value = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1000}
        await client.create({**value, "metadata": {"name": "high"}})
        await client.nodes(rng.randint(1, 5), zones=["a", "b"], cpu=str(rng.randint(1, 4)))
        for i in range(rng.randint(2, 8)):
            await steps[rng.randrange(len(steps))](client, rng, i)
            await client.sleep(rng.choice([0, 0.05, 1, 30]))
        await client.sleep(120)

    return run_scenario(scenario, seed=seed, faithful=faithful)


async def _urgent(client: ScenarioClient, rng: random.Random, i: int) -> None:
    shape = {"cpu": rng.choice(["1", "2"]), "priorityClassName": "high"}
    shape["terminationGracePeriodSeconds"] = rng.choice([0, 30])
    await client.pods(rng.randint(1, 3), f"u{i}-", **shape)


async def _budget(client: ScenarioClient, rng: random.Random, i: int) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": rng.choice("xy")}}}
    body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": spec}
    await client.create({**body, "metadata": {"name": f"b{i}"}})


async def _drain(client: ScenarioClient, rng: random.Random, i: int) -> None:
    await client.cordon("node0")
    for key, life in sorted(client.tracker.pods.items()):
        if life.node == "node0" and not life.labels:
            await client.evict(key.partition("/")[2])


async def _lose(client: ScenarioClient, rng: random.Random, i: int) -> None:
    await client.faults.lose_node("node0", after=rng.choice([5.0, 40.0]))
    await client.sleep(rng.choice([1, 60]))
    await client.faults.bring_back("node0")


async def _jobs(client: ScenarioClient, rng: random.Random, i: int) -> None:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "500m"}}}
    note = {"bayplan.dev/run-seconds": str(rng.choice([0.5, 7.25, 20]))}
    pod = {"containers": [container], "restartPolicy": "Never"}
    spec = {"completions": 4, "parallelism": 2}
    spec["template"] = {"metadata": {"annotations": note}, "spec": pod}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": f"j{i}"}, "spec": spec}
    await client.create(body)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_scenarios_go_the_same_way(seed):
    fast, faithful = (random_scenario(seed, faithful=lane) for lane in (False, True))

    assert fast.ok, fast.problems()
    assert told(faithful) == told(fast)
    assert faithful.placements == fast.placements
    assert fast.hash == random_scenario(seed, faithful=False).hash


def test_hashes_differ_with_the_seed():
    assert random_scenario(1, faithful=False).hash != random_scenario(2, faithful=False).hash


@pytest.mark.parametrize(
    ("top", "step", "what"),
    [
        ("", "fault: {apiErrors: 0.5}", "fault apiErrors needs the whole API server"),
        ("", "fault: {slowApi: 1s}", "fault slowApi needs the whole API server"),
        (
            "",
            "create: {apiVersion: v1, kind: ResourceQuota, metadata: {name: q},"
            " spec: {hard: {cpu: 1}}}",
            "ResourceQuota needs --faithful",
        ),
    ],
)
def test_what_only_the_faithful_lane_can_do_is_refused(top, step, what):
    head = f"apiVersion: bayplan.dev/v1alpha1\nkind: Scenario\n{top}steps:\n"
    script = parse_script(f"{head}  - {step}\n", "x.yaml")

    assert what in script.run().problems()
    assert script.run(faithful=True).ok


def test_an_election_is_refused():
    script = parse_script(
        "apiVersion: bayplan.dev/v1alpha1\nkind: Scenario\nelect: true\nsteps: [{log: x}]\n"
    )

    with pytest.raises(ScenarioError, match="an election of schedulers needs the whole API"):
        script.run()


def test_pods_that_the_server_would_refuse_are_refused():
    async def scenario(client: ScenarioClient) -> None:
        await client.pod("bad", cpu="-1")

    fast, faithful = (run_scenario(scenario, faithful=lane) for lane in (False, True))

    assert not fast.ok
    assert faithful.failures == [
        f.replace("bayplan-stands-in-for-a-name", "bad") for f in fast.failures
    ]
