"""A cluster as a value: its objects, its scheduler's settings, and an engine over both.

    cluster = Cluster.from_kubeconfig()            # get and list only
    cluster = Cluster.from_files("dump/")          # dumps, must-gather folders, snapshots
    cluster = Cluster.from_objects([...])          # plain data
    decision = cluster.decide(cluster.pod("web-0"))

Objects never change once they are here. The engine is made on first use and kept; whoever wants to
know what would happen changes it inside `with cluster.trial() as trial:` and leaves it as it was.
Nothing here writes to a cluster.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec.structs import replace

from bayplan.api import Namespace, Node, Object, ObjectMeta, Pod, parse_time
from bayplan.cluster.pod_groups import members_of
from bayplan.engine.cache import Cache
from bayplan.engine.cycle.decisions import Decision
from bayplan.engine.engine import Engine
from bayplan.errors import BayplanError
from bayplan.inspect.errors import InspectError, SourceError, UnknownObject, unknown
from bayplan.inspect.kinds import OWNER_KINDS, OWNERS
from bayplan.inspect.objects import Budget, Deployment, Event, Owner
from bayplan.inspect.settings import Settings, load_settings, version_for, version_key
from bayplan.inspect.trial import Trial

if TYPE_CHECKING:
    from bayplan.inspect.capacity import Capacity
    from bayplan.inspect.capacity.ask import Template
    from bayplan.inspect.diff import Diff
    from bayplan.inspect.pack import Packing, Wishes
    from bayplan.inspect.whatif import AnyChange, EachAnswer, WhatIf
    from bayplan.inspect.why import Answer, Pending

NEVER = "9999"
"""Later than any time that is written."""
BUILT_IN_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")

O = TypeVar("O", bound=Object)  # noqa: E741 - an object of one kind

Objects = dict[type[Object], dict[str, Any]]
"""Objects of each struct by key; in a `Cluster` in the order of their keys."""


class Unread(msgspec.Struct, frozen=True):
    """Something that the source did not give, and what answers lack for it."""

    what: str
    why: str
    without: str = ""


class Origin(msgspec.Struct, frozen=True):
    """Where a picture of a cluster comes from."""

    name: str = "objects"
    """What a person would call it: a server's address, a file."""
    version: str = ""
    """The server's version, if it is known, such as `v1.36.4`."""
    taken: float = 0.0
    """When, in seconds since the epoch."""
    namespace: str = "default"
    """Where names without a namespace are looked for."""
    unread: tuple[Unread, ...] = ()
    of_kubelets: bool = False
    """Whether the version is that of the newest kubelet, as the server's is not known."""


