"""NodePorts: which pod holds the host port."""

from __future__ import annotations

from bayplan.cluster.arrays import IntArray
from bayplan.cluster.info import PodInfo, Port, ports_conflict
from bayplan.framework import Status
from bayplan.inspect.step import Step, remove
from bayplan.inspect.why.case import Case
from bayplan.words import plural


def holders(case: Case, row: int) -> list[tuple[Port, PodInfo]]:
    """The pods of a node that hold a port which the pod wants."""
    return [
        (wanted, info)
        for info in case.table.pods[row]
        for wanted in case.info.traits.ports
        if any(ports_conflict(wanted, used) for used in info.traits.ports)
    ]


def facts(case: Case, status: Status, rows: IntArray) -> list[str]:
    found: dict[Port, list[tuple[str, str]]] = {}
    for row in rows[:2000].tolist():
        for port, info in holders(case, row):
            found.setdefault(port, []).append((info.pod.key, case.name(row)))
    return [
        f"host port {written(port)} is held on {plural(len({n for _, n in by}), 'node')}, "
        f"by {by[0][0]} on {by[0][1]}" + (f" and {len(by) - 1:,} more" if len(by) > 1 else "")
        for port, by in found.items()
    ]


def lacks(case: Case, row: int) -> str:
    parts = [f"{written(port)} is held by {info.pod.key}" for port, info in holders(case, row)]
    return f"host port {', '.join(parts)}"


def steps(case: Case, row: int) -> list[Step]:
    taken = {port for port, _ in holders(case, row)}
    ops, texts = [], []
    for number, container in enumerate(case.pod.spec.containers):
        for place, item in enumerate(container.ports):
            port = (item.host_ip or "0.0.0.0", item.protocol or "TCP", item.host_port)
            if port in taken:
                ops.append(remove("spec", "containers", number, "ports", place, "hostPort"))
                texts.append(written(port))
    if not ops or case.pod.spec.host_network:
        return []
    text = f"do not ask for host port {' and '.join(texts)}"
    return [Step(text, 35, "port", tuple(ops))]


def written(port: Port) -> str:
    address = "" if port[0] == "0.0.0.0" else f"{port[0]}:"
    return f"{address}{port[2]}/{port[1]}"
