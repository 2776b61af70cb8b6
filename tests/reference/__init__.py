"""A plain scalar reference of one scheduling decision, written to be read.

It follows the behaviour notes line by line, one small module a plugin, with no caching and no
columns. It agrees with the recorded decisions of kube-scheduler, and the vectorised engine is held
equal to it on random clusters.

    expect = decide(world, pod, config)      # statuses, scores, totals, best, message, post filter
    plugin = NodePorts(world, pod, {})       # or ask one plugin alone
    plugin.prefilter(), plugin.filter(world.node("a"))
"""

from tests.reference.decide import Expect, decide, plugins_for
from tests.reference.world import NodeState, Status, World

__all__ = ["Expect", "NodeState", "Status", "World", "decide", "plugins_for"]