class Cluster:
    """All that was read of one cluster at one moment."""

    def __init__(
        self, objects: Objects, *, origin: Origin | None = None, settings: Settings | None = None
    ) -> None:
        self.objects = in_order(objects)
        self.origin = origin or Origin(taken=time.time())
        version = version_for(self.origin.version)
        self.settings = settings or load_settings(emulated_version=version)
        self._engine: Engine | None = None

    # -- sources ------------------------------------------------------------------------------

    @classmethod
    def from_kubeconfig(
        cls, path: str | Path | None = None, *, context: str = "", settings: Settings | None = None
    ) -> Cluster:
        """Read a running cluster with get and list, as kubectl would find it."""
        from bayplan.client import load_kubeconfig
        from bayplan.inspect.sources.live import read_live

        found, origin = read_live(load_kubeconfig(path, context=context))
        return cls(found, origin=origin, settings=settings)

    @classmethod
    def from_files(cls, *paths: str | Path, settings: Settings | None = None) -> Cluster:
        """Read snapshots, manifests, `kubectl get -o yaml|json`, dumps and must-gather folders."""
        from bayplan.inspect.sources.files import read_files

        found, origin = read_files([Path(path) for path in paths])
        return cls(found, origin=origin, settings=settings)

    @classmethod
    def from_objects(
        cls,
        items: Iterable[Object | Mapping[str, Any]],
        *,
        settings: Settings | None = None,
        origin: Origin | None = None,
    ) -> Cluster:
        """Take structs or plain data (decoded JSON or YAML); lists are taken apart."""
        from bayplan.inspect.sources.gather import Gathering

        gathering = Gathering()
        for item in items:
            if isinstance(item, Object):
                gathering.put(item)
            else:
                gathering.add(item)
        origin = origin or Origin(taken=time.time())
        origin = replace(origin, unread=(*origin.unread, *gathering.unread()))
        return cls(gathering.objects, origin=origin, settings=settings)

    def with_settings(self, settings: Settings) -> Cluster:
        """The same objects under another scheduler."""
        return Cluster(self.objects, origin=self.origin, settings=settings)

    # -- what there is ------------------------------------------------------------------------

    def of(self, kind: type[O]) -> Mapping[str, O]:
        """All objects of a struct by key (`namespace/name`, or the name)."""
        return self.objects.get(kind, {})

    @property
    def nodes(self) -> Mapping[str, Node]:
        return self.of(Node)

    @property
    def pods(self) -> Mapping[str, Pod]:
        return self.of(Pod)

    @property
    def budgets(self) -> Mapping[str, Budget]:
        return self.of(Budget)

    @property
    def events(self) -> Iterable[Event]:
        return self.of(Event).values()

    @property
    def now(self) -> float:
        """The moment that ages are counted from."""
        return self.origin.taken

    @property
    def version_note(self) -> str:
        """Why it is decided as `settings.gates.version`; empty where that goes without saying."""
        told, decided = self.origin.version, self.settings.gates.version
        if self.settings.told:
            return ""
        if not version_key(told):
            return "the source tells no version; --emulated-version gives it"
        if version_key(told)[:2] != version_key(decided)[:2]:
            return f"the nearest that is known to its own {told}"
        return f"its kubelets are {told}" if self.origin.of_kubelets else ""

    def pending(self) -> Iterator[Pod]:
        """Pods without a node that nobody is deleting, in the order of their age and name."""
        return iter(self._pending)

    @cached_property
    def _pending(self) -> list[Pod]:
        waiting = [pod for pod in self.pods.values() if is_pending(pod)]
        return sorted(waiting, key=lambda pod: (pod.metadata.creation_timestamp, pod.key))

    def before(self, pod: Pod) -> list[Pod]:
        """Pending pods that the scheduler takes before one: by priority, then age.

        One that does not exist yet comes after all that are as important.
        """
        mine = _turn(pod) if pod.key in self.pods else (-pod.priority, NEVER, pod.key)
        return [other for other in self._pending if _turn(other) < mine]

    def check_namespace(self, name: str) -> None:
        """Raise UnknownObject if there is no such namespace, as far as the source tells."""
        if name not in self.namespaces:
            raise unknown("namespace", name, sorted(self.namespaces))

    @cached_property
    def namespaces(self) -> set[str]:
        """The namespaces that there are, as far as the source tells."""
        known = set(self.of(Namespace))
        if known:
            return known
        used = {item.namespace for items in self.objects.values() for item in items.values()}
        return used | set(BUILT_IN_NAMESPACES)

    def owners(self) -> Iterator[Owner]:
        """Everything that makes pods."""
        for kind in OWNERS:
            yield from self.of(kind).values()

    def owner(self, kind: str, name: str, namespace: str = "") -> Owner:
        """An owner by kubectl's name for its kind; raises UnknownObject with near names."""
        where = namespace or self.origin.namespace
        for struct in OWNERS:
            if kind.lower() in (struct.KIND.lower(), struct.RESOURCE, *_SHORT.get(struct.KIND, ())):
                found = self.of(struct)
                if f"{where}/{name}" in found:
                    return found[f"{where}/{name}"]
                elsewhere = [item.key for item in found.values() if item.name == name]
                if elsewhere:
                    raise unknown(struct.KIND.lower(), f"{where}/{name}", elsewhere)
                names = [item.name for item in found.values() if item.namespace == where]
                raise unknown(struct.KIND.lower(), name, names, self._place(struct, where))
        kinds = ", ".join(struct.KIND.lower() for struct in OWNERS)
        raise SourceError(f'kind "{kind}" makes no pods that can be asked about; use pod, {kinds}')

    def pods_of(self, owner: Owner) -> list[Pod]:
        """The pods that an owner controls, also through its replica sets."""
        uids = {owner.uid or owner.key}
        if owner.KIND == "Deployment":
            uids = {
                item.uid or item.key
                for item in self.owners()
                if item.controller is not None and item.controller.uid in uids
            }
        return [
            pod
            for pod in self.pods.values()
            if pod.controller is not None and pod.controller.uid in uids
        ]

    def owner_of(self, pod: Pod) -> Owner | None:
        """What would make the pod again, if it was read: a deployment, not its replica set."""
        owner = self._controller(pod)
        above = None if owner is None else self._controller(owner)
        return above or owner

    def maker_of(self, pod: Pod) -> Owner | None:
        """The same; of one that was not read the name alone."""
        read = self._controller(pod)
        owner = read or _named(pod)
        if owner is None:
            return None
        above = self._controller(owner) or _named(owner)
        return above or (_deployment_of(pod, owner) if read is None else None) or owner

    def _controller(self, item: Object) -> Owner | None:
        ref = item.controller
        kind = None if ref is None else OWNER_KINDS.get(ref.kind)
        return None if ref is None or kind is None else (
            self.of(kind).get(f"{item.namespace}/{ref.name}")
        )  # fmt: skip

    def _place(self, kind: type[Owner], namespace: str) -> str:
        """Where an object is not; a dump without any of its kind was taken without them."""
        place = f'namespace "{namespace}"'
        if self.of(kind):
            return place
        return (
            f"{place}: there are no {kind.RESOURCE} in {self.origin.name}; ask about pods, or, if "
            "it is a dump, take it anew with them (`bayplan snapshot save` does)"
        )

    def pod(self, name: str, namespace: str = "") -> Pod:
        """A pod by `name` or `namespace/name`; raises UnknownObject with near names."""
        if "/" in name:
            namespace, _, name = name.partition("/")
        where = namespace or self.origin.namespace
        found = self.pods.get(f"{where}/{name}")
        if found is not None:
            return found
        here = [pod.name for pod in self.pods.values() if pod.namespace == where]
        if not here and self.of(Namespace) and where not in self.of(Namespace):
            raise unknown("namespace", where, self.of(Namespace))
        elsewhere = [pod.key for pod in self.pods.values() if pod.name == name]
        if elsewhere:
            raise unknown("pod", f"{where}/{name}", elsewhere)
        owners = [item for item in self.owners() if item.key == f"{where}/{name}"]
        if owners:
            kind = owners[0].KIND.lower()
            raise UnknownObject(f'"{name}" is no pod but a {kind}: ask about {kind}/{name}')
        raise unknown("pod", name, here, f'namespace "{where}"')

    def node(self, name: str) -> Node:
        """A node; raises UnknownObject with near names."""
        if name not in self.nodes:
            raise unknown("node", name, self.nodes)
        return self.nodes[name]

    # -- deciding -----------------------------------------------------------------------------

    @property
    def engine(self) -> Engine:
        """The kept engine; change it only inside a trial."""
        if self._engine is None:
            self._engine = self.fresh_engine()
        return self._engine

    def fresh_engine(self, settings: Settings | None = None) -> Engine:
        """Another engine over the same objects, to be changed at will."""
        chosen = settings or self.settings
        engine = Engine.build(
            chosen.config, chosen.registry, gates=chosen.gates, extenders=chosen.extenders
        )
        fill(engine.cache, self.objects)
        return engine

    def trial(self) -> Trial:
        """Changes to the kept engine that are taken back when the block ends."""
        return Trial(self.engine, self.now)

    def decide(self, pod: Pod) -> Decision:
        """What the scheduler would decide for a pod now; nothing changes."""
        start = self.engine.next_start
        with naming(pod):
            decision = self.engine.schedule(pod, self.now)
        self.engine.next_start = start
        return decision

    # -- questions ----------------------------------------------------------------------------

    def why(self, pod: str | Pod, namespace: str = "", *, every_node: bool = False) -> Answer:
        """Why a pod waits, or is where it is; on request with the verdict of every node."""
        from bayplan.inspect.why import why_in_turn

        found = self.pod(pod, namespace) if isinstance(pod, str) else pod
        return why_in_turn(self, found, every_node=every_node)

    def why_pending(
        self, namespace: str = "", *, details: bool = True, every_node: bool = False
    ) -> Pending:
        """Why every pending pod waits, grouped by cause; the groups need no details of pods."""
        from bayplan.inspect.why import why_pending

        return why_pending(self, namespace, details=details, every_node=every_node)

    def what_if(self, *changes: str | AnyChange, settings: Settings | None = None) -> WhatIf:
        """What would follow from changes such as `"drain=node-1"`; nothing changes."""
        from bayplan.inspect.whatif import parse_changes, what_if

        parsed = [c if not isinstance(c, str) else parse_changes([c])[0] for c in changes]
        return what_if(self, parsed, settings=settings)

    def each(self, what: str = "node") -> EachAnswer:
        """Drain every node, or lose every zone, one at a time."""
        from bayplan.inspect.whatif import each

        return each(self, what)

    def capacity(
        self, *templates: str | Template, keep_free: str = "", limit: int = 100_000
    ) -> Capacity:
        """How many more of templates such as `"3xdeployment/web"` fit."""
        from bayplan.inspect.capacity import capacity
        from bayplan.inspect.capacity.templates import parse_template

        parsed = [parse_template(self, t) if isinstance(t, str) else t for t in templates]
        return capacity(self, parsed, keep_free=keep_free, limit=limit)

    def pack(self, wishes: Wishes | None = None) -> Packing:
        """How few nodes would do, with a proof; needs `bayplan[optimize]`."""
        from bayplan.inspect.pack import pack

        return pack(self, wishes)

    def diff(self, other: Settings) -> Diff:
        """Which pods would go elsewhere under other settings, all placed anew."""
        from bayplan.inspect.diff import diff

        return diff(self, self.settings, other)


