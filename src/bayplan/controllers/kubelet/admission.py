"""What a kubelet refuses although the pod is bound to its node: ports that another pod has.

A scheduler sees to it; a pod that names its node itself, or two schedulers, may not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bayplan.controllers.kubelet.pod import PodRun
from bayplan.controllers.objects import Object

REASON = "NodePorts"
TEXT = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
ANY = "0.0.0.0"


def refuses(pod: Object, there: Iterable[PodRun]) -> bool:
    """Tell whether a pod wants a port of its node that one of those that run there has."""
    wanted = list(host_ports(pod))
    return any(
        _clash(taken, port)
        for run in there
        if run.began and not run.finished and run.pod.metadata.uid != pod.metadata.uid
        for taken in host_ports(run.pod)
        for port in wanted
    )


def host_ports(pod: Object) -> Iterator[tuple[str, str, int]]:
    for container in pod.spec.get("containers") or ():
        for port in container.get("ports") or ():
            if port.get("hostPort"):
                yield port.get("hostIP") or ANY, port.get("protocol", "TCP"), port["hostPort"]


def _clash(one: tuple[str, str, int], other: tuple[str, str, int]) -> bool:
    return one[1:] == other[1:] and (one[0] == other[0] or ANY in (one[0], other[0]))
