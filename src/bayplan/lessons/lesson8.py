"""Lesson 8: the same plugin in the full scheduler.

NodeNumber of lesson 4, not changed by a letter, beside all the plugins of kube-scheduler: a
factory, a line in the configuration, and the real queue, cache, preemption and binding around it.

    bayplan scheduler --plugins bayplan.lessons.lesson8 --config FILE
"""

from bayplan.config import KubeSchedulerConfiguration
from bayplan.config.load import load
from bayplan.framework import Handle
from bayplan.lessons.lesson4 import NodeNumber
from bayplan.lessons.stage import Stage

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      enabled:
      - name: NodeNumber
        weight: 100
"""


def new(args: object, handle: Handle) -> NodeNumber:
    """Make the plugin; the scheduler calls this once a profile."""
    return NodeNumber()


PLUGINS = {"NodeNumber": new}


def config() -> KubeSchedulerConfiguration:
    """The configuration above, complete."""
    return load(CONFIG.encode()).config


async def scenario(stage: Stage) -> None:
    """Lessons 3 and 7 in one: digits match, and a cordoned cluster opens."""
    for number in range(10):
        await stage.create_node(f"node{number}")
    stage.say("scenario: all nodes created")
    for pod in ("pod1", "pod3"):
        await stage.create_pod(pod)
    await stage.sleep(4)
    await stage.expect_bound("pod1", to="node1")
    await stage.expect_bound("pod3", to="node3")
