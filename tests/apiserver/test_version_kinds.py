"""Kinds of one version or behind a gate: served, defaulted, validated and shown as upstream does.

The texts are those of kube-apiserver v1.36.4 and v1.37.1; `tests/kube/test_group_kinds.py` asks it.
"""

import pytest

from bayplan.config import FeatureGates
from tests.apiserver.api import Api

GROUPS = {"1.36": "v1alpha2", "1.37": "v1beta1"}
RULES = {"1.36": "v1beta2", "1.37": "v1"}
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
TABLE = {"accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}


async def started(version, **changes):
    return await Api.start(gates=FeatureGates(changes, version))


def path(version, resource, name=""):
    found = f"/apis/scheduling.k8s.io/{GROUPS[version]}/namespaces/default/{resource}"
    return f"{found}/{name}" if name else found


def group(name="g", **spec):
    return {
        "metadata": {"name": name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, **spec},
    }


def causes(answer):
    return [f"{each['field']}: {each['message']}" for each in answer.body["details"]["causes"]]


@pytest.mark.parametrize("version", GROUPS)
async def test_pod_groups_are_served_behind_their_gate_only(version):
    api = await started(version)
    assert 404 == (await api.call("GET", path(version, "podgroups"))).status
    await api.close()

    api = await started(version, GenericWorkload=True)
    found = await api.call("GET", f"/apis/scheduling.k8s.io/{GROUPS[version]}")
    assert ["podgroups", "podgroups/status", "workloads"] == sorted(
        each["name"] for each in found.body["resources"]
    )
    versions = (await api.call("GET", "/apis/scheduling.k8s.io")).body["versions"]
    assert ["v1", GROUPS[version]] == [each["version"] for each in versions]
    await api.close()


async def test_1_37_defaults_a_pod_group():
    api = await started("1.37", GenericWorkload=True)
    made = (await api.call("POST", path("1.37", "podgroups"), group())).body
    assert {
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "disruptionMode": {"single": {}},
        "priority": 0,
    } == made["spec"]
    assert ["scheduling.k8s.io/podgroup-protection"] == made["metadata"]["finalizers"]
    await api.close()


async def test_1_36_drops_what_is_behind_further_gates():
    api = await started("1.36", GenericWorkload=True)
    asked = group(disruptionMode="PodGroup", priority=0)
    made = (await api.call("POST", path("1.36", "podgroups"), asked)).body
    assert {
        "podGroupTemplateRef": None,
        "schedulingPolicy": {"gang": {"minCount": 2}},
    } == made["spec"]
    await api.close()

    gates = {"GangScheduling": True, "WorkloadAwarePreemption": True, "GenericWorkload": True}
    api = await started("1.36", **gates)
    await api.call("POST", CLASSES, {"metadata": {"name": "high"}, "value": 7})
    asked = group(priorityClassName="high", disruptionMode="PodGroup")
    made = (await api.call("POST", path("1.36", "podgroups"), asked)).body
    assert 7 == made["spec"]["priority"]
    assert "PodGroup" == made["spec"]["disruptionMode"]
    answer = await api.call("POST", path("1.36", "podgroups"), group("h", priority=9))
    assert (
        "priority set in the pod group (9) must match the priority computed (0) based on the "
        "priority class set in the spec" in answer.body["message"]
    )
    await api.close()


@pytest.mark.parametrize("version", GROUPS)
async def test_a_pod_group_has_exactly_one_policy(version):
    api = await started(version, GenericWorkload=True)
    text = "spec.schedulingPolicy: Invalid value: "
    for policy, told in (
        ({}, f'{text}"": must specify one of: `basic`, `gang`'),
        (
            {"basic": {}, "gang": {"minCount": 1}},
            f'{text}"{{basic, gang}}": must specify exactly one of: `basic`, `gang`',
        ),
        ({"gang": {"minCount": 0}}, "spec.schedulingPolicy.gang.minCount: Required value"),
        (
            {"gang": {"minCount": -1}},
            "spec.schedulingPolicy.gang.minCount: Invalid value: -1: must be greater than or "
            "equal to 1",
        ),
    ):
        answer = await api.call("POST", path(version, "podgroups"), group(schedulingPolicy=policy))
        assert 422 == answer.status
        assert [told] == causes(answer)
    await api.close()


async def test_what_may_change_of_a_pod_group_in_1_37():
    api = await started("1.37", GenericWorkload=True)
    made = (await api.call("POST", path("1.37", "podgroups"), group())).body
    made["spec"]["schedulingPolicy"]["gang"]["minCount"] = 5
    answer = await api.call("PUT", path("1.37", "podgroups", "g"), made)
    assert 200 == answer.status

    changed = answer.body
    changed["spec"]["schedulingPolicy"] = {"basic": {}}
    changed["spec"]["priorityClassName"] = "other"
    answer = await api.call("PUT", path("1.37", "podgroups", "g"), changed)
    assert [
        "spec.schedulingPolicy.basic: Invalid value: null: field is immutable",
        "spec.schedulingPolicy.gang: Invalid value: null: field cannot be cleared once set",
        "spec.priorityClassName: Invalid value: null: field is immutable",
    ] == causes(answer)
    await api.close()


async def test_1_36_lets_no_policy_change():
    api = await started("1.36", GenericWorkload=True)
    made = (await api.call("POST", path("1.36", "podgroups"), group())).body
    made["spec"]["schedulingPolicy"]["gang"]["minCount"] = 5
    answer = await api.call("PUT", path("1.36", "podgroups", "g"), made)
    assert ["spec.schedulingPolicy: Invalid value: null: field is immutable"] == causes(answer)
    await api.close()


async def test_templates_of_a_workload_have_names_of_their_own():
    api = await started("1.37", GenericWorkload=True)
    template = {"name": "a", "schedulingPolicy": {"basic": {}}}
    body = {"metadata": {"name": "w"}, "spec": {"podGroupTemplates": [template] * 2}}
    answer = await api.call("POST", path("1.37", "workloads"), body)
    (told,) = causes(answer)
    assert told.startswith("spec.podGroupTemplates[1]: Duplicate value: ")

    body["spec"]["podGroupTemplates"] = [{**template, "name": f"t{i}"} for i in range(9)]
    answer = await api.call("POST", path("1.37", "workloads"), body)
    assert [
        "spec.podGroupTemplates: Too many: 9: must have at most 8 items",
    ] == causes(answer)

    body["spec"]["podGroupTemplates"] = []
    answer = await api.call("POST", path("1.37", "workloads"), body)
    assert [
        'spec: Invalid value: "": must specify one of: `podGroupTemplates`, '
        "`compositePodGroupTemplates`"
    ] == causes(answer)

    body["spec"]["podGroupTemplates"] = [template]
    made = (await api.call("POST", path("1.37", "workloads"), body)).body
    made["spec"]["podGroupTemplates"] = [{**template, "name": "b"}]
    answer = await api.call("PUT", path("1.37", "workloads", "w"), made)
    assert [
        "spec.podGroupTemplates[0]: Forbidden: item may not be added",
        "spec.podGroupTemplates: Forbidden: item may not be removed",
    ] == causes(answer)
    await api.close()


async def test_a_pod_group_of_1_36_needs_its_workload():
    api = await started("1.36", GenericWorkload=True)
    reference = {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}}
    asked = group(podGroupTemplateRef=reference)
    answer = await api.call("POST", path("1.36", "podgroups"), asked)
    assert 403 == answer.status
    assert 'PodGroup rejected: Workload "w" not found' in answer.body["message"]

    template = {"name": "t", "schedulingPolicy": {"gang": {"minCount": 2}}}
    workload = {"metadata": {"name": "w"}, "spec": {"podGroupTemplates": [template]}}
    await api.call("POST", path("1.36", "workloads"), workload)
    assert 201 == (await api.call("POST", path("1.36", "podgroups"), asked)).status
    await api.close()


