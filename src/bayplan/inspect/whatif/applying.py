"""Applies manifests in a rehearsal: new owners make their pods, changed ones replace theirs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from bayplan.api import Node, Object, Pod, yaml
from bayplan.errors import DecodeError
from bayplan.inspect.admitting import admitted, completed
from bayplan.inspect.errors import CORRECT, SourceError, damaged, unknown
from bayplan.inspect.kinds import BY_KIND
from bayplan.inspect.objects import Budget, Owner, ordinal
from bayplan.inspect.sources.gather import Gathering
from bayplan.inspect.whatif.changes import Apply
from bayplan.inspect.whatif.rolling import roll

if TYPE_CHECKING:
    from bayplan.inspect.whatif.carrying import Carrying

SUFFIXES = (".json", ".yaml", ".yml")


def read_manifests(change: Apply, namespace: str) -> list[Object]:
    """The objects of manifests; those without a namespace belong to `namespace`."""
    gathering = Gathering(namespace)
    for name, document in _documents(change):
        try:
            gathering.add(_defaulted(document))
        except DecodeError as problem:
            raise SourceError(f"reading {name}: {problem}; {CORRECT}") from problem
    for left_out in gathering.unread():
        raise SourceError(f"{change.text}: {left_out.why}; {CORRECT}")
    if not gathering.objects:
        raise SourceError(f"{change.text}: it holds no object that scheduling knows; {CORRECT}")
    return [item for items in gathering.objects.values() for item in items.values()]


def _documents(change: Apply) -> Iterator[tuple[str, dict[str, Any]]]:
    for document in change.documents:
        yield "a manifest", document
    if not change.path:
        return
    place = Path(change.path)
    if not place.exists():
        raise SourceError(f'"{place}" does not exist; give a manifest or a folder of them')
    files = [place]
    if place.is_dir():
        files = sorted(f for f in place.rglob("*") if f.suffix in SUFFIXES and f.is_file())
    for file in files:
        try:
            found = yaml.load_all(file.read_bytes())
        except (DecodeError, OSError) as problem:
            raise damaged(file, problem, CORRECT) from problem
        yield from ((f'"{file}"', item) for item in found if isinstance(item, dict))


def _defaulted(document: dict[str, Any]) -> dict[str, Any]:
    """A manifest as the API server would complete it; how many replicas stays open."""
    items = document.get("items")
    if isinstance(items, list) and str(document.get("kind", "")).endswith("List"):
        return {**document, "items": [_defaulted(i) if isinstance(i, dict) else i for i in items]}
    if document.get("kind") not in BY_KIND:
        return document
    spec = document.get("spec")
    open_ended = isinstance(spec, dict) and "replicas" not in spec
    found = completed(document)
    if open_ended:
        found["spec"].pop("replicas", None)
    return found


def apply_manifests(carrying: Carrying, change: Apply) -> None:
    """Everything that scheduling reads first, then nodes, then whatever makes pods."""
    items = read_manifests(change, carrying.cluster.origin.namespace)
    for item in items:
        if not isinstance(item, Node | Pod | Owner):
            carrying.trial.put(item)
            carrying.settling.admission.put(item)
            if isinstance(item, Budget):
                carrying.add_budget(item)
    for item in items:
        if isinstance(item, Node):
            carrying.add_node(item)
    for item in items:
        if isinstance(item, Owner):
            _apply_owner(carrying, item)
        elif isinstance(item, Pod):
            _apply_pod(carrying, item)
        carrying.settling.run()


def _apply_pod(carrying: Carrying, pod: Pod) -> None:
    if pod.key in carrying.cluster.pods:  # a pod that exists cannot be given another spec
        return
    engine = carrying.trial.engine
    ranges = carrying.settling.admission.ranges
    made = admitted(pod, engine.cache.objects.priority_classes, ranges)
    node = pod.spec.node_name
    if not node:
        carrying.settling.add(made)
    elif engine.cache.table.row_of(node) is None:
        known = [item.name for item in engine.cache.table.nodes]
        raise unknown("node", node, known, f'this cluster, and pod "{pod.key}" names it')
    else:
        carrying.settling.settled_on(made, node)


def _apply_owner(carrying: Carrying, owner: Owner) -> None:
    known = carrying.cluster.of(type(owner)).get(owner.key)
    if owner.KIND == "DaemonSet":
        carrying.apply_daemons(owner if known is None else replace(owner, metadata=known.metadata))
        return
    if known is None:
        carrying.expect(owner.wanted)
        for number in range(owner.wanted):
            carrying.create(owner, carrying.new_pod(owner, number))
        return
    owner = replace(owner, metadata=known.metadata)
    changed = known.spec.template != owner.spec.template
    if changed and owner.KIND == "Job":
        carrying.notes.append(f"{owner.title} keeps its template: the API server refuses another")
    elif changed:

        def renewed(pod: Pod) -> Pod:
            fresh = carrying.new_pod(owner, ordinal(pod))
            meta = replace(pod.metadata, labels={**pod.labels, **fresh.labels})
            return replace(pod, metadata=meta, spec=fresh.spec)

        roll(carrying, owner, renewed, deleting=False)
    if owner.spec.replicas not in (None, known.wanted) and owner.KIND != "Job":
        carrying.scale(owner, owner.wanted)
