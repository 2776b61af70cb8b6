"""All pending pods at once: the answers of one by one, without their cost."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from bayplan.api import ObjectMeta, to_builtins
from bayplan.errors import BayplanError
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
        if alone.state in ("fits", "nominated"):  # in turn it may find the room taken
            continue
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


def small(number, cpu="1", **spec):
    return make_pod(f"small-{number}").req(cpu=cpu).with_spec(**spec).body()


def test_ten_pods_do_not_all_fit_one_slot():
    """The scheduler takes them one after the other."""
    full = make_pod("full").req(cpu="1").node("one").body()
    cluster = Cluster.from_objects([NODE.body(), full, *(small(n) for n in range(10))])

    found = cluster.why_pending()

    states = Counter(answer.state for answer in found.pods)
    assert {"fits": 1, "pending": 9} == states
    assert [
        ("no room is left by those before: Insufficient cpu", 9),
        ("would be placed now", 1),
    ] == [(group.cause, group.count) for group in found.groups]
    last = found.pods[-1]
    assert "0/1 nodes are available: 1 Insufficient cpu." in last.message
    assert "1 pending pod that comes before it takes the room" in last.summary
    assert 1 == sum(row.nodes for row in last.funnel)
    fix = found.groups[0].fix
    assert fix is not None
    assert found.groups[0].frees >= 1


def test_the_more_important_pod_comes_first():
    pods = [small(0), small(1), small(2, priority=5)]
    full = make_pod("full").req(cpu="1").node("one").with_spec(priority=9).body()
    found = Cluster.from_objects([NODE.body(), full, *pods]).why_pending()

    assert {"default/small-2"} == {a.pod for a in found.pods if a.state == "fits"}


def test_pods_of_other_namespaces_come_before_too():
    other = make_pod("other", namespace="b").req(cpu="1").with_spec(priority=5).body()
    full = make_pod("full").req(cpu="1").node("one").with_spec(priority=9).body()
    found = Cluster.from_objects([NODE.body(), full, small(0), other]).why_pending("default")

    assert [("default/small-0", "pending")] == [(a.pod, a.state) for a in found.pods]


def test_one_victim_makes_room_for_one_pod():
    low = make_pod("low").req(cpu="2").node("one").with_spec(priority=-1).body()
    cluster = Cluster.from_objects([NODE.body(), low, *(small(n, cpu="2") for n in range(3))])

    states = Counter(answer.state for answer in cluster.why_pending().pods)

    assert {"nominated": 1, "pending": 2} == states


def test_one_pod_is_told_who_comes_before_it():
    cluster = Cluster.from_objects([NODE.body(), *(small(n) for n in range(5))])

    assert any("1 pending pod comes before it" in note for note in cluster.why("small-1").notes)
    assert not any("before it" in note for note in cluster.why("small-0").notes)


def test_one_pod_and_all_pods_are_told_the_same():
    cluster = Cluster.from_objects([NODE.body(), *(small(n) for n in range(5))])
    together = {answer.pod: answer for answer in cluster.why_pending().pods}

    for number in range(5):
        alone = cluster.why(f"small-{number}")
        same = together[alone.pod]

        assert (same.state, same.summary, same.node) == (alone.state, alone.summary, alone.node)
    assert cluster.why("small-4").fixes


def test_a_pod_from_a_file_comes_after_those_that_wait():
    cluster = Cluster.from_objects([NODE.body(), *(small(n) for n in range(5))])
    new = replace(cluster.pod("small-0"), metadata=ObjectMeta("new", "default", "new"))

    answer = cluster.why(new)

    assert "pending" == answer.state
    assert answer.summary.startswith("it would fit, but ")


def test_a_change_of_the_cluster_is_counted_for_all_that_it_frees():
    closed = make_node("two").capacity(cpu=8, memory="8Gi", pods=10)
    closed = closed.with_spec(unschedulable=True).body()
    found = Cluster.from_objects([NODE.body(), closed, *(small(n, cpu="3") for n in range(5))])

    group = found.why_pending().groups[0]

    assert (group.fix.change, group.frees, group.count) == ("uncordon two", 2, 5)


def test_an_unknown_namespace_is_no_answer():
    spaces = [{"kind": "Namespace", "metadata": {"name": name}} for name in ("default", "shop")]
    cluster = Cluster.from_objects([NODE.body(), *spaces])

    with pytest.raises(BayplanError, match=r'namespace "shopp" is not in this cluster.*shop'):
        cluster.why_pending("shopp")
    assert 0 == cluster.why_pending("shop").count


@settings(max_examples=15, deadline=None, derandomize=True)
@given(clusters(), st.lists(pods("w", namespace="default"), min_size=1, max_size=4))
def test_without_details_the_groups_are_the_same(drawn, waiting):
    waiting = [
        replace(pod, metadata=replace(pod.metadata, name=f"w{n}", uid=f"w{n}"))
        for n, pod in enumerate(waiting)
    ]
    found = [*drawn.nodes, *drawn.pods, *drawn.services, *drawn.namespaces, *waiting]
    cluster = Cluster.from_objects([to_builtins(item) for item in found])

    brief, whole = cluster.why_pending(details=False), cluster.why_pending()

    assert whole.groups == brief.groups
    assert [(a.pod, a.state, a.message, a.identical) for a in whole.pods] == [
        (a.pod, a.state, a.message, a.identical) for a in brief.pods
    ]


def big(name, cpu, **spec):
    return make_pod(name).req(cpu=cpu).with_spec(**spec).body()


def test_the_one_change_that_frees_most_is_searched_over_all_causes():
    """Each cause has a change of its own; opening the large node helps two of them."""
    small = make_node("small").capacity(cpu=2, memory="8Gi", pods=40)
    large = make_node("large").capacity(cpu=64, memory="8Gi", pods=40).with_spec(unschedulable=True)
    three = [big(f"three-{i}", "3") for i in range(3)]
    ports = [{"containerPort": 80, "hostPort": 80}]
    on_port = [make_pod(f"port-{i}").req(cpu="1").body() for i in range(3)]
    for body in on_port:
        body["spec"]["containers"][0]["ports"] = ports
    taken = make_pod("taken").node("small").body()
    taken["spec"]["containers"][0]["ports"] = ports
    ssd = [big(f"ssd-{i}", "100m", nodeSelector={"disk": "ssd"}) for i in range(3)]
    objects = [small.body(), large.body(), taken, *three, *on_port, *ssd]

    found = Cluster.from_objects(objects).why_pending()

    assert "uncordon large" == found.fix.change
    assert 4 == found.frees  # three of one cause, and one of another
    assert 3 == len(found.groups)


def test_a_change_is_found_that_only_another_template_of_the_group_shows():
    """The oldest pod is too large for any node; the others are not."""
    small = make_node("small").capacity(cpu=2, memory="8Gi", pods=40)
    large = make_node("large").capacity(cpu=64, memory="8Gi", pods=40).with_spec(unschedulable=True)
    pods = [big("a-huge", "100"), *(big(f"b-{i}", "3") for i in range(5))]

    (group,) = Cluster.from_objects([small.body(), large.body(), *pods]).why_pending().groups

    assert ("uncordon large", 5) == (group.fix.change, group.frees)


def test_a_scheduler_that_is_not_heard_of_has_a_change_too():
    node = make_node("a").capacity(cpu=4, memory="8Gi", pods=40)
    pods = [big(f"p{i}", "1", schedulerName="nobodys") for i in range(3)]

    (group,) = Cluster.from_objects([node.body(), *pods]).why_pending().groups

    assert ('use the scheduler "default-scheduler"', 3) == (group.fix.change, group.frees)


def test_names_are_counted():
    from bayplan.inspect.why.render import render_pending

    node = make_node("a").capacity(cpu=1, memory="8Gi", pods=40)
    pods = [
        make_pod(f"p{i}").req(cpu="4").owner("Job", f"job-{i}", uid=f"u{i}").body()
        for i in range(7)
    ]
    alone = big("alone", "4")

    found = Cluster.from_objects([node.body(), *pods, alone]).why_pending()

    text = "\n".join(render_pending(found))
    assert 8 == found.groups[0].owner_count
    assert "default/alone, job/job-0, job/job-1 and 5 more" in text


AMOUNTS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=12)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(AMOUNTS, AMOUNTS, st.booleans())
def test_pods_that_only_differ_in_amounts_are_told_what_each_is_told_alone(room, asked, preempt):
    """Amounts that no node tells apart share an answer; lower priorities end the sharing."""
    objects = []
    for number, (cpu, memory) in enumerate(room):
        made = make_node(f"n{number}").capacity(cpu=cpu, memory=f"{memory}Gi", pods=9)
        objects.append(made.body())
        taken = make_pod(f"t{number}").req(cpu="1", memory="1Gi").node(f"n{number}")
        objects.append(taken.priority(-5 if preempt and number % 2 else 0).body())
    for number, (cpu, memory) in enumerate(asked):
        objects.append(make_pod(f"p{number}").req(cpu=f"{cpu}1m", memory=f"{memory}Gi").body())

    brief = Cluster.from_objects(objects).why_pending(details=False)
    whole = Cluster.from_objects(objects).why_pending()

    for short, long in zip(brief.pods, whole.pods, strict=True):
        assert (long.pod, long.state, long.message) == (short.pod, short.state, short.message)
    assert [group.cause for group in whole.groups] == [group.cause for group in brief.groups]
