"""The questions that can be asked over HTTP: what each may be given, and how it is answered.

One struct a question: its fields are the parameters of a GET (lists parted by `;`) and of the JSON
body of a POST, where manifests and configurations may be given as objects. Paths on the server are
refused: who may ask must not thereby read its files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from bayplan.api import yaml
from bayplan.config import from_data, parse_gates, parse_version
from bayplan.errors import DecodeError
from bayplan.inspect.capacity import Capacity
from bayplan.inspect.capacity.ask import Template
from bayplan.inspect.cluster import Cluster, Unread
from bayplan.inspect.diff import Diff
from bayplan.inspect.errors import InspectError
from bayplan.inspect.settings import Settings, load_settings
from bayplan.inspect.whatif import AnyChange, EachAnswer, WhatIf, parse_changes
from bayplan.inspect.whatif.applying import SUFFIXES
from bayplan.inspect.whatif.changes import Apply
from bayplan.inspect.why import why_on_node, why_owner, why_pending
from bayplan.inspect.why.answer import Answer, Pending
from bayplan.inspect.why.manifest import pods_of
from bayplan.inspect.why.owner import OwnerAnswer

Manifest = dict[str, Any]
MOST_CHANGES = 1000


class Question(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Base of all questions."""

    def answer(self, cluster: Cluster) -> Any:
        raise NotImplementedError


class Summary(msgspec.Struct, frozen=True, rename="camel"):
    """What a cluster is, in numbers."""

    name: str
    version: str
    taken: float
    nodes: int
    pods: int
    pending: int
    schedulers: tuple[str, ...]
    settings: str
    own: bool = False
    """Whether its scheduler is not what its version alone would tell."""
    unread: tuple[Unread, ...] = ()


class AskCluster(Question, frozen=True):
    """What the cluster is, in numbers."""

    def answer(self, cluster: Cluster) -> Summary:
        return Summary(
            cluster.origin.name,
            cluster.origin.version,
            cluster.origin.taken,
            len(cluster.nodes),
            len(cluster.pods),
            sum(1 for _ in cluster.pending()),
            cluster.settings.scheduler_names,
            cluster.settings.title,
            cluster.settings.own,
            cluster.origin.unread,
        )


class AskWhy(Question, frozen=True):
    """Why a pod waits, or is where it is."""

    pod: Annotated[
        str | Manifest,
        Meta(description="`namespace/name`; or a manifest of a pod, or of what makes pods"),
    ] = ""
    owner: Annotated[str, Meta(description="instead: `kind/namespace/name` of a pods' maker")] = ""
    node: Annotated[str, Meta(description="why not on this node")] = ""
    every_node: Annotated[bool, Meta(description="with the verdict of every node")] = True

    def answer(self, cluster: Cluster) -> Answer | OwnerAnswer:
        if self.owner:
            kind, _, rest = self.owner.partition("/")
            namespace, slash, name = rest.partition("/")
            found = cluster.owner(kind, name if slash else namespace, namespace if slash else "")
            return why_owner(cluster, found, every_node=self.every_node)
        if not self.pod:
            raise InspectError("give pod=NAMESPACE/NAME or owner=KIND/NAMESPACE/NAME")
        if isinstance(self.pod, str):
            pod = cluster.pod(self.pod)
        else:
            pod = pods_of(cluster, [self.pod])[0]
        if self.node:
            return why_on_node(cluster, pod, self.node, every_node=self.every_node)
        return cluster.why(pod, every_node=self.every_node)


class AskPending(Question, frozen=True):
    """All pending pods, grouped by cause."""

    namespace: Annotated[str, Meta(description="only of this namespace")] = ""
    every_node: Annotated[bool, Meta(description="with the verdict of every node for each pod")] = (
        False
    )

    def answer(self, cluster: Cluster) -> Pending:
        return why_pending(cluster, self.namespace, every_node=self.every_node)


