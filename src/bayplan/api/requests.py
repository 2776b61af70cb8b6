"""What a pod asks of a node, in the five variants that scheduling needs.

All sums are made on exact quantities and rounded once per pod. Regular containers add up; init
containers run one after the other beside the sidecars started before them, so their peak counts;
pod-level requests replace the sum of the containers; overhead comes on top. `pod_resources` gives
every variant at once and is cached by what the pod asks, as most pods ask the same as others.
Limits are not read: the API server copies them to requests before (`limits_to_requests`).
"""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

import msgspec

from bayplan.api import quantity
from bayplan.api.meta import Resources
from bayplan.api.names import qualified_name
from bayplan.api.pod import Container, ContainerStatus, Pod, ResourceRequirements
from bayplan.api.remembered import remembered

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL = "ephemeral-storage"
PODS = "pods"

DEFAULT_MILLI_CPU = 100
DEFAULT_MEMORY = 200 * 1024 * 1024

Nanos = dict[str, int]

_DEFAULTS: Nanos = {CPU: DEFAULT_MILLI_CPU * quantity.MICRO, MEMORY: DEFAULT_MEMORY * quantity.NANO}


class Counting(NamedTuple):
    """How requests are counted, which hangs on the version and its gates."""

    by_container: bool = False
    """While a pod is resized, the largest of each container counts (1.36), not of the pod."""
    pod_level: bool = True
    """Requests of the whole pod count (PodLevelResources)."""
    pod_resize: bool = True
    """They can be resized (InPlacePodLevelResourcesVerticalScaling)."""


AS_DEFAULT = Counting()


class PodResources(msgspec.Struct, frozen=True, gc=False):
    """A pod's requests as integers: cpu in milli, everything else in units.

    `fit` is what the pod needs to be placed, `used` what it takes once placed (status included).
    `nonzero` (cpu, memory) fills in defaults for placed pods, `scored` for the pod to be placed.
    """

    fit: dict[str, int]
    used: dict[str, int]
    nonzero: tuple[int, int]
    scored: tuple[int, int]


def pod_resources(pod: Pod, counting: Counting = AS_DEFAULT) -> PodResources:
    """Return all variants of a pod's requests. The result is shared: do not change it."""
    spec = pod.spec
    if spec.init_containers or spec.resources is not None or spec.overhead or has_own_status(pod):
        return _compute(pod, counting)
    return _simple(tuple([tuple(c.resources.requests.items()) for c in spec.containers]))


def has_own_status(pod: Pod) -> bool:
    """Whether the pod's status may change what it uses (an in-place resize).

    Kubelets write what every running container has; as long as that is what was asked for, it
    changes nothing.
    """
    status = pod.status
    if status.resources is not None or status.allocated_resources:
        return True
    if status.conditions and _resize_infeasible(pod):
        return True
    if not status.container_statuses and not status.init_container_statuses:
        return False
    statuses = _statuses(pod)
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        found = statuses.get(container.name)
        if found is not None and not _as_asked(found, container):
            return True
    return False


def _as_asked(status: ContainerStatus, container: Container) -> bool:
    asked, given = container.resources.requests, status.resources
    same = given is None or not given.requests or given.requests == asked
    return same and (not status.allocated_resources or status.allocated_resources == asked)


@lru_cache(maxsize=16384)
def _simple(containers: tuple[tuple[tuple[str, str | int | float], ...], ...]) -> PodResources:
    """Compute the requests of a pod that has nothing but containers."""
    parsed = [
        parse_all(dict(items), f"spec.containers[{number}].resources.requests")
        for number, items in enumerate(containers)
    ]
    total = _sum(parsed)
    filled = _sum([_DEFAULTS | item for item in parsed])
    fit = to_integers(total)
    pair = (quantity.milli(filled.get(CPU, 0)), quantity.whole(filled.get(MEMORY, 0)))
    return PodResources(fit, fit, pair, pair)


def _compute(pod: Pod, counting: Counting) -> PodResources:
    scored = pod_requests(pod, pod_level=False, defaults=_DEFAULTS)
    return PodResources(
        fit=to_integers(pod_requests(pod, pod_level=counting.pod_level)),
        used=to_integers(_used(pod, counting)),
        nonzero=_nonzero(pod, counting),
        scored=(quantity.milli(scored.get(CPU, 0)), quantity.whole(scored.get(MEMORY, 0))),
    )


