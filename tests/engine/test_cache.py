"""Assumed and confirmed pods: who may do what, and what it costs."""

import msgspec
import numpy as np
import pytest

from bayplan.api.labels import parse_selector
from bayplan.cluster.limits import Limits
from bayplan.engine.cache import Cache, CacheError
from bayplan.framework import PodQuery, QueryPart
from bayplan.testing import make_node, make_pod


def query(selector):
    return PodQuery((QueryPart(None, parse_selector(selector)),))


@pytest.fixture
def cache():
    made = Cache()
    made.add_node(make_node("a").build())
    made.add_node(make_node("b").build())
    return made


def test_confirming_an_assumed_pod_changes_no_row(cache):
    cache.assume(cache.infos.make(make_pod("p").req({"cpu": "1"}).build()), "a")
    before = cache.table.changes.generation
    cache.add_pod(make_pod("p").req({"cpu": "1"}).node("a").build())

    assert before == cache.table.changes.generation
    assert not cache.is_assumed("uid-default-p")
    cache.validate()


def test_a_pod_confirmed_elsewhere_moves(cache):
    cache.assume(cache.infos.make(make_pod("p").req({"cpu": "1"}).build()), "a")
    cache.add_pod(make_pod("p").req({"cpu": "1"}).node("b").build())

    assert [0, 1] == cache.table.pod_count.tolist()
    cache.validate()


def test_only_assumed_pods_can_be_forgotten(cache):
    pod = make_pod("p").build()
    cache.forget(pod)  # unknown pods are no error
    cache.assume(cache.infos.make(pod), "a")
    with pytest.raises(CacheError, match="is in the cache, so can't be assumed"):
        cache.assume(cache.infos.make(pod), "b")
    cache.forget(pod)
    cache.add_pod(make_pod("p").node("a").build())

    with pytest.raises(CacheError, match="wasn't assumed so cannot be forgotten"):
        cache.forget(pod)
    with pytest.raises(CacheError, match="already added"):
        cache.add_pod(make_pod("p").node("a").build())


def test_a_pod_without_uid_is_refused(cache):
    with pytest.raises(CacheError, match="empty UID"):
        cache.add_pod(make_pod("p").uid("").node("a").build())
    with pytest.raises(CacheError, match=r"metadata\.name is empty"):
        cache.add_node(make_node("").build())


def test_a_finished_pod_uses_nothing(cache):
    cache.put(make_pod("p").req({"cpu": "1"}).node("a").build())
    cache.put(make_pod("p").req({"cpu": "1"}).node("a").with_status(phase="Succeeded").build())

    assert 0 == cache.pod_count
    assert [0, 0] == cache.table.requested(0).tolist()


def test_validate_finds_a_wrong_sum(cache):
    cache.put(make_pod("p").req({"cpu": "1"}).node("a").build())
    cache.table._requested[0, 0] += 5

    with pytest.raises(CacheError, match="requested of a is"):
        cache.validate()


def lose_a_port(cache):
    cache.table.ports_in_use.clear()


def lose_a_claim(cache):
    cache.table.claim_users.clear()


def lose_an_image(cache):
    cache.table.images.popitem()


def count_one_more(cache):
    cache.table.counts.matching(query("app=x")).rows[0] += 1


def lose_a_term(kind):
    return lambda cache: next(cache.table.counts.owned(kind)).rows.clear()


def forget_a_pod(cache):
    cache._pods.popitem()


def assume_what_is_not_there(cache):
    cache._assumed.add("ghost")


def hide_a_priority(cache):
    cache.table.min_priority[0] = 99


def number_at(block, row, value):
    """A number of the first node."""

    def spoil(cache):
        getattr(cache.table, block)[row] = value

    return spoil


def rename(cache):
    cache.table._names[0] = "other"


def count_nobody_per_node(cache):
    column = cache.table.counts.matching(query("app=x"))
    column._per_node = np.zeros(cache.table.count, dtype=np.int64)


def place_twice(cache):
    pods = cache.table.pods[0]
    pods.append(pods[0])


def lose_from_its_node(cache):
    cache.table.pods[0].clear()


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (
            number_at("_allocatable", (0, 0), 7),
            "allocatable of a is [7, 34359738368, 0, 110], not [4000,",
        ),
        (number_at("_numbers", (0, 0), 7), "nonzero_cpu of a is 7, not 100"),
        (number_at("_numbers", (1, 0), 7), "nonzero_memory of a is 7, not 209715200"),
        (number_at("_numbers", (2, 0), 7), "allowed_pods of a is 7, not 110"),
        (number_at("_numbers", (3, 0), 7), "pod_count of a is 7, not 1"),
        (number_at("_unschedulable", 0, True), "unschedulable of a is True, not False"),
        (number_at("_taint_sets", 0, 0), "taints of a is (), not (Taint("),
        (rename, "names of rows differ"),
        (count_nobody_per_node, "count per node of"),
        (place_twice, "pod uid-default-p is placed 2 times"),
        (lose_from_its_node, "placed and waiting pods differ from known pods"),
        (lose_a_port, "ports in use differ"),
        (lose_a_claim, "users of claims differ"),
        (lose_an_image, "images differ"),
        (count_one_more, "differs: {'a': 2} is not {'a': 1}"),
        (lose_a_term("required"), ": required terms differ"),
        (lose_a_term("required-anti"), "required-anti terms differ"),
        (lose_a_term("preferred"), "preferred terms differ"),
        (forget_a_pod, "placed and waiting pods differ from known pods"),
        (assume_what_is_not_there, "assumed pod ghost is not placed"),
        (hide_a_priority, "min_priority of a is 99, not 0"),
    ],
)
def test_validate_names_what_is_wrong(fault, words):
    cache = Cache()
    cache.add_node(make_node("b").build())
    cache.remove_node("b")
    cache.add_node(make_node("a").image("i:v1", 5).taint("t").build())
    cache.add_node(make_node("b").build())
    pod = make_pod("p").label({"app": "x"}).host_port(80).claim("c").apart("app=x")
    pod = pod.near("app=x").prefer_near(3, "app=y")
    cache.put(pod.node("a").build())
    cache.table.counts.matching(query("app=x"))
    cache.validate()

    fault(cache)

    with pytest.raises(CacheError) as found:
        cache.validate()
    assert words in str(found.value)


