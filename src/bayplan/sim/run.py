"""Runs a scenario written in Python and says how it ended.

    result = run_scenario(scenario, seed=1)
    assert result.ok, result.problems()

In virtual time (the default) hours pass in seconds and nothing depends on the machine; with
`real_time` the same world runs on an ordinary loop. A scenario that does not end is stopped at its
limit, which is a failure that says what it was waiting for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from bayplan.clock import run_virtual
from bayplan.config import KubeSchedulerConfiguration
from bayplan.errors import BayplanError
from bayplan.observe import logs
from bayplan.sim.client import ScenarioClient
from bayplan.sim.errors import ExpectationFailed
from bayplan.sim.expect import Judgement
from bayplan.sim.fast.world import FastWorld
from bayplan.sim.log import Entry
from bayplan.sim.tracker import Moment, Tracker
from bayplan.sim.world import Settings, World, inhabited

Scenario = Callable[[ScenarioClient], Awaitable[None]]
LIMIT = 7 * 24 * 3600.0


class Result(msgspec.Struct):
    """How a scenario ended."""

    name: str
    seed: int
    hash: str
    """Equal for two runs that wrote the same objects at the same times in the same order."""
    seconds: float
    """Simulated."""
    outcomes: list[Judgement]
    failures: list[str]
    placements: dict[str, str]
    """Every pod that ever was, by namespace and name, and its last node ("": never bound)."""
    tracker: Tracker
    lines: list[str]
    """The event log, if it was kept."""
    entries: list[Entry] = []
    """What the lines tell of, whole, if it was kept."""

    @property
    def ok(self) -> bool:
        return not self.failures

    @property
    def timeline(self) -> list[Moment]:
        return self.tracker.timeline

    @property
    def needs_faithful(self) -> bool:
        """Whether the fast lane could not play it: it used what only the API server has."""
        return any("--faithful" in text for text in self.failures)

    def problems(self) -> str:
        """All failures, a line each."""
        return "\n".join(self.failures)


def run_scenario(
    scenario: Scenario,
    *,
    seed: int | None = None,
    config: KubeSchedulerConfiguration | None = None,
    limit: float = LIMIT,
    settings: Settings | None = None,
    faithful: bool | None = None,
    real_time: bool = False,
    name: str = "",
    echo: Callable[[str], None] | None = None,
) -> Result:
    """Run a scenario in a world of its own; `seed` and `config` override those of `settings`.

    With `faithful=False` it runs in the fast lane: same decisions at the same times, without the
    API server. In real time there is only the faithful one.
    """
    logs.configure_if_not_done()  # else structlog would print every detail
    base = settings or Settings()
    if faithful is None:
        faithful = base.faithful
    base = msgspec.structs.replace(
        base,
        seed=base.seed if seed is None else seed,
        config=config or base.config,
        faithful=True if real_time else faithful,
    )
    title = name or getattr(scenario, "__name__", "scenario")
    work = _in_world(scenario, _world(base), limit, title, echo)
    return asyncio.run(work) if real_time else run_virtual(work)


async def _in_world(
    scenario: Scenario,
    world: World,
    limit: float,
    name: str,
    echo: Callable[[str], None] | None,
) -> Result:
    async with inhabited(world):
        client = ScenarioClient(
            world.client, world.tracker, world.elapsed, world, seed=world.settings.seed, echo=echo
        )
        failures = await play(scenario, client, limit)
        seconds = world.elapsed()
        result = _result(world, client, failures, name, seconds)
    result.hash = world.log.hash
    result.lines = [entry.line() for entry in world.log.entries]
    result.entries = world.log.entries
    return result


def _world(settings: Settings) -> World:
    return FastWorld(settings) if settings.faithful is False else World(settings)


async def play(scenario: Scenario, client: ScenarioClient, limit: float) -> list[str]:
    """Run a scenario on a client; return its failures."""
    failures: list[str] = []
    try:
        async with asyncio.timeout(limit) as timer:
            await scenario(client)
    except TimeoutError:
        if not timer.expired():
            raise
        doing = client.expect.waiting_for or client.doing or "it did not say what it waits for"
        failures.append(f"stopped at its limit of {limit:g} s: {doing}")
    except ExpectationFailed:
        pass  # it is among the outcomes
    except BayplanError as problem:
        failures.append(str(problem))
    expected = [
        f"expected {outcome.text}; seen instead: {outcome.seen}"
        for outcome in client.expect.outcomes
        if not outcome.ok
    ]
    for text in failures:
        client.tracker.note(client.elapsed(), f"FAIL {text}", "failed")
    return expected + failures


def _result(
    world: World, client: ScenarioClient, failures: list[str], name: str, seconds: float
) -> Result:
    tracker = world.tracker
    return Result(
        name=name,
        seed=world.settings.seed,
        hash="",
        seconds=seconds,
        outcomes=client.expect.outcomes,
        failures=failures,
        placements={life.key: life.node for life in tracker.every_pod()},
        tracker=tracker,
        lines=[],
    )
