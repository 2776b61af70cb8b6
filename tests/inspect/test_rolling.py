"""A changed template reaches pods as their owner's controller and strategy let it."""

from collections import Counter

import pytest

from bayplan.inspect import Cluster
from tests.inspect.test_whatif import manifest, nodes, replica_set, web

TEMPLATE = {"metadata": {"labels": {"app": "web"}}}


def owner(kind, replicas, cpu="1", **spec):
    container = {"name": "c0", "resources": {"requests": {"cpu": cpu}}}
    body = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {**TEMPLATE, "spec": {"containers": [container]}},
        **spec,
    }
    meta = {"name": "web", "namespace": "default", "uid": "owner-web"}
    version = "batch/v1" if kind == "Job" else "apps/v1"
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": body}


def deployment(replicas, cpu="1", **strategy):
    """A deployment with the set that its pods belong to."""
    made = owner("Deployment", replicas, cpu)
    made["metadata"]["uid"] = "uid-deployment"
    if strategy:
        made["spec"]["strategy"] = strategy
    ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": True}
    held = replica_set(replicas)
    held["metadata"]["ownerReferences"] = [{**ref, "uid": "uid-deployment"}]
    return [made, held]


def rolling(surge, away):
    return {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": surge, "maxUnavailable": away},
    }


def pods(count, kind="ReplicaSet", cpu="1", per_node=4):
    return [web(i, f"node-{i // per_node}", cpu=cpu, owner=kind) for i in range(count)]


def ask(objects, *changes):
    return Cluster.from_objects(objects).what_if(*changes)


def stuck(found):
    return Counter(("ran" if s.source else "new", s.state) for s in found.stuck)


def test_a_surge_needs_room_beside_the_old_ones():
    """Four of one cpu fill a node of four: one more finds no room, and none may be missing."""
    found = ask([*nodes(1), *deployment(4, **rolling(1, 0)), *pods(4)], "request=deploy/web=cpu=1")

    assert found.ok
    assert {("new", "pending"): 1} == stuck(found)
    assert any("stops with 4 old pods left" in note for note in found.notes)
    assert (4, 1) == (found.after.running, found.after.pending)


def test_one_that_may_be_missing_makes_the_room():
    found = ask([*nodes(1), *deployment(4, **rolling(0, 1)), *pods(4)], "request=deploy/web=cpu=1")

    assert found.ok
    assert [] == list(found.stuck)
    assert 4 == len(found.moves)


def test_an_update_that_stops_has_cost_what_may_be_missing():
    found = ask(
        [*nodes(1), *deployment(4, **rolling(0, "50%")), *pods(4)], "request=deploy/web=cpu=3"
    )

    # two may be missing: they go, and neither new one fits beside the two that stay
    assert not found.ok
    assert {("ran", "pending"): 2} == stuck(found)
    assert 2 == found.after.running


def test_the_defaults_are_a_quarter_more_and_a_quarter_less():
    found = ask([*nodes(1), *deployment(4), *pods(4)], "request=deploy/web=cpu=3")

    assert {("ran", "pending"): 1, ("new", "pending"): 1} == stuck(found)


def test_recreate_takes_all_away_first():
    found = ask(
        [*nodes(1), *deployment(2, type="Recreate"), *pods(2, cpu="2")], "request=deploy/web=cpu=3"
    )

    assert not found.ok
    assert {("ran", "pending"): 1} == stuck(found)
    assert 1 == len(found.moves)


def test_a_deployment_that_waits_is_replaced_first():
    waiting = web(3, "", cpu="8")
    found = ask(
        [*nodes(1), *deployment(3, **rolling(1, 0)), *pods(2), waiting], "request=deploy/web=cpu=1"
    )

    assert found.ok
    assert ["default/web-3"] == [start.pod for start in found.starts]


def test_a_changed_template_replaces_the_pods(tmp_path):
    bigger = deployment(2, cpu="3500m", **rolling(1, 0))[0]

    found = ask([*nodes(2), *pods(2), *deployment(2, **rolling(1, 0))], manifest(tmp_path, bigger))

    # the first new one takes node-1; the second finds no room beside the old one
    assert ["node-1"] == [move.target for move in found.moves]
    assert "the rolling update of deployment/web stops with 1 old pods left" in found.notes[0]
    assert found.ok  # the old one stays


def test_a_rolling_update_that_is_stuck_after_a_drain_keeps_the_move():
    objects = [*nodes(2), web(0, "node-0"), *deployment(1, **rolling(1, 0))]

    found = ask(objects, "drain=node-0", "request=deploy/web=cpu=8")

    assert [("node-0", "node-1")] == [(m.source, m.target) for m in found.moves]
    assert [("", True, "pending")] == [(s.source, s.new, s.state) for s in found.stuck]
    assert () == found.starts
    assert found.ok


@pytest.mark.parametrize("kind", ["ReplicaSet", "ReplicationController"])
def test_sets_give_the_new_form_to_those_that_are_deleted(kind, tmp_path):
    held = owner(kind, 2)
    larger = owner(kind, 2, cpu="3")
    if kind == "ReplicationController":
        for body in (held, larger):
            body["apiVersion"], body["spec"]["selector"] = "v1", {"app": "web"}
    objects = [*nodes(1), *pods(2, kind), held]

    applied = ask(objects, manifest(tmp_path, larger))
    deleted = ask(objects, f"request={kind}/web=cpu=3")

    assert ((), ()) == (applied.moves, applied.stuck)
    assert "only when they are deleted" in applied.notes[0]
    assert {("ran", "pending"): 1} == stuck(deleted)