def _named(item: Object) -> Owner | None:
    """What controls an object, as far as its reference tells."""
    ref = item.controller
    kind = None if ref is None else OWNER_KINDS.get(ref.kind)
    return None if ref is None or kind is None else (
        kind(metadata=ObjectMeta(ref.name, item.namespace, ref.uid))
    )  # fmt: skip


def _deployment_of(pod: Pod, owner: Owner) -> Owner | None:
    """The deployment of a replica set that was not read: its pods tell the hash in its name."""
    digest = pod.labels.get("pod-template-hash", "")
    name = owner.name.removesuffix(f"-{digest}")
    if owner.KIND != "ReplicaSet" or owner.controller is not None or name == owner.name:
        return None
    return Deployment(metadata=ObjectMeta(name, pod.namespace))


def _turn(pod: Pod) -> tuple[int, str, str]:
    return -pod.priority, pod.metadata.creation_timestamp, pod.key


def in_order(objects: Objects) -> Objects:
    """Each kind by key, as a server lists it, so that no answer hangs on the order of a source."""
    found: Objects = {}
    for kind in sorted(objects, key=lambda kind: kind.__name__):
        items = objects[kind]
        keys = sorted(items)
        found[kind] = items if keys == list(items) else {key: items[key] for key in keys}
    return found


