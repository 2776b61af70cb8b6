"""The copies of an Allocation's template: what is to be where, and what may be somewhere.

Every group of a placed allocation has a copy of the template in the member of its site, with a name
of its own and labels that say which allocation and group it belongs to, also in its pod template.
Copies are made in the Allocation's own namespace: who may write one there gets nothing elsewhere.
`status.dispatched` lists every copy that may be somewhere, by marks that are enough to delete it,
whatever the template became. Nothing here asks a server; `dispatch` does.
"""

import re
from collections.abc import Iterable
from copy import deepcopy
from typing import Any, NamedTuple

from bayplan.client.resources import Resource
from bayplan.global_scheduler.fields import Json
from bayplan.global_scheduler.kinds import Placeable
from bayplan.global_scheduler.members import ALLOCATION_LABEL

GROUP_LABEL = "bayplan.dev/group"
_API_VERSION = re.compile(r"([a-z0-9]+([.-][a-z0-9]+)*/)?[a-z0-9]+")
_KIND = re.compile(r"[A-Za-z][A-Za-z0-9]*")


class Copy(NamedTuple):
    """What is, or was, to be in a member."""

    member: str
    manifest: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.manifest["metadata"]["namespace"])

    @property
    def labels(self) -> dict[str, str]:
        return _labels(self.manifest["metadata"]["labels"][ALLOCATION_LABEL], self.number)

    @property
    def number(self) -> str:
        """Of the group."""
        return str(self.manifest["metadata"]["labels"][GROUP_LABEL])

    @property
    def resource(self) -> Resource:
        return resource_of(self.manifest)

    @property
    def object(self) -> str:
        """Which object it is, by whatever version its template names it."""
        resource = self.resource
        return f"{self.member}/{self.number}/{resource.plural}.{resource.group}/{self.name}"

    @property
    def mark(self) -> str:
        """How `status.dispatched` tells it: MEMBER/GROUP/KIND.VERSION[.API_GROUP]/NAME."""
        resource = self.resource
        what = f"{resource.kind}.{resource.version}.{resource.group}".rstrip(".")
        return f"{self.member}/{self.number}/{what}/{self.name}"


def resource_of(manifest: dict[str, Any]) -> Resource:
    """The resource that a manifest belongs to: its kind in the plural."""
    group, _, version = str(manifest.get("apiVersion", "v1")).rpartition("/")
    kind = str(manifest.get("kind", ""))
    return Resource(group, version, _plural(kind.lower()), kind)


def _plural(word: str) -> str:
    if word == "endpoints":
        return word
    if re.search(r"(s|x|ch|sh)$", word):
        return f"{word}es"
    return re.sub(r"(?<=[^aeiou])y$", "ie", word) + "s"


def wrong_in(template: Json, namespace: str) -> str:
    """What keeps a manifest from being copied to members, by path; empty when nothing does."""
    if wrong := _misshapen(template):
        return wrong
    if _metadata(template).get("namespace") not in (namespace, None, ""):
        return (
            "spec.template.metadata.namespace: must be that of the Allocation, "
            f'"{namespace}", or left out'
        )
    return ""


def _misshapen(template: Json) -> str:
    """What is wrong with a manifest whatever the namespace."""
    if not isinstance(template, dict):
        return "spec.template: expected an object"
    if not _API_VERSION.fullmatch(str(template.get("apiVersion", "v1"))):
        return "spec.template.apiVersion: must be VERSION or GROUP/VERSION"
    if not _KIND.fullmatch(str(template.get("kind", ""))):
        return "spec.template.kind: must be the name of a kind"
    for path, holder in (
        ("spec.template", template),
        ("spec.template.spec.template", _inner(template)),
    ):
        meta = holder.get("metadata") or {}
        if not isinstance(meta, dict):
            return f"{path}.metadata: expected an object"
        if not isinstance(meta.get("labels") or {}, dict):
            return f"{path}.metadata.labels: expected an object"
    if "/" in str(_metadata(template).get("name", "")):
        return "spec.template.metadata.name: must have no /"
    return ""


