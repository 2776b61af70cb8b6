"""The check, by option, that a node has room for a pod that is about to be bound to it.

Schedulers that do not know of each other can overcommit a node: each sees it before the other's
binding. With this check the second binding is refused with a 409, as if the pod had been bound
already, and its scheduler tries again. It counts requests against allocatable, nothing else: ports,
volumes and affinity stay the scheduler's business. Nodes that do not exist are let through, as
without the check.
"""

from __future__ import annotations

from bayplan.api import quantity
from bayplan.apiserver.aside import Pauses
from bayplan.apiserver.backend import Backend
from bayplan.apiserver.codec import Codec, Object
from bayplan.apiserver.errors import conflict

Amounts = dict[str, int]
_PODS = "pods"
DECODE_COST = 4  # of a byte of a pod, that is read and counted


async def check(backend: Backend, codec: Codec, pod: Object, node_name: str) -> None:
    """Raise a 409 if the pod's requests exceed what is left on the node."""
    node = await backend.reader.newest("", "nodes", "", node_name)
    if node is None:
        return
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    free = {name: _milli(value) for name, value in allocatable.items()}
    placed = await backend.indexed.of(codec).find(node_name, codec.prefix)
    pauses = Pauses()
    for kv in placed.items:
        await pauses.after(len(kv.value) * DECODE_COST)
        other = codec.decode(kv)
        if (other.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            continue
        for name, amount in requests_of(other).items():
            free[name] = free.get(name, 0) - amount
    short = [name for name, amount in requests_of(pod).items() if amount > free.get(name, 0)]
    if short:
        name = pod["metadata"]["name"]
        what = ", ".join(sorted(short))
        why = f'node "{node_name}" has no room for pod {name}: insufficient {what}'
        raise conflict("", "pods/binding", name, why)


def requests_of(pod: Object) -> Amounts:
    """Sum what a pod asks for in thousandths: containers or the largest init step, overhead."""
    spec = pod.get("spec") or {}
    total: Amounts = {}
    for container in spec.get("containers") or ():
        _add(total, _container(container))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            _add(sidecars, _container(container))
            _raise(peak, sidecars)
        else:
            step = dict(sidecars)
            _add(step, _container(container))
            _raise(peak, step)
    _add(total, sidecars)
    _raise(total, peak)
    pod_level = (spec.get("resources") or {}).get("requests") or {}
    total.update({name: _milli(value) for name, value in pod_level.items()})
    _add(total, {name: _milli(value) for name, value in (spec.get("overhead") or {}).items()})
    total[_PODS] = 1000
    return total


def _container(container: Object) -> Amounts:
    requests = (container.get("resources") or {}).get("requests") or {}
    return {name: _milli(value) for name, value in requests.items()}


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise(total: Amounts, floor: Amounts) -> None:
    for name, amount in floor.items():
        total[name] = max(total.get(name, 0), amount)


def _milli(value: object) -> int:
    return quantity.milli_value(str(value))
