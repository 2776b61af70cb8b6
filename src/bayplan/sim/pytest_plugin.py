"""Makes every `*.scenario.yaml` file a test: `pytest scenarios/`.

Only files with that ending are collected, so that other YAML is left alone. `--scenario-seed` runs
them with another seed. A failed test shows the failures and the end of the timeline. Heavy imports
wait until there is a scenario, because every pytest run of the environment loads this module.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest._code.code import ExceptionInfo, TerminalRepr

    from bayplan.sim.run import Result

ENDING = ".scenario.yaml"
LINES = 30


class ScenarioFailed(Exception):
    """A scenario ran and failed."""

    def __init__(self, result: Result) -> None:
        super().__init__(result.problems())
        self.result = result


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("bayplan")
    group.addoption("--scenario-seed", type=int, default=None, help="seed of *.scenario.yaml tests")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.name.endswith(ENDING):
        file: pytest.Collector = ScenarioFile.from_parent(parent, path=file_path)
        return file
    return None


class ScenarioFile(pytest.File):
    """A file with one scenario."""

    def collect(self) -> Iterator[pytest.Item]:
        item: pytest.Item = ScenarioItem.from_parent(self, name="scenario")
        yield item


class ScenarioItem(pytest.Item):
    """One run of one scenario, in virtual time."""

    def runtest(self) -> None:
        from bayplan.sim.script import load_script

        script = load_script(self.path)
        result = script.run(seed=self.config.getoption("--scenario-seed"))
        if not result.ok:
            raise ScenarioFailed(result)

    def repr_failure(
        self, excinfo: ExceptionInfo[BaseException], style: object = None
    ) -> str | TerminalRepr:
        from bayplan.errors import BayplanError

        problem = excinfo.value
        if isinstance(problem, ScenarioFailed):
            last = [moment.line() for moment in problem.result.timeline[-LINES:]]
            return "\n".join([*problem.result.failures, "", "the end of the timeline:", *last])
        if isinstance(problem, BayplanError):
            return str(problem)
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, 0, f"scenario: {self.path.name.removesuffix(ENDING)}"
