"""The Scenario resource that kube-scheduler-simulator proposed (its KEP-140), accepted as it is.

Operations belong to major steps. A major step begins when the one before has come to rest, which
here means that nothing happened to pods and nodes for a while of virtual time; each write in
between is a minor step. A scenario whose operations are used up without a `doneOperation` ends
Paused, with one Succeeded. The result has the proposal's `status`.
Controller selections are accepted and ignored: all controllers of the simulation always run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from bayplan import __version__
from bayplan.sim.client import ScenarioClient
from bayplan.sim.located import Located
from bayplan.sim.objects import Object

GROUP = "simulation.kube-scheduler-simulator.x-k8s.io"
KINDS = ("createOperation", "patchOperation", "deleteOperation", "doneOperation")
PATCH_TYPES = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
}

Operate = Callable[[ScenarioClient], Awaitable[Object | None]]


def is_scenario(top: Located) -> bool:
    """Tell whether a document is one of these."""
    return isinstance(top.value, dict) and str(top.value.get("apiVersion", "")).startswith(GROUP)


class Operation:
    """One operation of a scenario."""

    def __init__(self, at: Located, number: int) -> None:
        at.fields(("id", "step", *KINDS), required=("step",))
        found = [name for name in KINDS if name in at]
        if len(found) != 1:
            raise at.error(f"needs exactly one of {', '.join(KINDS)}")
        self.id = at["id"].text(str(number))
        step = at["step"]
        major = step["major"] if isinstance(step.value, dict) else step
        self.major = major.integer()
        self.kind = found[0].removesuffix("Operation")
        self.operation = at[found[0]].value
        readers = {"create": _create, "patch": _patch, "delete": _delete, "done": _done}
        self.run: Operate = readers[self.kind](at[found[0]])


def read(top: Located) -> tuple[OperationPlayer, str]:
    """Read a scenario; return what plays it, and its name."""
    top["kind"].choice(("Scenario",))
    spec = top["spec"].fields(("operations", "controllers"), required=("operations",))
    operations = [Operation(item, i + 1) for i, item in enumerate(spec["operations"].items())]
    return OperationPlayer(operations), top["metadata"]["name"].text("scenario")


class OperationPlayer:
    """Plays operations; `status` tells how it went, in the proposal's words."""

    def __init__(self, operations: list[Operation]) -> None:
        self._operations = sorted(operations, key=lambda operation: operation.major)
        self.status: Object = {"phase": "Pending"}

    async def __call__(self, client: ScenarioClient) -> None:
        timeline: dict[str, list[Object]] = {}
        result: Object = {"simulatorVersion": __version__, "timeline": timeline}
        self.status = {"phase": "Running", "scenarioResult": result}
        for major in sorted({operation.major for operation in self._operations}):
            client.log(f"step: {major}")
            line = timeline.setdefault(str(major), [])
            before = len(client.tracker.timeline)
            try:
                if await self._operate(client, major, line):
                    self.status["phase"] = "Succeeded"
                    return
            except Exception:
                self.status["phase"] = "Failed"
                raise
            await client.settle()
            line += _moments(client, before, major)
        self.status["phase"] = "Paused"
        client.log("scenario paused: its operations are used up and none is a doneOperation")

    async def _operate(self, client: ScenarioClient, major: int, line: list[Object]) -> bool:
        for operation in self._operations:
            if operation.major != major:
                continue
            made = await operation.run(client)
            event: Object = {"id": operation.id, "step": {"major": major, "minor": 0}}
            event[operation.kind] = {"operation": operation.operation, "result": made}
            line.append(event)
            if operation.kind == "done":
                return True
        return False


def _moments(client: ScenarioClient, before: int, major: int) -> list[Object]:
    """Return what the controllers and the scheduler did, a minor step each."""
    moments = [m for m in client.tracker.timeline[before:] if m.what not in ("note", "created")]
    return [
        {
            "id": f"{major}-{minor}",
            "step": {"major": major, "minor": minor},
            "observed": {"what": moment.what, "subject": moment.subject, "text": moment.text},
        }
        for minor, moment in enumerate(moments, 1)
    ]


def _create(at: Located) -> Operate:
    at.fields(("object", "createOptions"), required=("object",))
    body = at["object"].map()
    for name in ("apiVersion", "kind"):
        at["object"][name].text()

    async def run(client: ScenarioClient) -> Object | None:
        return (await client.create(body))[0]

    return run


def _target(at: Located) -> tuple[str, str, str, str]:
    kind, meta = at["typeMeta"], at["objectMeta"]
    return (
        kind["kind"].text(),
        meta["name"].text(),
        meta["namespace"].text("default"),
        kind["apiVersion"].text(""),
    )


def _patch(at: Located) -> Operate:
    fields = ("typeMeta", "objectMeta", "patch", "patchType", "patchOptions")
    at.fields(fields, required=("typeMeta", "objectMeta", "patch"))
    kind, name, namespace, version = _target(at)
    how = PATCH_TYPES[at["patchType"].choice(PATCH_TYPES, "application/merge-patch+json")]
    patch = at["patch"].value
    if isinstance(patch, str):
        patch = _json(at["patch"], patch)
    if not isinstance(patch, dict | list):
        raise at["patch"].error("must be a map, a list, or their JSON text")
    body = patch

    async def run(client: ScenarioClient) -> Object | None:
        return await client.patch(kind, name, body, namespace, type=how, api_version=version)  # type: ignore[arg-type]

    return run


def _json(at: Located, text: str) -> object:
    import msgspec

    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as problem:
        raise at.error(f"is not JSON: {problem}") from None


def _delete(at: Located) -> Operate:
    fields = ("typeMeta", "objectMeta", "deleteOptions")
    at.fields(fields, required=("typeMeta", "objectMeta"))
    kind, name, namespace, version = _target(at)
    grace = at["deleteOptions"]["gracePeriodSeconds"].value
    seconds = grace if isinstance(grace, int) else None

    async def run(client: ScenarioClient) -> Object | None:
        await client.delete(kind, name, namespace, grace=seconds, api_version=version)
        return None

    return run


def _done(at: Located) -> Operate:
    async def run(client: ScenarioClient) -> Object | None:
        return None

    return run
