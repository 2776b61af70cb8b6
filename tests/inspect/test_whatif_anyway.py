"""What follows without any change is told too, and nothing is counted that is not there."""

from collections import Counter

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bayplan.api import yaml
from bayplan.cli.whatif import command
from bayplan.errors import BayplanError
from bayplan.inspect import Cluster
from bayplan.testing.builders import make_node
from tests.inspect.test_whatif import nodes, replica_set, state, web


def full(owner="ReplicaSet", **spec):
    """One node full of one pod, and a more important pod that waits."""
    return [
        *nodes(1),
        web(0, "node-0", cpu="3", owner=owner, **spec),
        web(0, "", cpu="3", owner="", name="vip", priority=10),
    ]


def test_an_eviction_that_happens_in_any_case_is_told():
    found = Cluster.from_objects([*full(), replica_set(1)]).what_if("cordon=node-0")

    assert not found.ok
    assert [(e.pod, e.by, e.anyway) for e in found.evictions] == [
        ("default/web-0", "default/vip-0", True)
    ]
    assert [(s.pod, s.source, s.anyway) for s in found.stuck] == [("default/web-0", "node-0", True)]
    assert [s.pod for s in found.anyway] == ["default/vip-0"]
    assert (found.before.running, found.before.pending) == (1, 1)
    assert (found.after.running, found.after.pending) == (1, 1)
    text = str(found)
    assert "NOT OK: 1 pod would find no node, with or without this" in text
    assert "default/web-0 on node-0, by default/vip-0, in any case" in text


def test_what_is_evicted_in_any_case_and_goes_elsewhere_is_a_move_that_is_no_effect():
    room = make_node("node-9").capacity(cpu=3, memory="8Gi", pods=20).label(pool="b").body()
    bodies = [*full(), room, replica_set(1)]
    bodies[2]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "node-0"}
    found = Cluster.from_objects(bodies).what_if("scale=rs/web=1")

    assert found.ok
    assert [(m.source, m.target, m.anyway) for m in found.moves] == [("node-0", "node-9", True)]


def test_the_command_fails_for_a_pod_that_is_evicted_in_any_case(tmp_path):
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.dump_all([*full(), replica_set(1)]))

    found = CliRunner().invoke(command, ["--from", str(file), "--cordon", "node-0", "-o", "json"])

    assert found.exit_code == 1
    assert msgspec.json.decode(found.output)["stuck"][0]["anyway"] is True


def test_each_tells_what_is_lost_in_any_case():
    spare = make_node("node-1").capacity(cpu=1, memory="8Gi", pods=20).body()
    found = Cluster.from_objects([*full(), spare, replica_set(1)]).each("node")

    assert not found.ok
    assert [(s.pod, s.anyway) for s in found.anyway] == [("default/web-0", True)]
    assert "In any case, with all of them: 1 pod would find no node" in str(found)
    assert "replicaset/web" in str(found)


def test_another_configuration_is_compared_with_what_happens_in_any_case(tmp_path):
    file, config = tmp_path / "cluster.yaml", tmp_path / "new.yaml"
    file.write_text(yaml.dump_all([*full(), replica_set(1)]))
    config.write_text(
        yaml.dump(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "profiles": [
                    {"plugins": {"multiPoint": {"disabled": [{"name": "DefaultPreemption"}]}}}
                ],
            }
        )
    )

    found = CliRunner().invoke(
        command, ["--from", str(file), "--config", str(config), "-o", "json"]
    )
    body = msgspec.json.decode(found.output)

    assert found.exit_code == 0, found.output  # now nobody is evicted
    assert (body["evictions"], body["moves"]) == ([], [])
    (waits,) = body["stuck"]
    assert (waits["pod"], waits["from"], waits["new"]) == ("default/vip-0", "", False)


@pytest.mark.parametrize("change", ["delete=rs/web", "scale=rs/web=0", "scale=sts/web=0"])
def test_an_owner_that_goes_leaves_no_ghost_of_a_victim(change):
    kind = "StatefulSet" if "sts" in change else "ReplicaSet"
    bodies = [*full(kind), replica_set(1) | {"kind": kind}]
    found = Cluster.from_objects(bodies).what_if(change)

    assert found.ok
    assert (found.stuck, found.moves, found.starts) == ((), (), ())
    assert found.deleted == ("default/web-0",)
    assert (found.after.running, found.after.pending) == (1, 0)


def test_new_pods_that_preempt_each_other_are_no_moves(tmp_path):
    high = replica_set(2, "vip")
    high["spec"]["template"]["spec"]["priority"] = 10
    (tmp_path / "a.yaml").write_text(yaml.dump(replica_set(4)))
    (tmp_path / "b.yaml").write_text(yaml.dump(high))
    found = Cluster.from_objects(nodes(1)).what_if(f"apply={tmp_path}")

    assert found.moves == ()
    assert Counter(s.owner for s in found.starts) == {"replicaset/web": 2, "replicaset/vip": 2}
    assert all(s.new for s in found.starts)
    assert [(s.source, s.new) for s in found.stuck] == [("", True), ("", True)]
    assert found.ok


