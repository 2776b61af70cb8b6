"""What a scenario holds in its hand: a client that creates, changes, waits, expects and breaks.

    async def scenario(client):
        await client.nodes(3, zones=["a", "b", "c"])
        await client.pods(6, "web", labels={"app": "web"}, cpu="500m")
        await client.expect.spread("app=web", by="zone", exactly={"a": 2, "b": 2, "c": 2})

Objects are plain dictionaries or YAML text. Kinds are found by name (`Pod`, `deployments`) in a
table of built-in kinds, else by asking the server. Faults need a simulated world.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from bayplan.apiserver.kinds import built_in
from bayplan.client import Client, NotFound, Resource
from bayplan.client.resources import NODES, PODS
from bayplan.client.rest import PatchType
from bayplan.clock import rest
from bayplan.sim import objects
from bayplan.sim.documents import parse_objects
from bayplan.sim.errors import ScenarioError
from bayplan.sim.expect import Expect
from bayplan.sim.fast.client import FastClient
from bayplan.sim.faults import Faults
from bayplan.sim.objects import Object
from bayplan.sim.tracker import Tracker
from bayplan.words import plural

AT_ONCE = 32
NAMESPACE = "default"

# `list` is a verb here, so the type needs other names inside the class.
Objects = list[Object]
Names = list[str]
Keys = list[tuple[str, str]]
JsonPatch = list[object]


def _table() -> dict[str, Resource]:
    found: dict[str, Resource] = {}
    for kind in built_in():
        resource = Resource(kind.group, kind.version, kind.resource, kind.kind, kind.namespaced)
        names = (kind.kind, kind.kind.lower(), kind.resource, *kind.short_names, kind.key)
        for name in names:
            found.setdefault(name, resource)
    return found


class ScenarioClient:
    """A cluster as scenarios see it."""

    def __init__(
        self,
        client: Client,
        tracker: Tracker,
        elapsed: Callable[[], float],
        faults: Faults,
        *,
        seed: int = 0,
        echo: Callable[[str], None] | None = None,
    ) -> None:
        self.client = client
        self.seed = seed
        """Of the scenario's chance."""
        self.tracker = tracker
        self.expect = Expect(tracker, elapsed)
        self.faults = faults
        self.elapsed = elapsed
        self.doing = ""
        """What the scenario is busy with, for the report of one that did not end."""
        self._echo = echo
        self._kinds = _table()

    # -- objects

    async def resource(self, kind: str, api_version: str = "") -> Resource:
        """Find a kind by name; with an apiVersion it may be one of a definition."""
        key = f"{api_version}/{kind}" if api_version else kind
        if key in self._kinds:
            return self._kinds[key]
        if not api_version:
            raise ScenarioError(f'kind "{kind}" is not known; write its apiVersion too')
        group, _, version = api_version.rpartition("/")
        root = f"/apis/{api_version}" if group else f"/api/{version}"
        try:
            body = msgspec.json.decode(await self.client.request("GET", root))
        except NotFound:
            raise ScenarioError(f'the cluster does not serve apiVersion "{api_version}"') from None
        for item in body.get("resources", ()):
            if item["kind"] == kind and "/" not in item["name"]:
                self._kinds[key] = Resource(group, version, item["name"], kind, item["namespaced"])
                return self._kinds[key]
        raise ScenarioError(f'apiVersion "{api_version}" has no kind "{kind}"')

    async def create(self, *items: Object | str | Sequence[Object], namespace: str = "") -> Objects:
        """Create objects, given as dictionaries, lists of them, or YAML of any number."""
        made: Objects = []
        for item in items:
            parts = parse_objects(item) if isinstance(item, str) else item
            bodies = [parts] if isinstance(parts, dict) else parts
            made += [await self._create(body, namespace) for body in bodies]
        return made

    async def _create(self, body: Object, namespace: str) -> Object:
        api_version, kind = str(body.get("apiVersion", "v1")), str(body.get("kind", ""))
        if not kind:
            raise ScenarioError("an object to create has no kind")
        resource = await self.resource(kind, api_version)
        meta = body.get("metadata")
        where = str(meta.get("namespace") or "") if isinstance(meta, Mapping) else ""
        where = (where or namespace or NAMESPACE) if resource.namespaced else ""
        made = _decoded(await self.client.create(resource, body, where))
        if resource in (PODS, NODES):
            await asyncio.sleep(0)  # in one process nothing else would let the others see it
        else:
            await rest(last=True)  # controllers react before the next action, however many turns
        return made

    async def get(
        self, kind: str, name: str, namespace: str = NAMESPACE, *, api_version: str = ""
    ) -> Object:
        """Return one object."""
        resource = await self.resource(kind, api_version)
        return _decoded(await self.client.get(resource, name, _where(resource, namespace)))

    async def list(self, kind: str, namespace: str = NAMESPACE, selector: str = "") -> Objects:
        """Return the objects of a kind."""
        resource = await self.resource(kind)
        body = await self.client.list(
            resource, _where(resource, namespace), label_selector=selector
        )
        items = msgspec.json.decode(body).get("items") or []
        return [dict(item) for item in items]

    async def patch(
        self,
        kind: str,
        name: str,
        patch: Mapping[str, object] | JsonPatch,
        namespace: str = NAMESPACE,
        *,
        type: PatchType = "merge",
        subresource: str = "",
        api_version: str = "",
    ) -> Object:
        """Patch an object: merge, strategic or json."""
        resource = await self.resource(kind, api_version)
        where = _where(resource, namespace)
        body = await self.client.patch(
            resource, name, patch, where, kind=type, subresource=subresource
        )
        await rest(last=True)
        return _decoded(body)

    async def delete(
        self,
        kind: str,
        name: str,
        namespace: str = NAMESPACE,
        *,
        grace: int | None = None,
        api_version: str = "",
    ) -> None:
        """Delete an object."""
        resource = await self.resource(kind, api_version)
        where = _where(resource, namespace)
        await self.client.delete(resource, name, where, grace_period=grace)
        await rest(last=True)

    async def scale(self, kind: str, name: str, replicas: int, namespace: str = NAMESPACE) -> None:
        """Set the number of replicas."""
        await self.patch(kind, name, {"spec": {"replicas": replicas}}, namespace)

    # -- nodes and pods in bulk

    async def node(self, name: str, **shape: object) -> Object:
        """Create one node; keyword arguments as for `objects.node`."""
        body = objects.node(name, **shape)  # type: ignore[arg-type]
        return _decoded(await self.client.create(NODES, body))

    async def pod(self, name: str, **shape: object) -> Object:
        """Create one pod; keyword arguments as for `objects.pod`."""
        body = objects.pod(name, **shape)  # type: ignore[arg-type]
        meta = body["metadata"]
        assert isinstance(meta, dict)
        return _decoded(await self.client.create(PODS, body, str(meta["namespace"])))

    async def nodes(
        self,
        count: int,
        prefix: str = "node",
        *,
        first: int = 0,
        zones: Sequence[str] = (),
        **shape: object,
    ) -> Names:
        """Create `node0`, `node1` …; zones in turn."""
        names = [f"{prefix}{i}" for i in range(first, first + count)]
        zone_of = [zones[i % len(zones)] if zones else "" for i in range(count)]
        bodies = (
            objects.node(name, zone=zone, **shape)  # type: ignore[arg-type]
            for name, zone in zip(names, zone_of, strict=True)
        )
        await self._many(self._make(NODES, body) for body in bodies)
        return names

    async def pods(
        self, count: int, prefix: str = "pod", *, first: int = 0, **shape: object
    ) -> Names:
        """Create `pod0`, `pod1` …"""
        names = [f"{prefix}{i}" for i in range(first, first + count)]
        namespace = str(shape.get("namespace", NAMESPACE))
        bodies = (objects.pod(name, **shape) for name in names)  # type: ignore[arg-type]
        await self._many(self._make(PODS, body, namespace) for body in bodies)
        return names

    async def _make(self, resource: Resource, body: Object, namespace: str = "") -> None:
        """Create an object without reading the answer."""
        if isinstance(self.client, FastClient):
            await self.client.add(resource, body, namespace)
        else:
            await self.client.create(resource, body, namespace)

    async def _many(self, works: Iterable[object]) -> None:
        """Await works a few at a time, in order, as a client with several connections does."""
        batch = []
        for work in works:
            batch.append(work)
            if len(batch) == AT_ONCE:
                await asyncio.gather(*batch)  # type: ignore[call-overload]
                batch = []
        await asyncio.gather(*batch)  # type: ignore[call-overload]

    # -- operators' work

    async def cordon(self, name: str, on: bool = True) -> None:
        """Make a node unschedulable, or schedulable again."""
        await self.patch("Node", name, {"spec": {"unschedulable": on or None}})

    async def evict(self, name: str, namespace: str = NAMESPACE) -> None:
        """Ask for an eviction; a disruption budget may refuse it (TooManyRequests)."""
        await self.client.evict(namespace, name)
        await rest(last=True)

    async def drain(self, name: str, *, timeout: float = 600.0, retry: float = 5.0) -> None:
        """Cordon a node and evict its pods, but those of DaemonSets, as kubectl drain does."""
        from bayplan.client.errors import TooManyRequests

        await self.cordon(name)
        deadline = self.elapsed() + timeout
        while True:
            left = await self._to_drain(name)
            if not left:
                return
            refusal = ""
            for pod in left:
                try:
                    await self.client.evict(*pod)
                except TooManyRequests as problem:
                    refusal = problem.message
                except NotFound:
                    continue
            if self.elapsed() >= deadline:
                raise ScenarioError(
                    f"drain of node {name}: {plural(len(left), 'pod')} left after {timeout:g} s"
                    + (f": {refusal}" if refusal else "")
                )
            await asyncio.sleep(retry)

    async def _to_drain(self, node: str) -> Keys:
        body = await self.client.list(PODS, field_selector=f"spec.nodeName={node}")
        found: Keys = []
        for item in msgspec.json.decode(body).get("items") or ():
            meta = item["metadata"]
            owners = meta.get("ownerReferences") or ()
            daemon = any(owner.get("kind") == "DaemonSet" for owner in owners)
            if not daemon and "deletionTimestamp" not in meta:
                found.append((meta["namespace"], meta["name"]))
        return found

    # -- time

    async def sleep(self, duration: float | str) -> None:
        """Let time pass: seconds, or text such as "1h30m"."""
        self.doing = f"sleeping {duration}"
        await asyncio.sleep(objects.seconds(duration))
        await rest(last=True)  # what is due at this moment comes before the next action
        self.doing = ""

    async def wait_until(
        self, condition: Callable[[], bool], *, timeout: float = 60.0, what: str = "the condition"
    ) -> None:
        """Wait until something about the cluster is true; looked at after each change."""
        self.doing = f"waiting for {what}"

        def check() -> str:
            return "" if condition() else "not so"

        seen = await self.tracker.until(check, timeout, self.elapsed)
        self.doing = ""
        if seen:
            raise ScenarioError(f"waited {timeout:g} s for {what} in vain")

    async def wait_until_bound(
        self, *pods: str, namespace: str = NAMESPACE, timeout: float = 60.0
    ) -> Names:
        """Wait until pods are bound and return their nodes, in order."""
        keys = [name if "/" in name else f"{namespace}/{name}" for name in pods]
        lives = self.tracker.pods

        def check() -> str:
            left = [key for key in keys if key not in lives or not lives[key].node]
            return "; ".join(f"{k}: {lives[k].why if k in lives else 'no such pod'}" for k in left)

        self.doing = f"waiting for {', '.join(keys[:5])} to be bound"
        seen = await self.tracker.until(check, timeout, self.elapsed)
        self.doing = ""
        if seen:
            raise ScenarioError(f"waited {timeout:g} s for pods to be bound in vain: {seen}")
        return [lives[key].node for key in keys]

    async def settle(self, *, quiet: float = 1.0, timeout: float = 300.0) -> None:
        """Wait until nothing has happened to pods and nodes for `quiet` seconds."""
        self.doing = "waiting for the cluster to settle"
        deadline = self.elapsed() + timeout
        while self.elapsed() < deadline:
            try:
                async with asyncio.timeout(quiet):
                    await self.tracker.change()
            except TimeoutError:
                self.doing = ""
                return
        raise ScenarioError(f"the cluster did not settle within {timeout:g} s")

    def log(self, text: str) -> None:
        """Say something in the timeline, and where the scenario is run."""
        self.tracker.note(self.elapsed(), text)
        if self._echo is not None:
            self._echo(text)


def _decoded(body: bytes) -> Object:
    found = msgspec.json.decode(body)
    return dict(found)


def _where(resource: Resource, namespace: str) -> str:
    return namespace if resource.namespaced else ""