def _metadata(manifest: Json) -> dict[str, Json]:
    found = manifest.get("metadata") if isinstance(manifest, dict) else None
    return found if isinstance(found, dict) else {}


def _inner(manifest: dict[str, Any]) -> dict[str, Any]:
    """The pod template of a manifest, or what stands for one."""
    spec = manifest.get("spec")
    found = spec.get("template") if isinstance(spec, dict) else None
    return found if isinstance(found, dict) else {}


def _template(item: Placeable) -> dict[str, Any] | None:
    """What is copied, if it can be; or was, before it named a namespace where nothing is made."""
    template = item.value("spec", "template")
    return template if isinstance(template, dict) and not _misshapen(template) else None


def namespace_of(item: Placeable) -> str:
    """Where the copies are."""
    return item.metadata.namespace or "default"


def wanted(item: Placeable) -> dict[str, Copy]:
    """What is to be in members for the groups of a placed allocation, by object."""
    template = _template(item)
    if template is None:
        return {}
    return _by_object(
        _copy(member, template, item, str(number)) for number, member in _clusters(item)
    )


def _clusters(item: Placeable) -> Iterable[tuple[int, str]]:
    """The groups that are placed in members."""
    groups = item.value("status", "groups")
    for number, group in enumerate(groups if isinstance(groups, list) else ()):
        member = group.get("cluster") if isinstance(group, dict) else None
        if isinstance(member, str) and member:
            yield number, member


def dispatched(item: Placeable) -> dict[str, Copy]:
    """What may be in members, by object."""
    read = [_marked(mark, item) for mark in _marks(item)]
    return _by_object(copy for copy in read if copy is not None)


def _marks(item: Placeable) -> list[str]:
    found = item.value("status", "dispatched")
    return [str(mark) for mark in found] if isinstance(found, list) else []


def members_of(item: Placeable) -> set[str]:
    """Where something is to be, or may be."""
    noted = {mark.rsplit("/", 1 if _is_old(mark) else 3)[0] for mark in _marks(item)}
    return noted | {member for _, member in _clusters(item)}


def _by_object(found: Iterable[Copy]) -> dict[str, Copy]:
    return {copy.object: copy for copy in found}


def _is_old(mark: str) -> bool:
    """Whether it is of before marks told kind and name: MEMBER/GROUP."""
    return mark.rpartition("/")[2].isdecimal()


def _marked(mark: str, item: Placeable) -> Copy | None:
    """The copy that a mark tells of: as much of it as deleting takes."""
    if _is_old(mark):
        member, number = mark.rsplit("/", 1)
        template = _template(item)
        return None if template is None else _copy(member, template, item, number)
    if mark.count("/") < 3:
        return None
    member, number, what, name = mark.rsplit("/", 3)
    kind, version, group = [*what.split(".", 2), "", ""][:3]
    api_version = f"{group}/{version}" if group else version
    labels: Json = {**_labels(item.metadata.uid, number)}
    meta: Json = {"name": name, "namespace": namespace_of(item), "labels": labels}
    manifest = {"apiVersion": api_version, "kind": kind, "metadata": meta}
    return None if _misshapen(manifest) else Copy(member, manifest)


def _copy(member: str, template: dict[str, Any], item: Placeable, number: str) -> Copy:
    manifest, labels = deepcopy(template), _labels(item.metadata.uid, number)
    meta = _labelled(manifest, labels)
    meta["name"] = f"{meta.get('name') or item.metadata.name}-{number}"
    meta["namespace"] = namespace_of(item)
    if inner := _inner(manifest):
        _labelled(inner, labels)
    return Copy(member, manifest)


def _labels(uid: str, number: str) -> dict[str, str]:
    return {ALLOCATION_LABEL: uid, GROUP_LABEL: number}


def _labelled(holder: dict[str, Any], labels: dict[str, str]) -> dict[str, Any]:
    """The metadata of an object or pod template, with more labels."""
    meta: dict[str, Any] = holder.get("metadata") or {}
    holder["metadata"] = meta
    meta["labels"] = {**(meta.get("labels") or {}), **labels}
    return meta
