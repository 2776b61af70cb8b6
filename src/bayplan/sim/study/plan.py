"""What a sweep runs: configurations × workloads × seeds × loads × versions, from a YAML file.

    kind: Sweep
    configs:                        # by name; a file, a configuration, or empty for the default
      default:
      pack: pack.yaml
    workloads:
      - {name: day, trace: day.csv, nodes: {count: 20, cpu: 32, memory: 128Gi}}
      - {like: gpu, pods: 500, rate: 0.5, nodes: {count: 20}}
      - scenario: busy-day
    seeds: {count: 10}              # 0 to 9, or a list
    loads: [0.8, 1.0, 1.2]          # pods of traces come so many times as fast
    versions: ["1.36", "1.37"]

Everything that a run needs is in its task: configuration, and trace or scenario as text. A worker
on another machine needs nothing but Bayplan. An error names the axis, file and line.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from bayplan.config import FeatureGates, from_data, parse_version
from bayplan.config.gates import NEWEST
from bayplan.config.load import read_document
from bayplan.engine.loop import Scheduler
from bayplan.errors import BayplanError
from bayplan.scheduler.extensions import load_registry
from bayplan.sim.errors import ScenarioSyntaxError
from bayplan.sim.library import path_of
from bayplan.sim.located import Located, load, wrap
from bayplan.sim.script import parse_script
from bayplan.sim.traces.format import parse_trace
from bayplan.sim.traces.generate import MODELS

AXES = ("configs", "workloads", "seeds", "loads", "versions")
TOP = ("apiVersion", "kind", "metadata", "plugins", "tune", *AXES)
TRACE = ("name", "trace", "nodes")
LIKE = ("name", "like", "pods", "rate", "nodes")
NODES = ("count", "cpu", "memory", "zones", "gpus")
HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
MOST_RUNS = 1_000_000


class Nodes(msgspec.Struct, frozen=True):
    """The equal nodes that a trace is played on."""

    count: int = 10
    cpu: str = "32"
    memory: str = "128Gi"
    zones: int = 1
    gpus: int = 0


class Source(msgspec.Struct, frozen=True):
    """A workload: the text of a trace or a scenario, or what a generator draws from."""

    name: str
    kind: str
    """`trace`, `scenario` or `like`."""
    text: str
    """CSV, YAML, or the name of a model."""
    nodes: Nodes = Nodes()
    pods: int = 0
    rate: float = 1.0


class Task(msgspec.Struct, frozen=True):
    """One run; everything but the source, which many share."""

    config: str
    """Its name."""
    document: dict[str, object]
    source: str
    """Its name."""
    seed: int
    load: float
    version: str
    plugins: tuple[str, ...]
    key: str = ""
    """Stands for everything that the run hangs on, the source's text too."""

    @property
    def title(self) -> str:
        axes = f"seed {self.seed}, load {self.load:g}, version {self.version}"
        return f"{self.config} on {self.source}, {axes}"


class Plan(msgspec.Struct):
    """A file, read and checked."""

    name: str
    configs: dict[str, dict[str, object]]
    sources: dict[str, Source]
    seeds: list[int]
    loads: list[float]
    versions: list[str]
    plugins: tuple[str, ...] = ()
    tune: Located | None = None

    def tasks(self) -> list[Task]:
        """All runs, in the order in which results are written."""
        axes = (self.configs, self.sources, self.loads, self.versions, self.seeds)
        return [self.task(*point) for point in itertools.product(*axes)]

    def task(self, config: str, source: str, load: float, version: str, seed: int) -> Task:
        document = self.configs[config]
        task = Task(config, document, source, seed, load, version, self.plugins)
        whole = msgspec.json.encode((task, self.sources[source]), order="deterministic")
        return msgspec.structs.replace(task, key=hashlib.sha256(whole).hexdigest()[:20])


def load_plan(path: Path, kind: str = "Sweep") -> Plan:
    """Read a plan; raises ScenarioSyntaxError that names file, line and axis."""
    documents = load(path)
    if len(documents) != 1:
        raise ScenarioSyntaxError(f"{path}: a plan is one YAML document, not {len(documents)}")
    top = documents[0].fields(TOP, required=("workloads",))
    said = top["kind"].text(kind)
    if said not in ("Sweep", "Tune"):
        raise top["kind"].error(f'"{said}" is not Sweep or Tune')
    versions = list(_versions(top["versions"]))
    plugins = tuple(_plugins(top["plugins"], path.parent))
    plan = Plan(
        name=(top["metadata"]["name"].text(path.stem)),
        configs=dict(_configs(top["configs"], path.parent, versions, plugins)),
        sources=_sources(top["workloads"], path.parent),
        seeds=_seeds(top["seeds"]),
        loads=list(_loads(top["loads"])),
        versions=versions,
        plugins=plugins,
        tune=top["tune"] if top["tune"].value is not None else None,
    )
    _check(plan, top)
    return plan


def _check(plan: Plan, top: Located) -> None:
    if plan.loads != [1.0] and any(s.kind == "scenario" for s in plan.sources.values()):
        raise top["loads"].error("scenarios have no load; only traces come faster or slower")
    sizes = [getattr(plan, name) for name in ("configs", "sources", "seeds", "loads", "versions")]
    runs = math.prod(len(axis) for axis in sizes)
    if runs > MOST_RUNS:
        longest = max(zip(AXES, sizes, strict=True), key=lambda item: len(item[1]))[0]
        raise top[longest].error(f"{runs} runs are more than {MOST_RUNS}; this axis is the longest")


