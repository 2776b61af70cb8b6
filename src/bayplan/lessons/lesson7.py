"""Lesson 7: event handlers bring parked pods back when something changes that may help.

A plugin knows what could make it change its mind: NodeUnschedulable cares for nodes that are added
or uncordoned. It *registers* these events. When one happens, the queue moves the pods that this
plugin rejected, and only those. No pod is tried in vain on a timer, none is forgotten.
"""

import asyncio
import random

from bayplan.api import Node
from bayplan.framework import ActionType, ClusterEvent, Resource
from bayplan.lessons import lesson6
from bayplan.lessons.cluster import LessonCluster
from bayplan.lessons.stage import Stage

ACTIONS = {
    "ADDED": ActionType.ADD,
    "MODIFIED": ActionType.UPDATE_NODE_TAINT,
    "DELETED": ActionType.DELETE,
}


class Scheduler(lesson6.Scheduler):
    """As lesson 6, with handlers for what happens to nodes."""

    def __init__(self, cluster: LessonCluster, rng: random.Random) -> None:
        super().__init__(cluster, rng)
        self.registered = {
            plugin.name: [entry.event for entry in plugin.events_to_register()]
            for plugin in self.filters
        }
        cluster.on_node_change(self.node_changed)

    def node_changed(self, change: str, node: Node) -> None:
        """Move the pods that may have a chance now."""
        event = ClusterEvent(Resource.NODE, ACTIONS[change])
        now = asyncio.get_running_loop().time()
        for queued in list(self.queue.unschedulable.values()):
            if any(self.cares(plugin, event) for plugin in queued.rejected_by):
                self.cluster.say(
                    f"pod {queued.pod.metadata.name} gets another chance: {event.label}"
                )
                self.queue.move(queued, now)

    def cares(self, plugin: str, event: ClusterEvent) -> bool:
        """Whether a plugin registered for an event; one that registered nothing takes all."""
        return plugin not in self.registered or any(
            known.matches(event) for known in self.registered[plugin]
        )


async def scenario(stage: Stage) -> None:
    """Lesson 6 again; then an open node comes, and the parked pod finds it."""
    await lesson6.scenario(stage)
    await stage.create_node("node10")
    stage.say("scenario: node10 created, which is open")
    await stage.sleep(5)
    await stage.expect_bound("pod1", to="node10")
