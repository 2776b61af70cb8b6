"""Searches for a better configuration with Optuna: trials, a Pareto front, a winner.

A trial is a configuration; its value is each objective's mean over all workloads, loads, versions
and seeds of the plan. The default is the first trial, so that the search cannot end worse than it
began. Equal seed, equal search. Of the front the winner is the one whose objectives, each divided
by the default's, have the least sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from bayplan.extras import needed
from bayplan.sim.study.journal import Journal
from bayplan.sim.study.plan import Plan
from bayplan.sim.study.results import Row, rows, values
from bayplan.sim.study.space import Choice, Space, configured
from bayplan.sim.study.sweep import Workers

DEFAULT = "default"


class Trial(msgspec.Struct, frozen=True):
    """One configuration and what it came to."""

    number: int
    choice: dict[str, int | str]
    document: dict[str, object]
    values: tuple[float, ...]
    """By objective."""
    error: str = ""


class Search(msgspec.Struct):
    """All trials; the first is the base configuration, unchanged."""

    space: Space
    trials: list[Trial]

    @property
    def good(self) -> list[Trial]:
        return [trial for trial in self.trials if not trial.error]

    def costs(self, trial: Trial) -> tuple[float, ...]:
        """The objectives, less is better."""
        signs = [-1.0 if o.direction == "maximize" else 1.0 for o in self.space.objectives]
        return tuple(s * v for s, v in zip(signs, trial.values, strict=True))

    def front(self) -> list[Trial]:
        """Trials that no other beats in one objective without losing in another, each once."""
        found: dict[tuple[float, ...], Trial] = {}
        for trial in self.good:
            cost = self.costs(trial)
            beaten = any(
                other != cost and all(o <= c for o, c in zip(other, cost, strict=True))
                for other in map(self.costs, self.good)
            )
            if not beaten:
                found.setdefault(cost, trial)
        return [found[cost] for cost in sorted(found)]

    def winner(self) -> Trial:
        """The one of the front that gains most over the base; ties go to the earlier trial."""
        base = self.trials[0]

        def gain(trial: Trial) -> float:
            pairs = zip(self.costs(trial), self.costs(base), strict=True)
            return sum((cost - before) / (abs(before) or 1.0) for cost, before in pairs)

        return min(self.front(), key=lambda trial: (gain(trial), trial.number))


def tune(
    plan: Plan,
    space: Space,
    workers: Callable[[], Workers],
    out: Path,
    told: Callable[[Trial], None] = lambda trial: None,
) -> Search:
    """Run a search; finished runs are kept in the journal of `out` and not run again."""
    optuna = needed("optuna", "tune")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    base = plan.configs[space.base or next(iter(plan.configs))]
    study = optuna.create_study(
        directions=[objective.direction for objective in space.objectives],
        sampler=optuna.samplers.TPESampler(seed=space.seed),
    )
    search = Search(space, [])
    journal, crew = Journal(out), workers()
    try:
        first = _trial(plan, space, 0, {}, base, journal, crew)
        search.trials.append(first)
        told(first)
        for number in range(1, space.trials + 1):
            asked = study.ask()
            choice = {knob.name: _suggest(asked, knob) for knob in space.knobs}
            document = configured(base, choice, plan.versions[0])
            trial = _trial(plan, space, number, choice, document, journal, crew)
            search.trials.append(trial)
            state = optuna.trial.TrialState.FAIL if trial.error else None
            study.tell(asked, None if trial.error else list(trial.values), state=state)
            told(trial)
    finally:
        journal.close()
    return search


def _suggest(trial: Any, knob: Any) -> int | str:
    found: int | str = (
        trial.suggest_categorical(knob.name, list(knob.words))
        if knob.words
        else trial.suggest_int(knob.name, knob.low, knob.high)
    )
    return found


def _trial(
    plan: Plan,
    space: Space,
    number: int,
    choice: Choice,
    document: dict[str, object],
    journal: Journal,
    crew: Workers,
) -> Trial:
    """Run one configuration on everything that the plan has."""
    mine = msgspec.structs.replace(plan, configs={DEFAULT: document})
    tasks = mine.tasks()
    left = [task for task in tasks if task.key not in journal.known]
    for outcome in crew.run(left, plan.sources) if left else ():
        journal.add(outcome)
    found = rows(tasks, journal.known)
    return Trial(number, dict(choice), document, _values(space, found), _error(found))


def _values(space: Space, found: Sequence[Row]) -> tuple[float, ...]:
    means = []
    for objective in space.objectives:
        seen = values(found, objective.measure)
        means.append(sum(seen) / len(seen) if seen else float("nan"))
    return tuple(means)


def _error(found: Sequence[Row]) -> str:
    return next((str(row["error"]) for row in found if row["error"]), "")
