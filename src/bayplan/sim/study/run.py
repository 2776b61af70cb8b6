"""Runs one task: what a worker does, in this process or on another machine.

Nothing is raised: a run that fails is an answer too, with the reason. The same task and source
give the same answer, bit for bit, wherever they run.
"""

from __future__ import annotations

import random

import msgspec

from bayplan.config import FeatureGates, from_data
from bayplan.errors import BayplanError
from bayplan.observe import logs
from bayplan.scheduler.extensions import load_registry
from bayplan.sim.client import ScenarioClient
from bayplan.sim.run import Result, run_scenario
from bayplan.sim.script import Script, parse_script
from bayplan.sim.study.measures import Curves, Measures, measure
from bayplan.sim.study.plan import Source, Task
from bayplan.sim.traces.format import GPU, TracePod, parse_trace
from bayplan.sim.traces.generate import MODELS, generate
from bayplan.sim.tracker import PodLife
from bayplan.sim.workload import Arrival, Workload, run_workload
from bayplan.sim.world import Settings

LIMIT = 366 * 86400.0


class Outcome(msgspec.Struct, frozen=True):
    """How a run ended."""

    key: str
    error: str = ""
    hash: str = ""
    measures: Measures | None = None
    curves: Curves | None = None


def run_task(task: Task, source: Source) -> Outcome:
    """Run a task; never raises."""
    logs.configure(0)
    try:
        measures, curves, hash_ = _run(task, source)
    except BayplanError as problem:
        return Outcome(task.key, str(problem))
    except Exception as problem:  # told in the row of the run, beside the others
        return Outcome(task.key, f"{type(problem).__name__}: {problem}")
    return Outcome(task.key, "", hash_, measures, curves)


def _run(task: Task, source: Source) -> tuple[Measures, Curves, str]:
    lives: dict[str, PodLife] = {}

    def seen(life: PodLife) -> None:
        lives[life.uid] = life

    script = script_of(source, task.seed, task.load)

    async def watched(client: ScenarioClient) -> None:
        client.tracker.listen(seen)
        await script.player(client)

    settings = settings_of(task, script.settings)
    result = run_scenario(watched, settings=settings, limit=script.limit, name=task.title)
    _check(result)
    measures, curves = measure(lives.values(), result.tracker.every_node(), result.seconds)
    return measures, curves, result.hash


def _check(result: Result) -> None:
    if not result.ok:
        raise BayplanError(result.problems())


def settings_of(task: Task, base: Settings) -> Settings:
    """The world of a task."""
    gates = FeatureGates(version=task.version)
    return msgspec.structs.replace(
        base,
        seed=task.seed,
        gates=gates,
        config=from_data(task.document, gates),
        registry=load_registry(list(task.plugins)) if task.plugins else base.registry,
        faithful=bool(base.faithful),
    )


def script_of(source: Source, seed: int, load: float) -> Script:
    """A workload as a scenario."""
    if source.kind == "scenario":
        return parse_script(source.text, source.name)
    shape = source.nodes
    pods = _drawn(source, seed) if source.kind == "like" else parse_trace(source.text, source.name)
    arrivals = tuple(_sooner(pod.arrival(), load) for pod in pods)
    work = Workload(name="pod", trace=arrivals)

    async def play(client: ScenarioClient) -> None:
        zones = [f"zone-{number}" for number in range(shape.zones)] if shape.zones > 1 else []
        extra, sizes = {GPU: shape.gpus}, {"cpu": shape.cpu, "memory": shape.memory}
        await client.nodes(shape.count, "node-", first=0, zones=zones, extra=extra, **sizes)
        await run_workload(client, work)

    return Script(source.name, "a trace", Settings(keep=False), LIMIT, play)


def _drawn(source: Source, seed: int) -> list[TracePod]:
    # another stream than the world's own, which begins with the same number
    seed = random.Random(f"{seed}/{source.name}").getrandbits(32)
    return list(generate(MODELS[source.text], source.pods, source.rate, seed))


def _sooner(arrival: Arrival, load: float) -> Arrival:
    return msgspec.structs.replace(arrival, at=arrival.at / load)
