"""Alibaba's GPU trace of 2025: instances of recommendation services, with CPUs here and GPUs there.

The file is `cluster-trace-gpu-v2025/disaggregated_DLRM_trace.csv` of alibaba/clusterdata. CPUs are
whole cores, memory is in GiB, times are in seconds. An instance without a creation time ran before
the trace began and comes at 0; one without a deletion time stays. `max_instance_per_node`, RDMA and
disks are left out.
"""

from __future__ import annotations

from pathlib import Path

from bayplan.sim.traces.format import GPU, TracePod
from bayplan.sim.traces.table import Row, rows

COLUMNS = ("instance_sn", "role", "app_name", "cpu_request", "gpu_request", "memory_request",
           "creation_time", "deletion_time")  # fmt: skip


def read_instances(path: Path) -> list[TracePod]:
    """Read the trace, in the order of time; raises TraceError."""
    return sorted((_pod(row) for row in rows(path, COLUMNS)), key=lambda pod: pod.time)


def _pod(row: Row) -> TracePod:
    begin = row.number("creation_time", 0.0)
    duration = None
    if row.text("deletion_time"):
        duration = row.number("deletion_time") - begin
        if duration < 0:
            raise row.error("deletion_time", f"{row.text('deletion_time')} is before {begin:g}")
    gpus = row.integer("gpu_request", 0)
    return TracePod(
        begin,
        duration,
        f"{row.integer('cpu_request')}",
        f"{round(row.number('memory_request') * 1024)}Mi",
        {"app": row.text("app_name"), "role": row.text("role")},
        extra={GPU: str(gpus)} if gpus else {},
    )
