"""Pods: what is refused, and what may change later."""

# ruff: noqa: E501  one case a line is easier to read

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.apiserver import validation
from bayplan.apiserver.validation.pod_strategy import qos_class
from tests.apiserver.validation.helper import (
    create_causes,
    created,
    merged,
    pod,
    prepared,
    update_causes,
)

C = "spec.containers[0]"
AFFINITY = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("body", "causes"),
    [
        pytest.param(pod(), [], id="a plain pod is fine"),
        pytest.param({"metadata": {"namespace": "d"}, "spec": {}}, [("Required", "spec.containers")],
                     id="no containers"),
        pytest.param(pod({"name": "A", "image": ""}),
                     [("Invalid", f"{C}.name"), ("Required", f"{C}.image")], id="container name and image"),
        pytest.param(pod({"resources": {"requests": {"cpu": "-1", "memory": "2Gi"}, "limits": {"memory": "1Gi"}}}),
                     [("Invalid", f"{C}.resources.requests[cpu]"), ("Invalid", f"{C}.resources.requests")],
                     id="negative, and above the limit"),
        pytest.param(pod({"resources": {"requests": {"gizmo": "1", "vendor.example/chip": "1500m"}}}),
                     [("Invalid", f"{C}.resources.requests[gizmo]"), ("Invalid", f"{C}.resources.requests[gizmo]"),
                      ("Invalid", f"{C}.resources.requests[vendor.example/chip]"), ("Required", f"{C}.resources.limits")],
                     id="unknown native name, extended resources are whole"),
        pytest.param(pod({"ports": [{"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 80}]}),
                     [("Duplicate", f"{C}.ports[1].hostPort")], id="a host port twice"),
        pytest.param(pod({"volumeMounts": [{"name": "v", "mountPath": "/x"}]}),
                     [("NotFound", f"{C}.volumeMounts[0].name")], id="a mount without its volume"),
        pytest.param(pod(initContainers=[{"name": "main", "image": "i:1"}]),
                     [("Duplicate", "spec.initContainers[0].name")], id="init containers share the names"),
        pytest.param(pod(tolerations=[{"operator": "Equal"}]),
                     [("Invalid", "spec.tolerations[0].operator")], id="an empty key needs Exists"),
        pytest.param(pod(schedulingGates=[{"name": "no spaces"}, {"name": "a.b/x"}, {"name": "a.b/x"}]),
                     [("Invalid", "spec.schedulingGates[0]"), ("Duplicate", "spec.schedulingGates[2]")], id="gates"),
        pytest.param(pod(schedulingGates=[{"name": "a.b/x"}], nodeName="n"),
                     [("Forbidden", "spec.nodeName")], id="a gated pod has no node"),
        pytest.param(pod(topologySpreadConstraints=[{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "Perhaps"}]),
                     [("Invalid", "spec.topologySpreadConstraints[0].maxSkew"),
                      ("Required", "spec.topologySpreadConstraints[0].topologyKey"),
                      ("NotSupported", "spec.topologySpreadConstraints[0].whenUnsatisfiable")], id="spread"),
        pytest.param(pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "z", "operator": "In"}, {"key": "e", "operator": "Exists", "values": ["x"]}]}]}}}),
                     [("Required", f"{AFFINITY}.nodeSelectorTerms[0].matchExpressions[0].values"),
                      ("Forbidden", f"{AFFINITY}.nodeSelectorTerms[0].matchExpressions[1].values")], id="node affinity"),
    ],
)  # fmt: skip
def test_causes_of_a_create(body, causes):
    assert causes == create_causes("", "pods", body)


def test_messages_are_worded_as_upstream_words_them():
    obj = prepared("", "pods", pod({"name": "Main", "imagePullPolicy": "Often"}))

    causes = validation.validate_create("", "pods", obj)

    assert (
        'Pod "p" is invalid: [spec.containers[0].name: Invalid value: "Main": a lowercase RFC 1123 '
        "label must consist of lower case alphanumeric characters or '-', and must start and end "
        "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation "
        "is '[a-z0-9]([-a-z0-9]*[a-z0-9])?'), spec.containers[0].imagePullPolicy: Unsupported "
        'value: "Often": supported values: "Always", "IfNotPresent", "Never"]'
    ) == validation.invalid_message("Pod", "", "p", causes)


