"""All pending pods at once: the answers of one by one, without their cost."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from bayplan.api import to_builtins
from bayplan.inspect import Cluster
from bayplan.testing.builders import make_node, make_pod
from bayplan.testing.strategies import clusters, pods

NODE = make_node("one").capacity(cpu=2, memory="4Gi", pods=10)
HOST = "kubernetes.io/hostname"
SAME = ("state", "message", "summary", "funnel", "nearest", "preemption", "owner", "node", "event")
LABELS = st.lists(st.sampled_from(["web", "db", "x", "y"]), min_size=4, max_size=4)


def job(number, **spec):
    made = make_pod(f"job-{number}").req(cpu="3").label(job=f"job-{number}")
    return made.owner("Job", f"job-{number}", uid=f"u{number}").with_spec(**spec)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(clusters(), pods("w0", namespace="default"), LABELS)
def test_pods_that_share_an_answer_would_get_it_alone(drawn, waiting, apps):
    waiting = [
        replace(
            waiting,
            metadata=replace(
                waiting.metadata, name=f"w{number}", uid=f"w{number}", labels={"app": app}
            ),
        )
        for number, app in enumerate(apps)
    ]
    found = [*drawn.nodes, *drawn.pods, *drawn.services, *drawn.namespaces, *waiting]
    cluster = Cluster.from_objects([to_builtins(item) for item in found])

    for together in cluster.why_pending().pods:
        alone = cluster.why(together.pod)
        assert {name: getattr(alone, name) for name in SAME} == {
            name: getattr(together, name) for name in SAME
        }


def test_jobs_with_labels_of_their_own_are_decided_once():
    cluster = Cluster.from_objects([NODE.body(), *(job(number).body() for number in range(20))])

    found = cluster.why_pending()

    assert 1 == len({id(answer.funnel) for answer in found.pods})
    assert [f"job/job-{number}" for number in range(3)] == [
        answer.owner for answer in sorted(found.pods, key=lambda a: len(a.pod))[:3]
    ]


def test_labels_count_where_a_placed_pod_will_not_have_them():
    away = {"labelSelector": {"matchLabels": {"job": "job-1"}}, "topologyKey": HOST}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [away]}
    lonely = make_pod("lonely").node("one").with_spec(affinity={"podAntiAffinity": required})
    small = [make_pod(f"w{n}").label(job=f"job-{n}").req(cpu="1").body() for n in range(3)]
    cluster = Cluster.from_objects([NODE.body(), lonely.body(), *small])

    states = {answer.pod: answer.state for answer in cluster.why_pending().pods}

    assert {"default/w0": "fits", "default/w1": "pending", "default/w2": "fits"} == states


def test_each_pod_has_its_own_event_however_many_there_are():
    pods = [job(number).body() for number in range(3)]
    events = [
        {
            "kind": "Event",
            "metadata": {"name": f"e{number}-{turn}", "namespace": "default"},
            "reason": "FailedScheduling",
            "message": f"said of {number} at {turn}",
            "lastTimestamp": f"2026-01-01T00:00:0{turn}Z",
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": f"job-{number}"},
        }
        for number in range(3)
        for turn in (2, 1)
    ]

    found = Cluster.from_objects([NODE.body(), *pods, *events]).why_pending()

    assert [f"said of {number} at 2" for number in range(3)] == [a.event for a in found.pods]
