"""Alibaba's `openb` trace (GPU cluster, 2023): nodes and pods with GPU models and shared GPUs.

The files are not part of Bayplan; they are `data/csv` of hkust-adsl/kubernetes-scheduler-simulator.
GPUs become labels, as the plugins in `examples/policies` read them.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from bayplan.sim import objects
from bayplan.sim.traces.format import TracePod
from bayplan.sim.traces.table import rows

COUNT, MILLI, MODEL = "gpu-count", "gpu-milli", "gpu-model"


class OpenbNode(msgspec.Struct, frozen=True):
    """One line of a node list."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpu: int
    model: str

    def body(self) -> objects.Object:
        labels = {COUNT: str(self.gpu)} | ({MODEL: self.model} if self.model else {})
        memory = f"{self.memory_mib}Mi"
        cpu = f"{self.cpu_milli}m"
        return objects.node(self.name, cpu=cpu, memory=memory, pods=1001, labels=labels)


class OpenbPod(msgspec.Struct, frozen=True):
    """One line of a pod list."""

    name: str
    cpu_milli: int
    memory_mib: int
    num_gpu: int
    gpu_milli: int
    gpu_spec: str
    """Models, with dots between them."""
    created: float = 0.0
    deleted: float = 0.0

    def labels(self) -> dict[str, str]:
        """What the policies read."""
        if not self.num_gpu:
            return {}
        labels = {COUNT: str(self.num_gpu), MILLI: str(self.gpu_milli)}
        return labels | ({MODEL: self.gpu_spec} if self.gpu_spec else {})

    def body(self, name: str) -> objects.Object:
        cpu, memory = f"{self.cpu_milli}m", f"{self.memory_mib}Mi"
        return objects.pod(name, cpu=cpu, memory=memory, labels=self.labels())


def read_nodes(path: Path) -> list[OpenbNode]:
    """Read a node list; raises TraceError."""
    columns = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
    return [
        OpenbNode(
            row.text("sn"),
            row.integer("cpu_milli"),
            row.integer("memory_mib"),
            row.integer("gpu", 0),
            row.text("model"),
        )
        for row in rows(path, columns)
    ]


def read_pods(path: Path) -> list[OpenbPod]:
    """Read a pod list; raises TraceError."""
    found = []
    for row in rows(path, ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")):
        count, milli = row.integer("num_gpu", 0), row.integer("gpu_milli", 0)
        if count and not 0 < milli <= 1000:
            raise row.error("gpu_milli", f"{milli} is not between 1 and 1000")
        models = ".".join(filter(None, row.text("gpu_spec").split("|")))
        found.append(
            OpenbPod(
                row.text("name"),
                row.integer("cpu_milli"),
                row.integer("memory_mib"),
                count,
                milli if count else 0,
                models,
                row.number("creation_time", 0.0),
                row.number("deletion_time", 0.0),
            )
        )
    return found


def trace_of(path: Path) -> list[TracePod]:
    """A pod list in Bayplan's format, in the order of time; raises TraceError."""
    pods = sorted(read_pods(path), key=lambda pod: pod.created)
    begin = pods[0].created if pods else 0.0
    return [
        TracePod(
            pod.created - begin,
            max(pod.deleted - pod.created, 0.0) if pod.deleted else None,
            f"{pod.cpu_milli}m",
            f"{pod.memory_mib}Mi",
            pod.labels(),
        )
        for pod in pods
    ]
