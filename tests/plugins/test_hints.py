"""Queueing hints: an event is worth another try only if it can change the plugin's mind."""

import pytest

from bayplan.config import FeatureGates
from bayplan.framework import ActionType, ClusterEvent, Handle, QueueingHint, Resource
from bayplan.plugins import in_tree_registry
from bayplan.testing import ZONE, make_device_class, make_namespace, make_node, make_pod

NODE, POD = Resource.NODE, Resource.POD
GATES = ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
TAINT, LABEL = ActionType.UPDATE_NODE_TAINT, ActionType.UPDATE_NODE_LABEL
ADD, DELETE = ActionType.ADD, ActionType.DELETE
TOLERATES = ActionType.UPDATE_POD_TOLERATION


def ask(plugin, resource, action, pod, old, new, *objects, **gates):
    """What the plugin answers, None if it does not wait for such events."""
    handle = Handle(gates=FeatureGates(gates))
    for item in (make_namespace("default", {}), *objects):
        handle.objects.put(item.build())
    made = in_tree_registry()[plugin](None, handle)
    incoming = ClusterEvent(resource, action)
    for item in made.events_to_register():
        if item.event.matches(incoming):
            hint = item.hint(pod, old, new) if item.hint else QueueingHint.QUEUE
            return hint is QueueingHint.QUEUE
    return None


def pod(name="waiting"):
    return make_pod(name)


def placed(name="other", namespace="default"):
    return make_pod(name, namespace).node("n")


def honoring():
    return pod().spread(1, ZONE, "app=x", nodeTaintsPolicy="Honor")


