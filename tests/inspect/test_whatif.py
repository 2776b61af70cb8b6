"""A what-if does what the real thing would: drains, losses, growth, preemption."""

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.api import yaml
from bayplan.api.defaults import apply_defaults
from bayplan.cli.whatif import command
from bayplan.errors import BayplanError
from bayplan.inspect import Cluster
from bayplan.inspect.whatif import BadChange, each, parse_change, what_if
from bayplan.testing.builders import make_node, make_pod
from tests.inspect.shapes import missing_driver


def nodes(count=4, cpu=4):
    return [
        make_node(f"node-{i}").zone(f"z{i % 2}").capacity(cpu=cpu, memory="8Gi", pods=20).body()
        for i in range(count)
    ]


def web(number, node, *, cpu="1", owner="ReplicaSet", name="web", **spec):
    builder = make_pod(f"{name}-{number}").req(cpu=cpu).label(app=name)
    if owner:
        builder.owner(owner, name, api_version="apps/v1", uid=f"owner-{name}")
    return builder.with_spec(**({"nodeName": node} if node else {}), **spec).body()


def budget(**spec):
    spec["selector"] = {"matchLabels": {"app": "web"}}
    meta = {"name": "web", "namespace": "default"}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": meta,
        "spec": spec,
    }


def replica_set(replicas, name="web"):
    labels = {"app": name}
    spec = {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": "default", "uid": f"owner-{name}"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": template,
        },
    }


def state(cluster):
    table = cluster.engine.cache.table
    cluster.engine.cache.validate()
    return [[info.uid for info in pods] for pods in table.pods], list(table.names())


def test_nothing_changes_nothing():
    cluster = Cluster.from_objects([*nodes(), *(web(i, f"node-{i % 4}") for i in range(6))])
    before = state(cluster)

    found = cluster.what_if()

    assert found.ok
    assert (found.moves, found.stuck, found.starts) == ((), (), ())
    assert found.before == found.after
    assert found.to_dict() == msgspec.json.decode(msgspec.json.encode(found))
    assert state(cluster) == before


def test_a_drain_moves_what_is_owned_and_loses_what_is_not():
    pods = [web(0, "node-0"), web(1, "node-0", owner=""), web(2, "node-0", owner="DaemonSet")]
    cluster = Cluster.from_objects([*nodes(), *pods])

    found = cluster.what_if("drain=node-0")

    assert [(m.pod, m.source) for m in found.moves] == [("default/web-0", "node-0")]
    assert found.moves[0].target != "node-0"
    assert [(s.pod, s.state) for s in found.stuck] == [("default/web-1", "lost")]
    assert not found.ok
    assert found.commands == ("kubectl drain node-0 --ignore-daemonsets --force",)


def test_an_empty_dir_needs_its_flag():
    pod = web(0, "node-0", volumes=[{"name": "tmp", "emptyDir": {}}])
    found = Cluster.from_objects([*nodes(), pod]).what_if("drain=node-0")

    assert found.commands == ("kubectl drain node-0 --delete-emptydir-data",)
    assert found.ok


def test_a_budget_is_given_back_when_the_new_pod_has_a_node():
    pods = [web(i, "node-0") for i in range(3)]
    objects = [*nodes(), *pods, replica_set(3), budget(maxUnavailable=1)]

    assert Cluster.from_objects(objects).what_if("drain=node-0").ok


def test_a_budget_without_room_blocks_the_drain():
    pods = [web(i, "node-0") for i in range(3)]
    found = Cluster.from_objects([*nodes(), *pods, budget(minAvailable=3)]).what_if("drain=node-0")

    assert {s.state for s in found.stuck} == {"blocked"}
    assert 'budget "default/web" allows no disruption: 3 healthy, 3 must stay' in str(found)
    assert not found.ok


def test_a_pod_that_does_not_fit_blocks_the_rest_of_its_budget():
    pods = [web(i, "node-0", cpu="2") for i in range(2)] + [web(9, "node-1", name="x", cpu="3")]
    objects = [*nodes(2), *pods, replica_set(2), budget(maxUnavailable=1)]
    found = Cluster.from_objects(objects).what_if("drain=node-0")

    assert sorted(s.state for s in found.stuck) == ["blocked", "pending"]


def test_a_lost_node_asks_no_budget():
    pods = [web(i, "node-0") for i in range(3)]
    found = Cluster.from_objects([*nodes(), *pods, budget(minAvailable=3)]).what_if("remove=node-0")

    assert len(found.moves) == 3
    assert found.ok
    assert (found.before.nodes.total, found.after.nodes.total) == (4, 3)