async def test_the_status_of_a_pod_group_is_a_path_of_its_own_and_shown():
    api = await started("1.37", GenericWorkload=True)
    reference = {"workloadName": "w", "templateName": "t"}
    await api.call("POST", path("1.37", "podgroups"), group(workloadRef=reference))
    condition = {"type": "PodGroupInitiallyScheduled", "status": "False"}
    body = {"status": {"conditions": [condition]}}
    answer = await api.call("PATCH", path("1.37", "podgroups", "g/status"), body)
    assert [
        "status.conditions[0].lastTransitionTime: Required value",
        "status.conditions[0].reason: Required value",
    ] == causes(answer)

    condition |= {"reason": "Unschedulable", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    answer = await api.call("PATCH", path("1.37", "podgroups", "g/status"), body)
    assert 200 == answer.status
    table = (await api.call("GET", path("1.37", "podgroups"), headers=TABLE)).body
    names = [each["name"] for each in table["columnDefinitions"]]
    assert ["Name", "Policy", "Workload", "Status", "Age"] == names
    assert ["g", "Gang", "w", "Unschedulable"] == table["rows"][0]["cells"][:4]
    await api.close()


@pytest.mark.parametrize("version", RULES)
async def test_rules_that_taint_devices(version):
    changes = {} if version == "1.37" else {"DRADeviceTaintRules": True}
    api = await started(version, **changes)
    where = f"/apis/resource.k8s.io/{RULES[version]}/devicetaintrules"
    body = {"metadata": {"name": "broken"}, "spec": {"taint": {"key": "a", "effect": "Never"}}}
    answer = await api.call("POST", where, body)
    assert [
        'spec.taint.effect: Unsupported value: "Never": supported values: "NoExecute", '
        '"NoSchedule", "None"'
    ] == causes(answer)

    body["spec"] = {
        "deviceSelector": {"driver": "gpu.example.com", "pool": "p"},
        "taint": {"key": "a", "effect": "NoSchedule"},
    }
    made = (await api.call("POST", where, body)).body
    assert 1 == made["metadata"]["generation"]
    assert made["spec"]["taint"]["timeAdded"]
    table = (await api.call("GET", where, headers=TABLE)).body
    names = [each["name"] for each in table["columnDefinitions"]]
    assert ["Name", "Key", "Value", "Effect", "TimeAdded", "Age"] == names
    assert ["broken", "a", "", "NoSchedule"] == table["rows"][0]["cells"][:4]
    await api.close()


async def test_1_36_has_no_rules_that_taint_devices_by_default():
    api = await started("1.36")
    resources = (await api.call("GET", "/apis/resource.k8s.io/v1")).body["resources"]
    assert "devicetaintrules" not in {each["name"] for each in resources}
    assert 404 == (await api.call("GET", "/apis/resource.k8s.io/v1beta2")).status
    await api.close()
