"""Collects objects from any source: picks the kinds that matter and drops everything else.

Plain data and JSON bytes become structs, which have no field for a secret, an environment value or
managedFields to be kept in. An object that cannot be decoded, or whose amounts cannot be read, is
noted and left out, not fatal: one odd pod must not hide the other 99,999. A kind is known by its
group as well: others call their own objects Node, Service or Job too. Objects without a uid
(manifests) get one made of their name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from bayplan.api import Object, Pod, convert, decode
from bayplan.api.sharing import PodSharing
from bayplan.errors import BayplanError, DecodeError
from bayplan.inspect.cluster import Objects, Unread
from bayplan.inspect.kinds import BY_KIND, EVENT_REASONS, Kind
from bayplan.inspect.objects import Event, ReportingNode
from bayplan.inspect.settings import version_key
from bayplan.inspect.sources.checking import check_amounts

SHOWN_PROBLEMS = 3


class _Envelope(msgspec.Struct, frozen=True, rename="camel"):
    """What says which kind a document or list is."""

    api_version: str = ""
    kind: str = ""
    items: list[msgspec.Raw] | None = None
    server_version: dict[str, Any] | None = None


_envelope = msgspec.json.Decoder(_Envelope)


class Gathering:
    """Objects so far; the last of a name wins."""

    def __init__(self, namespace: str = "default") -> None:
        """`namespace` is for objects that name none."""
        self.objects: Objects = {}
        self.seen = 0
        """How many objects of kinds that matter were met."""
        self._namespace = namespace
        self._problems: list[str] = []
        self._share = PodSharing()
        self._checked: dict[int, object] = {}
        self._pod_keys: dict[str, str] = {}
        self.server = ""
        """The server's version, where a document tells it (`kubectl version -o json`)."""
        self.kubelets = ""
        """The newest version of a kubelet; no kubelet is newer than its server."""

    def put(self, item: Object) -> None:
        """Keep a struct."""
        if isinstance(item, Event) and item.reason not in EVENT_REASONS:
            return
        namespaced = BY_KIND[item.KIND].resource.namespaced
        if namespaced != bool(item.namespace):
            namespace = self._namespace if namespaced else ""
            item = replace(item, metadata=replace(item.metadata, namespace=namespace))
        uid = item.metadata.uid
        if not uid or (isinstance(item, Pod) and self._pod_keys.get(uid, item.key) != item.key):
            uid = f"{item.KIND}/{item.key}"  # a copy of a pod keeps the uid of the first
            item = replace(item, metadata=replace(item.metadata, uid=uid))
        if isinstance(item, Pod):
            item = self._share(item)
            self._pod_keys[uid] = item.key
        if self._readable(item):
            self.objects.setdefault(type(item), {})[item.key] = item

    def put_shared(self, pods: Iterable[Pod]) -> None:
        """Keep pods that share what they have in common already."""
        known = self.objects.setdefault(Pod, {})
        for pod in pods:
            self.seen += 1
            if self._readable(pod):
                known[pod.key] = pod

    def _readable(self, item: Object) -> bool:
        """Whether the amounts in an object are amounts; asked once for all pods of a template."""
        part = item.spec.containers if isinstance(item, Pod) else ()
        if part and self._checked.get(id(part)) is part and not item.status.container_statuses:  # type: ignore[attr-defined]
            return True
        try:
            check_amounts(item)
        except BayplanError as problem:
            self._problems.append(f'{item.KIND.lower()} "{item.key}": {problem}')
            return False
        if part:
            self._checked[id(part)] = part
        return True

    def add(self, document: Mapping[str, Any]) -> None:
        """Keep a document of plain data; lists are taken apart, other kinds left out."""
        kind, version = str(document.get("kind") or ""), str(document.get("apiVersion") or "")
        items = document.get("items")
        if not kind:
            self._server(document.get("serverVersion"))
        if isinstance(items, list) and kind.endswith("List"):
            for item in items:
                if not isinstance(item, dict):
                    self._problems.append(f"an item of a {kind} is no object")
                else:
                    head = {"kind": kind[:-4], "apiVersion": version}
                    self.add(item if item.get("kind") else {**item, **head})
            return
        found = self._kind(kind, version)
        if found is not None:
            self._each_struct(found, lambda struct: convert(struct, document))

    def add_json(self, data: bytes | msgspec.Raw, kind: str = "") -> None:
        """Keep an object or list of JSON bytes; `kind` is for those that do not say theirs."""
        try:
            head = _envelope.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
            raise DecodeError(f"decoding JSON: {problem}") from problem
        kind, version = head.kind or kind, head.api_version
        self._server(head.server_version)
        if head.items is None:
            found = self._kind(kind, version)
            if found is not None:
                self._each_struct(found, lambda struct: decode(struct, data))
            return
        inner = kind.removesuffix("List")
        found = self._kind(inner, version)
        for item in head.items:
            if found is not None:
                self._each_struct(found, lambda struct, raw=item: decode(struct, raw))  # type: ignore[misc]
            elif not inner:
                self._mixed(item)

    def _mixed(self, item: msgspec.Raw) -> None:
        """An item of a list that says its own kind."""
        try:
            self.add_json(item)
        except DecodeError as problem:
            self._problems.append(str(problem))

    def _kind(self, kind: str, api_version: str) -> Kind | None:
        """What a kind of a group is to us; None if it is another's or does not matter."""
        found = BY_KIND.get(kind)
        group, _, version = api_version.rpartition("/")
        if found is None or not api_version:
            return found
        if group != found.resource.group and (kind, group) != ("Event", "events.k8s.io"):
            return None
        if version not in found.versions:
            known = " or ".join(found.versions)
            self._problems.append(f"a {kind} of {api_version} (only {known} is understood)")
            return None
        return found

    def _server(self, told: object) -> None:
        found = told.get("gitVersion") if isinstance(told, dict) else None
        self.server = found if isinstance(found, str) else self.server

    def _kubelet(self, read: Callable[[type[Object]], Object]) -> None:
        node = read(ReportingNode)
        assert isinstance(node, ReportingNode)
        found = node.status.node_info.kubelet_version
        if version_key(found) > version_key(self.kubelets):
            self.kubelets = found

    def _each_struct(self, kind: Kind, read: Callable[[type[Object]], Object]) -> None:
        self.seen += 1
        for struct in kind.structs:
            try:
                item = read(struct)
            except DecodeError as problem:
                self._problems.append(str(problem))
                return
            if not item.name:
                self._problems.append(f"a {kind.resource.kind} without a name")
                return
            self.put(item)
        if kind.needed and kind.resource.kind == "Node":
            self._kubelet(read)

    def unread(self) -> list[Unread]:
        """What was met and could not be decoded."""
        if not self._problems:
            return []
        distinct = list(dict.fromkeys(self._problems))
        shown = "; ".join(distinct[:SHOWN_PROBLEMS])
        more = len(distinct) - SHOWN_PROBLEMS
        text = f"{shown}; and {more} more" if more > 0 else shown
        return [Unread(f"{len(self._problems)} object(s)", text, "they are left out")]
