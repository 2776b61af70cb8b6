"""The pytest plugin that runs tests under mutants: `-p tests.mutation.plugin --mutants-plan FILE`.

The tests are collected once. A first child process runs them all and learns which test runs which
line; then each mutant gets a child of its own, which plants it and runs the tests of its line, the
quickest first, until one fails. Children are forks made before any test ran, so every one begins
alike. Only tests that passed in the first child are asked. Where one takes too long, that test is
run without the mutant: only if it then needs a small part of the time is the mutant at fault.

What was learnt and found is written as it comes. A plan with a `deadline` ends there; one that may
`keep` what was learnt looks only at tests that are new.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import coverage
import pytest
from _pytest.runner import runtestprotocol
from hypothesis import Phase, settings

from tests.mutation.planting import ROOT, plant

KILLED, SURVIVED, LATE, NOT_RUN = "killed", "survived", "late", "not run"
UNSURE = "unsure"  # late, but so might the tests be without the mutant
NOT_PLANTED = "not planted"  # nothing that is loaded has the function: a fault of this tool
SURVIVAL, ABSENT = 101, 102  # exit codes of a child
LIMIT_CPU = 6.0  # seconds that a test may compute beyond what it needs
LIMIT = 12.0  # seconds that a test may take at all, waiting for a processor not counted
FAR = 4  # what is late takes as many times of what its test takes without it
UNKNOWN = 5.0  # seconds of a test that was not timed
BUDGET = 60.0  # seconds of tests for one mutant: hardly ever are some left out

# A mutant is noticed by the first example; a smaller one would take minutes to find.
settings.register_profile("mutants", phases=(Phase.explicit, Phase.generate), database=None)
settings.load_profile("mutants")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--mutants-plan", help="a JSON file with mutants, and where results go")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    option = session.config.getoption("--mutants-plan")
    if not option or session.config.option.collectonly:
        return None
    plan = json.loads(Path(option).read_text("utf-8"))
    if session.testsfailed:
        raise session.Failed("tests cannot be collected")
    _Run(session, plan).all()
    return True


class _Run:
    """All mutants of one plan, one after another."""

    def __init__(self, session: pytest.Session, plan: dict) -> None:
        self.items = {item.nodeid: item for item in session.items}
        self.plan = plan
        self.results = Path(plan["results"])
        self.data = Path(f"{plan['learnt']}.coverage")
        self.learnt = Path(f"{plan['learnt']}.learnt")
        self.at = Path(f"{plan['results']}.at")
        self.part = Path(f"{plan['learnt']}.part")  # of what is to be learnt
        # Tests of whole programs: the lines they run are not seen, so they are asked last.
        self.far = [name for name in self.items if name.startswith(tuple(plan["far"]))]

    def all(self) -> None:
        self.learnt.unlink(missing_ok=True)
        _child(self._learn, wall=3600)
        if not self.learnt.exists():
            return  # the next run goes on with it
        took = json.loads(self.learnt.read_text("utf-8"))
        data = coverage.CoverageData(str(self.data))
        data.read()
        with self.results.open("a", encoding="utf-8") as out:
            for mutant in self.plan["mutants"]:
                if self._is_over():
                    return
                names = self._tests(mutant, data, took)
                began = time.monotonic()
                outcome = self._outcome(mutant, names, took)
                seconds = round(time.monotonic() - began, 1)
                shown = mutant | {"outcome": outcome, "tests": len(names), "seconds": seconds}
                print(json.dumps(shown), file=out, flush=True)
                print(f"{outcome:9}{seconds:6.1f} s {mutant['key']}", file=sys.__stderr__)

    def _is_over(self) -> bool:
        deadline = self.plan.get("deadline")
        return deadline is not None and time.time() > deadline

    def _learn(self) -> int:
        sources = [str(ROOT / place) for place in self.plan["sources"]]
        cov = coverage.Coverage(data_file=str(self.data), include=sources, config_file=False)
        took: dict[str, float | None] = {}  # None: it does not pass
        if self.plan["keep"] and self.part.exists():
            took = json.loads(self.part.read_text("utf-8"))
            cov.load()
        else:
            cov.erase()
        cov.start()
        left = set(self.items) - set(self.far) - set(took)
        near = [item for name, item in self.items.items() if name in left]
        for item, following in pairwise([*near, None]):
            if self._is_over():
                break
            cov.switch_context(item.nodeid)
            began = time.process_time()
            passes = _passes(item, following)
            took[item.nodeid] = time.process_time() - began if passes else None
        cov.stop()
        cov.save()
        whole = left <= set(took)
        found = {
            name: spent for name, spent in took.items() if spent is not None and name in self.items
        }
        self.part.write_text(json.dumps(took), "utf-8")
        if whole:
            self.learnt.write_text(json.dumps(found), "utf-8")
        return 0

    def _tests(self, mutant: dict, data: coverage.CoverageData, took: dict) -> list[str]:
        lines = data.contexts_by_lineno(str(ROOT / mutant["path"]))
        spanned = range(mutant["first"], mutant["last"] + 1)
        near = {name for line in spanned for name in lines.get(line, ()) if name in took}
        chosen, spent = [], 0.0
        for name in sorted(near, key=lambda name: (took[name], name)):
            spent += took[name]
            if chosen and spent > BUDGET:
                break
            chosen.append(name)
        return chosen + self.far

    def _outcome(self, mutant: dict, names: list[str], took: dict) -> str:
        if not names:
            return NOT_RUN

        def changed() -> int:
            if not plant(ROOT / mutant["path"], mutant["index"]):
                return ABSENT
            return self._ask(names, limits)

        limits = {name: LIMIT_CPU + FAR * took.get(name, UNKNOWN) for name in names}
        wall = LIMIT + FAR * max(took.get(name, UNKNOWN) for name in names)
        code = _child(changed, wall=wall, at=self.at)
        if code is None:
            begun = names[int(self.at.read_text("utf-8"))]
            less = {begun: limits[begun] / FAR}
            alone = _child(lambda: self._ask([begun], less), wall=wall / FAR)
            return LATE if alone == SURVIVAL else UNSURE
        return {SURVIVAL: SURVIVED, ABSENT: NOT_PLANTED}.get(code, KILLED)

    def _ask(self, names: list[str], limits: dict[str, float]) -> int:
        """Run tests, each within its limit, until one fails; `at` tells how far it came."""
        items = [*(self.items[name] for name in names), None]
        for number, (item, following) in enumerate(pairwise(items)):
            self.at.write_text(str(number), "utf-8")
            assert item is not None
            limit = int(time.process_time() + limits[item.nodeid]) + 1
            resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
            if not _passes(item, following):
                return 0
        return SURVIVAL


def _passes(item: pytest.Item, following: pytest.Item | None) -> bool:
    """Run one test; fixtures that the following one shares stay."""
    reports = runtestprotocol(item, log=False, nextitem=following)
    return not any(report.failed for report in reports) and any(r.passed for r in reports)


def _child(work: Callable[[], int], *, wall: float, at: Path | None = None) -> int | None:
    """Do the work in a fork; return its exit code, None if it was late.

    With `at` it is late when that file is not written for `wall` seconds.
    """
    pid = os.fork()
    if pid == 0:
        code = 3
        try:
            os.setsid()
            null = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(null, stream)
            code = work()
        finally:
            os._exit(code)
    began, deadline, step = time.monotonic(), wall, _written(at)
    late = False
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        if step != (now := _written(at)):
            began, deadline, step = time.monotonic(), wall, now
        if time.monotonic() - began > deadline:
            # A busy machine is not the mutant's fault, but it must end.
            deadline = wall + min(_kept_waiting(pid), 20 * wall)
            if time.monotonic() - began > deadline:
                late = True
                _end_group(pid)
        time.sleep(0.02)
    _end_group(pid)
    late = late or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU)
    return None if late else os.waitstatus_to_exitcode(status)


def _written(file: Path | None) -> int:
    return file.stat().st_mtime_ns if file is not None and file.exists() else 0


def _kept_waiting(session: int) -> float:
    """Return how many seconds a session's threads were ready to run and had no processor."""
    waited = 0
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(place.name)) == session:
                for thread in place.glob("task/*/schedstat"):
                    waited += int(thread.read_text("ascii").split()[1])
        except OSError:
            continue  # it ended meanwhile
    return waited / 1e9


def _end_group(pid: int) -> None:
    """End the child and the programs it started."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