class OtherSettings(Question, frozen=True):
    """Base of questions about another scheduler."""

    config: Annotated[
        str | Manifest, Meta(description="a KubeSchedulerConfiguration, as an object or a text")
    ] = ""
    emulated_version: Annotated[str, Meta(description="decide as this version, such as 1.36")] = ""

    def settings(self, cluster: Cluster) -> Settings | None:
        """What the scheduler would get; None if nothing is said about it."""
        version = parse_version(self.emulated_version) if self.emulated_version else ""
        if not self.config:
            return load_settings(emulated_version=version) if version else None
        document: Any = self.config
        if isinstance(document, str):
            try:
                document = yaml.load(document)
            except DecodeError as problem:
                raise InspectError(f"config: {problem}") from problem
        if not isinstance(document, dict):
            raise InspectError("config must be a KubeSchedulerConfiguration as JSON or YAML")
        gates = parse_gates("", version) if version else cluster.settings.gates
        config = from_data(document, gates)
        return msgspec.structs.replace(
            cluster.settings, config=config, gates=gates, source="the request"
        )


class AskWhatIf(OtherSettings, frozen=True):
    """What would move, wait or be lost if the cluster changed."""

    changes: Annotated[
        list[str | Manifest],
        Meta(
            description="such as `drain=node-1;scale=deployment/web=3`, or objects "
            'such as `{"change": "scale", "kind": "deployment", "name": "web", "replicas": 3}`'
        ),
    ] = []
    apply: Annotated[list[Manifest], Meta(description="manifests, applied first")] = []
    each: Annotated[str, Meta(description="instead: `node` or `zone`, one at a time")] = ""

    def answer(self, cluster: Cluster) -> WhatIf | EachAnswer:
        settings = self.settings(cluster)
        if self.each:
            return (cluster.with_settings(settings) if settings else cluster).each(self.each)
        changes = [_change(item) for item in self.changes]
        if any(isinstance(change, Apply) for change in changes):
            raise InspectError("apply reads files, which is not done over HTTP; give manifests")
        if self.apply:
            changes.insert(0, Apply(documents=tuple(self.apply)))
        if not changes and settings is None:
            raise InspectError("give changes=drain=node-1, several parted by ;")
        if len(changes) > MOST_CHANGES:
            raise InspectError(f"these are {len(changes)} changes; give at most {MOST_CHANGES}")
        return cluster.what_if(*changes, settings=settings)


class AskCapacity(Question, frozen=True):
    """How many more pods fit, and what ends it."""

    templates: Annotated[
        list[str | Manifest],
        Meta(description="such as `3xdeployment/web;cpu=1,memory=2Gi`, or manifests"),
    ]
    keep_free: Annotated[str, Meta(description="`node` or `zone`: keep the room to lose one")] = ""

    def answer(self, cluster: Cluster) -> Capacity:
        if not self.templates:
            raise InspectError("give templates=deployment/web, several parted by ;")
        found: list[str | Template] = []
        for item in self.templates:
            if isinstance(item, dict):
                pod = pods_of(cluster, [item])[0]
                found.append(Template(f"{item.get('kind', 'pod')}/{pod.name}".lower(), pod, 1))
            elif Path(item).suffix in SUFFIXES:
                raise InspectError(
                    "templates in files are not read over HTTP; name an owner, amounts or give a "
                    "manifest"
                )
            else:
                found.append(item)
        return cluster.capacity(*found, keep_free=self.keep_free)


class AskDiff(OtherSettings, frozen=True):
    """What another configuration or version would decide differently."""

    def answer(self, cluster: Cluster) -> Diff:
        settings = self.settings(cluster)
        if settings is None:
            raise InspectError("give config= with a KubeSchedulerConfiguration, or emulatedVersion")
        return cluster.diff(settings)


def _change(item: str | Manifest) -> AnyChange:
    if isinstance(item, str):
        return parse_changes([item])[0]
    try:
        return msgspec.convert(item, AnyChange)  # type: ignore[no-any-return]
    except msgspec.ValidationError as problem:
        raise InspectError(f"change: {problem}") from problem


QUESTIONS: dict[str, type[Question]] = {
    "cluster": AskCluster,
    "why": AskWhy,
    "pending": AskPending,
    "whatif": AskWhatIf,
    "capacity": AskCapacity,
    "diff": AskDiff,
}
"""Path below the prefix to question; what else can be asked is added here."""
