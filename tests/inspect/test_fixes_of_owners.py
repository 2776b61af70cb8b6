"""A suggested change of a pod is one that its owner's rules let a user really make."""

import json
import shlex

import pytest

from bayplan.inspect import Cluster
from bayplan.testing.builders import make_node, make_pod

RAISED = {"op": "add", "path": "/spec/containers/0/resources/requests/cpu", "value": "4"}
TO_FOUR = 'lower the cpu request of container "c0" from 5 to 4'


def small():
    return make_node("small").capacity(cpu=4, memory="8Gi", pods=10).body()


def owner(kind, name, *, above=None, uid=None, **spec):
    """An owner whose pods ask for more than a node has."""
    container = {"name": "c0", "resources": {"requests": {"cpu": "5"}}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    meta = {"name": name, "namespace": "default", "uid": uid or f"uid-{name}"}
    if above:
        group, of_kind, of_name = above
        ref = {"apiVersion": group, "kind": of_kind, "name": of_name, "controller": True}
        meta["ownerReferences"] = [{**ref, "uid": f"uid-{of_name}"}]
    version = (
        "batch/v1" if kind == "Job" else "v1" if kind == "ReplicationController" else "apps/v1"
    )
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": meta,
        "spec": {"replicas": 1, "template": template, **spec},
    }


def waiting(name, kind, of, **labels):
    pod = make_pod(name).req(cpu="5").label(app=of, **labels)
    return pod.owner(kind, of, api_version="apps/v1", uid=f"uid-{of}").body()


def commands(objects, name, change=TO_FOUR):
    fixes = Cluster.from_objects([small(), *objects]).why(name).fixes
    return next(list(fix.commands) for fix in fixes if fix.change == change)


def patch_of(command):
    """The operations of a command that patches."""
    words = shlex.split(command)
    return json.loads(words[words.index("-p") + 1])


TEMPLATE = [{**RAISED, "path": f"/spec/template{RAISED['path']}"}]


def test_a_deployment_is_patched_and_rolls_by_itself():
    of = ("apps/v1", "Deployment", "web")
    objects = [owner("Deployment", "web"), owner("ReplicaSet", "web-7", above=of)]

    (command,) = commands([*objects, waiting("web-7-x", "ReplicaSet", "web-7")], "web-7-x")

    assert command.startswith("kubectl patch deployment -n default web ")
    assert TEMPLATE == patch_of(command)


def test_a_paused_deployment_is_resumed():
    of = ("apps/v1", "Deployment", "web")
    objects = [owner("Deployment", "web", paused=True), owner("ReplicaSet", "web-7", above=of)]

    found = commands([*objects, waiting("web-7-x", "ReplicaSet", "web-7")], "web-7-x")

    assert "kubectl rollout resume -n default deployment/web" == found[-1]


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param(
            [owner("ReplicaSet", "web-7", above=("apps/v1", "Deployment", "web"))],
            id="only its replica set was read",
        ),
        pytest.param([], id="no owner was read"),
    ],
)
def test_a_deployment_that_could_not_be_read_is_the_one_to_patch(objects):
    pod = waiting("web-7-x", "ReplicaSet", "web-7", **{"pod-template-hash": "7"})

    (command,) = commands([*objects, pod], "web-7-x")

    assert command.startswith("kubectl patch deployment -n default web ")


@pytest.mark.parametrize("kind", ["ReplicaSet", "ReplicationController"])
def test_what_never_replaces_its_pods_has_the_waiting_one_deleted(kind):
    found = commands([owner(kind, "web"), waiting("web-x", kind, "web")], "web-x")

    assert [
        f"kubectl patch {kind.lower()} -n default web --type=json -p '{json.dumps(TEMPLATE)}'",
        "kubectl delete pod -n default web-x",
    ] == found


def test_a_stateful_set_does_not_go_on_while_a_pod_waits_so_it_is_deleted():
    update = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
    found = commands(
        [
            owner("StatefulSet", "db", updateStrategy=update),
            waiting("db-1", "StatefulSet", "db"),
        ],
        "db-1",
    )

    assert found[0].startswith("kubectl patch statefulset -n default db ")
    assert ["kubectl delete pod -n default db-1"] == found[1:]


