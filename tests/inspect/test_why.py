"""Why, family by family: the facts that are told, and the change that helps."""

import pytest

from bayplan.inspect import Cluster
from bayplan.inspect.why import why_on_node
from bayplan.inspect.why.render import render
from bayplan.testing.builders import make_node, make_pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HOST = "kubernetes.io/hostname"


def node(name, **labels):
    made = make_node(name).capacity(cpu=4, memory="8Gi", pods=10)
    return made.label({HOST: name, "disk": "hdd", **labels})


def waits(**spec):
    body = make_pod("waits").label(app="waits").body()
    body["spec"].update(spec)
    return body


def asks(**requests):
    return make_pod("waits").label(app="waits").req(requests).body()


def taken(**requests):
    return make_pod("taken").label(app="db").req(requests).node("a").body()


def on_port(body):
    body["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    return body


def term(app, key=HOST):
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}


def claim(name):
    return {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]}


def pvc(name, **spec):
    meta = {"name": name, "namespace": "default"}
    size = {"resources": {"requests": {"storage": "1Gi"}}, "accessModes": ["ReadWriteOnce"]}
    return {"kind": "PersistentVolumeClaim", "metadata": meta, "spec": {**size, **spec}}


def spread(app):
    constraint = {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule"}
    return [{**constraint, "labelSelector": {"matchLabels": {"app": app}}}]


def wants(key, *values):
    expression = {"key": key, "operator": "In", "values": list(values)}
    return {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}


GPU = [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]
SLOW = {
    "kind": "StorageClass",
    "metadata": {"name": "slow"},
    "provisioner": "csi.example.com",
    "volumeBindingMode": "Immediate",
}
LATER = {**SLOW, "metadata": {"name": "later"}, "volumeBindingMode": "WaitForFirstConsumer"}

CASES = [
    pytest.param(
        [node("a"), taken(cpu="3"), asks(cpu="1200m")],
        "cpu: asks 1.2, most free 1 on a, largest node 4",
        'lower the cpu request of container "c0" from 1200m to 1',
        id="cpu",
    ),
    pytest.param(
        [node("a"), asks(memory="16Gi")],
        "memory: asks 16Gi, most free 8Gi on a; no node is that large, the largest has 8Gi",
        'lower the memory request of container "c0" from 16Gi to 8Gi',
        id="larger than any node",
    ),
    pytest.param(
        [node("a"), asks(**{"example.com/fpga": "1"})],
        "example.com/fpga: asks 1, none of these nodes offers it, nor does any other",
        None,
        id="a resource that nobody offers",
    ),
    pytest.param(
        [node("a").with_spec(taints=GPU), waits()],
        "gpu=yes:NoSchedule on 1 node (a); a toleration {key: gpu, operator: Equal, value: yes, "
        "effect: NoSchedule} would let it in",
        "add the toleration {key: gpu, operator: Equal, value: yes, effect: NoSchedule}",
        id="taint",
    ),
    pytest.param(
        [
            node("a").with_spec(
                taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
            ),
            waits(),
        ],
        "node.kubernetes.io/not-ready:NoSchedule on 1 node (a): the node is not ready",
        "add one more node like a (4 cpu, 8Gi memory)",
        id="a node in trouble is not tolerated but replaced",
    ),
    pytest.param(
        [node("a").with_spec(unschedulable=True), waits()],
        "cordoned: a",
        "uncordon a",
        id="cordoned",
    ),
    pytest.param(
        [node("a"), waits(nodeSelector={"disk": "hd"})],
        "disk=hd: no node has that value; the nearest is hdd (values there: hdd)",
        "change the node selector disk=hd to disk=hdd",
        id="selector value",
    ),
    pytest.param(
        [node("a"), waits(nodeSelector={"disc": "hdd"})],
        "disc=hdd: no node has the label disc; the nearest label is disk",
        "change the node selector disc=hdd to disk=hdd",
        id="selector key",
    ),
    pytest.param(
        [node("a"), waits(affinity={"nodeAffinity": {REQUIRED: wants("disc", "hdd")}})],
        "disc in (hdd): no node has the label disc; the nearest label is disk",
        "change the node affinity disc in (hdd) to disk in (hdd)",
        id="affinity key",
    ),
    pytest.param(
        [node("a"), waits(affinity={"nodeAffinity": {REQUIRED: wants("disk", "hd")}})],
        "disk in (hd): no node has that value; the nearest is hdd (values there: hdd)",
        "change the node affinity disk in (hd) to disk in (hdd)",
        id="affinity value",
    ),
    pytest.param(
        [node("a"), on_port(taken(cpu="1")), on_port(waits())],
        "host port 8080/TCP is held on 1 node, by default/taken on a",
        "do not ask for host port 8080/TCP",
        id="host port",
    ),
    pytest.param(
        [node("a"), taken(cpu="1"), waits(affinity={"podAffinity": {REQUIRED: [term("dbb")]}})],
        "must share kubernetes.io/hostname with a pod with app=dbb: no placed pod matches; the "
        "nearest is app=db",
        "make the pod affinity (app=dbb by kubernetes.io/hostname) preferred, not required",
        id="affinity",
    ),
    pytest.param(
        [node("a"), taken(cpu="1"), waits(affinity={"podAntiAffinity": {REQUIRED: [term("db")]}})],
        "must not share kubernetes.io/hostname with a pod with app=db: 1 pod matches, "
        "everywhere, such as default/taken on a",
        "make the pod anti-affinity (app=db by kubernetes.io/hostname) preferred, not required",
        id="anti-affinity",
    ),
    pytest.param(
        [
            node("a"),
            make_pod("taken")
            .node("a")
            .with_spec(affinity={"podAntiAffinity": {REQUIRED: [term("waits")]}})
            .body(),
            waits(),
        ],
        "1 pod placed there refuses to share kubernetes.io/hostname with it, such as default/taken "
        "on a (its anti-affinity means pods with app=waits)",
        "add one more node like a (4 cpu, 8Gi memory)",
        id="anti-affinity of a placed pod",
    ),
    pytest.param(
        [
            node("a"),
            node("b").with_spec(unschedulable=True),
            make_pod("taken").label(app="waits").node("a").body(),
            waits(topologySpreadConstraints=spread("waits")),
        ],
        "maxSkew 1 over kubernetes.io/hostname, pods with app=waits: b has 0, a has 1; one more "
        "may go only where there are at most 0",
        "uncordon b",
        id="spread",
    ),
    pytest.param(
        [node("a"), LATER, pvc("data", storageClassName="later"), waits(**claim("dat"))],
        'the claim "dat" is not in namespace "default"; did you mean data?',
        'use the claim "data" instead of "dat"',
        id="missing claim",
    ),
    pytest.param(
        [node("a"), SLOW, pvc("data", storageClassName="slow"), waits(**claim("data"))],
        'the claim "data" is not bound yet (1Gi, class slow, bound immediately by '
        "csi.example.com); no free volume of that class is there",
        'create a volume of 1Gi, class slow, for the claim "data"',
        id="unbound claim",
    ),
    pytest.param(
        [node("a"), LATER, waits(**claim("data"))],
        'the claim "data" is not in namespace "default"',
        'create the claim "data" (class later, 1Gi or what is needed)',
        id="no claim at all",
    ),
    pytest.param(
        [node("a"), SLOW, waits(**claim("data"))],
        'the claim "data" is not in namespace "default"',
        'create the claim "data" (class slow, 1Gi or what is needed)',
        id="no claim, a class that is bound at once",
    ),
    pytest.param(
        [node("a"), waits(**claim("data"))],
        'the claim "data" is not in namespace "default"',
        'create the claim "data" (class none, 1Gi or what is needed) and a volume for it',
        id="no claim and no class",
    ),
    pytest.param(
        [
            node("a"),
            {**LATER, "provisioner": "kubernetes.io/no-provisioner"},
            pvc("data", storageClassName="later"),
            waits(**claim("data")),
        ],
        'the claim "data" is waiting for a first consumer (1Gi, class later): '
        "no free volume of that class",
        'create a volume of 1Gi, class later, for the claim "data" on a',
        id="no volume",
    ),
    pytest.param(
        [node("a"), waits(topologySpreadConstraints=[{**spread("web")[0], "topologyKey": "rack"}])],
        "1 node without the label rack (a)",
        "let the spread over rack be ScheduleAnyway",
        id="spread over a label that no node has",
    ),
    pytest.param(
        [
            node("a"),
            make_pod("w").label(app="waits").node("a"),
            waits(topologySpreadConstraints=[{**spread("waits")[0], "minDomains": 2}]),
        ],
        "maxSkew 1 over kubernetes.io/hostname, pods with app=waits: a has 1; one more may go "
        "only where there are at most 0; minDomains 2, but there are only 1",
        "let the spread over kubernetes.io/hostname be ScheduleAnyway",
        id="too few domains",
    ),
    pytest.param(
        [node("a"), waits(schedulingGates=[{"name": "acme.io/quota"}])],
        "gate: acme.io/quota",
        "remove the scheduling gate acme.io/quota",
        id="gate",
    ),
]


@pytest.mark.parametrize(("objects", "fact", "change"), CASES)
def test_facts_and_the_first_change(objects, fact, change):
    bodies = [item if isinstance(item, dict) else item.body() for item in objects]

    answer = Cluster.from_objects(bodies).why("waits")

    assert fact in [text for row in answer.funnel for text in row.facts]
    assert change == (answer.fixes[0].change if answer.fixes else None)
    assert answer.nodes == sum(row.nodes for row in answer.funnel)


def condition(message):
    item = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {"conditions": [{**item, "message": message}]}


def test_asking_twice_says_the_same():
    cluster = Cluster.from_objects([node("a").body(), waits(nodeSelector={"disk": "tape"})])
    first, second = cluster.why("waits"), cluster.why("waits")

    assert "label a with disk=tape" in [fix.change for fix in first.fixes]
    assert first == second


def test_a_device_that_is_asked_for_without_a_limit_is_lowered():
    few = node("a").capacity({"example.com/gpu": 1}).body()
    cluster = Cluster.from_objects([few, asks(**{"example.com/gpu": 2})])

    changes = [fix.change for fix in cluster.why("waits").fixes]

    assert changes == ['lower the example.com/gpu request of container "c0" from 2 to 1']


def test_the_answer_proves_itself():
    body = asks(cpu="64")
    message = Cluster.from_objects([node("a").body(), body]).why("waits").message
    nodes = [node("a").body(), node("b").body()]

    same = Cluster.from_objects([nodes[0], {**body, "status": condition(message)}]).why("waits")
    other = Cluster.from_objects([*nodes, {**body, "status": condition(message)}]).why("waits")
    never = Cluster.from_objects([nodes[0], body]).why("waits")

    assert (True, message, "") == (same.identical, same.observed, same.difference)
    assert (False, "the number of nodes was 1 then, now it is 2") == (
        other.identical,
        other.difference,
    )
    assert (None, None) == (never.identical, never.observed)


def test_a_pod_of_another_scheduler_is_not_judged():
    answer = Cluster.from_objects([node("a").body(), waits(schedulerName="volcano")]).why("waits")

    assert "otherScheduler" == answer.state
    assert 'it waits for the scheduler "volcano"' in answer.summary
    (fix,) = answer.fixes
    assert ('use the scheduler "default-scheduler"', "a") == (fix.change, fix.node)
    assert "kubectl replace --force" in fix.commands[0]


def test_a_bound_pod_has_scores_against_the_runner_up():
    busy = make_pod("busy").req(cpu="3").node("b").body()
    mine = make_pod("mine").req(cpu="100m").node("b").body()
    bodies = [node("a").body(), node("b").body(), busy, mine]

    answer = Cluster.from_objects(bodies).why("mine")

    assert "b" == answer.node
    assert ["a", "b"] == [score.node for score in answer.scores]
    assert answer.notes[0].startswith("today it would go to a (NodeResourcesFit +")


def test_preemption_and_a_priority_that_would_help():
    high = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 100}
    objects = [node("a").body(), taken(cpu="3"), asks(cpu="4"), high]

    answer = Cluster.from_objects(objects).why("waits")

    assert ("no pod on those nodes has a priority below its own 0; the lowest there is 0",) == (
        answer.preemption
    )
    fix = next(item for item in answer.fixes if "priority class" in item.change)
    assert ("a", ("default/taken",)) == (fix.node, fix.removes)


