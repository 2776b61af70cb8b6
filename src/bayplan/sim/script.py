"""Scenarios in YAML: read, checked, and played step by step.

    apiVersion: bayplan.dev/v1alpha1
    kind: Scenario
    metadata: {name: two-nodes}
    steps:
      - nodes: {count: 2, name: "node-{i}", cpu: 4}
      - after: 5s
        pods: {count: 3, name: "web-{i}", cpu: 1}
        expect:
          - pods: "*"
            bound: 3

Steps run in order, and so do the actions of a step; `at` waits until that time of the scenario,
`after` that long after the step before. Expectations wait (10 s unless `within` says otherwise)
and their failures are collected, so one run shows all of them. `done` ends the scenario; without
it, it ends when all steps are done and all workloads have left. The fields are described in
docs/reference/scenarios.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from bayplan.config import (
    NEWEST,
    FeatureGates,
    KubeSchedulerConfiguration,
    from_data,
    parse_gates,
    parse_version,
)
from bayplan.errors import BayplanError
from bayplan.framework import Registry
from bayplan.scheduler.extensions import load_registry
from bayplan.sim import kep140
from bayplan.sim.actions import ACTIONS, Run, workload
from bayplan.sim.client import ScenarioClient
from bayplan.sim.errors import ScenarioError, ScenarioSyntaxError
from bayplan.sim.expectations import expectation
from bayplan.sim.extender import SimulatedExtender
from bayplan.sim.located import Located, load, parse, wrap
from bayplan.sim.run import LIMIT, Result, Scenario, run_scenario
from bayplan.sim.workload import Workload, run_workload
from bayplan.sim.world import Settings

API_VERSION = "bayplan.dev/v1alpha1"
TOP = ("apiVersion", "kind", "metadata", "description", "seed", "limit", "config", "plugins",
       "featureGates", "emulatedVersion", "controllers", "options", "schedulers", "elect",
       "extenders", "faithful", "steps")  # fmt: skip
MOST_STEPS = 100_000
"""Of a repetition; more of the same is a workload."""
STEP = ("at", "after", "name", *ACTIONS, "workload", "repeat", "expect", "done")
CONTROLLER_OPTIONS = {
    "kubelet": ("start-seconds", "stop-seconds", "lease-seconds", "all-nodes"),
    "garbagecollector": ("discover-seconds",),
    "nodelifecycle": ("grace-seconds",),
    "podgc": ("quarantine-seconds",),
}
REPEAT = ("times", "every", "as", "steps")
LATE = 1e-6


class Step(msgspec.Struct):
    """One step, ready to be played.

    `turns` are the repetitions whose turn it begins: which one, and when after its first turn.
    """

    name: str
    line: int
    at: float | None
    after: float
    runs: list[Run]
    workloads: list[Workload]
    expects: list[Run]
    done: bool = False
    turns: list[tuple[str, float]] = []
    before: float = 0.0
    """Seconds until a repetition begins."""
    fault: bool = False
    """Whether it breaks something, which only a simulated cluster lets happen."""


class Script(msgspec.Struct):
    """A scenario file, ready to be run."""

    name: str
    description: str
    settings: Settings
    limit: float
    player: Scenario
    path: str = ""

    def run(
        self,
        *,
        seed: int | None = None,
        config: KubeSchedulerConfiguration | None = None,
        registry: Registry | None = None,
        faithful: bool = False,
        real_time: bool = False,
        limit: float | None = None,
        echo: Callable[[str], None] | None = None,
    ) -> Result:
        """Run it in a world of its own; arguments override what the file says.

        Plugins of `registry` come to those that the file names. It runs in the fast lane unless
        it, or the caller, wants the faithful one.
        """
        settings = self.settings
        if registry is not None:
            plugins = {**(settings.registry or {}), **registry}
            settings = msgspec.structs.replace(settings, registry=plugins)
        return run_scenario(
            self.player,
            seed=seed,
            config=config,
            settings=settings,
            limit=self.limit if limit is None else limit,
            faithful=faithful or bool(settings.faithful),
            real_time=real_time,
            name=self.name,
            echo=echo,
        )


def load_script(path: Path) -> Script:
    """Read a scenario file; raises ScenarioSyntaxError that names file, line and field."""
    return _from_documents(load(path), str(path))


def parse_script(text: str, name: str = "scenario") -> Script:
    """Read a scenario from a text."""
    return _from_documents(parse(text, name), name)


def _from_documents(documents: list[Located], name: str) -> Script:
    if len(documents) != 1:
        raise ScenarioSyntaxError(f"{name}: must hold one scenario, not {len(documents)} documents")
    top = documents[0]
    if kep140.is_scenario(top):
        scenario, title = kep140.read(top)
        return Script(title, "", Settings(), LIMIT, scenario, name)
    return _read(top, name)


def _read(top: Located, name: str) -> Script:
    top.fields(TOP, required=("apiVersion", "kind", "steps"))
    top["apiVersion"].choice((API_VERSION,))
    top["kind"].choice(("Scenario",))
    meta = top["metadata"]
    title = Path(name).name.removesuffix(".yaml").removesuffix(".scenario")
    if "metadata" in top:
        title = meta.fields(("name", "labels", "annotations"))["name"].text(title)
    settings = _settings(top)
    steps = read_steps(top["steps"])
    limit = top["limit"].duration(LIMIT)
    return Script(title, top["description"].text(""), settings, limit, StepPlayer(steps), name)


def _settings(top: Located) -> Settings:
    version = NEWEST
    if "emulatedVersion" in top:
        try:
            version = parse_version(str(top["emulatedVersion"].value))
        except BayplanError as problem:
            raise wrap(problem, top["emulatedVersion"]) from problem
    gates = FeatureGates(version=version)
    if "featureGates" in top:
        words = [f"{key}={str(value).lower()}" for key, value in top["featureGates"].map().items()]
        try:
            gates = parse_gates(",".join(words), version)
        except BayplanError as problem:
            raise wrap(problem, top["featureGates"]) from problem
    config: KubeSchedulerConfiguration | None = None
    if "config" in top:
        try:
            config = from_data(top["config"].map(), gates)
        except BayplanError as problem:
            raise wrap(problem, top["config"]) from problem
        if config.extenders:
            text = "are not called in a scenario; describe them in the scenario's own `extenders`"
            raise top["config"]["extenders"].error(text)
    registry: Registry | None = None
    if "plugins" in top:
        beside = Path(top.source.name).parent
        names = [str(beside / n) if n.endswith(".py") else n for n in top["plugins"].texts()]
        try:
            registry = load_registry(names)
        except BayplanError as problem:
            raise wrap(problem, top["plugins"]) from problem
    extenders = [_extender(item) for item in top["extenders"].items()] if "extenders" in top else []
    return Settings(
        seed=top["seed"].integer(0),
        config=config,
        gates=gates,
        registry=registry,
        controllers=top["controllers"].text("*"),
        options=_options(top["options"]) if "options" in top else {},
        schedulers=top["schedulers"].integer(1),
        elect=top["elect"].flag(False),
        extenders=tuple(extenders),
        faithful=top["faithful"].flag() if "faithful" in top else None,
    )


def _options(at: Located) -> dict[str, object]:
    """Read the controllers' options; each is a number, or true or false."""
    at.fields(CONTROLLER_OPTIONS)
    for name in at.map():
        at[name].fields(CONTROLLER_OPTIONS[name])
        for option in at[name].map():
            value = at[name][option].value
            if not isinstance(value, bool | int | float):
                raise at[name][option].error("must be a number, or true or false")
    return at.map()


