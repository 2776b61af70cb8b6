"""Runs a lesson: its scheduler and its scenario, in a world of virtual time."""

import asyncio
import importlib
import importlib.util
import random
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import msgspec

from bayplan.clock import run_virtual
from bayplan.errors import ConfigError, Importing
from bayplan.lessons.cluster import LessonCluster, Say
from bayplan.lessons.stage import Stage
from bayplan.plugins import in_tree_registry
from bayplan.sim.world import Settings, World, running

Lesson = ModuleType | SimpleNamespace
Scenario = Callable[[Stage], Coroutine[Any, Any, None]]

LESSONS = range(1, 9)
FULL = 8


class LessonResult(msgspec.Struct, frozen=True):
    """How a lesson went."""

    seconds: float
    hash: str


def module_of(number: int) -> ModuleType:
    """The module of a lesson."""
    if number not in LESSONS:
        raise ConfigError(f"there is no lesson {number}; lessons are 1 to {LESSONS[-1]}")
    return importlib.import_module(f"bayplan.lessons.lesson{number}")


def module_at(path: Path) -> ModuleType:
    """A learner's file."""
    if not path.is_file():
        raise ConfigError(f"{path} does not exist; make a copy with --copy")
    name = f"bayplan_learner_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None:
        raise ConfigError(f"{path} is no Python file (.py); make a copy with --copy")
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with Importing(f"loading {path}"):
        spec.loader.exec_module(module)
    return module


def lesson_at(path: Path) -> ModuleType:
    """A learner's copy of a lesson, with what a lesson has."""
    module = module_at(path)
    full = hasattr(module, "config") and hasattr(module, "PLUGINS")
    if not hasattr(module, "scenario") or not (full or hasattr(module, "Scheduler")):
        raise ConfigError(f"{path} is no lesson; make a copy with --copy and edit that")
    return module


def run(
    module: Lesson, say: Say, *, seed: int = 0, scenario: Scenario | None = None
) -> LessonResult:
    """Run a lesson's scenario; raises Surprise when it ends differently."""
    return run_virtual(_run(module, say, seed, scenario or module.scenario))


async def _run(module: Lesson, say: Say, seed: int, scenario: Scenario) -> LessonResult:
    full = not hasattr(module, "Scheduler")
    settings = Settings(
        seed=seed,
        controllers="",
        schedulers=1 if full else 0,
        config=module.config() if full else None,
        registry=in_tree_registry() | module.PLUGINS if full else None,
    )
    async with running(settings) as world:
        stage = Stage(world.client, _stamped(world, say))
        tasks = [] if full else await _start(module, world, stage.say, seed)
        play = asyncio.create_task(scenario(stage))
        try:
            await asyncio.wait((play, *tasks), return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done() and not play.done():
                    task.result()  # raises what the scheduler died of
            await play
        finally:
            for task in (play, *tasks):
                task.cancel()
            await asyncio.gather(play, *tasks, return_exceptions=True)
        return LessonResult(world.elapsed(), world.log.hash)


async def _start(module: Lesson, world: World, say: Say, seed: int) -> list[asyncio.Task[None]]:
    cluster = LessonCluster(world.new_client(), say)
    scheduler = module.Scheduler(cluster, random.Random(seed))
    tasks = [asyncio.create_task(scheduler.run()), asyncio.create_task(cluster.watch())]
    await cluster.ready()
    return tasks


def _stamped(world: World, say: Say) -> Say:
    return lambda text: say(f"{world.elapsed():6.2f}s  {text}")
