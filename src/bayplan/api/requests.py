"""What a pod asks of a node, in the five variants that scheduling needs.

All sums are made on exact quantities and rounded once per pod. Regular containers add up; init
containers run one after the other beside the sidecars started before them, so their peak counts;
pod-level requests replace the sum of the containers; overhead comes on top. `pod_resources` gives
every variant at once and is cached by what the pod asks, as most pods ask the same as others.
Limits are not read: the API server copies them to requests before (`limits_to_requests`).
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache

import msgspec

from bayplan.api import quantity
from bayplan.api.labels import label_key_problem
from bayplan.api.meta import Resources
from bayplan.api.pod import Container, ContainerStatus, Pod, ResourceRequirements

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL = "ephemeral-storage"
PODS = "pods"

DEFAULT_MILLI_CPU = 100
DEFAULT_MEMORY = 200 * 1024 * 1024

Nanos = dict[str, int]

_DEFAULTS: Nanos = {CPU: DEFAULT_MILLI_CPU * quantity.MICRO, MEMORY: DEFAULT_MEMORY * quantity.NANO}


class PodResources(msgspec.Struct, frozen=True, gc=False):
    """A pod's requests as integers: cpu in milli, everything else in units.

    `fit` is what the pod needs to be placed, `used` what it takes once placed (status included).
    `nonzero` (cpu, memory) fills in defaults for placed pods, `scored` for the pod to be placed.
    """

    fit: dict[str, int]
    used: dict[str, int]
    nonzero: tuple[int, int]
    scored: tuple[int, int]


def pod_resources(pod: Pod) -> PodResources:
    """Return all variants of a pod's requests. The result is shared: do not change it."""
    spec = pod.spec
    if spec.init_containers or spec.resources is not None or spec.overhead or _has_status(pod):
        return _compute(pod)
    return _simple(tuple([tuple(c.resources.requests.items()) for c in spec.containers]))


def _has_status(pod: Pod) -> bool:
    for status in pod.status.container_statuses:
        if status.resources is not None or status.allocated_resources:
            return True
    return False


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


def _compute(pod: Pod) -> PodResources:
    scored = pod_requests(pod, pod_level=False, defaults=_DEFAULTS)
    return PodResources(
        fit=to_integers(pod_requests(pod)),
        used=to_integers(pod_requests(pod, status=True)),
        nonzero=_nonzero(pod),
        scored=(quantity.milli(scored.get(CPU, 0)), quantity.whole(scored.get(MEMORY, 0))),
    )


def _nonzero(pod: Pod) -> tuple[int, int]:
    if has_pod_level_requests(pod):
        total = _DEFAULTS | pod_requests(pod, status=True)
    else:
        total = pod_requests(pod, status=True, defaults=_DEFAULTS)
    return quantity.milli(total.get(CPU, 0)), quantity.whole(total.get(MEMORY, 0))


def pod_requests(
    pod: Pod,
    *,
    status: bool = False,
    pod_level: bool = True,
    defaults: Mapping[str, int] | None = None,
) -> Nanos:
    """Return a pod's exact requests by resource name.

    `status` takes what the kubelet has allocated into account, `pod_level` the pod-level requests,
    `defaults` are filled in for each container that does not name the resource.
    """
    spec = pod.spec
    statuses = _statuses(pod) if status else {}
    infeasible = status and _resize_infeasible(pod)

    def asked(container: Container, use_status: bool) -> Nanos:
        found = statuses.get(container.name) if use_status else None
        own = parse_all(container.resources.requests, f"container {container.name}: requests")
        if found is not None:
            own = _effective(own, found, infeasible)
        return {**defaults, **own} if defaults else own

    total = _sum(asked(container, True) for container in spec.containers)
    sidecars: Nanos = {}
    peak: Nanos = {}
    for container in spec.init_containers:
        own = asked(container, container.restartable)
        if container.restartable:
            total = _sum((total, own))
            sidecars = _sum((sidecars, own))
            peak = _max((peak, sidecars))
        else:
            peak = _max((peak, _sum((own, sidecars))))
    total = _max((total, peak))
    if pod_level and has_pod_level_requests(pod):
        total.update(_pod_level(pod, status, infeasible))
    if spec.overhead:
        total = _sum((total, parse_all(spec.overhead, "spec.overhead")))
    return total


def has_pod_level_requests(pod: Pod) -> bool:
    """Whether the pod itself (not a container) asks for a resource that pods can ask for."""
    own = pod.spec.resources
    return own is not None and any(supports_pod_level(name) for name in own.requests)


def supports_pod_level(name: str) -> bool:
    return name in (CPU, MEMORY) or name.startswith("hugepages-")


def _pod_level(pod: Pod, status: bool, infeasible: bool) -> Nanos:
    own = (
        parse_all(pod.spec.resources.requests, "spec.resources.requests")
        if pod.spec.resources
        else {}
    )
    if status and pod.status.resources is not None:
        given = parse_all(pod.status.resources.requests)
        allocated = parse_all(pod.status.allocated_resources)
        own = _max((given, allocated) if infeasible else (own, given, allocated))
    return {name: amount for name, amount in own.items() if supports_pod_level(name)}


def _statuses(pod: Pod) -> dict[str, ContainerStatus]:
    found = {s.name: s for s in pod.status.container_statuses if s.resources is not None}
    found.update((s.name, s) for s in pod.status.init_container_statuses if s.resources is not None)
    return found


def _resize_infeasible(pod: Pod) -> bool:
    return any(
        c.type == "PodResizePending" and c.reason == "Infeasible" for c in pod.status.conditions
    )


def _effective(own: Nanos, status: ContainerStatus, infeasible: bool) -> Nanos:
    given = parse_all(status.resources.requests) if status.resources else {}
    allocated = parse_all(status.allocated_resources)
    return _max((given, allocated) if infeasible else (own, given, allocated))


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


@lru_cache(maxsize=4096)
def is_extended(name: str) -> bool:
    """Whether a name is that of an extended resource (a device plugin's, say)."""
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return not label_key_problem(f"requests.{name}")


@lru_cache(maxsize=4096)
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