def test_an_ordered_stateful_set_waits_for_lower_ordinals():
    pods = [web(i, "node-0", owner="StatefulSet", cpu="3") for i in range(2)]
    full = [web(i, f"node-{i}", name="x", cpu="2") for i in range(1, 4)]
    found = Cluster.from_objects([*nodes(cpu=8)[:1], *nodes()[1:], *pods, *full]).what_if(
        "drain=node-0"
    )

    reasons = {s.pod: s.reason for s in found.stuck}
    assert "Insufficient cpu" in reasons["default/web-0"]
    assert "waits for its pods with lower ordinals" in reasons["default/web-1"]


def test_more_important_pods_evict_and_the_evicted_move_on():
    low = [web(i, "node-0", name="low", cpu="4") for i in range(1)]
    high = web(0, "node-1", name="high", cpu="4", priority=100)
    cluster = Cluster.from_objects([*nodes(2), *low, high])

    found = cluster.what_if("drain=node-1")

    assert [(e.pod, e.by) for e in found.evictions] == [("default/low-0", "default/high-0")]
    assert [(m.pod, m.target) for m in found.moves] == [("default/high-0", "node-0")]
    assert [s.pod for s in found.stuck] == ["default/low-0"]
    assert "preempted" not in [m.why for m in found.moves]


def test_added_nodes_take_what_is_pending_and_start_daemons():
    daemon = web(0, "node-0", owner="DaemonSet", name="agent", cpu="100m")
    waiting = web(0, "", name="big", cpu="3500m")
    full = [web(i, f"node-{i}", cpu="3") for i in range(2)]
    cluster = Cluster.from_objects([*nodes(2), daemon, waiting, *full])

    found = cluster.what_if("add=2xnode-1")

    assert {s.node for s in found.starts if not s.new} <= {"node-1-new-1", "node-1-new-2"}
    assert sorted(s.node for s in found.starts if s.new) == ["node-1-new-1", "node-1-new-2"]
    assert found.before.pending == 1
    assert found.after.pending == 0


@pytest.mark.parametrize(
    "change", ["add=1xnode-0", "uncordon=node-1", "delete=pod/alone-0", "scale=rs/big=0"]
)
def test_whatever_makes_room_lets_pending_pods_in(change):
    cordoned = make_node("node-1").capacity(cpu=4, memory="8Gi", pods=20)
    objects = [
        *nodes(1),
        cordoned.with_spec(unschedulable=True).body(),
        web(0, "node-0", name="alone", owner=""),
        web(0, "node-0", name="big", cpu="2"),
        replica_set(1, "big"),
        web(0, "", cpu="2"),
    ]

    found = Cluster.from_objects(objects).what_if(change)

    assert [s.pod for s in found.starts] == ["default/web-0"]
    assert found.still_pending == 0


def test_scaling_uses_the_template_where_no_pod_exists():
    found = Cluster.from_objects([*nodes(1), replica_set(0)]).what_if("scale=replicaset/web=6")

    assert len(found.starts) == 4  # limits became requests
    assert len(found.new_pending) == 2
    assert found.ok


def test_scaling_down_deletes_doubled_up_pods_first():
    pods = [web(0, "node-0"), web(1, "node-1"), web(2, "node-1")]
    found = Cluster.from_objects([*nodes(), *pods, replica_set(3)]).what_if("scale=rs/web=2")

    assert found.deleted in (("default/web-1",), ("default/web-2",))


def test_a_stateful_set_grows_with_claims_of_its_own():
    owner = replica_set(1) | {"kind": "StatefulSet"}
    owner["spec"]["volumeClaimTemplates"] = [
        {"metadata": {"name": "data"}, "spec": {"storageClassName": "none"}}
    ]
    pod = web(0, "node-0", owner="StatefulSet")
    found = Cluster.from_objects([*nodes(), owner, pod]).what_if("scale=sts/web=2")

    assert [s.pod for s in found.stuck] == ["default/web-1"]
    assert "data-web-1" in found.stuck[0].reason or "unbound" in found.stuck[0].reason


def test_applied_manifests_make_their_pods(tmp_path):
    (tmp_path / "web.yaml").write_text(yaml.dump(replica_set(3)))
    found = Cluster.from_objects(nodes()).what_if(f"apply={tmp_path}")

    assert len(found.starts) == 3


def manifest(tmp_path, body):
    file = tmp_path / "web.yaml"
    file.write_text(yaml.dump(body))
    return f"apply={file}"