@pytest.mark.parametrize(
    ("change", "causes"),
    [
        pytest.param({"metadata": {"labels": {"a": "b"}}}, [], id="labels"),
        pytest.param({"spec": {"activeDeadlineSeconds": 5}}, [], id="a deadline"),
        pytest.param({"spec": {"containers": [{"name": "main", "image": "other:2"}]}}, [], id="the image"),
        pytest.param({"spec": {"tolerations": [{"key": "x", "operator": "Exists"}]}}, [], id="more tolerations"),
        pytest.param({"spec": {"nodeSelector": {"a": "b"}}}, [("Forbidden", "spec")], id="where it may run"),
        pytest.param({"spec": {"nodeName": "n"}}, [("Forbidden", "spec")], id="its node"),
        pytest.param({"spec": {"containers": []}}, [("Required", "spec.containers"), ("Forbidden", "spec.containers")],
                     id="its containers"),
        pytest.param({"spec": {"schedulingGates": [{"name": "a.b/x"}]}},
                     [("Forbidden", "spec.schedulingGates[0].name")], id="no new gates"),
    ],
)  # fmt: skip
def test_what_may_change_in_a_pod(change, causes):
    old = created("", "pods", pod())

    assert causes == update_causes("", "pods", old, change)


def test_a_gated_pod_may_be_steered_to_fewer_nodes():
    old = created(
        "", "pods", pod(schedulingGates=[{"name": "a.b/x"}], nodeSelector={"disk": "ssd"})
    )
    narrower = {"spec": {"nodeSelector": {"zone": "a"}}}
    other = {"spec": {"nodeSelector": {"disk": "hdd"}}}

    assert [] == update_causes("", "pods", old, narrower)
    assert [("Invalid", "spec.nodeSelector")] == update_causes("", "pods", old, other)


def test_the_refusal_shows_what_would_change():
    old = created("", "pods", pod())
    new = merged(old, {"spec": {"priority": 7}})

    (cause,) = validation.validate_update("", "pods", new, old)

    assert cause.message.startswith(
        "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    )
    assert '+ "priority": 7' in cause.message


def test_status_keeps_the_spec_and_refuses_another_qos_class():
    old = created("", "pods", pod())
    change = {"spec": {"nodeName": "n"}, "status": {"qosClass": "Guaranteed", "phase": "Running"}}

    causes = update_causes("", "pods", old, change, "status")

    assert [("Invalid", "status.qosClass")] == causes


def test_a_gated_pod_starts_with_its_condition():
    stored = created("", "pods", pod(schedulingGates=[{"name": "a.b/x"}]))

    (condition,) = stored["status"]["conditions"]
    assert ("PodScheduled", "False", "SchedulingGated") == (
        condition["type"],
        condition["status"],
        condition["reason"],
    )


def test_label_keys_become_part_of_the_selector():
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {},
        "matchLabelKeys": ["app", "missing"],
    }
    body = pod(topologySpreadConstraints=[constraint])
    body["metadata"]["labels"] = {"app": "x"}

    stored = created("", "pods", body)

    assert [{"key": "app", "operator": "In", "values": ["x"]}] == stored["spec"][
        "topologySpreadConstraints"
    ][0]["labelSelector"]["matchExpressions"]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        pytest.param([{}], "BestEffort", id="nothing asked for"),
        pytest.param([{"requests": {"cpu": "1"}}], "Burstable", id="a request"),
        pytest.param([{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1024Mi"}}],
                     "Guaranteed", id="equal in value"),
        pytest.param([{"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}], "Burstable", id="no memory limit"),
        pytest.param([{"requests": {"vendor.example/chip": "1"}}], "BestEffort", id="only an extended resource"),
    ],
)  # fmt: skip
def test_qos_class(resources, expected):
    assert expected == qos_class({"containers": [{"resources": each} for each in resources]})


names = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
amounts = st.sampled_from(["100m", "1", "1.5Gi", "0", "1e3"])
valid_containers = st.lists(
    st.fixed_dictionaries(
        {"name": names, "image": st.sampled_from(["a", "a:1", "r.example:5000/x/y@sha256:" + "0" * 64])},
        optional={
            "resources": st.fixed_dictionaries({"requests": st.dictionaries(st.sampled_from(["cpu", "memory"]), amounts)}),
            "env": st.lists(st.fixed_dictionaries({"name": names}, optional={"value": st.text()}), max_size=2),
            "ports": st.lists(st.fixed_dictionaries({"containerPort": st.integers(1, 65535)}), max_size=2),
        },
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda container: container["name"],
)  # fmt: skip


@given(
    valid_containers, names, st.dictionaries(names, st.sampled_from(["", "v", "a.b_c"]), max_size=3)
)
def test_a_defaulted_valid_pod_validates(containers, name, labels):
    body = {
        "metadata": {"name": name, "namespace": "d", "labels": labels},
        "spec": {"containers": containers},
    }

    stored = created("", "pods", body)

    assert [] == update_causes("", "pods", stored, {})