def test_an_owner_that_cannot_make_its_pods_says_why():
    from bayplan.inspect.why import why_owner

    template = {"spec": {"containers": [{"name": "c"}], "priorityClassName": "hihg"}}
    meta = {"name": "web", "namespace": "default"}
    deployment = {
        "kind": "Deployment",
        "metadata": meta,
        "spec": {"replicas": 2, "template": template},
    }
    failed = {
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "default"},
        "reason": "FailedCreate",
        "message": "exceeded quota: small",
        "involvedObject": {"kind": "Deployment", "namespace": "default", "name": "web"},
    }
    high = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 100}
    cluster = Cluster.from_objects([node("a").body(), deployment, failed, high])

    answer = why_owner(cluster, cluster.owner("deployment", "web"))

    assert "2 of 2 pods have not been made, 0 wait for a node" == answer.summary
    assert 'deployment/web could not make a pod: "exceeded quota: small"' in answer.notes
    assert any("did you mean high?" in note for note in answer.notes)
    (fix, *_) = answer.pods[0].fixes
    assert ('use the priority class "high"', "a") == (fix.change, fix.node)
    assert fix.commands[0].startswith("kubectl patch deployment -n default web --type=json")


@pytest.mark.parametrize(
    ("condition", "succeeded", "summary"),
    [
        ({"type": "Complete"}, 2, "it is complete: 2 of 2 succeeded"),
        (
            {"type": "Failed", "message": "too many retries"},
            1,
            "it has failed (too many retries): 1 of 2 succeeded",
        ),
    ],
)
def test_a_job_that_has_ended_says_how(condition, succeeded, summary):
    from bayplan.inspect.why import why_owner

    job = {
        "kind": "Job",
        "metadata": {"name": "import", "namespace": "default"},
        "spec": {"completions": 2, "template": {"spec": {"containers": [{"name": "c"}]}}},
        "status": {"succeeded": succeeded, "conditions": [{"status": "True", **condition}]},
    }
    cluster = Cluster.from_objects([node("a").body(), job])

    answer = why_owner(cluster, cluster.owner("job", "import"))

    assert (summary, (), ()) == (answer.summary, answer.notes, answer.pods)


