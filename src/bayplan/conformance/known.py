"""Differences that are known and accepted, each with its reason.

The list is the one in `docs/design/conformance.md`; the fuzzer counts them apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Body = dict[str, Any]


def _doubled_ports(case: Body, lines: list[str]) -> bool:
    """Two placed pods hold one host port of a node, which only a bypassed scheduler brings about.

    The real node info keeps ports in a set: it forgets the port when one of the two goes, and
    preemption then believes that evicting one is enough.
    """
    seen: set[tuple[object, ...]] = set()
    for pod in case["objects"].get("pods") or ():
        for port in _host_ports(pod):
            if port in seen:
                return all(line.startswith(("message", "postFilter")) for line in lines)
            seen.add(port)
    return False


def _host_ports(pod: Body) -> set[tuple[object, ...]]:
    node = pod["spec"].get("nodeName")
    return {
        (node, port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", port["hostPort"])
        for container in pod["spec"]["containers"]
        for port in container.get("ports") or ()
        if node and port.get("hostPort")
    }


def _drawn_capacity(case: Body, lines: list[str]) -> bool:
    """Several CSIStorageCapacities of one class may mean a node; the real scheduler takes any.

    Which it takes shows in the score alone: it looks for one that is large enough.
    """
    classes = [item["storageClassName"] for item in case["objects"].get("csiStorageCapacities", ())]
    shown = ("raw.VolumeBinding", "scores.VolumeBinding", "totals", "best")
    return len(classes) > len(set(classes)) and all(line.startswith(shown) for line in lines)


KNOWN: dict[str, Callable[[Body, list[str]], bool]] = {
    "two placed pods hold one host port": _doubled_ports,
    "one of several capacities is drawn": _drawn_capacity,
}


def known(case: Body, lines: list[str]) -> str:
    """The name of the accepted difference that explains every line, or nothing."""
    return next((name for name, explains in KNOWN.items() if explains(case, lines)), "")
