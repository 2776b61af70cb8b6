"""Pods that were rejected, by the plugins that rejected them, pods that are alike in one group.

An event concerns the plugins that registered it. Only groups rejected by one of those are looked
at, so an event that cannot help anybody costs a few dictionary look-ups however many pods wait.
Where a plugin says which labels a pod must have to matter (`hint_selectors`), groups are found by
these labels, so that a pod of one app does not have all waiting apps looked at.
Pods of one group agree in everything that scheduling reads but their names and status, and were
rejected by the same plugins: whoever asks about a group by its first pod gets the answer for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from bayplan.api import Pod
from bayplan.api.labels import Selector
from bayplan.cluster.anchors import Anchored
from bayplan.engine.queue.pods import Place, QueuedPod

SelectorsOf = Callable[[str, Pod], Sequence[Selector] | None]
"""Plugin and waiting pod to the selectors of which one must match; None: any pod may matter."""

_GroupKey = tuple[bytes | str, frozenset[str], frozenset[str], str]


class Group:
    """Waiting pods that are alike, by key."""

    __slots__ = ("key", "pods", "rejectors")

    def __init__(self, key: _GroupKey) -> None:
        self.key = key
        self.rejectors = key[1] | key[2]
        self.pods: dict[str, QueuedPod] = {}


class Rejected:
    """The groups that one plugin rejected."""

    __slots__ = ("_anchored", "_selectors", "_unbound", "groups")

    def __init__(self) -> None:
        self.groups: dict[_GroupKey, Group] = {}
        self._selectors: dict[Group, Sequence[Selector]] = {}
        self._anchored: Anchored[tuple[Group, int]] = Anchored()
        self._unbound: dict[_GroupKey, Group] = {}
        """Groups that any pod may matter to."""

    def add(self, group: Group, selectors: Sequence[Selector] | None) -> None:
        self.groups[group.key] = group
        if selectors is None:
            self._unbound[group.key] = group
            return
        self._selectors[group] = selectors
        for number, selector in enumerate(selectors):
            self._anchored.add((group, number), selector)

    def remove(self, group: Group) -> None:
        del self.groups[group.key]
        self._unbound.pop(group.key, None)
        for number, selector in enumerate(self._selectors.pop(group, ())):
            self._anchored.remove((group, number), selector)

    def by_labels(self, labels: Iterable[Mapping[str, str]]) -> dict[_GroupKey, Group]:
        """The groups that pods with such labels may matter to."""
        found = dict(self._unbound)
        for some in labels:
            for group, _ in self._anchored.candidates(some):
                found[group.key] = group
        return found


def _any_pod(plugin: str, pod: Pod) -> Sequence[Selector] | None:
    return None


class WaitingRoom:
    """The unschedulable pods, gated ones included, in order of arrival."""

    __slots__ = ("_by_plugin", "_groups", "_listed", "_pods", "_selectors_of", "gated")

    def __init__(self, selectors_of: SelectorsOf = _any_pod) -> None:
        self._selectors_of = selectors_of
        self._pods: dict[str, QueuedPod] = {}
        self._groups: dict[_GroupKey, Group] = {}
        self._by_plugin: dict[str, Rejected] = {}
        self._listed: dict[str, tuple[Group, bool]] = {}
        """How each pod was indexed; its plugin sets may have changed since."""
        self.gated = 0

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(list(self._pods.values()))

    def add(self, item: QueuedPod) -> None:
        item.place = Place.UNSCHEDULABLE
        self._pods[item.key] = item
        self._index(item)

    def add_alike(self, items: Sequence[QueuedPod]) -> None:
        """Add pods that are alike, were rejected by the same plugins and are not gated."""
        if not items:
            return
        self.add(items[0])
        listed = self._listed[items[0].key]
        pods, index, group = self._pods, self._listed, listed[0].pods
        for item in items:
            key = item.key
            item.place = Place.UNSCHEDULABLE
            pods[key] = group[key] = item
            index[key] = listed

    def remove(self, item: QueuedPod) -> None:
        self._unindex(item.key)
        del self._pods[item.key]
        item.place = Place.NOWHERE

    def refresh(self, item: QueuedPod) -> None:
        """Index a pod anew after it or its plugin sets changed."""
        self._unindex(item.key)
        self._index(item)

    def _index(self, item: QueuedPod) -> None:
        key = _group_key(item)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Group(key)
            for plugin in group.rejectors:
                rejected = self._by_plugin.setdefault(plugin, Rejected())
                rejected.add(group, self._selectors_of(plugin, item.pod))
        group.pods[item.key] = item
        self._listed[item.key] = (group, item.gated)
        self.gated += item.gated

    def _unindex(self, key: str) -> None:
        group, gated = self._listed.pop(key)
        self.gated -= gated
        del group.pods[key]
        if not group.pods:
            del self._groups[group.key]
            for plugin in group.rejectors:
                self._by_plugin[plugin].remove(group)

    def rejected_by(
        self, plugins: Iterable[str], labels: Sequence[Mapping[str, str]] | None = None
    ) -> list[Group]:
        """Groups that one of the plugins rejected, each once.

        With `labels`, those of a pod before and after an event, only groups that it may matter to.
        """
        found: dict[_GroupKey, Group] = {}
        for name in plugins:
            rejected = self._by_plugin.get(name)
            if rejected is not None:
                found.update(rejected.groups if labels is None else rejected.by_labels(labels))
        return list(found.values())

    def validate(self) -> None:
        """Raise AssertionError unless the index agrees with the pods."""
        assert set(self._listed) == set(self._pods)
        for key, item in self._pods.items():
            group, gated = self._listed[key]
            assert group.key == _group_key(item), f"{key} is listed under {group.key}"
            assert gated == item.gated, f"{key} is listed with gated={gated}"
            assert group.pods[key] is item
            assert self._groups[group.key] is group
            for plugin in item.rejectors:
                assert self._by_plugin[plugin].groups[group.key] is group
        assert sum(len(group.pods) for group in self._groups.values()) == len(self._pods)
        listed = sum(len(rejected.groups) for rejected in self._by_plugin.values())
        assert listed == sum(len(group.rejectors) for group in self._groups.values())
        assert self.gated == sum(gated for _, gated in self._listed.values())


def _group_key(item: QueuedPod) -> _GroupKey:
    # Gated pods are looked at one by one: their plugins may ask who they are.
    alone = item.signature is None or item.gated
    alike = item.key if alone else item.signature
    assert alike is not None
    plugins = item.unschedulable_plugins, item.pending_plugins
    return (alike, *plugins, item.pod.spec.scheduler_name)