def test_the_same_template_with_the_servers_defaults_replaces_nothing(tmp_path):
    kept = replica_set(2)
    apply_defaults("apps", "replicasets", kept)
    cluster = Cluster.from_objects([*nodes(2), *(web(i, "node-0") for i in range(2)), kept])
    bare = replica_set(2)
    del bare["spec"]["replicas"]

    found = cluster.what_if(manifest(tmp_path, bare))

    assert (found.moves, found.starts, found.deleted) == ((), (), ())


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": "x"}}, "expected"),
        ({"kind": "Pod", "metadata": "x", "spec": {}}, "field metadata"),
        ({"kind": "Deployment", "metadata": {"name": "x"}, "spec": {"template": 3}}, "template"),
        (
            {
                "kind": "Pod",
                "metadata": {"name": "x"},
                "spec": {"containers": [{"name": "c", "livenessProbe": "x"}]},
            },
            "wrong type",
        ),
        ({"kind": "Secret", "metadata": {"name": "x"}}, "no object that scheduling knows"),
    ],
)
def test_a_broken_manifest_is_one_clear_line(tmp_path, body, problem):
    with pytest.raises(BayplanError, match=problem) as caught:
        Cluster.from_objects(nodes()).what_if(manifest(tmp_path, body))
    assert "web.yaml" in str(caught.value)


TOLERANT = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"plugins": {"multiPoint": {"disabled": [{"name": "TaintToleration"}]}}}],
}


def test_another_configuration_lets_pending_pods_in(tmp_path):
    node = make_node("node-0").capacity(cpu=4, memory="8Gi", pods=20).taint("a", "NoSchedule")
    file, config = tmp_path / "cluster.yaml", tmp_path / "tolerant.yaml"
    file.write_text(yaml.dump_all([node.body(), web(0, "")]))
    config.write_text(yaml.dump(TOLERANT))
    source = ["--from", str(file), "-o", "json"]

    def ask(*words):
        found = CliRunner().invoke(command, [*source, *words])
        return msgspec.json.decode(found.output)

    new = ask("--config", str(config))
    assert [s["pod"] for s in new["starts"]] == ["default/web-0"]
    assert new["changes"] == [f"schedule with {config} (1.37)"]
    # what is so already is no change; a drain under it is
    now = ("--config", str(config), "--current-config", str(config))
    same = ask(*now, "--uncordon", "node-0")
    assert (same["starts"], same["stillPending"], same["stuck"]) == ([], 0, [])
    assert [s["pod"] for s in same["anyway"]] == ["default/web-0"]
    less = ask(*now, "--drain", "node-0")
    assert (less["starts"], less["stillPending"], less["anyway"]) == ([], 0, [])
    assert [(s["pod"], s["from"]) for s in less["stuck"]] == [("default/web-0", "")]


def test_another_version_may_refuse_what_this_one_takes(tmp_path):
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.dump_all(missing_driver()))
    found = CliRunner().invoke(
        command, ["--from", str(file), "--emulated-version", "1.36", "-o", "json"]
    )
    body = msgspec.json.decode(found.output)

    assert [s["pod"] for s in body["starts"]] == ["default/data"]
    assert body["changes"] == ["schedule with the defaults (1.36)"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "no change is given"),
        (["--config", "/nowhere.yaml"], "/nowhere.yaml"),
        (["--emulated-version", "1.12"], "1.12"),
        (["--each", "node", "--drain", "x"], "give no other change"),
    ],
)
def test_a_bad_command_is_one_clear_line(words, problem):
    found = CliRunner().invoke(command, ["--from", "/dev/null", *words])
    assert 2 == found.exit_code
    assert problem in found.output


def test_a_priority_lets_a_pending_pod_in():
    objects = [
        *nodes(1),
        web(0, "node-0", name="low", cpu="4"),
        web(0, "", cpu="4"),
        replica_set(1),
    ]
    cluster = Cluster.from_objects(objects)

    assert [s.pod for s in cluster.what_if("priority=rs/web=1000").starts] == ["default/web-0"]
    assert cluster.what_if().still_pending == 1


@pytest.mark.parametrize("change", ["uncordon=node-1", "add=1xnode-0", "delete=pod/low-0"])
def test_room_lets_pods_in_that_waited(change):
    objects = [*nodes(2), web(0, "node-0", name="low", owner="", cpu="4"), web(0, "", cpu="4")]
    objects[1].setdefault("spec", {})["unschedulable"] = True
    found = Cluster.from_objects([*objects, replica_set(1)]).what_if(change)

    assert [s.pod for s in found.starts] == ["default/web-0"]