def _extender(at: Located) -> SimulatedExtender:
    at.fields(("name", "ignorable", "delay", "timeout", "rejects"), required=("name",))
    rejects: Mapping[str, object] = at["rejects"].map() if "rejects" in at else {}
    return SimulatedExtender(
        at["name"].text(),
        filter=lambda pod, node: str(rejects.get(node.metadata.name, "")),
        ignorable=at["ignorable"].flag(False),
        delay=at["delay"].duration(0.0),
        timeout=at["timeout"].duration(5.0),
    )


def read_steps(at: Located) -> list[Step]:
    """Read the steps of a scenario or of a repetition."""
    steps: list[Step] = []
    last = 0.0
    for item in at.items():
        item.fields(STEP)
        if "repeat" in item:
            steps += _repeated(item)
            continue
        step = _step(item)
        if step.at is not None and step.at < last:
            raise item["at"].error(f"is before the step above, which is at {last:g} s")
        last = step.at if step.at is not None else last
        steps.append(step)
    return steps


def _step(item: Located) -> Step:
    if "at" in item and "after" in item:
        raise item["after"].error('cannot stand beside "at"')
    return Step(
        name=item["name"].text(""),
        line=item.line,
        at=item["at"].duration() if "at" in item else None,
        after=item["after"].duration(0.0),
        runs=[ACTIONS[name](item[name]) for name in item.map() if name in ACTIONS],
        workloads=[workload(each) for each in item["workload"].one_or_more()]
        if "workload" in item
        else [],
        expects=[expectation(each) for each in item["expect"].one_or_more()]
        if "expect" in item
        else [],
        done=item["done"].flag(False) if isinstance(item["done"].value, bool) else "done" in item,
        fault="fault" in item,
    )


