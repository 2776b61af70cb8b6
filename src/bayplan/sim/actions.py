"""The actions of YAML steps: each field is read and checked by one function here.

A reader gets the located value and returns what will be done with a client. Readers run when the
file is loaded, so that a wrong field is told before anything happens.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from bayplan.errors import BayplanError
from bayplan.sim import objects
from bayplan.sim.client import ScenarioClient
from bayplan.sim.located import Located
from bayplan.sim.objects import Object
from bayplan.sim.workload import Arrival, Lifetime, Workload

Run = Callable[[ScenarioClient], Awaitable[object]]

NODE_FIELDS = ("count", "name", "first", "zones", "zone", "cpu", "memory", "pods", "labels",
               "taints", "unschedulable", "images", "extra")  # fmt: skip
POD_FIELDS = ("namespace", "labels", "annotations", "cpu", "memory", "image", "lifetime", "extra",
              "spec")  # fmt: skip
WORKLOAD_FIELDS = ("name", "rate", "for", "count", "arrivals", "lifetime", "leave", "trace")
RATES = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def _create(at: Located) -> Run:
    bodies = []
    for item in at.one_or_more():
        body = item.map()
        if not isinstance(body.get("kind"), str):
            raise item.error('field "kind" is missing')
        if not isinstance(body.get("apiVersion"), str):
            raise item.error('field "apiVersion" is missing')
        item["metadata"].map()
        bodies.append(body)
    return lambda client: client.create(bodies)


def _reference(at: Located, *more: str) -> tuple[str, str, str, str]:
    at.fields(("apiVersion", "kind", "name", "namespace", *more), required=("kind", "name"))
    return (
        at["kind"].text(),
        at["name"].text(),
        at["namespace"].text("default"),
        at["apiVersion"].text(""),
    )


def _each(at: Located, reader: Callable[[Located], Run]) -> Run:
    runs = [reader(item) for item in at.one_or_more()]

    async def run(client: ScenarioClient) -> None:
        for each in runs:
            await each(client)

    return run


def _patch_one(at: Located) -> Run:
    kind, name, namespace, version = _reference(at, "type", "patch", "subresource")
    how = at["type"].choice(("merge", "strategic", "json"), "merge")
    patch = at["patch"].value
    if not isinstance(patch, dict | list):
        raise at["patch"].error("must be a map, or a list for type json")
    sub = at["subresource"].text("")
    return lambda client: client.patch(
        kind, name, patch, namespace, type=how, subresource=sub, api_version=version  # type: ignore[arg-type]
    )  # fmt: skip


def _delete_one(at: Located) -> Run:
    kind, name, namespace, version = _reference(at, "gracePeriodSeconds")
    grace = at["gracePeriodSeconds"].integer() if "gracePeriodSeconds" in at else None
    return lambda client: client.delete(kind, name, namespace, grace=grace, api_version=version)


def _scale_one(at: Located) -> Run:
    kind, name, namespace, _ = _reference(at, "replicas")
    replicas = at["replicas"].integer()
    return lambda client: client.scale(kind, name, replicas, namespace)


def _nodes_one(at: Located) -> Run:
    at.fields(NODE_FIELDS)
    count, first = at["count"].integer(1, least=1), at["first"].integer(0)
    pattern = _pattern(at["name"], count, "node-{i}")
    zones = at["zones"].texts() if "zones" in at else [at["zone"].text("")]
    shape = {
        key: at[key].value
        for key in ("cpu", "memory", "pods", "labels", "taints", "unschedulable", "images", "extra")
        if key in at
    }
    if "labels" in at:
        at["labels"].map()
    _check_amounts(at)
    bodies = [
        objects.node(pattern.replace("{i}", str(i)), zone=zones[(i - first) % len(zones)], **shape)  # type: ignore[arg-type]
        for i in range(first, first + count)
    ]  # fmt: skip
    return lambda client: client.create(bodies)


def _check_amounts(at: Located) -> None:
    for key in ("cpu", "memory"):
        if key in at:
            at[key].quantity()
    for name in at["extra"].map() if "extra" in at else ():
        at["extra"][name].quantity()


def _pattern(at: Located, count: int, default: str) -> str:
    pattern = at.text(default)
    if count > 1 and "{i}" not in pattern:
        raise at.error('must contain "{i}" when there are several')
    return pattern


def pod_shape(at: Located) -> dict[str, object]:
    """Read the fields that `pods:` and `workload:` share."""
    shape = {key: at[key].value for key in POD_FIELDS if key in at and key != "spec"}
    if "lifetime" in at:
        shape["lifetime"] = at["lifetime"].duration()
    for key in ("labels", "annotations"):
        if key in at:
            at[key].map()
    _check_amounts(at)
    return {**shape, **(at["spec"].map() if "spec" in at else {})}


def _pods_one(at: Located) -> Run:
    at.fields(("count", "name", "first", *POD_FIELDS))
    count, first = at["count"].integer(1, least=1), at["first"].integer(0)
    pattern = _pattern(at["name"], count, "pod-{i}")
    shape = pod_shape(at)
    bodies: list[Object] = [
        objects.pod(pattern.replace("{i}", str(i)), **shape)  # type: ignore[arg-type]
        for i in range(first, first + count)
    ]
    return lambda client: client.create(bodies)


def _cordon(at: Located) -> Run:
    names = at.texts()

    async def run(client: ScenarioClient) -> None:
        for name in names:
            await client.cordon(name)

    return run


def _uncordon(at: Located) -> Run:
    names = at.texts()

    async def run(client: ScenarioClient) -> None:
        for name in names:
            await client.cordon(name, False)

    return run


def _drain(at: Located) -> Run:
    names = at.texts()

    async def run(client: ScenarioClient) -> None:
        for name in names:
            await client.drain(name)

    return run


def _evict(at: Located) -> Run:
    at.fields(("pod", "namespace"), required=("pod",))
    name, namespace = at["pod"].text(), at["namespace"].text("default")
    return lambda client: client.evict(name, namespace)


def _log(at: Located) -> Run:
    text = at.text()

    async def run(client: ScenarioClient) -> None:
        client.log(text)

    return run


def _settle(at: Located) -> Run:
    quiet = 1.0 if at.value is True else at.duration()
    return lambda client: client.settle(quiet=quiet)


def _fault(at: Located) -> Run:
    at.fields(FAULTS)
    if len(at.map()) != 1:
        raise at.error(f"needs exactly one of {', '.join(FAULTS)}")
    name = next(iter(at.map()))
    return FAULTS[name](at[name])


def _node_lost(at: Located) -> Run:
    if isinstance(at.value, dict):
        at.fields(("name", "after"), required=("name",))
        name, after = at["name"].text(), at["after"].duration(40.0)
    else:
        name, after = at.text(), 40.0
    return lambda client: client.faults.lose_node(name, after=after)


def _node_back(at: Located) -> Run:
    name = at.text()
    return lambda client: client.faults.bring_back(name)


def _api_errors(at: Located) -> Run:
    rate = at.number()
    if not 0.0 <= rate <= 1.0:
        raise at.error("must be between 0 and 1")

    async def run(client: ScenarioClient) -> None:
        client.faults.api_errors(rate)

    return run


def _slow_api(at: Located) -> Run:
    delay = at.duration()

    async def run(client: ScenarioClient) -> None:
        client.faults.slow_api(delay)

    return run


def _slow_extender(at: Located) -> Run:
    delay = at.duration()

    async def run(client: ScenarioClient) -> None:
        client.faults.slow_extender(delay)

    return run


def _restart(at: Located) -> Run:
    down = 0.0 if at.value is True else at.duration()
    return lambda client: client.faults.restart_scheduler(down)


def _lease_lost(at: Located) -> Run:
    duration = 15.0 if at.value is True else at.duration()
    return lambda client: client.faults.lose_lease(duration)


FAULTS: dict[str, Callable[[Located], Run]] = {
    "nodeLost": _node_lost,
    "nodeBack": _node_back,
    "apiErrors": _api_errors,
    "slowApi": _slow_api,
    "slowExtender": _slow_extender,
    "schedulerRestart": _restart,
    "leaseLost": _lease_lost,
}


def workload(at: Located) -> Workload:
    """Read a workload."""
    fields = [name for name in POD_FIELDS if name != "lifetime"]
    at.fields((*WORKLOAD_FIELDS, *fields), required=("name",))
    if ("rate" in at) == ("trace" in at):
        raise at.error("needs exactly one of rate, trace")
    beside = [name for name in ("for", "count", "arrivals") if name in at]
    if "trace" in at and beside:
        raise at[beside[0]].error('cannot stand beside "trace", which says when pods come')
    if "rate" in at and "for" not in at and "count" not in at:
        raise at.error('needs "for" or "count", otherwise it never ends')
    shape = {name: value for name, value in pod_shape(_without(at)).items() if name != "lifetime"}
    trace = _trace(at["trace"]) if "trace" in at else ()
    stay = "lifetime" not in at and all(item.lifetime is None for item in trace)
    if "leave" in at and stay:
        raise at["leave"].error('needs "lifetime": without one pods stay')
    return Workload(
        name=at["name"].text(),
        shape=shape,
        rate=_rate(at["rate"]) if "rate" in at else 0.0,
        duration=at["for"].duration() if "for" in at else None,
        count=at["count"].integer() if "count" in at else None,
        poisson=at["arrivals"].choice(("poisson", "even"), "poisson") == "poisson",
        lifetime=_lifetime(at["lifetime"]) if "lifetime" in at else None,
        succeed=at["leave"].choice(("delete", "succeed"), "delete") == "succeed",
        trace=trace,
    )


def _trace(at: Located) -> tuple[Arrival, ...]:
    if isinstance(at.value, str):
        return _from_file(at)
    arrivals: list[Arrival] = []
    for item in at.items():
        arrivals.append(_arrival(item))
        if len(arrivals) > 1 and arrivals[-1].at < arrivals[-2].at:
            raise item["at"].error(f"is before the pod above, which comes at {arrivals[-2].at:g} s")
    if not arrivals:
        raise at.error("holds no pods")
    return tuple(arrivals)


def _from_file(at: Located) -> tuple[Arrival, ...]:
    from bayplan.sim.traces.format import read_trace

    path = Path(at.source.name).parent / at.text()
    try:
        return tuple(pod.arrival() for pod in read_trace(path))
    except BayplanError as problem:
        raise at.error(str(problem)) from problem


def _without(at: Located) -> Located:
    value = {name: item for name, item in at.map().items() if name != "lifetime"}
    return Located(value, at.source, at.path)


def _rate(at: Located) -> float:
    text = at.text()
    number, slash, unit = text.partition("/")
    try:
        rate = float(number) / (RATES[unit] if slash else 1.0)
    except (ValueError, KeyError):
        rate = 0.0
    if rate <= 0:
        raise at.error(f'"{text}" is not a rate; write 2/s, 30/m or 100/h')
    return rate


def _lifetime(at: Located) -> Lifetime:
    if not isinstance(at.value, dict):
        return Lifetime("fixed", at.duration())
    at.fields(("exponential", "uniform"))
    if "exponential" in at:
        return Lifetime("exponential", at["exponential"].duration())
    ends = [item.duration() for item in at["uniform"].items()]
    if len(ends) != 2 or ends[0] > ends[1]:
        raise at["uniform"].error("must be two durations, the shorter first")
    return Lifetime("uniform", *ends)


def _arrival(at: Located) -> Arrival:
    at.fields(("at", *POD_FIELDS), required=("at",))
    lifetime = at["lifetime"].duration() if "lifetime" in at else None
    return Arrival(at["at"].duration(), pod_shape(_without(at)), lifetime)


ACTIONS: dict[str, Callable[[Located], Run]] = {
    "log": _log,
    "nodes": lambda at: _each(at, _nodes_one),
    "create": _create,
    "pods": lambda at: _each(at, _pods_one),
    "patch": lambda at: _each(at, _patch_one),
    "scale": lambda at: _each(at, _scale_one),
    "delete": lambda at: _each(at, _delete_one),
    "cordon": _cordon,
    "uncordon": _uncordon,
    "drain": _drain,
    "evict": lambda at: _each(at, _evict),
    "fault": _fault,
    "settle": _settle,
}
