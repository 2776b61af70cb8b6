"""One row of plain values for each node and pod: what the page knows about it.

Strings that many rows share (namespaces, owners, sets of labels, taints) are numbers into one
list of texts. A set of labels is written `key=value,key=value`, sorted; the value `*`, which no
label can have, stands for the object's own name, so that host names do not make every set unique.
"""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.api import Node, Pod, parse_time
from bayplan.api.quantity import QuantityError
from bayplan.api.requests import node_allocatable, pod_resources

Row = tuple[int | float | str, ...]

NODE_FIELDS = ("name", "labels", "cpu", "memory", "pods", "gpu", "flags", "taints", "conditions",
               "more", "created")  # fmt: skip
POD_FIELDS = ("name", "namespace", "node", "cpu", "memory", "gpu", "priority", "phase", "place",
              "owner", "labels", "created", "nominated", "flags", "message")  # fmt: skip

NODE_FLAGS = NODE_FIELDS.index("flags")
NODE = POD_FIELDS.index("node")
PLACE = POD_FIELDS.index("place")
MESSAGE = POD_FIELDS.index("message")

READY, CORDONED, GHOST = 1, 2, 4
"""Flags of nodes; a ghost is only known because pods name it."""
TERMINATING, DISRUPTED = 1, 2
"""Flags of pods; disrupted by somebody else than their owner."""

PHASES = ("", "Pending", "Running", "Succeeded", "Failed", "Unknown")
"""The first is of pods that tell none, as in manifests."""
PLACES = ("bound", "active", "backoff", "unschedulable", "gated", "waiting", "binding", "finished")
BOUND, ACTIVE, BACKOFF, UNSCHEDULABLE, GATED, WAITING, BINDING, FINISHED = range(len(PLACES))

PLAIN = ("cpu", "memory", "pods")
HEALTHY = {"Ready": "True"}


class Texts:
    """Numbers for strings, in the order of their first use; 0 is the empty string."""

    def __init__(self) -> None:
        self.all: list[str] = [""]
        self._numbers: dict[str, int] = {"": 0}

    def number(self, text: str) -> int:
        found = self._numbers.get(text)
        if found is None:
            found = self._numbers[text] = len(self.all)
            self.all.append(text)
        return found


def node_row(node: Node, texts: Texts) -> Row:
    """Return a node as a row."""
    offered = _offered(node)
    flags = READY if _ready(node) else 0
    flags |= CORDONED if node.spec.unschedulable else 0
    taints = ",".join(f"{t.key}={t.value}:{t.effect}" for t in node.spec.taints)
    more = ",".join(
        f"{name}={amount}" for name, amount in sorted(offered.items()) if name not in PLAIN
    )
    return (
        node.name,
        texts.number(label_text(node.labels, node.name)),
        offered.get("cpu", 0),
        offered.get("memory", 0),
        offered.get("pods", 0),
        gpus(offered),
        flags,
        texts.number(taints),
        texts.number(_conditions(node)),
        texts.number(more),
        _seconds(node.metadata.creation_timestamp),
    )


def ghost_row(name: str) -> Row:
    """Return the row of a node that only pods speak of."""
    return (name, 0, 0, 0, 0, 0, GHOST, 0, 0, 0, 0)


def pod_row(pod: Pod, node: int, nominated: int, texts: Texts) -> Row:
    """Return a pod as a row; `node` and `nominated` are slots plus one, 0 for none."""
    requests = _requests(pod)
    owner = pod.controller
    place, message = place_of(pod)
    flags = TERMINATING if pod.terminating else 0
    for item in pod.status.conditions:
        if item.type == "DisruptionTarget" and item.status == "True":
            flags, message = flags | DISRUPTED, message or item.reason
    phase = pod.status.phase
    return (
        pod.name,
        texts.number(pod.namespace),
        node,
        requests.get("cpu", 0),
        requests.get("memory", 0),
        gpus(requests),
        pod.priority,
        PHASES.index(phase) if phase in PHASES else 0,
        place,
        texts.number(f"{owner.kind}/{owner.name}" if owner is not None else ""),
        texts.number(label_text(pod.labels, pod.name)),
        _seconds(pod.metadata.creation_timestamp),
        nominated,
        flags,
        message,
    )


def disrupted(pod: Pod) -> bool:
    """Tell whether somebody else than its owner ends a pod."""
    return any(c.type == "DisruptionTarget" and c.status == "True" for c in pod.status.conditions)


def place_of(pod: Pod) -> tuple[int, str]:
    """Return where a pod waits, and why, as far as the object itself tells."""
    if pod.finished:
        return FINISHED, ""
    if pod.spec.node_name:
        return BOUND, ""
    if pod.spec.scheduling_gates:
        return GATED, ", ".join(gate.name for gate in pod.spec.scheduling_gates)
    for item in pod.status.conditions:
        if item.type == "PodScheduled" and item.status == "False":
            return UNSCHEDULABLE, item.message or item.reason
    return ACTIVE, ""


def label_text(labels: Mapping[str, str], name: str) -> str:
    return ",".join(f"{k}={'*' if v == name else v}" for k, v in sorted(labels.items()))


def gpus(amounts: Mapping[str, int]) -> int:
    """Count whole accelerators under any vendor's name."""
    return sum(amount for name, amount in amounts.items() if name.endswith("/gpu"))


def _offered(node: Node) -> dict[str, int]:
    try:
        return node_allocatable(node.status.allocatable)
    except QuantityError:  # one odd node must not hide the others
        return {}


def _requests(pod: Pod) -> Mapping[str, int]:
    try:
        return pod_resources(pod).fit
    except QuantityError:
        return {}


def _ready(node: Node) -> bool:
    found = [item.status for item in node.status.conditions if item.type == "Ready"]
    return not found or found[0] == "True"  # dumps and tests often leave conditions out


def _conditions(node: Node) -> str:
    """Return the conditions that are not as they should be."""
    odd = [
        f"{item.type}={item.status} {item.reason}".rstrip()
        for item in node.status.conditions
        if item.status != HEALTHY.get(item.type, "False")
    ]
    return ", ".join(odd)


def _seconds(text: str) -> int:
    if not text:
        return 0
    try:
        return int(parse_time(text))
    except ValueError:
        return 0
