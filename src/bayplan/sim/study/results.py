"""Results of a sweep as a table: one row a run, in the order of the plan; and what they say."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev

import msgspec

from bayplan.errors import BayplanError
from bayplan.extras import needed
from bayplan.sim.study.measures import NAMES
from bayplan.sim.study.plan import Task
from bayplan.sim.study.run import Outcome

AXES = ("config", "workload", "load", "version", "seed")
COLUMNS = (*AXES, "error", *NAMES, "hash", "run")
_T = (
    *(12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23),
    *(2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10, 2.09, 2.09),
    *(2.08, 2.07, 2.07, 2.06, 2.06, 2.06, 2.05, 2.05, 2.05, 2.04),
)
"""Student's t for 95 % on both sides, by degrees of freedom from 1."""
Row = dict[str, object]


def rows(tasks: Iterable[Task], known: Mapping[str, Outcome]) -> list[Row]:
    """All finished runs of a plan, in its order."""
    return [_row(task, known[task.key]) for task in tasks if task.key in known]


def _row(task: Task, outcome: Outcome) -> Row:
    row: Row = {
        "config": task.config,
        "workload": task.source,
        "load": task.load,
        "version": task.version,
        "seed": task.seed,
        "error": outcome.error,
    }
    measured = {} if outcome.measures is None else msgspec.structs.asdict(outcome.measures)
    row |= {name: measured.get(name) for name in NAMES}
    return row | {"hash": outcome.hash, "run": task.key}


def write(path: Path, found: Sequence[Row]) -> None:
    """Write a CSV or Parquet file, by its ending, all at once."""
    half = path.with_name(path.name + ".half")
    try:
        if path.suffix == ".parquet":
            arrow, parquet = needed("pyarrow", "parquet"), needed("pyarrow.parquet", "parquet")
            columns = {name: [row[name] for row in found] for name in COLUMNS}
            parquet.write_table(arrow.table(columns), half)
        else:
            with half.open("w", newline="", encoding="utf-8") as file:
                out = csv.DictWriter(file, COLUMNS, lineterminator="\n")
                out.writeheader()
                out.writerows(found)
        half.replace(path)
    except OSError as problem:
        raise BayplanError(f"writing {path}: {problem.strerror}") from problem


class Estimate(msgspec.Struct, frozen=True):
    """A mean over seeds and half of its 95 % confidence interval (NaN for one seed)."""

    mean: float
    half: float
    runs: int

    def __str__(self) -> str:
        if math.isnan(self.half):
            return f"{self.mean:.4g}"
        return f"{self.mean:.4g} ± {self.half:.2g}"


def estimate(values: Sequence[float]) -> Estimate:
    """Sum up one measure of several seeds."""
    if len(values) < 2:
        return Estimate(values[0] if values else math.nan, math.nan, len(values))
    t = _T[min(len(values) - 1, len(_T)) - 1] if len(values) <= len(_T) + 1 else 1.96
    return Estimate(mean(values), t * stdev(values) / math.sqrt(len(values)), len(values))


Point = tuple[str, str, float, str]
"""Config, workload, load, version."""


def by_point(found: Iterable[Row]) -> dict[Point, list[Row]]:
    """The runs that differ in nothing but the seed."""
    points: defaultdict[Point, list[Row]] = defaultdict(list)
    for row in found:
        point = (row["config"], row["workload"], row["load"], row["version"])
        points[point].append(row)  # type: ignore[index]
    return dict(points)


def values(found: Iterable[Row], name: str) -> list[float]:
    """A measure of the runs that have one."""
    return [float(row[name]) for row in found if row[name] is not None]  # type: ignore[arg-type]