def test_what_keeps_pods_from_being_made_is_taken_away_together():
    from bayplan.inspect.why import why_owner

    template = {
        "spec": {
            "serviceAccountName": "robot",
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        }
    }
    meta = {"name": "web", "namespace": "default"}
    owner = {"kind": "ReplicaSet", "metadata": meta, "spec": {"replicas": 1, "template": template}}
    account = {"kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}}
    quota = {
        "kind": "ResourceQuota",
        "metadata": {"name": "small", "namespace": "default"},
        "spec": {"hard": {"requests.cpu": "2", "pods": "5"}},
        "status": {
            "hard": {"requests.cpu": "2", "pods": "5"},
            "used": {"requests.cpu": "1500m", "pods": "1"},
        },
    }
    cluster = Cluster.from_objects([node("a").body(), owner, account, quota])

    answer = why_owner(cluster, cluster.owner("rs", "web"))

    assert (
        'service account "robot" is not in namespace "default"; the pod would be refused',
        'quota "small": requests.cpu 1500m of 2 used, the pod asks 1',
    ) == answer.notes
    (fix, *_) = answer.pods[0].fixes
    assert 'create the service account "robot", and raise the quota "small"' in fix.change
    assert (
        "kubectl create serviceaccount -n default robot",
        "kubectl patch resourcequota -n default small -p "
        """'{"spec": {"hard": {"requests.cpu": "2500m"}}}'""",
    ) == fix.commands
    assert "a" == fix.node


def test_a_pair_of_changes_says_how_to_make_both():
    """One of the pod and one of the cluster: each has its command."""
    closed = make_node("closed").capacity(cpu=8, pods=9).with_spec(unschedulable=True)
    body = waits(nodeSelector={"disk": "ssd"})

    fixes = Cluster.from_objects([closed.body(), body]).why("waits").fixes

    both = next(fix for fix in fixes if fix.side == "both")
    assert any("kubectl uncordon closed" in command for command in both.commands)
    assert any("nodeSelector" in command for command in both.commands)


def test_a_pod_with_a_priority_class_that_is_gone_says_so():
    high = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 5}
    pod = waits(priorityClassName="hihg", priority=7)
    cluster = Cluster.from_objects([node("a").body(), high, pod])

    assert [
        'priority class "hihg" is not in this cluster; did you mean high?; it keeps priority 7, '
        "another pod like it would be refused"
    ] == [note for note in cluster.why("waits").notes if "priority class" in note]


