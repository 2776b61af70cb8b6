"""Tables look as kubectl users expect."""

# ruff: noqa: E501  # a case is read best on one line

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from bayplan.apiserver.tables import compile_path, find, human_duration, render
from bayplan.apiserver.tables.registry import PRINTERS, printer_for

NOW = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)
BORN = "2026-01-02T11:55:00Z"


def obj(name="x", **parts):
    return {"metadata": {"name": name, "creationTimestamp": BORN, **parts.pop("meta", {})}, **parts}


def cells(group, kind, thing):
    return render(SimpleNamespace(group=group, kind=kind), [thing], now=NOW)["rows"][0]["cells"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"), (-1, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (150, "2m30s"),
        (599, "9m59s"), (600, "10m"), (10799, "179m"), (10800, "3h"), (12000, "3h20m"),
        (28800, "8h"), (172799, "47h"), (172800, "2d"), (180000, "2d2h"), (691200, "8d"),
        (63072000, "2y"), (66528000, "2y40d"), (252288000, "8y"),
    ],
)  # fmt: skip
def test_durations_have_two_units_while_they_matter(seconds, text):
    assert text == human_duration(seconds)


def status(name="c", *, ready=False, restarts=0, last=None, **state):
    found = {"name": name, "ready": ready, "restartCount": restarts, "state": state}
    if last:
        found["lastState"] = {"terminated": {"exitCode": 1, "finishedAt": last}}
    return found