def fill(cache: Cache, objects: Objects) -> None:
    """Feed a cache: nodes first."""
    members = members_of(cache.objects)
    for node in objects.get(Node, {}).values():
        with naming(node):
            cache.add_node(node)
    for kind, items in objects.items():
        if kind is not Node and kind is not Pod and cache.objects.of_kind(kind.KIND) is not None:
            for item in items.values():
                if type(item) is cache_struct(cache, kind):
                    cache.objects.put(item)
    for pod in objects.get(Pod, {}).values():
        try:
            if pod.spec.scheduling_group is not None and not pod.finished:
                members.put(pod)
            if pod.spec.node_name and not pod.finished:
                cache.add_pod(pod)
            elif pod.status.nominated_node_name and is_pending(pod):
                cache.nominator.add(cache.infos.make(pod), pod.status.nominated_node_name)
        except BayplanError as problem:
            raise InspectError(f'pod "{pod.key}": {problem}') from problem


@contextmanager
def naming(item: Object) -> Iterator[None]:
    """Say which object it is that the engine cannot take."""
    try:
        yield
    except InspectError:
        raise
    except BayplanError as problem:
        raise InspectError(f'{item.KIND.lower()} "{item.key}": {problem}') from problem


def cache_struct(cache: Cache, kind: type[Object]) -> type[Object] | None:
    """The struct that the engine reads of a kind; others of that kind are for questions."""
    lister = cache.objects.of_kind(kind.KIND)
    return None if lister is None else lister.kind


def is_pending(pod: Pod) -> bool:
    """Whether a pod waits for a node."""
    return not (pod.spec.node_name or pod.finished or pod.terminating)


def seconds(text: str) -> float:
    """A time as seconds since the epoch, 0 if there is none."""
    try:
        return parse_time(text) if text else 0.0
    except ValueError:
        return 0.0


_SHORT: dict[str, Sequence[str]] = {
    "Deployment": ("deploy",),
    "ReplicaSet": ("rs",),
    "StatefulSet": ("sts",),
    "DaemonSet": ("ds",),
    "ReplicationController": ("rc",),
    "Job": (),
}
