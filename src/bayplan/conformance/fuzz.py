"""Random cases, asked of the real scheduler and of the engine.

Families take turns; case `i` of seed `s` in a family is `family-s-i`, whichever other families run.
A difference is shrunk and written as a recording that `conformance decisions` replays.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bayplan.config import FeatureGates
from bayplan.conformance.compare import differences, leaving
from bayplan.conformance.known import Sides, known
from bayplan.conformance.oracle import Oracle, OracleFailed
from bayplan.conformance.shrink import shrink
from bayplan.engine.replay import decide
from bayplan.errors import BayplanError
from bayplan.testing.cases import case as draw_case

Body = dict[str, Any]
MANY_TRIES = 64
"""How often preemption is asked before an answer counts as impossible."""


@dataclass
class Difference:
    """A case in which we decide differently."""

    case: Body
    lines: list[str]


@dataclass
class Tally:
    """What came of a run."""

    compared: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    """Cases that the real scheduler does not take, which are left out."""
    known: Counter[str] = field(default_factory=Counter)
    """Differences that are listed with a reason."""
    differing: Counter[str] = field(default_factory=Counter)


def cases(families: Sequence[str], seed: int, count: int) -> Iterator[Body]:
    """`count` cases, the families taking turns."""
    for index in range(count):
        family = families[index % len(families)]
        yield draw_case(family, f"{seed}-{index // len(families)}")


def minor(version: str) -> str:
    """`1.37` of `v1.37.1`."""
    return ".".join(version.removeprefix("v").split(".")[:2])


class Fuzzer:
    """Compares cases and keeps the tally."""

    def __init__(self, oracle: Oracle, gates: FeatureGates) -> None:
        self.tally = Tally()
        self._oracle = oracle
        self._gates = gates

    def check(self, case: Body) -> Difference | None:
        """Ask both; None if they agree, or the difference is known, or the case is refused."""
        family = case["family"]
        case = with_known_gates(case, self._gates)
        self._oracle.begin(case)
        got = ours(case, self._gates)  # while the oracle thinks
        try:
            want = self._oracle.end(case)
        except OracleFailed as problem:
            if "panic" in str(problem) or "ended" in str(problem):
                raise
            self.tally.refused[family] += 1
            return None
        self.tally.compared[family] += 1
        lines = differences(want, got, leaving(case))
        if lines and "postFilter" in want:
            # a rare candidate may not have come up yet
            want = self._oracle.decide(case, tries=MANY_TRIES)
            lines = differences(want, got, leaving(case))
        if not lines:
            return None
        if reason := known(case, lines, self._sides(want, got)):
            self.tally.known[reason] += 1
            return None
        self.tally.differing[family] += 1
        return Difference({**case, "expect": want}, lines)

    def shrunk(self, found: Difference) -> Difference:
        """The same difference in a smaller case."""
        wanted = _places(found.lines)

        def differs(case: Body) -> bool:
            try:
                want = self._oracle.decide(case, tries=MANY_TRIES)
            except OracleFailed:
                return False
            got = ours(case, self._gates)
            lines = differences(want, got, leaving(case))
            explained = known(case, lines, self._sides(want, got))
            return bool(_places(lines) & wanted) and not explained

        bare = {key: value for key, value in found.case.items() if key != "expect"}
        small = shrink(bare, differs)
        want = self._oracle.decide(small, tries=MANY_TRIES)
        lines = differences(want, ours(small, self._gates), leaving(small))
        return Difference({**small, "expect": want}, lines)

    def _sides(self, want: Body, got: Body) -> Sides:
        return Sides(want, got, lambda case: ours(case, self._gates))


def with_known_gates(case: Body, gates: FeatureGates) -> Body:
    """The case without gates that the version lacks, or that it does not let anybody change."""
    if "gates" not in case:
        return case
    free = {name for name in gates.names() if not gates.locked(name)}
    return {**case, "gates": {name: on for name, on in case["gates"].items() if name in free}}


def ours(case: Body, gates: FeatureGates) -> Body:
    """What the engine decides on a case; a refusal is an answer, which shows as a difference."""
    if case.get("gates"):
        gates = gates.with_changes(case["gates"])
    try:
        return decide(case["objects"], case["pod"], case.get("config"), gates=gates)
    except BayplanError as problem:
        return {"error": f"refused: {problem}"}


def _places(lines: list[str]) -> set[str]:
    """The kinds of places that differ: `nodes`, `scores.NodeAffinity`, `message`."""
    found = set()
    for line in lines:
        parts = line.partition(":")[0].split(".")
        found.add(".".join(parts[:2]) if parts[0] == "scores" else parts[0])
    return found


def write(found: Difference, version: str, folder: Path) -> Path:
    """Write a case where `conformance decisions` can replay it, as the version that it is about."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{found.case['id']}.jsonl"
    body = {"version": version, **found.case}
    path.write_text(json.dumps(body) + "\n", encoding="utf-8")
    return path
