"""Objects that come, change and go, as the informers show them.

Keeps the cache in step first and then wakes pods, in kube-scheduler's order: a node that goes
wakes pods before it is taken out. What an event says is checked against what is known, so that
duplicates, late arrivals and gaps (a pod deleted and made anew between two lists) do no harm.
"""

from __future__ import annotations

from bayplan.api import Node, Object, Pod
from bayplan.engine.loop.binding_cycles import BindingCycles, assigned
from bayplan.engine.loop.gangs import Gangs
from bayplan.engine.loop.shared import Shared
from bayplan.engine.loop.timing import EVERY
from bayplan.engine.queue.changes import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    OBJECT_EVENTS,
    UNSCHEDULED_POD_ADD,
    UNSCHEDULED_POD_DELETE,
    UNSCHEDULED_POD_UPDATE,
    node_update_events,
    pod_update_events,
)
from bayplan.framework.contract.events import ActionType, ClusterEvent


class ObjectHandlers:
    """Takes over every change of an object."""

    def __init__(self, shared: Shared, bindings: BindingCycles, gangs: Gangs | None) -> None:
        self._shared = shared
        self._bindings = bindings
        self._gangs = gangs
        self._told: ClusterEvent | None = None
        """What the object under way was taken for, if it meant anything."""
        self._pods = 0

    def changed(self, new: Object) -> None:
        """An object appeared or changed; of pods, which change most, one in ten is timed."""
        if type(new) is Pod:
            self._pods += 1
            if self._pods % EVERY != 1:
                self.pod_changed(new)
                self._told = None
                return
        begin = self._shared.timing.clock()
        self._changed(new)
        self._took(begin)

    def deleted(self, old: Object) -> None:
        """An object is gone."""
        begin = self._shared.timing.clock()
        self._deleted(old)
        self._took(begin)

    def _took(self, begin: float) -> None:
        told, self._told = self._told, None
        if told is not None:
            self._shared.timing.handled(told, begin)

    def _changed(self, new: Object) -> None:
        if isinstance(new, Pod):
            self.pod_changed(new)
        elif isinstance(new, Node):
            self._node_changed(new)
        else:
            self._other_changed(new)

    def _deleted(self, old: Object) -> None:
        if isinstance(old, Pod):
            self._pod_deleted(old)
        elif isinstance(old, Node):
            self._node_deleted(old)
        elif self._shared.cache.objects.delete(old):
            self._wake(old, ActionType.DELETE, old, None)

    # --- pods ---

    def pod_changed(self, new: Pod) -> None:
        """A pod appeared or changed; what is known of it decides what that means."""
        shared = self._shared
        if new.status.phase in ("Succeeded", "Failed"):
            self._pod_deleted(new)
            return
        if self._gangs is not None:
            self._gangs.changed(new)
        known = shared.unassigned.get(new.key)
        if known is not None and known.metadata.uid != new.metadata.uid:
            self._unassigned_deleted(known)
            if self._gangs is not None:
                self._gangs.deleted(known)
            known = None
        if new.spec.node_name:
            self._assigned(new, known)
        elif known is None:
            self._unassigned_added(new)
        else:
            self._unassigned_updated(known, new)

    def _unassigned_added(self, new: Pod) -> None:
        shared = self._shared
        uid = new.metadata.uid
        assumed = shared.cache.is_assumed(uid)
        if shared.cache.pod(uid) is not None and not assumed:
            return  # it is bound already: an old version of the pod came late
        shared.unassigned[new.key] = new
        self._told = UNSCHEDULED_POD_ADD
        if assumed or not shared.responsible_for(new):
            return
        beside = None if self._gangs is None else self._gangs.backing_off(new)
        shared.queue.add(new, shared.now, beside)
        if self._gangs is not None:
            shared.queue.move_all(UNSCHEDULED_POD_ADD, None, new, shared.now)

    def _unassigned_updated(self, old: Pod, new: Pod) -> None:
        shared = self._shared
        version = new.metadata.resource_version
        if version and version == old.metadata.resource_version:
            return
        shared.unassigned[new.key] = new
        self._told = UNSCHEDULED_POD_UPDATE
        if not shared.responsible_for(new):
            return
        if shared.cache.is_assumed(new.metadata.uid):
            if new.terminating and not old.terminating:
                self._assumed_deleted(new)
            return
        shared.queue.update(old, new, shared.now)
        before = old.status.nominated_node_name
        if before and before != new.status.nominated_node_name:
            self._wake_less_important(old)

    def _assigned(self, new: Pod, unassigned: Pod | None) -> None:
        shared = self._shared
        cache, uid = shared.cache, new.metadata.uid
        if unassigned is not None:
            # Bound: by us if it is assumed, else by somebody else.
            del shared.unassigned[new.key]
            if shared.responsible_for(unassigned):
                shared.queue.delete(unassigned)
        known = cache.pod(uid)
        if known is None or cache.is_assumed(uid):
            if known is None and unassigned is not None and shared.responsible_for(new):
                shared.note(new, "bound by somebody else", new.spec.node_name)
            cache.add_pod(new)
            self._told = ASSIGNED_POD_ADD
            shared.queue.move_all(ASSIGNED_POD_ADD, None, new, shared.now)
            return
        old = known.pod
        if old is not new:
            reported = not cache.update_pod(new)
            if new.metadata.deletion_timestamp and shared.last_victims:
                shared.victim_leaves(uid)
            for event in pod_update_events(old, new, reported=reported):
                self._told = event
                shared.queue.move_all(event, old, new, shared.now)

    def _pod_deleted(self, old: Pod) -> None:
        shared = self._shared
        if self._gangs is not None:
            self._gangs.deleted(old)
        uid = old.metadata.uid
        assumed = shared.cache.is_assumed(uid)
        placed = shared.cache.pod(uid)
        if placed is not None and not assumed:
            shared.cache.remove_pod(old)
            self._told = ASSIGNED_POD_DELETE
            if shared.last_victims:
                shared.victim_leaves(uid)
            shared.queue.move_all(ASSIGNED_POD_DELETE, placed.pod, None, shared.now)
        known = shared.unassigned.get(old.key)
        if known is not None and known.metadata.uid == uid:
            self._unassigned_deleted(known)
        elif assumed:
            self._assumed_deleted(old)

    def _unassigned_deleted(self, old: Pod) -> None:
        shared = self._shared
        del shared.unassigned[old.key]
        self._told = UNSCHEDULED_POD_DELETE
        if not shared.responsible_for(old):
            return
        shared.queue.delete(old)
        shared.note(old, "deleted")
        if shared.cache.is_assumed(old.metadata.uid):
            self._assumed_deleted(old)
        elif old.status.nominated_node_name:
            self._wake_less_important(old)

    def _assumed_deleted(self, pod: Pod) -> None:
        """Free the room of an assumed pod at once; its binding cycle will fail by itself."""
        shared, uid = self._shared, pod.metadata.uid
        placed = shared.cache.pod(uid)
        if placed is None:
            return
        if not shared.waiting.reject(uid):
            shared.cache.forget(placed.pod)
        gone = assigned(placed.pod, placed.node_name)
        shared.queue.move_all(ASSIGNED_POD_DELETE, gone, None, shared.now)

    def _wake_less_important(self, pod: Pod) -> None:
        """A nomination went: pods that had to respect it may fit now."""
        shared, limit = self._shared, pod.priority
        shared.queue.move_all(
            ASSIGNED_POD_DELETE, pod, None, shared.now, lambda other: other.priority <= limit
        )

    # --- nodes and the rest ---

    def _node_changed(self, new: Node) -> None:
        shared = self._shared
        table = shared.cache.table
        row = table.row_of(new.metadata.name)
        if row is None:
            shared.cache.add_node(new)
            self._told = NODE_ADD
            shared.queue.move_all(NODE_ADD, None, new, shared.now)
            return
        old = table.nodes[row]
        shared.cache.update_node(new)
        for event in node_update_events(old, new):
            self._told = event
            shared.queue.move_all(event, old, new, shared.now)

    def _node_deleted(self, old: Node) -> None:
        shared = self._shared
        if shared.cache.table.row_of(old.metadata.name) is None:
            return
        self._told = NODE_DELETE
        shared.queue.move_all(NODE_DELETE, old, None, shared.now)
        shared.cache.remove_node(old.metadata.name)

    def _other_changed(self, new: Object) -> None:
        lister = self._shared.cache.objects.of_kind(new.KIND)
        if lister is None:
            return
        old = lister.get(new.key)
        lister.put(new)
        if old is None:
            self._wake(new, ActionType.ADD, None, new)
        elif old is not new:
            self._wake(new, ActionType.UPDATE, old, new)

    def _wake(
        self, item: Object, action: ActionType, old: Object | None, new: Object | None
    ) -> None:
        events = OBJECT_EVENTS.get(item.KIND)
        if events is not None:
            self._told = events[action]
            self._shared.queue.move_all(events[action], old, new, self._shared.now)
        if self._bindings.polls:
            self._bindings.poll()