def _used(pod: Pod, counting: Counting, defaults: Mapping[str, int] | None = None) -> Nanos:
    level = counting.pod_level
    return pod_requests(pod, status=counting, pod_level=level, defaults=defaults)


def _nonzero(pod: Pod, counting: Counting) -> tuple[int, int]:
    if counting.pod_level and has_pod_level_requests(pod):
        total = _DEFAULTS | _used(pod, counting)
    else:
        total = _used(pod, counting, _DEFAULTS)
    return quantity.milli(total.get(CPU, 0)), quantity.whole(total.get(MEMORY, 0))


def pod_requests(
    pod: Pod,
    *,
    status: Counting | None = None,
    pod_level: bool = True,
    defaults: Mapping[str, int] | None = None,
) -> Nanos:
    """Return a pod's exact requests by resource name.

    `status` takes what the kubelet has allocated into account, in that way: while a pod is resized
    the largest of what is asked for, allocated and in force counts. `pod_level` takes the requests
    of the whole pod, `defaults` are filled in for each container that does not name the resource.
    """
    infeasible = status is not None and _resize_infeasible(pod)
    if status is None:
        total = _aggregate(pod, _spec_requests, defaults)
    elif status.by_container:
        total = _aggregate(pod, _by_container(pod, infeasible), defaults)
    else:
        total = _whole_pod(pod, infeasible, defaults, status.pod_resize)
    if pod_level and has_pod_level_requests(pod):
        total.update(_pod_level(pod, status, infeasible))
    if pod.spec.overhead:
        total = _sum((total, parse_all(pod.spec.overhead, "spec.overhead")))
    return total


Asked = Callable[[Container], Nanos]
"""What a container counts with."""


def _aggregate(pod: Pod, asked: Asked, defaults: Mapping[str, int] | None) -> Nanos:
    """Containers and sidecars together, or what the neediest init container leaves room for."""

    def filled(container: Container) -> Nanos:
        return {**defaults, **asked(container)} if defaults else asked(container)

    total = _sum(filled(container) for container in pod.spec.containers)
    sidecars: Nanos = {}
    peak: Nanos = {}
    for container in pod.spec.init_containers:
        own = filled(container)
        if container.restartable:
            total = _sum((total, own))
            sidecars = _sum((sidecars, own))
            peak = _max((peak, sidecars))
        else:
            peak = _max((peak, _sum((own, sidecars))))
    return _max((total, peak))


def _spec_requests(container: Container) -> Nanos:
    return parse_all(container.resources.requests, f"container {container.name}: requests")


def _by_container(pod: Pod, infeasible: bool) -> Asked:
    statuses = {name: s for name, s in _statuses(pod).items() if s.resources is not None}
    plain_init = {c.name for c in pod.spec.init_containers if not c.restartable}

    def asked(container: Container) -> Nanos:
        own = _spec_requests(container)
        found = None if container.name in plain_init else statuses.get(container.name)
        if found is None:
            return own
        given = parse_all(found.resources.requests) if found.resources else {}
        allocated = parse_all(found.allocated_resources)
        return _max((given, allocated) if infeasible else (own, given, allocated))

    return asked


def _whole_pod(
    pod: Pod, infeasible: bool, defaults: Mapping[str, int] | None, resized: bool
) -> Nanos:
    statuses = _statuses(pod)

    def allocated(container: Container) -> Nanos:
        found = statuses.get(container.name)
        if found is not None and found.allocated_resources:
            return parse_all(found.allocated_resources)
        return {} if infeasible else _spec_requests(container)

    def in_force(container: Container) -> Nanos:
        found = statuses.get(container.name)
        if found is not None and found.resources is not None and found.resources.requests:
            return parse_all(found.resources.requests)
        return allocated(container)

    own = pod.status.resources if resized else None
    if own is not None and own.requests and pod.status.allocated_resources:
        held = [parse_all(own.requests), parse_all(pod.status.allocated_resources)]
    else:
        held = [_aggregate(pod, in_force, defaults), _aggregate(pod, allocated, defaults)]
    if not infeasible:
        held.append(_aggregate(pod, _spec_requests, defaults))
    return _max(held)


