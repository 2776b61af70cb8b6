"""The made-up cluster is a true one: what waits cannot be placed, in the words of the scheduler."""

from bayplan.api import Pod
from bayplan.inspect import Cluster
from bayplan.inspect.why import why_pod
from bayplan.testing.clusters import cluster_objects


def test_what_waits_says_what_the_engine_says():
    items = list(cluster_objects(240, 4800, pending=21))
    cluster = Cluster.from_objects(items)
    waits = [item for item in items if isinstance(item, Pod) and not item.spec.node_name]
    answers = [why_pod(cluster, pod) for pod in waits]

    assert [answer.state for answer in answers].count("gated") == 3
    assert [answer.state for answer in answers].count("fits") == 3
    assert [answer.identical for answer in answers if answer.state == "pending"] == [True] * 15


def test_the_same_arguments_give_the_same_objects():
    assert list(cluster_objects(6, 40, pending=5)) == list(cluster_objects(6, 40, pending=5))
