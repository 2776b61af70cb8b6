"""Pods that were rejected, by the plugins that rejected them, pods that are alike in one group.

An event concerns the plugins that registered it. Only groups rejected by one of those are looked
at, so an event that cannot help anybody costs a few dictionary look-ups however many pods wait.
Pods of one group agree in everything that scheduling reads but their names and status, and were
rejected by the same plugins: whoever asks about a group by its first pod gets the answer for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bayplan.engine.queue.pods import Place, QueuedPod

_GroupKey = tuple[bytes | str, frozenset[str], frozenset[str], str]


class Group:
    """Waiting pods that are alike, by key."""

    __slots__ = ("key", "pods", "rejectors")

    def __init__(self, key: _GroupKey) -> None:
        self.key = key
        self.rejectors = key[1] | key[2]
        self.pods: dict[str, QueuedPod] = {}


class WaitingRoom:
    """The unschedulable pods, gated ones included, in order of arrival."""

    __slots__ = ("_by_plugin", "_groups", "_listed", "_pods", "gated")

    def __init__(self) -> None:
        self._pods: dict[str, QueuedPod] = {}
        self._groups: dict[_GroupKey, Group] = {}
        self._by_plugin: dict[str, dict[_GroupKey, Group]] = {}
        self._listed: dict[str, tuple[Group, bool]] = {}
        """How each pod was indexed; its plugin sets may have changed since."""
        self.gated = 0

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(list(self._pods.values()))

    @property
    def group_count(self) -> int:
        return len(self._groups)

    def add(self, item: QueuedPod) -> None:
        item.place = Place.UNSCHEDULABLE
        self._pods[item.key] = item
        self._index(item)

    def remove(self, item: QueuedPod) -> None:
        del self._pods[item.key]
        self._unindex(item.key)
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
                self._by_plugin.setdefault(plugin, {})[key] = group
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
                del self._by_plugin[plugin][group.key]

    def rejected_by(self, plugins: Iterable[str]) -> list[Group]:
        """Groups that one of the plugins rejected, each once."""
        found = [groups for name in plugins if (groups := self._by_plugin.get(name))]
        if not found:
            return []
        merged = (
            found[0] if len(found) == 1 else {k: g for groups in found for k, g in groups.items()}
        )
        return list(merged.values())

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
                assert self._by_plugin[plugin][group.key] is group
        assert sum(len(group.pods) for group in self._groups.values()) == len(self._pods)
        listed = sum(len(groups) for groups in self._by_plugin.values())
        assert listed == sum(len(group.rejectors) for group in self._groups.values())
        assert self.gated == sum(gated for _, gated in self._listed.values())


def _group_key(item: QueuedPod) -> _GroupKey:
    # Gated pods are looked at one by one: their plugins may ask who they are.
    alone = item.signature is None or item.gated
    alike = item.key if alone else item.signature
    assert alike is not None
    plugins = item.unschedulable_plugins, item.pending_plugins
    return (alike, *plugins, item.pod.spec.scheduler_name)
