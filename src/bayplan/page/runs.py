"""Scenarios and recordings as stories: run in virtual time, or read as they were recorded.

A recording is shown as it happened; a scenario is run first, once for each seed, configuration or
version that is to be compared. Runs that are over become a report: the page, in one file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from bayplan.api import KINDS, Object, convert, decode
from bayplan.config import FeatureGates, KubeSchedulerConfiguration, default_config, parse_version
from bayplan.errors import BayplanError, DecodeError
from bayplan.inspect import Settings
from bayplan.page.report import report
from bayplan.page.sources import Event, Json, Stories, Story
from bayplan.plugins import in_tree_registry
from bayplan.sim.errors import ScenarioError
from bayplan.sim.library import path_of
from bayplan.sim.load import load_scenario
from bayplan.sim.recording import EVENTS, load_recording
from bayplan.sim.run import Result
from bayplan.sim.script import Script
from bayplan.sim.world import EPOCH

ACTIONS = {name: action for action, name in EVENTS.items()}


class Variant(msgspec.Struct, frozen=True):
    """One way to run a scenario; what is not given is as the file says."""

    name: str
    title: str = ""
    seed: int | None = None
    config: KubeSchedulerConfiguration | None = None
    version: str = ""
    """The version that the scheduler decides as."""


def find(name: str) -> Path | None:
    """Return the file of a scenario or recording, also of a built-in one; None if it is neither."""
    path = Path(name)
    if path.exists():
        kinds = (".scenario.yaml", ".scenario.yml", ".py", ".jsonl")
        return path if path.is_file() and path.name.endswith(kinds) else None
    return path_of(name)


def recorded(path: Path) -> Stories:
    """Show a recording as it happened."""
    events = []
    for record in load_recording(path):
        kind = KINDS.get(str(record.resource.get("kind")))
        if kind is not None:
            item = convert(kind, record.resource)
            events.append(Event(record.seconds, ACTIONS[record.event], item))
    events.sort(key=lambda event: event.time)
    if not events:
        raise BayplanError(f"recording {path}: no object in it matters for scheduling")
    return Stories("recording", [Story("", path.stem, events, events[-1].time)])


def played(path: Path, variants: Sequence[Variant]) -> Stories:
    """Run a scenario in every variant."""
    stories = []
    for variant in variants:
        script = load_scenario(path)
        if variant.version:
            gates = FeatureGates(version=parse_version(variant.version))
            config = script.settings.config or default_config(gates)
            script.settings = replace(script.settings, gates=gates, config=config)
        result = _run(script, variant)
        settings = asked_as(script, variant.config)
        stories.append(story(result, variant.name, variant.title or script.name, settings))
    return Stories("scenario", stories)


def _run(script: Script, variant: Variant) -> Result:
    """Run a scenario in the fast lane, or in the faithful one if it needs the API server."""
    try:
        result = script.run(seed=variant.seed, config=variant.config)
        if not result.needs_faithful:
            return result
    except ScenarioError:  # of a world that the fast lane does not have
        pass
    return script.run(seed=variant.seed, config=variant.config, faithful=True)


def asked_as(script: Script, config: KubeSchedulerConfiguration | None = None) -> Settings:
    """Return the scheduler of a scenario, for questions about it."""
    given = script.settings
    return Settings(
        config or given.config or default_config(given.gates),
        given.gates,
        given.registry or in_tree_registry(),
        source=script.name,
    )


def story(
    result: Result, name: str = "", title: str = "", settings: Settings | None = None
) -> Story:
    """Return what happened in a run, and how it ended."""
    outcome: Json = {
        "ok": result.ok,
        "seed": result.seed,
        "hash": result.hash,
        "checks": [[item.ok, item.line()[5:]] for item in result.outcomes],
        "failures": result.failures,
    }
    events = list(_events(result))
    end = EPOCH + result.seconds
    return Story(name, title or result.name, events, end, settings, outcome)


def report_of(results: Sequence[Result]) -> str:
    """Return the page of runs that are over; the first is shown, others can be compared with it."""
    stories = [
        story(result, f"{number} {result.name}" if number > 1 else "")
        for number, result in enumerate(results, 1)
    ]
    source = Stories("scenario", stories)
    histories = {item.name: item.board for item in stories}
    return report(source.about(), source.board, at="#/time", histories=histories)


def _events(result: Result) -> Iterator[Event]:
    kinds = {kind.RESOURCE: kind for kind in KINDS.values()}
    for entry in result.entries:
        resource = entry.key.split("/", 2)[1]
        kind: type[Object] | None = kinds.get(resource)
        if kind is None:
            continue
        try:
            item = entry.item or decode(kind, entry.value)
        except DecodeError:  # an object that the scheduler passes over, too
            continue
        yield Event(EPOCH + entry.time, entry.action, item)
