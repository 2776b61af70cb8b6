"""`bayplan pack` about pods that wait: a place, moves, preemption, or a proof."""

import pytest

from bayplan.inspect import Cluster
from bayplan.inspect.pack import Wishes
from bayplan.testing.builders import HOSTNAME, ZONE, make_node, make_pod


def node(name, cpu=4, **labels):
    found = make_node(name).label({HOSTNAME: name, **labels})
    return found.capacity(cpu=cpu, memory="8Gi", pods=20)


def runs(name, on, cpu=1):
    pod = make_pod(name).label(app=name).req(cpu=cpu).owner("ReplicaSet", name, uid=f"rs-{name}")
    return pod.node(on).phase("Running")


def waits(name, cpu=1):
    app = name.partition("-")[0]
    return make_pod(name).label(app=app).req(cpu=cpu).owner("ReplicaSet", app, uid=app)


def ask(*objects):
    bodies = [item.body() if hasattr(item, "body") else item for item in objects]
    return Cluster.from_objects(bodies).pack(Wishes(seconds=120.0)).pending


def test_a_pod_that_fits_is_told_so():
    (found,) = ask(node("a"), waits("w"))

    assert ("fits", {"default/w": "a"}) == (found.answer, found.nodes)


def test_a_pod_fits_after_one_move():
    (found,) = ask(node("a"), node("b"), runs("x", "a", 2), runs("y", "b", 2), waits("w", 4))

    assert "moves" == found.answer
    assert "there is a placement, with this move" == found.text
    assert ["evict", "place"] == [step.do for step in found.moves if "cordon" not in step.do]


def test_a_less_important_pod_would_have_to_go():
    (found,) = ask(node("a"), runs("x", "a", 3).priority(1), waits("w", 2).priority(5))

    assert "preempts" == found.answer
    assert ("default/x",) == found.victims


def test_a_pod_that_never_preempts_takes_nobody_away():
    important = waits("w", 2).priority(5).never_preempts()

    (found,) = ask(node("a"), runs("x", "a", 3).priority(1), important)

    assert "impossible" == found.answer


@pytest.mark.parametrize(
    ("objects", "words"),
    [
        pytest.param(
            [node("a"), node("b"), waits("w", 5)],
            ["cpu: one pod asks for 5, the 2 nodes that they may use offer at most 4"],
            id="larger than any node",
        ),
        pytest.param(
            [node("a"), node("b", 8, pool="x"), waits("w", 5).node_selector({"pool": "y"})],
            ["node selector and affinity: 0 of 2 nodes pass"],
            id="no node has the label",
        ),
        pytest.param(
            [node("a"), node("b", 8).taint("gpu"), waits("w", 5)],
            [
                "taints: 1 of 2 nodes pass",
                "cpu: one pod asks for 5, the only node that they may use offers at most 4",
            ],
            id="the large node is tainted",
        ),
        pytest.param(
            [node("a"), runs("x", "a", 3), waits("w", 2)],
            [
                "the pods that run now, of the same or higher priority, go on running",
                "cpu: 2 asked for; the only node that they may use has 1 free in all"
                " and 4 beside pods that stay",
            ],
            id="what runs takes the room",
        ),
        pytest.param(
            [node("a"), node("b"), *(waits(f"w-{i}").apart("app=w") for i in "012")],
            [f"required anti-affinity by {HOSTNAME}: 3 pods, one a domain, 2 domains"],
            id="more replicas than nodes",
        ),
    ],
)
def test_a_proof_names_the_constraints_that_conflict(objects, words):
    found = [item for item in ask(*objects) if item.answer == "impossible"]

    assert 1 == len(found)
    assert sorted(words) == sorted(
        text for text in found[0].because if "needed together" not in text
    )


def gang(name, count):
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": count}}},
    }


def test_a_gang_finds_places_that_the_order_of_pods_misses():
    """Small ones first take the only node with the label that the large one needs."""
    small = [waits(f"s-{i}", 2).group("g").priority(9) for i in range(2)]
    large = waits("large", 4).group("g").node_selector({"pool": "x"})

    (found,) = ask(node("a", pool="x"), node("b"), *small, large, gang("g", 3))

    assert "moves" == found.answer
    assert "a" == found.nodes["default/large"]


def test_a_gang_that_is_too_large_is_proven_impossible():
    pods = [waits(f"p-{i}", 3).group("g") for i in range(3)]

    (found,) = ask(node("a"), node("b"), *pods, gang("g", 3))

    assert "impossible" == found.answer
    assert "3 pods are needed together, not fewer" in found.because


def test_spread_over_zones_is_part_of_a_proof():
    zones = [node("a").zone("a"), node("b").zone("b").cordon()]
    pods = [waits(f"w-{i}").spread(1, ZONE, "app=w") for i in range(2)]

    (found,) = ask(*zones, *pods)

    assert "impossible" == found.answer
    assert any("topology spread" in text for text in found.because)