def _repeated(item: Located) -> list[Step]:
    others = [name for name in item.map() if name not in ("repeat", "at", "after", "name")]
    if others:
        raise item[others[0]].error('cannot stand beside "repeat"; put it into its steps')
    repeat = item["repeat"].fields(REPEAT, required=("times", "steps"))
    every = repeat["every"].duration(0.0)
    variable = "{" + repeat["as"].text("n") + "}"
    steps: list[Step] = []
    times = repeat["times"].integer(least=1)
    for number in range(times):
        body = Located(
            _filled(repeat["steps"].value, variable, str(number)),
            repeat.source,
            (*repeat.path, "steps"),
        )
        turn = _turn(body)
        if len(turn) * times > MOST_STEPS:
            many = f"{len(turn) * times:,} steps; a scenario has at most {MOST_STEPS:,}"
            raise repeat["times"].error(f"makes {many}")
        if turn and number == 0:
            turn[0].at = item["at"].duration() if "at" in item else turn[0].at
            turn[0].before += item["after"].duration(0.0)
        if turn and "every" in repeat:
            which = f"{repeat.line} {_field_of(repeat)}"
            turn[0].turns = [(which, number * every), *turn[0].turns]
        steps += turn
    return steps


def _turn(body: Located) -> list[Step]:
    for item in body.items():
        if "at" in item:
            raise item["at"].error('cannot be repeated; use "after", or "every" of the repetition')
    return read_steps(body)


def _field_of(at: Located) -> str:
    return ".".join(str(part) for part in at.path)


def _filled(value: object, variable: str, text: str) -> object:
    """Put a number in the place of a variable, in all texts; a text that is nothing else becomes
    a number."""
    if isinstance(value, str):
        return int(text) if value == variable else value.replace(variable, text)
    if isinstance(value, list):
        return [_filled(item, variable, text) for item in value]
    if isinstance(value, dict):
        return {
            str(_filled(key, variable, text)): _filled(item, variable, text)
            for key, item in value.items()
        }
    return value


class StepPlayer:
    """Plays steps on a client; holds nothing of a run."""

    def __init__(self, steps: list[Step]) -> None:
        self.steps = steps

    async def __call__(self, client: ScenarioClient) -> None:
        client.expect.collect = True
        workloads: list[asyncio.Task[None]] = []
        begun: dict[str, float] = {}
        try:
            for step in self.steps:
                await _wait(client, step, begun)
                await _play(client, step, workloads)
                if step.done:
                    break
            else:
                client.doing = "waiting for workloads to end"
                await asyncio.gather(*workloads)
        finally:
            for task in workloads:
                task.cancel()
            ended = await asyncio.gather(*workloads, return_exceptions=True)
        for problem in ended:
            if isinstance(problem, Exception):
                raise problem


async def _wait(client: ScenarioClient, step: Step, begun: dict[str, float]) -> None:
    """Wait for the time of a step; one that has passed already is a mistake of the scenario."""
    if step.at is not None:
        await _until(client, step, step.at, "it")
    if step.before > 0:
        await client.sleep(step.before)
    for which, offset in step.turns:
        begin = begun.setdefault(which, client.elapsed())
        await _until(client, step, begin + offset, "its turn")
    if step.after > 0:
        await client.sleep(step.after)


async def _until(client: ScenarioClient, step: Step, due: float, what: str) -> None:
    wait = due - client.elapsed()
    if wait < -LATE:
        raise ScenarioError(
            f"the step of line {step.line} is late: {what} should begin at {due:g} s, "
            f"what comes before took until {client.elapsed():g} s"
        )
    if wait > 0:
        await client.sleep(wait)


async def _play(client: ScenarioClient, step: Step, workloads: list[asyncio.Task[None]]) -> None:
    if step.name:
        client.log(f"step: {step.name}")
    client.doing = step.name or f"the step of line {step.line}"
    for run in step.runs:
        await run(client)
    workloads += [asyncio.create_task(run_workload(client, work)) for work in step.workloads]
    for run in step.expects:
        await run(client)
    client.doing = ""
