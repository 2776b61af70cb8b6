"""Pods that the API server would refuse: said first, with changes that let them be made."""

import json

import pytest

from bayplan.api import yaml
from bayplan.inspect import Cluster
from bayplan.inspect.why import why_owner
from bayplan.inspect.why.manifest import pods_of
from bayplan.testing.builders import make_node

META = {"name": "web", "namespace": "default"}


def node(name="a", cpu=4):
    return make_node(name).capacity(cpu=cpu, memory="8Gi", pods=10).body()


def template(cpu="1", limits=None, **spec):
    resources = {"requests": {"cpu": cpu}} if cpu else {}
    if limits:
        resources["limits"] = limits
    return {"spec": {"containers": [{"name": "c", "resources": resources}], **spec}}


def deployment(replicas=1, **spec):
    return {
        "kind": "Deployment",
        "metadata": {**META, "uid": "u"},
        "spec": {"replicas": replicas, "template": template(**spec)},
    }


def quota(hard, used=None, name="small", **spec):
    return {
        "kind": "ResourceQuota",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"hard": hard, **spec},
        "status": {"hard": hard, "used": used or dict.fromkeys(hard, "0")},
    }


def limits(**item):
    return {
        "kind": "LimitRange",
        "metadata": {"name": "bounds", "namespace": "default"},
        "spec": {"limits": [{"type": "Container", **item}]},
    }


def failed(text):
    return {
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "default"},
        "reason": "FailedCreate",
        "message": text,
        "involvedObject": {"kind": "Deployment", "namespace": "default", "name": "web"},
    }


def asked(*objects):
    cluster = Cluster.from_objects(objects)
    return why_owner(cluster, cluster.owner("deployment", "web"))


def from_file(body, *objects):
    cluster = Cluster.from_objects(objects)
    (pod,) = pods_of(cluster, [body])
    return cluster.why(pod)


def manifest(**spec):
    return {"kind": "Pod", "metadata": {"name": "new"}, **template(**spec)}


ACCOUNT = {"kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}}


def test_a_refused_pod_is_not_said_to_be_placed():
    small = quota({"requests.cpu": "2"}, {"requests.cpu": "1500m"})

    answer = from_file(manifest(), node(), small)

    text = 'quota "small": requests.cpu 1500m of 2 used, the pod asks 1'
    assert ("notMade", f"the API server would refuse it: {text}") == (answer.state, answer.summary)
    assert "" == answer.node
    assert "if it were made: it would be placed on a now" in answer.notes
    assert {
        'raise the quota "small": requests.cpu to 2500m',
        'lower the cpu request of container "c" to 500m',
    } == {fix.change for fix in answer.fixes}


def test_what_helps_a_refused_pod_also_helps_it_to_a_node():
    """It lacks quota and room: each alone is no help."""
    small = quota({"requests.cpu": "2"}, {"requests.cpu": "1500m"})

    found = asked(node(cpu=1), deployment(cpu="2"), small)

    (answer,) = found.pods
    assert "notMade" == answer.state
    assert answer.fixes
    for fix in answer.fixes:
        raised = "raise the quota" in fix.change and "add one more node" not in fix.change
        assert not raised or "lower the cpu request" in fix.change, fix.change


def test_a_quota_is_raised_for_all_pods_that_are_missing():
    small = quota({"requests.cpu": "2"}, {"requests.cpu": "2"})

    (answer,) = asked(node(), deployment(replicas=3), small).pods

    assert ("if it were made: it would be placed on a now",) == answer.notes
    assert 'raise the quota "small": requests.cpu to 5' == answer.fixes[0].change


def test_what_nobody_here_can_check_gets_no_change_that_would_not_help():
    found = asked(node(cpu=1), deployment(cpu="2"), failed('admission webhook "x" denied it'))

    (answer,) = found.pods
    assert () == answer.fixes
    assert 'deployment/web could not make a pod: "admission webhook "x" denied it"' in found.notes
    assert any("webhook or policy" in note for note in answer.notes)


def test_a_pod_that_is_not_made_yet_says_so():
    (answer,) = asked(node(), deployment()).pods

    assert "it has not been made yet, and nothing refuses it; then it would be placed on a now" == (
        answer.summary
    )


def test_a_priority_class_without_a_like_is_created():
    high = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 5}

    answer = from_file(manifest(priorityClassName="zzz"), node(), high)

    assert "kubectl create priorityclass zzz --value=0" in answer.fixes[0].commands


def test_the_account_of_a_file_is_checked():
    answer = from_file(manifest(serviceAccountName="robot"), node(), ACCOUNT)

    assert 'service account "robot" is not in namespace "default"' in answer.summary
    assert 'create the service account "robot"' == answer.fixes[0].change


@pytest.mark.parametrize(
    ("body", "rule", "problem", "change"),
    [
        pytest.param(
            manifest(cpu="3"),
            limits(max={"cpu": "2"}, default={"cpu": "3"}),
            "maximum cpu usage per Container is 2, but limit is 3",
            'set the cpu requests of container "c" to 2 and the cpu limits of container "c" to 2',
            id="above the most",
        ),
        pytest.param(
            manifest(cpu="100m"),
            limits(min={"cpu": "200m"}),
            "minimum cpu usage per Container is 200m, but request is 100m",
            'set the cpu requests of container "c" to 200m',
            id="below the least",
        ),
    ],
)
def test_bounds_of_a_limit_range_are_told(body, rule, problem, change):
    answer = from_file(body, node(), rule)

    assert f'the API server would refuse it: limit range "bounds": {problem}' == answer.summary
    assert change == answer.fixes[0].change