def test_a_pod_may_be_given_another_priority():
    bodies = [*nodes(1), web(0, "node-0", cpu="4"), web(1, "", cpu="4", owner="", name="late")]
    found = Cluster.from_objects(bodies).what_if("priority=pod/late-1=1000")

    assert [s.pod for s in found.starts] == ["default/late-1"]
    assert [e.pod for e in found.evictions] == ["default/web-0"]
    assert [e.anyway for e in found.evictions] == [False]


@pytest.mark.parametrize("change", ["scale=pod/web-0=3", "scale=job/web=3"])
def test_what_cannot_be_scaled_names_what_can(change):
    job = replica_set(1) | {"apiVersion": "batch/v1", "kind": "Job"}
    cluster = Cluster.from_objects([*nodes(1), web(0, "node-0"), job])
    with pytest.raises(BayplanError, match="cannot be scaled; use deployment, replicaset"):
        cluster.what_if(change)


def test_a_pending_pod_that_is_deleted_is_made_again_by_its_owner():
    bodies = [*nodes(1), web(0, "node-0", cpu="4"), web(1, "", cpu="4"), replica_set(2)]
    found = Cluster.from_objects(bodies).what_if("delete=pod/web-1")

    assert found.still_pending == 1
    assert (found.after.running, found.after.pending) == (1, 1)


def test_a_daemon_that_makes_way_is_made_again_for_its_node():
    bodies = [*full("DaemonSet"), *nodes(2)[1:]]
    bodies[2]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "node-0"}
    found = Cluster.from_objects(bodies).what_if("cordon=node-1")

    (stuck,) = found.stuck
    assert (stuck.pod, stuck.state, stuck.source) == ("default/web-0", "pending", "node-0")
    assert "Insufficient cpu" in stuck.reason


def test_a_pod_that_was_going_before_is_not_lost_by_the_change():
    bodies = full("")
    bodies[1]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    found = Cluster.from_objects(bodies).what_if("cordon=node-0")

    assert found.ok
    assert found.stuck == ()


OWNERS = st.sampled_from(["ReplicaSet", "StatefulSet", "DaemonSet", ""])
PODS = st.lists(
    st.tuples(st.integers(-1, 2), OWNERS, st.sampled_from((0, 0, 10)), st.integers(1, 3)),
    min_size=1,
    max_size=12,
)
CHANGES = st.lists(
    st.sampled_from(
        [
            "drain=node-0",
            "cordon=node-1",
            "remove=node-2",
            "delete=rs/wreplicaset",
            "scale=rs/wreplicaset=1",
            "scale=rs/wreplicaset=5",
            "scale=sts/wstatefulset=0",
            "delete=sts/wstatefulset",
            "request=rs/wreplicaset=cpu=2",
            "add=1xnode-0",
        ]
    ),
    max_size=3,
    unique_by=lambda change: change.partition("=")[0],
)


@settings(max_examples=60, deadline=None)
@given(pods=PODS, changes=CHANGES)
@example(
    pods=[(0, "ReplicaSet", 0, 1)] * 2,
    changes=["drain=node-0", "delete=rs/wreplicaset", "scale=rs/wreplicaset=1"],
)
def test_every_pod_is_told_of_once_and_all_add_up(pods, changes):
    """Each pod ends in one place: where it was, moved, started, stuck, deleted or waiting."""
    bodies = [
        web(number, f"node-{place}" if place >= 0 else "", cpu=str(cpu), owner=kind,
            name=f"w{kind.lower()}", priority=priority)
        for number, (place, kind, priority, cpu) in enumerate(pods)
    ]  # fmt: skip
    room = max(4, 3 * len(pods))
    kinds = Counter(kind for _, kind, _, _ in pods)
    stateful = replica_set(kinds["StatefulSet"], "wstatefulset") | {"kind": "StatefulSet"}
    owners = [replica_set(kinds["ReplicaSet"], "wreplicaset"), stateful]
    cluster = Cluster.from_objects([*nodes(3, cpu=room // 3), *bodies, *owners])
    before = state(cluster)

    found = cluster.what_if(*changes)

    ran = {pod.key for pod in cluster.pods.values() if pod.spec.node_name}
    told = [item.pod for item in (*found.moves, *found.starts, *found.anyway)]
    stuck = [item.pod for item in found.stuck]
    assert len(told) == len(set(told))
    assert not set(told) & set(found.deleted)
    assert not set(stuck) & set(told)
    if any(change.startswith("delete=rs") for change in changes[-1:]):
        assert not [item for item in (*told, *stuck) if "/wreplicaset-" in item]
    assert {move.pod for move in found.moves} <= ran
    assert {item.pod for item in found.stuck if item.source} <= ran
    assert not {start.pod for start in (*found.starts, *found.anyway)} & ran
    assert found.before.running == len(ran)
    assert found.before.running + found.before.pending == len(pods)
    gone = [item for item in found.stuck if item.state == "lost" or "not made" in item.reason]
    made = [item for item in found.starts if item.new]
    made += [item for item in found.stuck if item.new and not item.pod.endswith("-new")]
    left = len(pods) + len(made) - len(gone) - len(found.deleted)
    with_node = sum(int(n.split()[0]) for n in found.notes if "go with their nodes" in n)
    assert found.after.running + found.after.pending == left - with_node
    assert state(cluster) == before