def test_pods_of_one_template_share_what_is_known_about_them(cache):
    first = cache.infos.make(make_pod("p1").label({"app": "x"}).build())
    second = cache.infos.make(make_pod("p2").label({"app": "x"}).build())
    other = cache.infos.make(make_pod("p3").label({"app": "y"}).build())

    assert first.traits is second.traits
    assert first.signature is second.signature
    assert other.signature != first.signature


def test_pods_that_differ_in_labels_share_their_traits(cache):
    one, other = (cache.infos.make(make_pod(n).label(pod=n).req(cpu="1").build()) for n in "ab")

    assert one.traits is other.traits
    assert one.signature != other.signature


def test_a_label_that_comes_with_the_binding_touches_only_what_selects_on_it(cache):
    web, zone = query("app=web"), query("zone=z")
    counts = cache.table.counts
    pod = make_pod("p").label(app="web").apart("app=web").req(cpu="1")
    cache.assume(cache.infos.make(pod.build()), "a")
    other = make_pod("q").label(app="web").apart("app=web").req(cpu="1").node("a").build()
    cache.add_pod(other)
    seen = counts.matching(web).version, counts.matching(zone).version, counts.terms_version

    cache.add_pod(pod.label(zone="z").node("a").build())

    assert seen[0] == counts.matching(web).version
    assert seen[1] != counts.matching(zone).version
    assert seen[2] == counts.terms_version
    assert (2, 1) == (counts.matching(web).total, counts.matching(zone).total)
    cache.validate()
    cache.remove_pod(pod.build())
    assert (1, 0) == (counts.matching(web).total, counts.matching(zone).total)
    cache.validate()


@pytest.mark.parametrize("limits", [Limits(signatures=1), Limits()])
def test_what_was_forgotten_of_a_pod_does_not_change_the_order_of_pods(limits):
    cache = Cache(limits)
    cache.add_node(make_node("a").build())
    pods = [make_pod(name).req(cpu="1").label(app=name).node("a").build() for name in "xyz"]
    for pod in pods:
        cache.put(pod)
    cache.put(pods[0])  # the same again

    assert ["z", "y", "x"] == [info.pod.name for info in cache.table.pods[0]]


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(make_pod("p").req(cpu="1").label(app="x"), id="the node alone"),
        pytest.param(make_pod("p").req(cpu="1").label(app="x", zone="z"), id="labels"),
        pytest.param(make_pod("p").req(cpu="2").label(app="x"), id="what it asks for"),
        pytest.param(make_pod("p").req(cpu="1").label(app="x").priority(5), id="priority"),
        pytest.param(
            make_pod("p")
            .req(cpu="1")
            .label(app="x")
            .with_status(resources={"requests": {"cpu": "2"}}, allocatedResources={"cpu": "2"}),
            id="a resize",
        ),
    ],
)
def test_a_newer_object_is_known_for_what_it_is(cache, after):
    known = cache.infos.make(make_pod("p").req(cpu="1").label(app="x").build())
    pod = after.node("a").build()

    renewed, made = cache.infos.renewed(known, pod), cache.infos.make(pod)

    assert (made.signature, made.node_name) == (renewed.signature, renewed.node_name)
    assert renewed.traits is made.traits


def test_pods_of_other_namespaces_are_not_taken_for_alike(cache):
    """Though they share a spec, as those that were made from one template may."""
    pod = make_pod("p").req(cpu="1").build()
    other = msgspec.structs.replace(
        pod, metadata=msgspec.structs.replace(pod.metadata, namespace="other")
    )

    assert other.spec is pod.spec
    assert cache.infos.make(pod).signature != cache.infos.make(other).signature


def test_groups_that_everybody_left_do_not_pile_up(cache):
    for number in range(20):
        name = f"p{number}"
        cache.assume(cache.infos.make(make_pod(name).label(app=name).build()), "a")
        cache.add_pod(make_pod(name).label(app=name, zone="z").node("a").build())
        cache.remove_pod(make_pod(name).node("a").build())

    assert len(list(cache.table.counts.groups())) <= 1
    cache.validate()