def test_a_partition_above_the_pod_is_lowered_to_it():
    update = {"type": "RollingUpdate", "rollingUpdate": {"partition": 3}}
    found = commands(
        [
            owner("StatefulSet", "db", updateStrategy=update),
            waiting("db-1", "StatefulSet", "db"),
        ],
        "db-1",
    )

    at = "/spec/updateStrategy/rollingUpdate/partition"
    assert {"op": "add", "path": at, "value": 1} in patch_of(found[0])


def test_a_job_keeps_its_template_so_it_is_made_again():
    job = owner("Job", "night", completions=3)
    job["spec"]["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}
    job["spec"]["template"]["metadata"]["labels"] |= {
        "batch.kubernetes.io/controller-uid": "u",
        "controller-uid": "u",
        "job-name": "night",
        "batch.kubernetes.io/job-name": "night",
    }

    (command,) = commands([job, waiting("night-x", "Job", "night")], "night-x")

    assert command.startswith("kubectl get job -n default night -o json | kubectl patch --local")
    assert command.endswith("| kubectl replace --force -f -")
    assert [
        {"op": "remove", "path": "/spec/selector"},
        {"op": "add", "path": "/spec/template/metadata/labels", "value": {"app": "night"}},
        *TEMPLATE,
    ] == patch_of(command)


def test_the_next_jobs_of_a_cron_job_are_changed_there():
    job = owner("Job", "night-28", above=("batch/v1", "CronJob", "night"))

    found = commands([job, waiting("night-x", "Job", "night-28")], "night-x")

    assert "kubectl patch cronjob -n default night " in found[-1]
    assert "/spec/jobTemplate/spec/template/spec/containers" in found[-1]


def test_a_daemon_set_that_waits_for_deletes_gets_one():
    pod = waiting("log-x", "DaemonSet", "log")
    here = [{"key": "metadata.name", "operator": "In", "values": ["small"]}]
    required = {"nodeSelectorTerms": [{"matchFields": here}]}
    need = "requiredDuringSchedulingIgnoredDuringExecution"
    pod["spec"]["affinity"] = {"nodeAffinity": {need: required}}
    large = make_node("large").capacity(cpu=40, memory="8Gi", pods=10).body()
    rolling = [large, owner("DaemonSet", "log"), pod]
    waits = [large, owner("DaemonSet", "log", updateStrategy={"type": "OnDelete"}), pod]

    assert 1 == len(commands(rolling, "log-x"))
    assert "kubectl delete pod -n default log-x" == commands(waits, "log-x")[-1]
    fixes = Cluster.from_objects([small(), *rolling]).why("log-x").fixes
    assert {"small"} == {fix.node for fix in fixes}  # it is for that node, whatever fits elsewhere


def test_a_template_that_does_not_say_it_is_given_the_whole_path():
    """A request that a LimitRange put into the pod is not in the template."""
    bare = owner("Deployment", "web")
    bare["spec"]["template"]["spec"]["containers"] = [{"name": "c0"}]
    of = ("apps/v1", "Deployment", "web")
    objects = [bare, owner("ReplicaSet", "web-7", above=of)]

    (command,) = commands([*objects, waiting("web-7-x", "ReplicaSet", "web-7")], "web-7-x")

    path = "/spec/template/spec/containers/0/resources/requests"
    assert [{"op": "add", "path": path, "value": {"cpu": "4"}}] == patch_of(command)


def test_what_somebody_adds_to_every_pod_is_not_suggested_to_be_removed():
    """The template has no such selector: a webhook would put it there again."""
    pod = waiting("web-x", "ReplicaSet", "web")
    pod["spec"]["containers"][0]["resources"] = {}
    pod["spec"]["nodeSelector"] = {"disk": "ssd"}

    fixes = Cluster.from_objects([small(), owner("ReplicaSet", "web"), pod]).why("web-x").fixes

    assert not [fix for fix in fixes if "nodeSelector" in json.dumps(fix.patch)]
    assert any("label small with disk=ssd" in fix.change for fix in fixes)


def test_an_operator_is_asked_to_change_its_own():
    found = commands([waiting("ray-x", "RayCluster", "ray")], "ray-x")

    assert [
        "# raycluster/ray makes this pod: change it there, then",
        "kubectl delete pod -n default ray-x",
    ] == found