def test_a_limit_range_fills_in_what_is_not_asked_for():
    answer = from_file(manifest(cpu=""), node(), limits(defaultRequest={"cpu": "5"}))

    assert "0/1 nodes are available: 1 Insufficient cpu." in answer.message


@pytest.mark.parametrize(
    ("scope", "spec", "refused"),
    [
        ({"scopes": ["BestEffort"]}, {}, False),
        ({"scopes": ["BestEffort"]}, {"cpu": ""}, True),
        ({"scopes": ["NotBestEffort"]}, {}, True),
        ({"scopes": ["Terminating"]}, {}, False),
        ({"scopes": ["Terminating"]}, {"activeDeadlineSeconds": 9}, True),
        (
            {
                "scopeSelector": {
                    "matchExpressions": [
                        {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
                    ]
                }
            },
            {"priorityClassName": "high"},
            True,
        ),
    ],
    ids=["best effort", "is best effort", "not best effort", "lasting", "ending", "priority"],
)
def test_a_quota_counts_what_is_in_its_scope(scope, spec, refused):
    high = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 5}

    answer = from_file(manifest(**spec), node(), high, quota({"pods": "0"}, **scope))

    assert refused == (answer.state == "notMade")


def test_a_quota_on_limits_wants_to_be_told_them():
    answer = from_file(manifest(), node(), quota({"limits.cpu": "2"}))

    assert 'quota "small": must specify limits.cpu for: c' in answer.summary


def test_the_command_says_it_too(tmp_path):
    from click.testing import CliRunner

    from bayplan.cli.why import command

    file, source = tmp_path / "pod.yaml", tmp_path / "cluster.json"
    file.write_text(yaml.dump({"apiVersion": "v1", **manifest(serviceAccountName="robot")}))
    items = [node(), {"apiVersion": "v1", **ACCOUNT}]
    source.write_text(json.dumps({"kind": "List", "items": items}))

    result = CliRunner().invoke(command, ["-f", str(file), "--from", str(source)])

    assert 'default/new: the API server would refuse it: service account "robot"' in result.output
    assert "$ kubectl create serviceaccount -n default robot" in result.output


def owned(replicas, cpu="1"):
    held = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {**META, "uid": "u"},
        "spec": {"replicas": replicas, "template": template(cpu=cpu)},
    }
    ref = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u"}
    pods = [
        {
            "kind": "Pod",
            "metadata": {
                "name": f"web-{number}",
                "namespace": "default",
                "uid": f"pod-{number}",
                "ownerReferences": [{**ref, "controller": True}],
            },
            **template(cpu=cpu, nodeName="a"),
        }
        for number in range(replicas)
    ]
    return [held, *pods]


def test_a_what_if_makes_no_more_pods_than_a_quota_allows():
    small = quota({"requests.cpu": "3"}, {"requests.cpu": "1"})

    found = Cluster.from_objects([node(cpu=16), *owned(1), small]).what_if("scale=rs/web=5")

    assert 2 == len(found.starts)
    assert {"refused"} == {item.state for item in found.stuck}
    assert 'quota "small": requests.cpu 3 of 3 used, the pod asks 1' == found.stuck[0].reason
    assert "OK: everything that runs keeps running; 2 new pods would not be made" in str(found)


def test_a_full_quota_lets_a_drained_pod_be_made_again_when_the_old_one_is_gone():
    full = quota({"requests.cpu": "1"}, {"requests.cpu": "1"})
    cluster = Cluster.from_objects([node(), node("b"), *owned(1), full])

    assert cluster.what_if("drain=a").ok
    assert cluster.each("node").ok
    assert cluster.what_if("drain=a").ok


def test_what_is_deleted_makes_room_in_the_quota():
    full = quota({"pods": "2"}, {"pods": "2"})
    cluster = Cluster.from_objects([node(), *owned(2), full])

    found = cluster.what_if("scale=rs/web=1", "scale=rs/web=2")

    assert () == found.stuck


def test_a_pod_whose_class_is_gone_is_not_made_again():
    high = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 5}
    held, pod = owned(1)
    pod["spec"]["priorityClassName"] = "gone"

    found = Cluster.from_objects([node(), node("b"), held, pod, high]).what_if("drain=a")

    assert not found.ok
    assert 'priority class "gone" is not in this cluster' in found.stuck[0].reason
    assert "NOT OK: 1 pod would not be made again" in str(found)


def test_applied_manifests_meet_the_rules_that_come_with_them():
    bounds = {"apiVersion": "v1", **limits(defaultRequest={"cpu": "3"})}
    held = {**owned(2, cpu="")[0], "metadata": META}
    from bayplan.inspect.whatif.changes import Apply

    found = Cluster.from_objects([node()]).what_if(Apply(documents=(bounds, held)))

    assert (1, 1) == (len(found.starts), len(found.stuck))


def test_capacity_ends_at_a_quota():
    small = quota({"requests.cpu": "3"}, {"requests.cpu": "1"})

    found = Cluster.from_objects([node(cpu=16), small]).capacity("cpu=1")

    assert 2 == found.sets
    assert "What ends it: with one more set, the API server would refuse it: quota" in str(found)


def test_capacity_counts_with_what_a_limit_range_fills_in():
    cluster = Cluster.from_objects([node(), limits(defaultRequest={"cpu": "2"})])

    assert 2 == cluster.capacity("memory=1Mi").sets