def test_a_stateful_set_goes_down_from_the_highest_ordinal_to_its_partition():
    update = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    objects = [*nodes(1), *pods(3, "StatefulSet"), owner("StatefulSet", 3, updateStrategy=update)]

    fits = ask(objects, "request=sts/web=cpu=1500m")
    stops = ask(objects, "request=sts/web=cpu=3")

    assert ["default/web-1", "default/web-2"] == [move.pod for move in fits.moves]
    assert [("default/web-2", "pending")] == [(s.pod, s.state) for s in stops.stuck]
    assert not stops.ok
    assert "the update of statefulset/web stops at web-2, which finds no node" in stops.notes


def test_a_stateful_set_replaces_nothing_while_one_of_its_pods_waits():
    objects = [*nodes(1), *pods(1, "StatefulSet"), web(1, "", cpu="8", owner="StatefulSet")]

    found = ask([*objects, owner("StatefulSet", 2)], "request=sts/web=cpu=1")

    assert ((), ()) == (found.moves, found.starts)
    assert "statefulset/web replaces nothing while web-1 waits" in found.notes[0]


def test_new_pods_of_a_stateful_set_keep_their_own_claims(tmp_path):
    claims = [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]
    made = owner("StatefulSet", 2, volumeClaimTemplates=claims)
    larger = owner("StatefulSet", 2, cpu="2", volumeClaimTemplates=claims)
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-%d"}}

    def with_claim(number):
        named = {"claimName": f"data-web-{number}"}
        mine = [{**volume, "persistentVolumeClaim": named}]
        return web(number, "node-0", owner="StatefulSet", volumes=mine)

    def claim(number):
        meta = {"name": f"data-web-{number}", "namespace": "default"}
        meta["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        spec = {"accessModes": ["ReadWriteOncePod"], "volumeName": f"v{number}"}
        return {"kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec}

    def held(number):
        spec = {"accessModes": ["ReadWriteOncePod"], "capacity": {"storage": "1Gi"}}
        return {"kind": "PersistentVolume", "metadata": {"name": f"v{number}"}, "spec": spec}

    stored = [*map(claim, range(2)), *map(held, range(2))]
    found = ask([*nodes(1), *map(with_claim, range(2)), *stored, made], manifest(tmp_path, larger))

    assert [] == [item.reason for item in found.stuck]
    assert 2 == len(found.moves)


def daemons(cpu="1", **spec):
    made = owner("DaemonSet", None, cpu, **spec)
    del made["spec"]["replicas"]
    return made


def daemon_pods(cpu="1"):
    return [web(i, f"node-{i}", cpu=cpu, owner="DaemonSet") for i in range(3)]


@pytest.mark.parametrize(
    ("limits", "lost"),
    [({}, 1), ({"maxUnavailable": 2}, 2), ({"maxUnavailable": "100%"}, 3)],
    ids=["one", "two", "all"],
)
def test_a_daemon_set_stops_when_so_many_are_missing(limits, lost, tmp_path):
    update = {"type": "RollingUpdate", "rollingUpdate": limits}
    objects = [*nodes(3), *daemon_pods(), daemons(updateStrategy=update)]

    found = ask(objects, manifest(tmp_path, daemons("8", updateStrategy=update)))

    assert not found.ok
    assert {("ran", "pending"): lost} == stuck(found)
    assert 3 - lost == found.after.running


def test_a_daemon_set_with_a_surge_keeps_the_old_pod_until_the_new_one_runs(tmp_path):
    update = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    objects = [*nodes(3), *daemon_pods("3"), daemons("3", updateStrategy=update)]

    found = ask(objects, manifest(tmp_path, daemons("2", updateStrategy=update)))

    assert found.ok
    assert {("new", "pending"): 1} == stuck(found)


def test_a_daemon_set_replaces_its_pods_where_they_are(tmp_path):
    found = ask([*nodes(3), *daemon_pods(), daemons()], manifest(tmp_path, daemons("2")))

    assert found.ok
    assert [(f"node-{i}", f"node-{i}") for i in range(3)] == [
        (move.source, move.target) for move in found.moves
    ]
    assert () == found.deleted


def test_on_delete_leaves_them_alone(tmp_path):
    kept = {"updateStrategy": {"type": "OnDelete"}}
    found = ask(
        [*nodes(3), *daemon_pods(), daemons(**kept)], manifest(tmp_path, daemons("2", **kept))
    )

    assert ((), ()) == (found.moves, found.stuck)
    assert "daemonset/web gives its pods the new form only when they are deleted" in found.notes


def test_a_job_keeps_its_template(tmp_path):
    job = owner("Job", None, parallelism=1)
    del job["spec"]["replicas"]
    larger = {
        **job,
        "spec": {**job["spec"], "template": owner("Job", 1, cpu="3")["spec"]["template"]},
    }

    found = ask([*nodes(1), *pods(1, "Job"), job], manifest(tmp_path, larger))

    assert ((), ()) == (found.moves, found.stuck)
    assert "job/web keeps its template: the API server refuses another" in found.notes
