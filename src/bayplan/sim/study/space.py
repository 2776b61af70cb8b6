"""What `bayplan tune` may change, and the configuration that comes out of a choice.

    tune:
      objectives: [pending, nodes]                 # or {cpu: max}
      trials: 50
      weights: {NodeResourcesFit: [0, 10], PodTopologySpread: [0, 10]}
      strategies: [LeastAllocated, MostAllocated]  # of NodeResourcesFit
      args:
        DefaultPreemption.minCandidateNodesPercentage: [1, 50]
        InterPodAffinity.hardPodAffinityWeight: [0, 100]

A range of whole numbers has two ends, a list of words is a choice. Weight 0 leaves the plugin out
of scoring. Names are checked against the default configuration before anything runs.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from bayplan.config import FeatureGates, from_data
from bayplan.errors import BayplanError
from bayplan.sim.located import Located, wrap
from bayplan.sim.study.measures import LESS_IS_BETTER, NAMES

FIELDS = ("objectives", "trials", "seed", "base", "weights", "strategies", "args")
STRATEGIES = ("LeastAllocated", "MostAllocated")
FIT = "NodeResourcesFit"
RESOURCES = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]
Choice = Mapping[str, int | str]


class Knob(msgspec.Struct, frozen=True):
    """One thing that may be changed."""

    name: str
    """`weight NAME`, `strategy`, or `NAME.argument`."""
    low: int = 0
    high: int = 0
    words: tuple[str, ...] = ()


class Objective(msgspec.Struct, frozen=True):
    """A measure, and which way is better."""

    measure: str
    direction: str = "minimize"


class Space(msgspec.Struct, frozen=True):
    """The `tune` section of a plan."""

    objectives: tuple[Objective, ...]
    knobs: tuple[Knob, ...]
    trials: int = 50
    seed: int = 0
    base: str = ""
    """The configuration that is changed; the first of the plan if empty."""


def read_space(tune: Located, configs: Mapping[str, object]) -> Space:
    """Read a section; raises ScenarioSyntaxError that names file, line and field."""
    tune.fields(FIELDS, required=("objectives",))
    base = tune["base"].text("")
    if base and base not in configs:
        raise tune["base"].error(f'"{base}" is not in the axis configs: {", ".join(configs)}')
    knobs = tuple(_knobs(tune))
    if not knobs:
        raise tune.error("nothing to change; give weights, strategies or args")
    objectives = tuple(_objective(item) for item in tune["objectives"].one_or_more())
    if not objectives:
        raise tune["objectives"].error("must name what counts, such as pending or nodes")
    for objective in objectives:
        if sum(other.measure == objective.measure for other in objectives) > 1:
            raise tune["objectives"].error(f'"{objective.measure}" is there twice')
    return Space(
        objectives, knobs, tune["trials"].integer(50, least=1), tune["seed"].integer(0), base
    )


def _objective(item: Located) -> Objective:
    if isinstance(item.value, dict):
        if len(item.value) != 1:
            raise item.error("one measure each: {cpu: max}")
        name = next(iter(item.value))
        item.fields(NAMES)
        way = item[name].choice(("min", "max"))
        return Objective(name, f"{way}imize")
    name = item.choice(NAMES)
    return Objective(name, "minimize" if name in LESS_IS_BETTER else "maximize")


def _knobs(tune: Located) -> Iterator[Knob]:
    weights = tune["weights"]
    for name in weights.map() if weights.value is not None else ():
        yield _knob(f"weight {name}", weights[name])
    strategies = tune["strategies"]
    if strategies.value is not None:
        words = tuple(item.choice(STRATEGIES) for item in strategies.one_or_more())
        yield Knob("strategy", words=words)
    args = tune["args"]
    for name in args.map() if args.value is not None else ():
        if "." not in name:
            raise args[name].error("write Plugin.argument")
        yield _knob(name, args[name])


def _knob(name: str, item: Located) -> Knob:
    values = list(item.items())
    if values and all(isinstance(value.value, str) for value in values):
        return Knob(name, words=tuple(value.text() for value in values))
    if len(values) != 2:
        raise item.error("must be [least, most] or a list of words")
    low, high = values[0].integer(), values[1].integer()
    if high < low:
        raise item.error(f"{low} is more than {high}")
    return Knob(name, low, high)


def check(space: Space, document: dict[str, object], version: str, tune: Located) -> None:
    """Try the ends of every knob, so that a wrong name is told before a trial."""
    for knob in space.knobs:
        for value in knob.words or (knob.low, knob.high):
            try:
                changed = configured(document, {knob.name: value}, version)
                from_data(changed, FeatureGates(version=version))
            except BayplanError as problem:
                raise wrap(problem, tune) from problem


def configured(document: dict[str, object], choice: Choice, version: str) -> dict[str, object]:
    """A configuration with a choice made in all its profiles; raises BayplanError."""
    made: dict[str, Any] = copy.deepcopy(document)
    scored = _scoring(document, version)
    for profile in made.setdefault("profiles", [{}]):
        for name, value in choice.items():
            if name.startswith("weight "):
                _weigh(profile, name.removeprefix("weight "), int(value), scored)
            elif name == "strategy":
                strategy = {"type": value, "resources": RESOURCES}
                _args(profile, FIT)["scoringStrategy"] = strategy
            else:
                plugin, _, argument = name.partition(".")
                _args(profile, plugin)[argument] = value
    return made


def _scoring(document: dict[str, object], version: str) -> list[str]:
    plugins = from_data(document, FeatureGates(version=version)).profiles[0].plugins
    assert plugins is not None
    return [item.name for set_ in (plugins.score, plugins.multi_point) for item in set_.enabled]


def _weigh(profile: dict[str, Any], plugin: str, weight: int, known: list[str]) -> None:
    if plugin not in known:
        raise BayplanError(f'weights: "{plugin}" is not enabled; known: {", ".join(known)}')
    score = profile.setdefault("plugins", {}).setdefault("score", {})
    enabled = [item for item in score.get("enabled", ()) if item["name"] != plugin]
    if weight:
        score["enabled"] = [*enabled, {"name": plugin, "weight": weight}]
    else:
        score["enabled"] = enabled
    disabled = [item for item in score.get("disabled", ()) if item["name"] != plugin]
    score["disabled"] = [*disabled, {"name": plugin}]


def _args(profile: dict[str, Any], plugin: str) -> dict[str, Any]:
    configs: list[dict[str, Any]] = profile.setdefault("pluginConfig", [])
    for item in configs:
        if item["name"] == plugin:
            args: dict[str, Any] = item.setdefault("args", {})
            return args
    configs.append({"name": plugin, "args": {}})
    made: dict[str, Any] = configs[-1]["args"]
    return made
