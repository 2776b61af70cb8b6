"""A trial changes the engine and leaves it exactly as it was."""

from msgspec.structs import replace

from bayplan.inspect import Cluster, unbound
from bayplan.testing.builders import make_node, make_pod


def cluster():
    nodes = [make_node(name).capacity(cpu=2, memory="4Gi", pods=10) for name in "abc"]
    pods = [make_pod(f"on-{name}").req(cpu="1").node(name) for name in "abc"]
    pods += [make_pod(f"tiny-{number}").node("a") for number in range(3)]
    pods.append(make_pod("waits").req(cpu="2"))
    return Cluster.from_objects([item.body() for item in (*nodes, *pods)])


def picture(found):
    table = found.engine.cache.table
    return {
        node.name: (node, [info.pod.key for info in table.pods[row]])
        for row, node in enumerate(table.nodes)
    }


def test_everything_is_taken_back():
    found = cluster()
    before = picture(found)
    said = found.decide(found.pod("waits")).message

    with found.trial() as trial:
        node = found.node("a")
        trial.put(replace(node, spec=replace(node.spec, unschedulable=True)))
        trial.delete(found.pod("on-a"))
        trial.delete(found.node("b"))
        trial.put(make_node("d").capacity(cpu=2, memory="4Gi", pods=10).build())
        waits = trial.place(found.pod("waits"))
        moved = trial.place(unbound(found.pod("on-a")))
        trial.delete(found.pod("waits"))  # placed within the trial, taken away within it

        assert ("d", "c") == (waits.node_name, moved.node_name)

    assert before == picture(found)
    assert said == found.decide(found.pod("waits")).message
    found.engine.cache.validate()


def test_undo_goes_back_to_a_mark():
    found = cluster()

    with found.trial() as trial:
        trial.delete(found.pod("on-a"))
        mark = trial.mark
        first = trial.place(found.pod("waits"))
        trial.undo(mark)
        second = trial.place(found.pod("waits"))

        assert ("a", "a") == (first.node_name, second.node_name)


def test_victims_leave_and_the_pod_is_nominated():
    found = cluster()
    urgent = make_pod("urgent").req(cpu="2").priority(10).build()

    with found.trial() as trial:
        decision = trial.decide(urgent)
        victims = trial.preempt(decision)
        again = trial.place(urgent)

        assert 1 == len(victims)
        assert decision.nominating.nominated_node_name == again.node_name
    assert not len(found.engine.cache.nominator)
