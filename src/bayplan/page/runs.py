"""Scenarios and recordings as stories: run in virtual time, or read as they were recorded.

A recording is shown as it happened; a scenario is run first, once for each seed or configuration
that is to be compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from bayplan import inspect
from bayplan.api import KINDS, Object, convert, decode
from bayplan.config import KubeSchedulerConfiguration
from bayplan.errors import BayplanError, DecodeError
from bayplan.page.sources import Event, Stories, Story
from bayplan.sim.library import path_of
from bayplan.sim.load import load_scenario
from bayplan.sim.recording import EVENTS, load_recording
from bayplan.sim.run import Result
from bayplan.sim.world import EPOCH

ACTIONS = {name: action for action, name in EVENTS.items()}


class Variant:
    """One way to run a scenario."""

    def __init__(
        self, name: str, seed: int | None, config: KubeSchedulerConfiguration | None, title: str
    ) -> None:
        self.name, self.seed, self.config, self.title = name, seed, config, title


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
        # The fast lane keeps no objects; the page shows them.
        result = script.run(seed=variant.seed, config=variant.config, faithful=True)
        settings = None
        if variant.config is not None:
            settings = inspect.Settings(variant.config)
        stories.append(story(result, variant.name, variant.title or script.name, settings))
    return Stories("scenario", stories)


def story(
    result: Result, name: str = "", title: str = "", settings: inspect.Settings | None = None
) -> Story:
    """Return what happened in a run."""
    events = list(_events(result))
    return Story(name, title or result.name, events, EPOCH + result.seconds, settings)


def _events(result: Result) -> Iterator[Event]:
    kinds = {kind.RESOURCE: kind for kind in KINDS.values()}
    for entry in result.entries:
        resource = entry.key.split("/", 2)[1]
        kind: type[Object] | None = kinds.get(resource)
        if kind is None:
            continue
        try:
            item = decode(kind, entry.value)
        except DecodeError:  # an object that the scheduler passes over, too
            continue
        yield Event(EPOCH + entry.time, entry.action, item)
