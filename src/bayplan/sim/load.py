"""Finds out what a file is: a scenario in YAML, one in Python, or a recording."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from bayplan.errors import BayplanError, Importing, with_place
from bayplan.sim.client import ScenarioClient
from bayplan.sim.errors import ScenarioError
from bayplan.sim.library import names
from bayplan.sim.recording import Replay, load_recording
from bayplan.sim.run import LIMIT, Scenario
from bayplan.sim.script import Script, load_script
from bayplan.sim.world import Settings
from bayplan.words import did_you_mean

# Recorded pods bring their own ends; their controllers were left behind.
REPLAY_LIMIT = 52 * LIMIT


def load_scenario(path: Path) -> Script:
    """Read a scenario of any form; raises ScenarioError that names the file."""
    if not path.is_file():
        what = "is no file" if path.exists() else "does not exist"
        raise ScenarioError(
            f"scenario {path} {what}; give a file or a name of `bayplan scenario list`"
            + did_you_mean(str(path), names())
        )
    if path.suffix == ".jsonl":
        replay = Replay(load_recording(path))
        return Script(path.stem, "a recording", Settings(), REPLAY_LIMIT, replay, str(path))
    if path.suffix == ".py":
        return _from_python(path)
    return load_script(path)


def _from_python(path: Path) -> Script:
    spec = importlib.util.spec_from_file_location(f"bayplan_scenario_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with Importing(f"loading scenario {path}", ScenarioError):
        spec.loader.exec_module(module)
    scenario = getattr(module, "scenario", None)
    if not callable(scenario):
        raise ScenarioError(
            f"scenario {path} has no `scenario`; define `async def scenario(client): …`"
        )
    settings = getattr(module, "SETTINGS", Settings())
    limit = float(getattr(module, "LIMIT", LIMIT))
    name = path.stem
    player = _telling(scenario)
    return Script(name, (module.__doc__ or "").strip(), settings, limit, player, str(path))


def _telling(scenario: Scenario) -> Scenario:
    """What the file's own code raises is a failure of the scenario, with its line."""

    async def play(client: ScenarioClient) -> None:
        try:
            await scenario(client)
        except BayplanError:
            raise
        except Exception as problem:
            raise ScenarioError(f"{type(problem).__name__}: {with_place(problem)}") from problem

    return play