def _distinct(axis: Located, values: list[object]) -> None:
    if not values:
        raise axis.error("the axis is empty; leave it out or give it a value")
    for value in values:
        if values.count(value) > 1:
            raise axis.error(f'"{value}" is there twice')


def _configs(
    axis: Located, folder: Path, versions: list[str], plugins: Sequence[str]
) -> Iterator[tuple[str, dict[str, object]]]:
    if axis.value is None:
        yield "default", dict(HEAD)
        return
    _distinct(axis, list(axis.map()))
    for name in axis.map():
        item = axis[name]
        try:
            if item.value is None:
                document: dict[str, object] = dict(HEAD)
            elif isinstance(item.value, dict):
                document = {**HEAD, **item.value}
            else:
                document = read_document(folder / item.text())
            for version in versions:
                _try_out(document, FeatureGates(version=version), plugins)
        except BayplanError as problem:
            if isinstance(problem, ScenarioSyntaxError):
                raise
            raise wrap(problem, item) from problem
        yield str(name), document


def _try_out(document: dict[str, object], gates: FeatureGates, plugins: Sequence[str]) -> None:
    """Make a scheduler of a configuration, as each run will; raises BayplanError."""
    config = from_data(document, gates)
    if all(name.endswith(".py") for name in plugins):  # modules may be on the workers only
        Scheduler(config, load_registry(list(plugins)), gates=gates)


def _sources(axis: Located, folder: Path) -> dict[str, Source]:
    found = [_source(item, folder) for item in axis.items()]
    _distinct(axis, [source.name for source in found])
    return {source.name: source for source in found}


def _source(item: Located, folder: Path) -> Source:
    if "scenario" in item:
        item.fields(("name", "scenario"))
        return _scenario(item, folder)
    if "like" in item:
        item.fields(LIKE, required=("pods",))
        model = item["like"].choice(MODELS)
        rate = item["rate"].number(1.0)
        if rate <= 0:
            raise item["rate"].error("must be above 0")
        nodes = _nodes(item["nodes"])
        pods = item["pods"].integer(least=1)
        return Source(item["name"].text(model), "like", model, nodes, pods, rate)
    item.fields(TRACE, required=("trace",))
    path = folder / item["trace"].text()
    try:
        text = path.read_text(encoding="utf-8")
        parse_trace(text, str(path))
    except OSError as problem:
        raise item["trace"].error(f"reading trace {path}: {problem.strerror}") from problem
    except (BayplanError, UnicodeDecodeError) as problem:
        raise item["trace"].error(str(problem)) from problem
    return Source(item["name"].text(path.stem), "trace", text, _nodes(item["nodes"]))


def _scenario(item: Located, folder: Path) -> Source:
    name = item["scenario"].text()
    path = folder / name
    if not path.is_file():
        path = path_of(name) or path
    try:
        text = path.read_text()
        script = parse_script(text, str(path))
    except OSError as problem:
        raise item["scenario"].error(f"{path}: {problem.strerror}") from problem
    except BayplanError as problem:
        raise wrap(problem, item["scenario"]) from problem
    return Source(item["name"].text(script.name), "scenario", text)


def _nodes(item: Located) -> Nodes:
    if item.value is None:
        return Nodes()
    item.fields(NODES)
    usual = Nodes()
    cpu = str(item["cpu"].quantity()) if "cpu" in item else usual.cpu
    memory = str(item["memory"].quantity()) if "memory" in item else usual.memory
    zones = item["zones"].integer(1, least=1)
    gpus = item["gpus"].integer(0)
    return Nodes(item["count"].integer(usual.count, least=1), cpu, memory, zones, gpus)


def _seeds(axis: Located) -> list[int]:
    if axis.value is None:
        return [0]
    if isinstance(axis.value, dict):
        axis.fields(("from", "count"), required=("count",))
        first = axis["from"].integer(0)
        return list(range(first, first + axis["count"].integer(least=1)))
    seeds = [item.integer() for item in axis.one_or_more()]
    _distinct(axis, list(seeds))
    return seeds


def _loads(axis: Located) -> Iterator[float]:
    if axis.value is None:
        yield 1.0
        return
    items = axis.one_or_more()
    _distinct(axis, [item.value for item in items])
    for item in items:
        if not 0 < item.number() < math.inf:
            raise item.error(f"a load must be above 0, not {item.number():g}")
        yield item.number()


def _versions(axis: Located) -> Iterator[str]:
    if axis.value is None:
        yield NEWEST
        return
    items = axis.one_or_more()
    _distinct(axis, [item.value for item in items])
    for item in items:
        try:
            yield parse_version(item.text())
        except BayplanError as problem:
            raise wrap(problem, item) from problem


def _plugins(axis: Located, folder: Path) -> Iterator[str]:
    for item in axis.one_or_more() if axis.value is not None else ():
        name = item.text()
        if not name.endswith(".py"):
            yield name  # a module that every worker has
            continue
        path = (folder / name).resolve()
        if not path.is_file():
            raise item.error(f"{path} does not exist")
        yield str(path)