def test_no_node_is_looked_at_for_a_gated_pod():
    gated = waits(schedulingGates=[{"name": "acme.io/quota"}])
    cluster = Cluster.from_objects([node("a").body(), gated])

    answer = why_on_node(cluster, cluster.pod("waits"), "a")

    assert answer.summary.startswith("it is held back by acme.io/quota, so no node is looked at")
    assert "without that, a is where it would go" in answer.summary


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"spec": {"schedulerName": "mine"}}, 'it waits for the scheduler "mine"'),
        ({"status": {"phase": "Failed"}}, "it has ended (Failed)"),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, "it is being deleted"),
    ],
    ids=["other scheduler", "ended", "going"],
)
def test_a_pod_that_needs_no_node_does_not_fit_one(change, text):
    body = waits()
    for part, fields in change.items():
        body.setdefault(part, {}).update(fields)
    cluster = Cluster.from_objects([node("a").body(), body])

    assert why_on_node(cluster, cluster.pod("waits"), "a").summary.startswith(text)


def test_a_scrubbed_cluster_has_said_nothing_that_could_differ():
    from bayplan.inspect.sources.scrub import scrubbed

    body = asks(cpu="9")
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "x"}
    body["status"] = {"conditions": [said]}
    cluster = Cluster.from_objects([node("a").body(), body])

    answer = cluster.why("waits")
    (hidden,) = scrubbed(cluster).why_pending().pods

    assert (False, None) == (answer.identical, hidden.identical)
    assert "or is not of version 1.37 (--emulated-version)" in answer.difference