CASES = [
    ("SchedulingGates", POD, GATES, pod(), pod(), pod(), True, "its own gates are gone"),
    ("SchedulingGates", POD, GATES, pod(), pod("x"), pod("x"), False, "another pod's gates"),
    ("SchedulingGates", NODE, ADD, pod(), None, make_node("n"), None, "does not wait for nodes"),
    ("NodeName", NODE, ADD, pod(), None, make_node("n"), True, "any new node"),
    ("NodeUnschedulable", NODE, ADD, pod(), None, make_node("n"), True, "an open node"),
    ("NodeUnschedulable", NODE, ADD, pod(), None, make_node("n").cordon(), False, "a closed node"),
    ("NodeUnschedulable", NODE, TAINT, pod(), make_node("n").cordon(), make_node("n"), True,
     "a node was uncordoned"),
    ("NodeUnschedulable", NODE, TAINT, pod(), make_node("n"), make_node("n"), False,
     "it was open before"),
    ("TaintToleration", NODE, TAINT, pod(), make_node("n").taint("k", "NoSchedule"),
     make_node("n"), True, "the taint is gone"),
    ("TaintToleration", NODE, TAINT, pod(), make_node("n").taint("k", "NoSchedule"),
     make_node("n").taint("j", "NoExecute"), False, "another taint came"),
    ("NodeAffinity", NODE, ADD, pod().node_selector({"a": "b"}), None,
     make_node("n").label({"a": "b"}), True, "the new node matches"),
    ("NodeAffinity", NODE, LABEL, pod().node_selector({"a": "b"}),
     make_node("n").label({"a": "b"}), make_node("n").label({"a": "b", "c": "d"}), False,
     "the node matched before"),
    ("NodePorts", POD, DELETE, pod().host_port(80), placed().host_port(80), None, True,
     "the port is free"),
    ("NodePorts", POD, DELETE, pod().host_port(80), placed().host_port(81), None, False,
     "another port"),
    ("NodePorts", POD, DELETE, pod().host_port(80), pod("x").host_port(80), None, False,
     "that pod was nowhere"),
    ("NodeResourcesFit", POD, DELETE, pod(), placed(), None, True, "a placed pod went"),
    ("NodeResourcesFit", POD, DELETE, pod(), pod("x"), None, False, "a waiting pod went"),
    ("NodeResourcesFit", POD, ActionType.UPDATE_POD_SCALE_DOWN, pod().req({"cpu": "1"}),
     placed().req({"cpu": "2"}), placed().req({"cpu": "1"}), True, "a pod gave up cpu"),
    ("NodeResourcesFit", POD, ActionType.UPDATE_POD_SCALE_DOWN, pod().req({"cpu": "1"}),
     placed().req({"memory": "2Gi"}), placed().req({"memory": "1Gi"}), False,
     "a pod gave up what this one does not need"),
    ("NodeResourcesFit", NODE, ADD, pod().req({"cpu": "1"}), None,
     make_node("n").capacity(cpu="2", memory="1Gi", pods=1), True, "the new node is large enough"),
    ("NodeResourcesFit", NODE, ADD, pod().req({"cpu": "4"}), None,
     make_node("n").capacity(cpu="2", memory="1Gi", pods=1), False, "too small even if empty"),
    ("NodeResourcesFit", NODE, ADD, pod().req({"cpu": "2"}), None,
     make_node("n").capacity(cpu="2", memory="1Gi", pods=1), True, "the new node is just enough"),
    ("NodeResourcesFit", NODE, ADD, pod().req({"cpu": "1"}), None,
     make_node("n").capacity(cpu="2", memory="1Gi", pods=0), False, "it takes no pod"),
    ("NodeResourcesFit", NODE, ADD, pod().req({"example.com/gpu": "1"}), None,
     make_node("n").capacity(cpu="2", memory="1Gi", pods=1), False, "it lacks a device"),
    ("NodeResourcesFit", NODE, ActionType.UPDATE_NODE_ALLOCATABLE, pod().req({"cpu": "1"}),
     make_node("n").capacity(cpu="2", memory="1Gi", pods=1),
     make_node("n").capacity(cpu="2", memory="2Gi", pods=1), False, "grew elsewhere"),
    ("NodeResourcesFit", NODE, ActionType.UPDATE_NODE_ALLOCATABLE, pod().req({"cpu": "1"}),
     make_node("n").capacity(cpu="1", memory="1Gi", pods=1),
     make_node("n").capacity(cpu="2", memory="1Gi", pods=1), True, "grew where it is needed"),
    ("NodeResourcesFit", NODE, ActionType.UPDATE_NODE_ALLOCATABLE, pod().req({"cpu": "1"}),
     make_node("n").capacity(cpu="1", memory="1Gi", pods=1),
     make_node("n").capacity(cpu="1", memory="1Gi", pods=2), True, "takes more pods"),
    ("PodTopologySpread", POD, DELETE, pod().spread(1, ZONE, "app=x"),
     placed().label({"app": "x"}), None, True, "a counted pod went"),
    ("PodTopologySpread", POD, DELETE, pod().spread(1, ZONE, "app=x"),
     placed().label({"app": "y"}), None, False, "an uncounted pod went"),
    ("PodTopologySpread", POD, ActionType.UPDATE_POD_LABEL, pod().spread(1, ZONE, "app=x"),
     pod(), pod().label({"app": "x"}), True, "its own labels"),
    ("PodTopologySpread", POD, ActionType.UPDATE_POD_LABEL, pod().spread(1, ZONE, "app=x"),
     pod("x"), pod("x").label({"app": "x"}), False, "those of a pod that is nowhere"),
    ("PodTopologySpread", POD, ActionType.UPDATE_POD_LABEL, pod().spread(1, ZONE, "app=x"),
     placed(), placed().label({"app": "x"}), True, "those of one that is placed"),
    ("PodTopologySpread", POD, ActionType.UPDATE_POD_LABEL, pod().spread(1, ZONE, "app=x"),
     placed(namespace="b"), placed(namespace="b").label({"app": "x"}), False,
     "those of one in another namespace"),
    ("PodTopologySpread", POD, TOLERATES, honoring(), honoring(), honoring().tolerate("k"), True,
     "it tolerates more where taints count"),
    ("PodTopologySpread", POD, TOLERATES, honoring(), honoring(), honoring(), False,
     "it tolerates what it did"),
    ("PodTopologySpread", POD, TOLERATES, pod().spread(1, ZONE, "app=x"),
     pod(), pod().tolerate("k"), False, "it tolerates more where taints do not count"),
    ("PodTopologySpread", POD, TOLERATES, honoring(), placed(), placed().tolerate("k"), False,
     "another one tolerates more"),
    ("PodTopologySpread", NODE, ADD, pod().spread(1, ZONE, "app=x"), None,
     make_node("n").zone("z"), True, "a node with the key"),
    ("PodTopologySpread", NODE, ADD, pod().spread(1, ZONE, "app=x"), None,
     make_node("n"), False, "a node without the key"),
    ("PodTopologySpread", NODE, LABEL, pod().spread(1, ZONE, "app=x"),
     make_node("n").zone("a"), make_node("n").zone("b"), True, "a node moved"),
    ("InterPodAffinity", POD, ADD, pod().near("app=x", ZONE), None,
     placed().label({"app": "x"}), True, "a pod to be near to"),
    ("InterPodAffinity", POD, ADD, pod().near("app=x", ZONE), None,
     placed().label({"app": "y"}), False, "some other pod"),
    ("InterPodAffinity", POD, DELETE, pod().apart("app=x", ZONE),
     placed().label({"app": "x"}), None, True, "the pod to avoid went"),
    ("InterPodAffinity", POD, DELETE, pod().label({"app": "me"}),
     placed().apart("app=me", ZONE), None, True, "a pod that kept us away went"),
    ("InterPodAffinity", NODE, LABEL, pod().near("app=x", ZONE), make_node("n"),
     make_node("n").zone("z"), True, "a node got the key"),
    ("InterPodAffinity", NODE, LABEL, pod().near("app=x", ZONE), make_node("n").zone("z"),
     make_node("n").zone("z").label({"a": "b"}), False, "the key stayed"),
    ("NodeDeclaredFeatures", POD, ActionType.UPDATE_POD_LABEL, pod(), pod("x"), pod("x"), False,
     "another pod"),
    ("NodeDeclaredFeatures", POD, ActionType.UPDATE_POD_LABEL, pod(), pod(), pod(), False,
     "it needs what it needed"),
    ("NodeDeclaredFeatures", NODE, ADD, pod(), None, make_node("n"), True, "any new node "),
    ("DefaultPreemption", POD, DELETE, pod(), placed(), None, False, "others decide"),
]  # fmt: skip


def build(item):
    return item.build() if item is not None else None


@pytest.mark.parametrize(
    ("plugin", "resource", "action", "waiting", "old", "new", "queue"),
    [pytest.param(*case[:-1], id=f"{case[0]}: {case[-1]}") for case in CASES],
)
def test_hints(plugin, resource, action, waiting, old, new, queue):
    assert queue == ask(plugin, resource, action, build(waiting), build(old), build(new))


@pytest.mark.parametrize(("offered", "queue"), [(0, True), (1, False), (2, True)])
def test_devices_of_a_class_stand_in_only_where_the_node_itself_offers_none(offered, queue):
    card = "example.com/card"
    offers = {card: offered} if offered else {}
    new = make_node("n").capacity({"cpu": 2, "pods": 1, **offers}).build()
    waiting = pod().req({card: 2}).build()
    device_class = make_device_class("card", resource=card)

    assert queue == ask("NodeResourcesFit", NODE, ADD, waiting, None, new, device_class)
