"""Pods that were rejected, by the plugins that rejected them.

An event concerns the plugins that registered it. Only pods rejected by one of those are looked
at, so an event that cannot help anybody costs a few dictionary look-ups however many pods wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bayplan.engine.queue.pods import Place, QueuedPod


class WaitingRoom:
    """The unschedulable pods, gated ones included, in order of arrival."""

    __slots__ = ("_by_plugin", "_listed", "_pods", "gated")

    def __init__(self) -> None:
        self._pods: dict[str, QueuedPod] = {}
        self._by_plugin: dict[str, dict[str, QueuedPod]] = {}
        self._listed: dict[str, tuple[frozenset[str], bool]] = {}
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

    def remove(self, item: QueuedPod) -> None:
        del self._pods[item.key]
        self._unindex(item.key)
        item.place = Place.NOWHERE

    def refresh(self, item: QueuedPod) -> None:
        """Index a pod anew after its plugin sets changed."""
        self._unindex(item.key)
        self._index(item)

    def _index(self, item: QueuedPod) -> None:
        rejectors = item.rejectors
        for plugin in rejectors:
            self._by_plugin.setdefault(plugin, {})[item.key] = item
        self._listed[item.key] = (rejectors, item.gated)
        self.gated += item.gated

    def _unindex(self, key: str) -> None:
        rejectors, gated = self._listed.pop(key)
        for plugin in rejectors:
            del self._by_plugin[plugin][key]
        self.gated -= gated

    def rejected_by(self, plugins: Iterable[str]) -> list[QueuedPod]:
        """Pods that one of the plugins rejected, each once."""
        groups = [group for name in plugins if (group := self._by_plugin.get(name))]
        if not groups:
            return []
        if len(groups) == 1:
            return list(groups[0].values())
        merged: dict[str, QueuedPod] = {}
        for group in groups:
            merged.update(group)
        return list(merged.values())

    def validate(self) -> None:
        """Raise AssertionError unless the index agrees with the pods."""
        for key, item in self._pods.items():
            rejectors, gated = self._listed[key]
            assert rejectors == item.rejectors, f"{key} is listed under {rejectors}"
            assert gated == item.gated, f"{key} is listed with gated={gated}"
            for plugin in rejectors:
                assert self._by_plugin[plugin][key] is item
        total = sum(len(group) for group in self._by_plugin.values())
        assert total == sum(len(rejectors) for rejectors, _ in self._listed.values())
        assert self.gated == sum(gated for _, gated in self._listed.values())