def test_the_scores_of_a_bound_pod_show_the_node_that_was_asked_about():
    names = [f"n{number}" for number in range(9)]
    nodes = [make_node(name).capacity(cpu="4", memory="8Gi", pods="10").body() for name in names]
    busy = make_pod("busy").req(cpu="3").node("n8").body()
    asked = Cluster.from_objects([*nodes, busy, make_pod("p").req(cpu="1").node("n0").body()])

    text = "\n".join(render(why_on_node(asked, asked.pod("p"), "n8")))

    assert "\n  n8 " in text.partition("Scores today")[2]


def test_the_three_nearest_lack_different_things():
    """Of six nodes that lack one thing each, four lack the same."""
    there = {"disk": "ssd"}
    odd = [node("y", **there).taint("gpu"), node("z", **there).cordon()]
    nodes = [one.body() for one in (*map(node, "abcd"), *odd)]

    near = Cluster.from_objects([*nodes, waits(nodeSelector=there)]).why("waits").nearest

    assert {"a", "y", "z"} == {one.node for one in near[:3]}


def test_a_device_class_that_is_missing_is_told_in_a_sentence():
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpus", "count": 2}}
    asked = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "two", "namespace": "default"},
        "spec": {"devices": {"requests": [request]}},
    }
    known = {**asked, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}
    pod = waits(resourceClaims=[{"name": "g", "resourceClaimName": "two"}])
    told = render(Cluster.from_objects([node("a").body(), asked, known, pod]).why("waits"))

    said = " ".join(" ".join(told).split())
    assert "asks 2 of class gpus, which is not in this cluster; did you mean gpu?" in said
