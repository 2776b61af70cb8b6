"""Gavel's traces of training jobs (OSDI 2020), such as those drawn from Microsoft's Philly logs.

Lines of `scheduler/traces` in stanford-futuredata/gavel, fields with tabs between them: seven
(type, command, steps argument, needs data, steps, arrival, workers) or ten, as its later versions
have them. A job says how many steps it takes, not how long: `scheduler/simulation_throughputs.json`
of that repository knows steps a second by type, workers and accelerator. Where it has no figure for
so many workers, that of one worker times their number is taken. Each worker becomes a pod with one
GPU; the workers of a job are a gang. Nothing is known of CPU and memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from bayplan.sim.traces.format import GPU, TracePod
from bayplan.sim.traces.table import Row, TraceError

SEVEN = ("job_type", "command", "num_steps_arg", "needs_data_dir", "total_steps", "arrival_time",
         "scale_factor")  # fmt: skip
TEN = ("job_type", "command", "working_directory", "num_steps_arg", "needs_data_dir", "total_steps",
       "scale_factor", "priority_weight", "SLO", "arrival_time")  # fmt: skip
Speeds = Mapping[str, float]
"""Steps a second by `('type', workers)`."""


def read_speeds(path: Path, accelerator: str) -> Speeds:
    """Read the throughputs of one accelerator; raises TraceError."""
    try:
        data = msgspec.json.decode(path.read_bytes(), type=dict[str, dict[str, dict[str, object]]])
    except OSError as problem:
        raise TraceError(f"reading throughputs {path}: {problem.strerror}") from problem
    except msgspec.DecodeError as problem:
        raise TraceError(f"{path}: not throughputs: {problem}") from problem
    if accelerator not in data:
        raise TraceError(f"{path}: no accelerator {accelerator}; it has {', '.join(data)}")
    alone = {job: pairs.get("null") for job, pairs in data[accelerator].items()}
    return {job: float(v) for job, v in alone.items() if isinstance(v, int | float) and v > 0}


def read_jobs(path: Path, speeds: Speeds) -> list[TracePod]:
    """Read a trace, in the order of time; raises TraceError that names file, line and column."""
    found = [pod for row in _rows(path) for pod in _pods(row, speeds)]
    if not found:
        raise TraceError(f"{path}: the trace holds no jobs")
    return sorted(found, key=lambda pod: (pod.time, pod.gang))


def _rows(path: Path) -> Iterator[Row]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as problem:
        raise TraceError(f"reading trace {path}: {problem.strerror}") from problem
    except UnicodeDecodeError as problem:
        raise TraceError(f"{path}: not UTF-8 text: {problem.reason}") from problem
    for number, line in enumerate(lines, 1):
        fields = line.split("\t")
        names = {len(SEVEN): SEVEN, len(TEN): TEN}.get(len(fields))
        if names is None:
            said = f"the line has {len(fields)} fields with tabs between them, not 7 or 10"
            raise TraceError(f"{path}:{number}: column job_type: {said}")
        yield Row(str(path), number, dict(zip(names, fields, strict=True)))


def _pods(row: Row, speeds: Speeds) -> Iterator[TracePod]:
    kind, workers = row.text("job_type"), row.integer("scale_factor", least=1)
    speed = speeds.get(str((kind, workers))) or workers * speeds.get(str((kind, 1)), 0.0)
    if not speed:
        raise row.error("job_type", f'the throughputs have no "{kind}"')
    duration = round(row.integer("total_steps") / speed, 3)
    gang = f"job-{row.line}" if workers > 1 else ""
    labels = {"app": "".join(c if c.isalnum() else "-" for c in kind.lower()).strip("-")}
    for _ in range(workers):
        yield TracePod(
            row.number("arrival_time"), duration, labels=labels, gang=gang, extra={GPU: "1"}
        )