POD_CASES = [
    pytest.param({}, {"phase": "Pending"}, ("0/1", "Pending", "0"), id="waiting for a node"),
    pytest.param(
        {},
        {"phase": "Running", "containerStatuses": [status(ready=True, running={})]},
        ("1/1", "Running", "0"),
        id="running",
    ),
    pytest.param(
        {},
        {
            "phase": "Running",
            "containerStatuses": [
                status(restarts=3, last="2026-01-02T11:58:00Z", waiting={"reason": "CrashLoopBackOff"})
            ],
        },
        ("0/1", "CrashLoopBackOff", "3 (2m ago)"),
        id="crashing",
    ),
    pytest.param(
        {},
        {"phase": "Succeeded", "containerStatuses": [status(terminated={"exitCode": 0, "reason": "Completed"})]},
        ("0/1", "Completed", "0"),
        id="done",
    ),
    pytest.param(
        {},
        {"phase": "Failed", "containerStatuses": [status(terminated={"exitCode": 3})]},
        ("0/1", "ExitCode:3", "0"),
        id="failed without reason",
    ),
    pytest.param(
        {},
        {"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]},
        ("0/1", "SchedulingGated", "0"),
        id="gated",
    ),
    pytest.param(
        {"initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}]},
        {"phase": "Pending", "initContainerStatuses": [status("i", running={})]},
        ("0/2", "Init:0/2", "0"),
        id="initialising, with a sidecar",
    ),
    pytest.param(
        {"initContainers": [{"name": "i"}]},
        {"phase": "Pending", "initContainerStatuses": [status("i", terminated={"exitCode": 1, "reason": "Error"})]},
        ("0/1", "Init:Error", "0"),
        id="init failed",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "status", "expected"), POD_CASES)
def test_pod_status(spec, status, expected):
    pod = obj(spec={"containers": [{"name": "c"}], **spec}, status=status)

    assert expected == tuple(cells("", "Pod", pod)[1:4])


def test_a_pod_being_deleted_is_terminating():
    pod = obj(meta={"deletionTimestamp": BORN}, spec={}, status={"phase": "Running"})

    assert "Terminating" == cells("", "Pod", pod)[2]


def test_finished_pods_carry_a_row_condition():
    pod = obj(status={"phase": "Failed"}, spec={})

    row = render(SimpleNamespace(group="", kind="Pod"), [pod], now=NOW)["rows"][0]

    assert "Completed" == row["conditions"][0]["type"]


@pytest.mark.parametrize(
    ("group", "kind", "thing", "expected"),
    [
        (
            "", "Node",
            obj(meta={"labels": {"node-role.kubernetes.io/worker": ""}}, spec={"unschedulable": True},
                status={"conditions": [{"type": "Ready", "status": "False"}]}),
            ["x", "NotReady,SchedulingDisabled", "worker", "5m", "", "<none>", "<none>", "<unknown>", "<unknown>", "<unknown>"],
        ),
        (
            "", "Service",
            obj(spec={"type": "NodePort", "clusterIPs": ["10.0.0.1"], "ports": [{"port": 80, "nodePort": 30000, "protocol": "TCP"}]}),
            ["x", "NodePort", "10.0.0.1", "<none>", "80:30000/TCP", "5m", "<none>"],
        ),
        (
            "apps", "Deployment",
            obj(spec={"replicas": 2, "selector": {"matchExpressions": [{"key": "b", "operator": "Exists"}], "matchLabels": {"a": "1"}},
                      "template": {"spec": {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "j"}]}}},
                status={"readyReplicas": 1}),
            ["x", "1/2", 0, 0, "5m", "c,d", "i,j", "a=1,b"],
        ),
        ("batch", "Job", obj(spec={"parallelism": 3}, status={"succeeded": 1}), ["x", "Running", "1/1 of 3", "", "5m", "", "", "<none>"]),
        ("", "Endpoints", obj(subsets=[{"addresses": [{"ip": f"10.0.0.{n}"} for n in range(5)], "ports": [{"port": 80}]}]),
         ["x", "10.0.0.0:80,10.0.0.1:80,10.0.0.2:80 + 2 more...", "5m"]),
        ("storage.k8s.io", "StorageClass", obj(provisioner="p", meta={"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}),
         ["x (default)", "p", "Delete", "Immediate", False, "5m"]),
        ("rbac.authorization.k8s.io", "Role", obj(), ["x", BORN]),
    ],
)  # fmt: skip
def test_cells(group, kind, thing, expected):
    assert expected == cells(group, kind, thing)


@pytest.mark.parametrize(("group", "kind"), PRINTERS)
def test_every_row_has_a_cell_for_every_column(group, kind):
    printer = printer_for(group, kind)

    assert len(printer.columns) == len(printer.row(obj(), NOW))


def test_both_views_of_an_event_give_the_same_row():
    core = obj(
        involvedObject={"kind": "Pod", "name": "p"}, reason="R", message=" hi ", type="Normal",
        count=2, source={"component": "c"}, firstTimestamp=BORN, lastTimestamp=BORN,
    )  # fmt: skip
    new = obj(
        regarding={"kind": "Pod", "name": "p"}, reason="R", note="hi", type="Normal",
        deprecatedCount=2, deprecatedSource={"component": "c"},
        deprecatedFirstTimestamp=BORN, deprecatedLastTimestamp=BORN,
    )  # fmt: skip

    assert cells("", "Event", core) == cells("events.k8s.io", "Event", new)


def test_custom_columns_come_from_the_definition():
    kind = SimpleNamespace(
        group="sea",
        kind="Ship",
        printer_columns=[
            {"name": "Crew", "type": "integer", "jsonPath": ".spec.crew"},
            {
                "name": "Ready",
                "type": "string",
                "jsonPath": '.status.conditions[?(@.type=="Ready")].status',
            },
            {"name": "Built", "type": "date", "jsonPath": ".spec.built", "priority": 1},
            {"name": "None", "type": "string", "jsonPath": ".spec.none"},
        ],
    )
    built = (NOW - timedelta(hours=3)).isoformat()
    ship = obj(
        spec={"crew": 3, "built": built},
        status={"conditions": [{"type": "A"}, {"type": "Ready", "status": "True"}]},
    )

    table = render(kind, [ship], now=NOW)

    assert ["x", 3, "True", "3h", None] == table["rows"][0]["cells"]
    assert ["Name", "Crew", "Ready", "Built", "None"] == [
        c["name"] for c in table["columnDefinitions"]
    ]


def test_without_columns_a_custom_kind_shows_its_age():
    kind = SimpleNamespace(group="sea", kind="Ship", printer_columns=[])

    assert ["x", "5m"] == render(kind, [obj()], now=NOW)["rows"][0]["cells"]


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".a.b", [1]), ("{.a.b}", [1]), (".l[0].n", [1]), (".l[-1].n", [2]), (".l[*].n", [1, 2]),
        (r".m.x\.y/z", [7]), (".m['x.y/z']", [7]), (".l[?(@.n==2)].k", ["b"]), (".none", []),
        (".l[?(@.k!='a')].n", [2]),
    ],
)  # fmt: skip
def test_json_paths(path, found):
    data = {"a": {"b": 1}, "l": [{"n": 1, "k": "a"}, {"n": 2, "k": "b"}], "m": {"x.y/z": 7}}

    assert found == find(compile_path(path), data)