def test_a_smaller_request_lets_pending_pods_in():
    objects = [*nodes(1), web(0, "node-0", cpu="3"), web(1, "", cpu="3"), replica_set(2)]
    objects.append(web(0, "", name="bare", owner="", cpu="8"))
    cluster = Cluster.from_objects(objects)
    owner = cluster.what_if("request=rs/web=cpu=1")
    bare = cluster.what_if("request=pod/bare-0=cpu=500m,memory=1Gi")

    assert [s.pod for s in owner.starts] == ["default/web-1"]
    assert [s.pod for s in bare.starts] == ["default/bare-0"]
    assert bare.changes == ("request of pod/bare-0 to cpu=500m,memory=1Gi",)
    assert cluster.what_if().still_pending == 2


@pytest.mark.parametrize(
    "text", ["rs/web", "rs/web=cpu", "rs/web=cpu=much", "rs/web=cpu=-1", "web=cpu=1"]
)
def test_a_request_that_is_none_shows_how_it_is_written(text):
    with pytest.raises(BadChange, match="cpu=500m,memory=1Gi"):
        parse_change("request", text)


def test_each_tells_which_nodes_can_go():
    pods = [web(0, "node-0", cpu="3"), web(1, "node-1", cpu="3"), web(2, "node-2", cpu="1")]
    found = each(Cluster.from_objects([*nodes(3), *pods]), "node")

    assert [(t.name, t.ok) for t in found.tries] == [
        ("node-0", True),
        ("node-1", True),
        ("node-2", True),
    ]
    pods[2] = web(2, "node-2", cpu="2")
    found = each(Cluster.from_objects([*nodes(3), *pods]), "node")
    assert [t.ok for t in found.tries] == [False, False, False]
    assert "NOT OK: 0 can go, 3 cannot" in str(found)


PLACES = st.lists(st.integers(0, 3), min_size=1, max_size=14)


