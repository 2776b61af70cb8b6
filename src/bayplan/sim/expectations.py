"""The `expect:` items of YAML scenarios: read, checked, and turned into calls of `Expect`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from bayplan.client import NotFound
from bayplan.sim.client import ScenarioClient
from bayplan.sim.expect import WITHIN, Expectation, Terms
from bayplan.sim.located import Located

Run = Callable[[ScenarioClient], Awaitable[object]]

TIMES = ("within", "for", "namespace")
POD = ("bound", "boundTo", "pending", "pendingBecause", "gone", "phase", "evicted", "neverEvicted")
PODS = ("count", "bound", "pending", "running", "by", "byNode", "byZone", "neverEvicted")
SPREAD = ("key", "exactly", "most", "least", "skew")
POLL = 0.5


def expectation(at: Located) -> Run:
    """Read one item; raises ScenarioSyntaxError."""
    subject = next((name for name in READERS if name in at), "")
    if not subject:
        at.fields((*READERS, *TIMES))
        raise at.error(f"needs one of {', '.join(READERS)}")
    return READERS[subject](at)


def _terms(at: Located) -> Terms:
    """Read what all expectations can say."""
    terms: Terms = {"within": at["within"].duration(WITHIN), "hold": at["for"].duration(0.0)}
    if "namespace" in at:
        terms["namespace"] = at["namespace"].text()
    return terms


def _only(at: Located, names: tuple[str, ...]) -> str:
    found = [name for name in names if name in at]
    if len(found) != 1:
        raise at.error(f"needs exactly one of {', '.join(names)}")
    return found[0]


def _pod(at: Located) -> Run:
    at.fields(("pod", *POD, *TIMES))
    name, terms, what = at["pod"].text(), _terms(at), _only(at, POD)
    if what in ("bound", "pending", "gone", "neverEvicted") and not at[what].flag():
        raise at[what].error("must be true; say the opposite with another field")
    match what:
        case "bound" | "boundTo":
            to = at["boundTo"].texts() if what == "boundTo" else None
            return lambda client: client.expect.bound(name, to, **terms)
        case "pending" | "pendingBecause":
            why = at["pendingBecause"].text("")
            return lambda client: client.expect.pending(name, why, **terms)
        case "gone":
            return lambda client: client.expect.gone(name, **terms)
        case "phase":
            phase = at["phase"].choice(("Pending", "Running", "Succeeded", "Failed"))
            return lambda client: client.expect.phase(name, phase, **terms)
        case "neverEvicted":
            return lambda client: client.expect.never_evicted(name, **terms)
    reason = "" if at["evicted"].value is True else at["evicted"].text()
    return lambda client: client.expect.evicted(name, reason, **terms)


def _pods(at: Located) -> Run:
    at.fields(("pods", *PODS, *TIMES))
    pods, terms = at["pods"].text(), _terms(at)
    runs: list[Run] = []
    numbers = {
        name: at[name].integer() for name in ("count", "bound", "pending", "running") if name in at
    }
    if numbers:
        runs.append(lambda client: client.expect.count(pods, **numbers, **terms))
    groupings = [name for name in ("byNode", "byZone", "by") if name in at]
    runs += [_spread(at[name], pods, terms, name) for name in groupings]
    if "neverEvicted" in at and at["neverEvicted"].flag():
        runs.append(lambda client: client.expect.never_evicted(pods, **terms))
    if not runs:
        raise at.error(f"needs one of {', '.join(PODS)}")

    async def run(client: ScenarioClient) -> None:
        for each in runs:
            await each(client)

    return run


def _spread(at: Located, pods: str, terms: Terms, name: str) -> Run:
    at.fields(SPREAD, required=("key",) if name == "by" else ())
    by = at["key"].text({"byNode": "node", "byZone": "zone"}.get(name))
    exactly = None
    if "exactly" in at:
        exactly = {key: at["exactly"][key].integer() for key in at["exactly"].map()}
    limits = {key: at[key].integer() for key in ("most", "least", "skew") if key in at}
    if exactly is None and not limits:
        raise at.error("needs one of exactly, most, least, skew")
    return lambda client: client.expect.spread(
        pods,
        by,
        exactly=exactly,
        most=limits.get("most"),
        least=limits.get("least"),
        skew=limits.get("skew"),
        **terms,
    )


def _node(at: Located) -> Run:
    if "namespace" in at:
        raise at["namespace"].error("nodes have none")
    at.fields(("node", "ready", "exists", "pods", *TIMES))
    name, terms = at["node"].text(), _terms(at)
    ready = at["ready"].flag() if "ready" in at else None
    pods = at["pods"].integer() if "pods" in at else None
    exists = at["exists"].flag(True)
    return lambda client: client.expect.node(name, ready=ready, exists=exists, pods=pods, **terms)


def _event(at: Located) -> Run:
    at.fields(("event", "object", "message", *TIMES))
    reason, terms = at["event"].text(), _terms(at)
    about, message = at["object"].text(""), at["message"].text("")
    return lambda client: client.expect.event(reason, about, message=message, **terms)


def _object(at: Located) -> Run:
    """Any field of any object, by path: `{object: {kind: Deployment, name: web}, fields: …}`."""
    at.fields(("object", "fields", *TIMES), required=("fields",))
    spec = at["object"].fields(("kind", "name", "apiVersion"), required=("kind", "name"))
    kind, name, version = spec["kind"].text(), spec["name"].text(), spec["apiVersion"].text("")
    wanted, terms = at["fields"].map(), _terms(at)
    if not wanted:
        raise at["fields"].error("names no field; without one nothing is expected")
    namespace = terms.get("namespace", "default")
    rule = ", ".join(f"{path} = {value}" for path, value in wanted.items())
    text = f"{kind} {namespace}/{name} with {rule}"

    async def run(client: ScenarioClient) -> None:
        seen: list[object] = [None]

        async def refresh() -> float:
            try:
                seen[0] = await client.get(kind, name, namespace, api_version=version)
            except NotFound:
                seen[0] = None
            return POLL

        def check() -> str:
            found = seen[0]
            if found is None:
                return "no such object"
            values = {path: _at(found, path) for path in wanted}
            return ", ".join(f"{k}: {v}" for k, v in values.items() if v != wanted[k])

        within, hold = terms.get("within", WITHIN), terms.get("hold", 0.0)
        expected = Expectation(text, check, within=within, hold=hold)
        await client.expect.judge(expected, refresh)

    return run


def _at(value: object, path: str) -> object:
    for part in path.split("."):
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value


# The first that is there is the subject: events have an object, nodes a number of pods.
READERS: dict[str, Callable[[Located], Run]] = {
    "event": _event,
    "node": _node,
    "pod": _pod,
    "pods": _pods,
    "object": _object,
}