def test_a_json_path_that_is_not_understood_says_where():
    with pytest.raises(ValueError, match="character 3"):
        compile_path(".a[")


@pytest.mark.parametrize(
    ("include", "shown"), [("None", None), ("Object", "spec"), ("Metadata", "kind")]
)
def test_rows_hold_as_much_of_the_object_as_was_asked_for(include, shown):
    table = render(
        SimpleNamespace(group="", kind="ConfigMap"), [obj(spec={})], include=include, now=NOW
    )

    row = table["rows"][0]["object"]
    assert row is None if shown is None else shown in row


def _resource(name, target, current=None):
    spec = {"type": "Resource", "resource": {"name": name, "target": target}}
    return spec, {"type": "Resource", "resource": {"name": name, "current": current or {}}}


def _other(type_, place, target, current=None):
    found = {"type": type_, place: {"current": current}} if current else {"type": type_}
    return {"type": type_, place: {"target": target}}, found


@pytest.mark.parametrize(
    ("metrics", "text"),
    [
        pytest.param([], "<none>", id="none"),
        pytest.param([_resource("cpu", {"averageUtilization": 50}, {"averageUtilization": 70, "averageValue": "7m"})], "cpu: 70%/50%", id="share"),
        pytest.param([_resource("cpu", {"averageUtilization": 50})], "cpu: <unknown>/50%", id="not measured yet"),
        pytest.param([_resource("memory", {"averageValue": "1Gi"}, {"averageValue": "2Gi"})], "memory: 2Gi/1Gi", id="amount"),
        pytest.param([_resource("cpu", {})], "cpu: <unknown>/<auto>", id="nothing wanted"),
        pytest.param([_other("Pods", "pods", {"averageValue": "5"}, {"averageValue": "3"})], "3/5", id="of pods"),
        pytest.param([_other("Object", "object", {"value": "5"})], "<unknown>/5", id="of an object"),
        pytest.param([_other("External", "external", {"averageValue": "5"}, {"averageValue": "4"})], "4/5 (avg)", id="from outside"),
        pytest.param([_resource("cpu", {"averageUtilization": 50})] * 4, "cpu: <unknown>/50%, cpu: <unknown>/50% + 2 more...", id="many"),
    ],
)  # fmt: skip
def test_autoscalers_show_what_is_measured_and_wanted(metrics, text):
    target = {"kind": "Deployment", "name": "web"}
    spec = {
        "scaleTargetRef": target,
        "minReplicas": 2,
        "maxReplicas": 9,
        "metrics": [m[0] for m in metrics],
    }
    status = {"currentReplicas": 3, "currentMetrics": [m[1] for m in metrics]}
    shown = cells("autoscaling", "HorizontalPodAutoscaler", obj(spec=spec, status=status))

    assert ["x", "Deployment/web", text, "2", 9, 3, "5m"] == shown


def test_autoscalers_of_v1_show_their_cpu():
    spec = {
        "scaleTargetRef": {"kind": "D", "name": "w"},
        "maxReplicas": 9,
        "targetCPUUtilizationPercentage": 80,
    }
    status = {"currentReplicas": 3, "currentCPUUtilizationPercentage": 40}
    shown = cells("autoscaling", "HorizontalPodAutoscaler", obj(spec=spec, status=status))

    assert ["x", "D/w", "cpu: 40%/80%", "<unset>", 9, 3, "5m"] == shown
