"""Bayplan's own trace format: CSV, one pod a line, and what becomes of a line.

    time,duration,cpu,memory,labels,priority,gang,extra
    0,3600,500m,1Gi,app=web;tier=front,high,,nvidia.com/gpu=1

`time` is in seconds from the beginning; without a `duration` a pod stays. `labels` and `extra`
(other resources) are `key=value`, with semicolons between them; `priority` names a PriorityClass;
`gang` becomes the label `bayplan.dev/gang`. Only `time` is required. Lines need no order.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

import msgspec

from bayplan.api import quantity
from bayplan.errors import BayplanError
from bayplan.sim.traces.table import Row, TraceError, rows, rows_of
from bayplan.sim.workload import Arrival

COLUMNS = ("time", "duration", "cpu", "memory", "labels", "priority", "gang", "extra")
GANG = "bayplan.dev/gang"
GPU = "nvidia.com/gpu"


class TracePod(msgspec.Struct, frozen=True):
    """One pod of a trace."""

    time: float
    duration: float | None = None
    cpu: str = ""
    memory: str = ""
    labels: dict[str, str] = {}
    priority: str = ""
    gang: str = ""
    extra: dict[str, str] = {}

    def arrival(self) -> Arrival:
        """The pod as workloads play it."""
        labels = {**self.labels, **({GANG: self.gang} if self.gang else {})}
        given = {
            "cpu": self.cpu,
            "memory": self.memory,
            "labels": labels,
            "extra": self.extra,
            "priorityClassName": self.priority,
        }
        shape = {name: value for name, value in given.items() if value}
        return Arrival(self.time, shape, self.duration)


def read_trace(path: Path) -> list[TracePod]:
    """Read a trace, in the order of time; raises TraceError that names file, line and column."""
    return _in_order(rows(path, ("time",), COLUMNS), str(path))


def parse_trace(text: str, name: str) -> list[TracePod]:
    """Read the text of a trace; errors call it `name`."""
    return _in_order(rows_of(text.splitlines(keepends=True), name, ("time",), COLUMNS), name)


def _in_order(found: Iterable[Row], name: str) -> list[TracePod]:
    pods = [_pod(row) for row in found]
    if not pods:
        raise TraceError(f"{name}: the trace holds no pods")
    return sorted(pods, key=lambda pod: pod.time)


def _pod(row: Row) -> TracePod:
    for column in ("cpu", "memory"):
        _check(row, column, row.text(column))
    extra = _pairs(row, "extra")
    for value in extra.values():
        _check(row, "extra", value)
    return TracePod(
        time=row.number("time"),
        duration=row.number("duration") if row.text("duration") else None,
        cpu=row.text("cpu"),
        memory=row.text("memory"),
        labels=_pairs(row, "labels"),
        priority=row.text("priority"),
        gang=row.text("gang"),
        extra=extra,
    )


def _check(row: Row, column: str, text: str) -> None:
    try:
        if text and quantity.milli_value(text) >= 0:
            return
    except (BayplanError, ValueError):
        pass
    if text:
        raise row.error(column, f'"{text}" is not a quantity; write 500m, 2 or 1Gi')


def _pairs(row: Row, column: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for part in filter(None, row.text(column).split(";")):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise row.error(column, f'"{part}" is not key=value')
        pairs[name.strip()] = value.strip()
    return pairs


def write_trace(path: Path, pods: Iterable[TracePod]) -> int:
    """Write a trace whole, or leave what was there; return the number of its pods."""
    whole = path if path.exists() and not path.is_file() else path.resolve()
    half = whole if whole is path else whole.with_name(f".{whole.name}.half")
    number = 0
    try:
        with half.open("w", newline="", encoding="utf-8") as file:
            out = csv.writer(file)
            out.writerow(COLUMNS)
            for pod in pods:
                out.writerow(_line(pod))
                number += 1
        half.replace(whole)
    except OSError as problem:
        raise TraceError(f"writing trace {path}: {problem.strerror}") from problem
    finally:
        if half is not whole:
            half.unlink(missing_ok=True)
    return number


def _line(pod: TracePod) -> list[str]:
    duration = "" if pod.duration is None else _short(pod.duration)
    labels, extra = (
        ";".join(f"{name}={value}" for name, value in pairs.items())
        for pairs in (pod.labels, pod.extra)
    )
    return [_short(pod.time), duration, pod.cpu, pod.memory, labels, pod.priority, pod.gang, extra]


def _short(seconds: float) -> str:
    return f"{seconds:.3f}".rstrip("0").rstrip(".")
