"""TaintToleration and NodeUnschedulable: which taint, on how many nodes, and what tolerates it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from msgspec.structs import replace

from bayplan.api import Node, Pod, Taint, plain
from bayplan.api.taints import tolerated
from bayplan.cluster.arrays import FloatArray, IntArray, distinct
from bayplan.framework import Status
from bayplan.inspect.amounts import listed
from bayplan.inspect.step import Step, set_to
from bayplan.inspect.why.case import CORDON, HARD, Case
from bayplan.words import plural

LIFECYCLE = {
    "node.kubernetes.io/not-ready": "the node is not ready",
    "node.kubernetes.io/unreachable": "the node has stopped answering",
    "node.kubernetes.io/memory-pressure": "the node is short of memory",
    "node.kubernetes.io/disk-pressure": "the node is short of disk",
    "node.kubernetes.io/pid-pressure": "the node is short of process ids",
    "node.kubernetes.io/network-unavailable": "the node's network is not set up",
    "node.kubernetes.io/out-of-service": "the node was taken out of service",
    "node.cloudprovider.kubernetes.io/uninitialized": "the cloud has not set the node up yet",
    "node.cloudprovider.kubernetes.io/shutdown": "the node is shut down",
}


def in_the_way(pod: Pod, taints: Iterable[Taint]) -> list[Taint]:
    """Those of a node's taints that keep a pod out."""
    return [
        taint
        for taint in taints
        if taint.effect in HARD and not tolerated(pod.spec.tolerations, taint)
    ]


def trouble(case: Case, rows: IntArray) -> FloatArray:
    """How far taints keep rows away; a node that is not well is farther than any shortage."""
    codes = case.table.taint_sets[rows]
    by_code = np.zeros(int(codes.max(initial=0)) + 1)
    for code in distinct(codes):
        taints = in_the_way(case.pod, case.table.taints[code])
        by_code[code] = sum(2.0 if taint.key in LIFECYCLE else 0.5 for taint in taints)
    found: FloatArray = by_code[codes]
    return found


def facts(case: Case, status: Status, rows: IntArray) -> list[str]:
    found: dict[Taint, list[IntArray]] = {}
    codes = case.table.taint_sets[rows]
    for code in distinct(codes):
        for taint in in_the_way(case.pod, case.table.taints[code]):
            found.setdefault(taint, []).append(rows[codes == code])
    joined = [(taint, np.concatenate(some)) for taint, some in found.items()]
    joined.sort(key=lambda item: (-len(item[1]), written(item[0])))
    return [_taint_fact(case, taint, some) for taint, some in joined[:6]]


def _taint_fact(case: Case, taint: Taint, rows: IntArray) -> str:
    names = listed(case.names(rows, 3), 2, len(rows))
    text = f"{written(taint)} on {plural(len(rows), 'node')} ({names})"
    meaning = LIFECYCLE.get(taint.key)
    if meaning is not None:
        return f"{text}: {meaning}"
    near = f"; a toleration {{{toleration_text(taint)}}} would let it in"
    return text + near


def lacks(case: Case, row: int) -> str:
    taints = in_the_way(case.pod, case.table.nodes[row].spec.taints)
    meanings = [LIFECYCLE[taint.key] for taint in taints if taint.key in LIFECYCLE]
    text = f"does not tolerate {', '.join(written(taint) for taint in taints)}"
    return f"{text} ({', '.join(meanings)})" if meanings else text


def steps(case: Case, row: int) -> list[Step]:
    node = case.table.nodes[row]
    taints = in_the_way(case.pod, node.spec.taints)
    found = []
    if all(taint.key not in LIFECYCLE for taint in taints):
        found.append(_tolerate(case, node, taints))
        left = tuple(taint for taint in node.spec.taints if taint not in taints)
        found.append(
            Step(
                f"remove the taint {' and '.join(map(written, taints))} from {node.name}",
                45,
                "untaint",
                put=(replace(node, spec=replace(node.spec, taints=left)),),
                commands=tuple(
                    f"kubectl taint nodes {node.name} {taint.key}:{taint.effect}-"
                    for taint in taints
                ),
            )
        )
    return found


def _tolerate(case: Case, node: Node, taints: list[Taint]) -> Step:
    pod, asked = case.pod, case.info.traits.resources.fit
    # a node with devices is kept for those who ask for them
    special = any("/" in name and name not in asked for name in node.status.allocatable)
    added = [_toleration(taint) for taint in taints]
    kept = [plain(item) for item in pod.spec.tolerations]
    texts = " and ".join(f"{{{toleration_text(taint)}}}" for taint in taints)
    return Step(
        f"add the toleration {texts}",
        15 + 5 * len(taints) + (25 if special else 0),
        f"tolerate {texts}",
        (set_to([*kept, *added], "spec", "tolerations"),),
    )


def _toleration(taint: Taint) -> dict[str, str]:
    body = {"key": taint.key, "operator": "Equal" if taint.value else "Exists"}
    if taint.value:
        body["value"] = taint.value
    return body | {"effect": taint.effect}


def toleration_text(taint: Taint) -> str:
    return ", ".join(f"{key}: {value}" for key, value in _toleration(taint).items())


def written(taint: Taint) -> str:
    """`key=value:Effect`, as kubectl writes it."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def cordon_facts(case: Case, status: Status, rows: IntArray) -> list[str]:
    names = case.names(rows, 4)
    rest = f" and {len(rows) - len(names):,} more" if len(rows) > len(names) else ""
    return [f"cordoned: {', '.join(names)}{rest}"]


def cordon_lacks(case: Case, row: int) -> str:
    return "it is cordoned"


def cordon_steps(case: Case, row: int) -> list[Step]:
    node = case.table.nodes[row]
    taints = tuple(taint for taint in node.spec.taints if taint.key != CORDON)
    free = replace(node, spec=replace(node.spec, unschedulable=False, taints=taints))
    commands = (f"kubectl uncordon {node.name}",)
    return [Step(f"uncordon {node.name}", 10, "uncordon", put=(free,), commands=commands)]