@settings(max_examples=40, deadline=None)
@given(places=PLACES, sizes=st.data(), drained=st.integers(0, 3), limit=st.integers(0, 2))
def test_whatever_is_drained_nothing_overflows_and_all_comes_back(places, sizes, drained, limit):
    """Nothing is ever over allocatable, every pod is accounted for, the engine is as before."""
    kinds = sizes.draw(
        st.lists(
            st.sampled_from(["ReplicaSet", "StatefulSet", "DaemonSet", ""]),
            min_size=len(places),
            max_size=len(places),
        )
    )
    pods = [
        web(i, f"node-{place}", cpu="250m", owner=kind, name=f"w{kind.lower()}", priority=i % 3)
        for i, (place, kind) in enumerate(zip(places, kinds, strict=True))
    ]
    cluster = Cluster.from_objects(
        [*nodes(cpu=1 + len(places) // 4), *pods, budget(minAvailable=limit)]
    )
    before = state(cluster)

    found = what_if(cluster, [parse_change("drain", f"node-{drained}")])

    for side in (found.before, found.after):
        for room in side.headroom.values():
            assert room.requested <= room.allocatable
    on_it = [k for p, k in zip(places, kinds, strict=True) if p == drained and k != "DaemonSet"]
    assert len(on_it) <= len(found.moves) + len(found.stuck)
    assert state(cluster) == before
    assert each(cluster, "node").tries[drained].ok == found.ok
    assert state(cluster) == before
    assert np.all(cluster.engine.cache.table.pod_count >= 0)


@settings(max_examples=25, deadline=None)
@given(places=PLACES, drained=st.integers(0, 3))
def test_carried_out_for_real_it_ends_the_same(places, drained):
    """The cluster that the answer describes is the one that doing it by hand leaves."""
    pods = [web(i, f"node-{place}", cpu="100m") for i, place in enumerate(places)]
    cluster = Cluster.from_objects([*nodes(), *pods])
    found = cluster.what_if(f"drain=node-{drained}")
    engine = cluster.fresh_engine()
    table = engine.cache.table
    node = table.nodes[table.row_of(f"node-{drained}")]
    engine.cache.put(msgspec.structs.replace(
        node, spec=msgspec.structs.replace(node.spec, unschedulable=True)))  # fmt: skip
    leaving = sorted(table.pods_of(node.name), key=lambda info: info.pod.name)
    where = {}
    for info in list(leaving):
        engine.cache.put(msgspec.structs.replace(info.pod, metadata=msgspec.structs.replace(
            info.pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z")))  # fmt: skip
    for info in leaving:
        pod = info.pod
        fresh = msgspec.structs.replace(
            pod,
            metadata=msgspec.structs.replace(pod.metadata, uid=f"{pod.uid}-new"),
            spec=msgspec.structs.replace(pod.spec, node_name=""),
        )
        where[pod.key] = engine.place(fresh, cluster.now).node_name

    assert {m.pod: m.target for m in found.moves} == where


@pytest.mark.parametrize(
    ("verb", "text", "problem"),
    [
        ("drain", "", "--drain is empty"),
        ("scale", "deployment/web", "no value is given"),
        ("scale", "deployment/web=many", '"many" is not a number of replicas'),
        ("scale", "deployment/web=300001", "is not a number of replicas from 0 to 300000"),
        ("scale", "deployment/web=" + "9" * 5000, "is not a number of replicas"),
        ("add", "10001xnode-1", "must be from 1 to 10000"),
        ("scale", "web=3", "write deployment/web=30"),
        ("add", "0xnode-1", "must be from 1 to 10000"),
        ("priority", "pod/a=99999999999", '"99999999999" is not from -2147483648 to 1000000000'),
        ("priority", "pod/a=-2147483649", '"-2147483649" is not from'),
        ("priority", "pod/a=--1", '"--1" is not from'),
        ("explode", "x", '"explode" is not a change; use drain, cordon'),
    ],
)
def test_a_bad_change_says_how_it_is_written(verb, text, problem):
    with pytest.raises(BadChange, match=problem):
        parse_change(verb, text)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("drain=node-9", 'node "node-9" is not in this cluster; did you mean'),
        ("drain=pool=none", 'no node matches the selector "pool=none"'),
        ("drain=kubernetes.io/hostname=x", "; of kubernetes.io/hostname nodes have node-0, "),
        ("add=2xm5.huge", 'node or instance type "m5.huge" is not in'),
        ("add=2xcpu=4", "memory must be given"),
        ("add=2xcpu=4,memory=lots", "memory"),
        ("add=2xcpu=4,mem=2Gi", '"mem" is no resource of nodes; use cpu, memory, pods'),
        ("add=node-1,gpu=2", '"gpu" is no resource of nodes; use cpu'),
        ("add=cpu=-4,memory=8Gi", 'cpu: "-4" is below 0; write as in cpu=8,memory=32Gi'),
        ("add=node-1,memory=-8Gi", 'memory: "-8Gi" is below 0; write'),
        ("add=node-1,memory=lots", 'memory: "lots" is no amount, such as 2, 500m or 4Gi'),
        ("scale=deployment/web=2", 'deployment "web" is not in namespace "default"'),
        ("apply=/nowhere/at/all", "does not exist"),
        ("delete=pod/nobody", 'pod "nobody" is not in namespace'),
    ],
)
def test_an_unknown_thing_is_one_clear_line(change, problem):
    cluster = Cluster.from_objects([*nodes(), web(0, "node-0")])
    with pytest.raises(BayplanError) as caught:
        cluster.what_if(change)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_command_keeps_the_order_and_tells_by_its_exit_code(tmp_path):
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.dump_all([*nodes(2), *(web(i, "node-0") for i in range(4))]))
    run = CliRunner().invoke

    late = run(command, ["--from", str(file), "--drain", "node-0", "--cordon", "node-1"])
    early = run(command, ["--from", str(file), "--cordon", "node-1", "--drain", "node-0"])
    assert (late.exit_code, early.exit_code) == (0, 1)
    assert "What if: cordon node-1; drain node-0" in early.output
    body = msgspec.json.decode(
        run(command, ["--from", str(file), "--drain", "node-0", "-o", "json"]).output
    )
    assert [m["to"] for m in body["moves"]] == ["node-1"] * 4
    junit = run(command, ["--from", str(file), "--each", "node", "-o", "junit"])
    assert '<testsuite name="whatif: each node" tests="2" failures="0">' in junit.output


def test_a_victim_that_was_told_to_go_before_is_waited_for():
    """It was proposed again in every round, and the question never ended."""
    old = web(0, "node-0", cpu="3")
    old["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    bodies = [*nodes(1), old, web(1, "", cpu="3", owner="", name="new", priority=10)]

    found = Cluster.from_objects(bodies).what_if("cordon=node-0")

    assert ["default/new-1"] == [item.pod for item in found.anyway]
