"""Moving pods away as a change that helps: carried out by the rules of their owners."""

from bayplan.inspect import Cluster
from bayplan.testing.builders import make_node, make_pod


def node(name, cpu=4):
    return make_node(name).capacity(cpu=cpu, memory="8Gi", pods=10).body()


def waits(cpu="3", priority=0):
    return make_pod("waits").req(cpu=cpu).priority(priority).body()


def on(name, where, cpu="2", owner="ReplicaSet", priority=0):
    pod = make_pod(name).req(cpu=cpu).node(where).priority(priority)
    if owner:
        pod.owner(owner, name.rpartition("-")[0], api_version="apps/v1", uid=f"uid-{owner}")
    return pod.body()


def moves(*objects):
    return [fix for fix in Cluster.from_objects(objects).why("waits").fixes if fix.removes]


def test_a_pod_that_lacks_only_room_gets_it_by_a_move():
    (fix,) = moves(node("a", cpu=3), node("b", cpu=2), on("web-0", "a"), waits())

    assert "move default/web-0 to b, off a" == fix.change
    assert ("a", ("default/web-0",)) == (fix.node, fix.removes)
    assert ("kubectl delete pod -n default web-0",) == fix.commands


def test_a_node_is_closed_where_the_new_pod_would_take_the_room_again():
    """There is room for the new one beside the old one, and that node is the better one for it."""
    (fix,) = moves(node("a"), node("b", cpu=2), on("web-0", "a"), waits())

    assert "move default/web-0 to b, off a; a is cordoned meanwhile" == fix.change
    assert (
        "kubectl cordon a",
        "kubectl delete pod -n default web-0",
        "kubectl uncordon a",
    ) == fix.commands


def test_a_stateful_set_has_placed_its_pod_before_the_node_is_opened():
    (fix,) = moves(
        node("a", cpu=3),
        node("b", cpu=2),
        on("db-0", "a", owner="StatefulSet", priority=9),
        waits(),
    )

    assert "move default/db-0 to b, off a; a is cordoned meanwhile" == fix.change
    assert "kubectl wait -n default --for=create pod/db-0 --timeout=5m" == fix.commands[2]


def test_a_more_important_pod_would_come_straight_back():
    """Its stateful set makes it again when it is gone, and it comes first in the queue."""
    important = on("db-0", "a", owner="StatefulSet", priority=100)

    assert [] == moves(node("a"), on("log-0", "a", cpu="1", owner="DaemonSet"), important, waits())


def test_a_more_important_pod_that_finds_another_node_stays_there():
    important = on("web-0", "a", priority=100)

    (fix,) = moves(node("a", cpu=3), node("b", cpu=2), important, waits())

    assert "move default/web-0 to b, off a" == fix.change


def test_a_pod_that_nobody_makes_again_is_not_called_moved():
    (fix,) = moves(node("a"), node("b", cpu=2), on("alone-0", "a", owner=""), waits())

    assert "delete default/alone-0 from a (nothing makes it again)" == fix.change
    assert "kubectl delete pod -n default alone-0" in fix.commands


def test_who_has_an_owner_leaves_before_who_would_be_lost():
    pods = [on("alone-0", "a", owner=""), on("web-0", "a", priority=5)]

    (fix,) = moves(node("a", cpu=5), node("b", cpu=2), *pods, waits())

    assert ("default/web-0",) == fix.removes