def has_pod_level_requests(pod: Pod) -> bool:
    """Whether the pod itself (not a container) asks for a resource that pods can ask for."""
    own = pod.spec.resources
    return own is not None and any(supports_pod_level(name) for name in own.requests)


def supports_pod_level(name: str) -> bool:
    return name in (CPU, MEMORY) or name.startswith("hugepages-")


def _pod_level(pod: Pod, status: Counting | None, infeasible: bool) -> Nanos:
    spec = pod.spec.resources
    own = parse_all(spec.requests, "spec.resources.requests") if spec else {}
    names = set(own)
    if status is not None and status.pod_resize and pod.status.resources is not None:
        given = parse_all(pod.status.resources.requests)
        allocated = parse_all(pod.status.allocated_resources)
        own = _max((given, allocated) if infeasible else (own, given, allocated))
    if status is not None and status.by_container:
        own = {name: own.get(name, 0) for name in names}
    return {name: amount for name, amount in own.items() if supports_pod_level(name)}


def _statuses(pod: Pod) -> dict[str, ContainerStatus]:
    status = pod.status
    return {s.name: s for s in (*status.init_container_statuses, *status.container_statuses)}


def _resize_infeasible(pod: Pod) -> bool:
    for condition in pod.status.conditions:  # asked of every pod at every change
        if condition.type == "PodResizePending" and condition.reason == "Infeasible":
            return True
    return False


def parse_all(resources: Resources, field: str = "resources") -> Nanos:
    """Parse a resource map to nanos; an error names the field."""
    found: Nanos = {}
    for name, text in resources.items():
        try:
            found[name] = quantity.nanos(text)
        except quantity.QuantityError as problem:
            raise quantity.QuantityError(f"{field}[{name}]: {problem}") from problem
    return found


def _sum(parts: Iterable[Mapping[str, int]]) -> Nanos:
    total: Nanos = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, 0) + amount
    return total


def _max(parts: Iterable[Mapping[str, int]]) -> Nanos:
    most: Nanos = {}
    for part in parts:
        for name, amount in part.items():
            if name not in most or amount > most[name]:
                most[name] = amount
    return most


def to_integers(total: Mapping[str, int]) -> dict[str, int]:
    """Round to integers and drop the names that the scheduler does not know."""
    found: dict[str, int] = {}
    for name, amount in total.items():
        if name == CPU:
            found[name] = quantity.milli(amount)
        elif name in (MEMORY, EPHEMERAL) or is_scalar(name):
            found[name] = quantity.whole(amount)
    return found


@lru_cache(maxsize=4096)
def allocatable_value(name: str, text: str | int | float) -> int | None:
    """Return what a node offers of a resource as an integer; None for names that do not count."""
    if name == CPU:
        return quantity.milli_value(text)
    if name in (MEMORY, EPHEMERAL, PODS) or is_scalar(name):
        return quantity.value(text)
    return None


def node_allocatable(resources: Resources) -> dict[str, int]:
    """Return all that a node offers, as integers."""
    found: dict[str, int] = {}
    for name, text in resources.items():
        try:
            amount = allocatable_value(name, text)
        except quantity.QuantityError as problem:
            raise quantity.QuantityError(f"status.allocatable[{name}]: {problem}") from problem
        if amount is not None:
            found[name] = amount
    return found


@remembered(4096)
def is_extended(name: str) -> bool:
    """Whether a name is that of an extended resource (a device plugin's, say)."""
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return not qualified_name(f"requests.{name}")


@remembered(4096)
def is_scalar(name: str) -> bool:
    """Whether a resource beside cpu, memory and ephemeral storage takes part in scheduling."""
    return (
        is_extended(name)
        or name.startswith(("hugepages-", "attachable-volumes-"))
        or "kubernetes.io/" in name
    )


def limits_to_requests(resources: ResourceRequirements) -> Resources:
    """Return the requests, and the limits of resources that have none, as the API server does."""
    return {**resources.limits, **resources.requests}
