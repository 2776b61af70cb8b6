"""Answers hang on the cluster alone: not on questions before them, nor on the order of objects."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.api import to_builtins
from bayplan.inspect import Cluster
from bayplan.testing.builders import make_node, make_pod
from bayplan.testing.strategies import clusters, pods

PLACES = st.lists(st.integers(0, 3), min_size=8, max_size=8)
SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=8)


def objects(sizes, places):
    """Three nodes in two zones, one of them tainted; pods of any size, some of them placed."""
    nodes = [make_node(f"node-{i}").zone(f"z{i % 2}").capacity(cpu=6, memory="8Gi", pods=9)
             for i in range(3)]  # fmt: skip
    nodes[2].taint("gpu", "NoSchedule")
    found = [item.body() for item in nodes]
    for number, (size, place) in enumerate(zip(sizes, places, strict=False)):
        pod = make_pod(f"p{number}").req(cpu=str(size)).label(app=f"a{number % 2}")
        pod.owner("ReplicaSet", f"a{number % 2}", uid=f"a{number % 2}")
        found.append(pod.with_spec(**({"nodeName": f"node-{place}"} if place < 2 else {})).body())
    return found


QUESTIONS = {
    "pending": lambda cluster: cluster.why_pending(),
    "why": lambda cluster: cluster.why("p0"),
    "drain": lambda cluster: cluster.what_if("drain=node-0"),
    "add": lambda cluster: cluster.what_if("add=1xnode-1"),
    "remove": lambda cluster: cluster.what_if("remove=node-1"),
    "each": lambda cluster: cluster.each("node"),
    "capacity": lambda cluster: cluster.capacity("cpu=1"),
}


def answers(cluster, names):
    return {name: msgspec.json.encode(QUESTIONS[name](cluster)) for name in names}


@settings(max_examples=15, deadline=None)
@given(SIZES, PLACES, st.randoms(use_true_random=False))
def test_questions_leave_no_trace(sizes, places, random):
    bodies = objects(sizes, places)
    origin = Cluster.from_objects(bodies).origin
    alone = {}
    for name in QUESTIONS:
        alone |= answers(Cluster.from_objects(bodies, origin=origin), [name])
    names = list(QUESTIONS) * 2
    random.shuffle(names)

    kept = Cluster.from_objects(bodies, origin=origin)

    for name in names:
        assert alone[name] == answers(kept, [name])[name], name


WAITING = st.tuples(*(pods(f"w{number}", namespace="default") for number in range(3)))
CLASSES = [
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
     "value": value}
    for name, value in (("low", 5), ("high", 50), ("highest", 50))
]  # fmt: skip
ANY_ORDER = {
    "pending": lambda cluster: cluster.why_pending(),
    "why": lambda cluster: cluster.why("w0"),
    "bound": lambda cluster: [cluster.why(key) for key in sorted(cluster.pods)[:2]],
    "drain": lambda cluster: cluster.what_if("drain=n0"),
    "remove": lambda cluster: cluster.what_if("remove=n0"),
    "each": lambda cluster: cluster.each("node"),
    "capacity": lambda cluster: cluster.capacity("cpu=1"),
}


@settings(max_examples=10, deadline=None, derandomize=True)
@given(clusters(), WAITING, st.randoms(use_true_random=False))
def test_the_order_of_objects_does_not_matter(drawn, waiting, random):
    found = [*drawn.nodes, *drawn.pods, *drawn.services, *drawn.namespaces, *drawn.budgets]
    bodies = [to_builtins(item) for item in (*found, *waiting)] + CLASSES
    first = Cluster.from_objects(bodies)
    mixed = random.sample(bodies, len(bodies))
    second = Cluster.from_objects(mixed, origin=first.origin)

    for name, ask in ANY_ORDER.items():
        assert msgspec.json.encode(ask(first)) == msgspec.json.encode(ask(second)), name
