"""Which events may make room for a pod that did not fit."""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.api import DeviceClass, Node, Object, Pod
from bayplan.api.requests import node_allocatable, pod_resources
from bayplan.cluster.resources import resource_name
from bayplan.framework import (
    ActionType,
    ClusterEventWithHint,
    Handle,
    QueueingHint,
    Resource,
    on,
)
from bayplan.plugins.hints import hint

IMPLICIT_DEVICES = "deviceclass.resource.kubernetes.io/"


class FitHints:
    """The events of NodeResourcesFit."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def events(self) -> Sequence[ClusterEventWithHint]:
        less = ActionType.DELETE | ActionType.UPDATE_POD_SCALE_DOWN
        more = ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE
        found = [
            on(Resource.POD, less, self._pod_frees),
            on(Resource.NODE, more, self._node_has_room),
        ]
        if self._handle.gates["DRAExtendedResource"]:
            changed = ActionType.ADD | ActionType.UPDATE
            found.append(on(Resource.DEVICE_CLASS, changed, self._class_serves))
        return tuple(found)

    def _pod_frees(self, pod: Pod, old: Object | None, new: Object | None) -> QueueingHint:
        assert isinstance(old, Pod)
        if new is None:
            return hint(bool(old.spec.node_name or old.status.nominated_node_name))
        assert isinstance(new, Pod)
        if new.uid == pod.uid:
            return QueueingHint.QUEUE
        if not new.spec.node_name:
            return QueueingHint.SKIP
        before, after = pod_resources(old).used, pod_resources(new).used
        wanted = pod_resources(pod).fit
        return hint(
            any(amount and after.get(n, 0) < before.get(n, 0) for n, amount in wanted.items())
        )

    def _node_has_room(self, pod: Pod, old: Object | None, new: Object | None) -> QueueingHint:
        assert isinstance(new, Node)
        wanted = {name: n for name, n in pod_resources(pod).fit.items() if n > 0}
        offered = node_allocatable(new.status.allocatable)
        fits = offered.get("pods", 0) >= 1 and all(
            offered.get(name, 0) >= amount or self._delegated(name, offered)
            for name, amount in wanted.items()
        )
        if not fits:
            return QueueingHint.SKIP
        if not isinstance(old, Node):
            return QueueingHint.QUEUE
        before = node_allocatable(old.status.allocatable)
        grew = (*wanted, "pods")
        return hint(
            any(offered.get(name, 0) > before.get(name, 0) for name in grew)
            or any(self._delegated(name, offered) for name in wanted)
        )

    def _delegated(self, name: str, offered: dict[str, int]) -> bool:
        if offered.get(name, 0) or not self._handle.gates["DRAExtendedResource"]:
            return False
        classes = self._handle.objects.device_classes
        if name.startswith(IMPLICIT_DEVICES):
            return classes.get(name[len(IMPLICIT_DEVICES) :]) is not None
        return any(item.spec.extended_resource_name == name for item in classes)

    def _class_serves(self, pod: Pod, old: Object | None, new: Object | None) -> QueueingHint:
        assert isinstance(new, DeviceClass)
        served = new.spec.extended_resource_name
        if isinstance(old, DeviceClass) and old.spec.extended_resource_name == served:
            return QueueingHint.SKIP
        names = {served} if served else set()
        if old is None:
            names.add(IMPLICIT_DEVICES + new.name)
        asked = (resource_name(number) for number, _ in self._handle.info(pod).traits.fit)
        return hint(any(name in names for name in asked))
