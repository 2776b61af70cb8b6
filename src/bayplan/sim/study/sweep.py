"""Carries out a plan: what is not known yet is run, kept at once, and written as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from bayplan.sim.study import results
from bayplan.sim.study.journal import Journal
from bayplan.sim.study.plan import Plan, Source, Task
from bayplan.sim.study.run import Outcome


class Workers(Protocol):
    """Runs tasks, somewhere."""

    def run(self, tasks: Sequence[Task], sources: Mapping[str, Source]) -> Iterator[Outcome]:
        """Yield one outcome a task, in any order."""


Told = Callable[[int, int, Task, Outcome], None]
"""How many are done, of how many, and what came last."""


def sweep(
    plan: Plan, workers: Callable[[], Workers], out: Path, told: Told
) -> tuple[list[results.Row], dict[str, Outcome]]:
    """Run what is missing, write the table, and return it with all outcomes by key.

    Workers are only asked for if something is left to run.
    """
    tasks = plan.tasks()
    journal = Journal(out)
    try:
        left = {task.key: task for task in tasks if task.key not in journal.known}
        done = len(tasks) - len(left)
        if left:
            for outcome in workers().run(list(left.values()), plan.sources):
                done += 1
                journal.add(outcome)
                told(done, len(tasks), left[outcome.key], outcome)
    finally:
        journal.close()
    found = results.rows(tasks, journal.known)
    results.write(out, found)
    return found, journal.known
