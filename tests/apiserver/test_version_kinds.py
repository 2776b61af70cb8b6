"""Kinds of one version or behind a gate: served, defaulted, validated and shown as upstream does.

The texts are those of kube-apiserver v1.36.4 and v1.37.1; `tests/kube/test_group_kinds.py` asks it.
"""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from bayplan.config import FeatureGates
from bayplan.config.gates import RELEASES
from tests.apiserver.api import MERGE, Api

GROUPS = {"1.36": "v1alpha2", "1.37": "v1beta1"}
RULES = {"1.36": "v1beta2", "1.37": "v1"}
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
REFERENCE = {"workloadName": "w", "templateName": "t"}
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
async def test_the_server_calls_itself_what_it_emulates(version):
    api = await started(version)
    found = (await api.call("GET", "/version")).body
    await api.close()

    assert found["gitVersion"].startswith(f"{RELEASES[version]}+bayplan-")
    assert version == f"{found['major']}.{found['minor']}"
    assert version == f"{found['emulationMajor']}.{found['emulationMinor']}"


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


MODERN = {
    "certificates.k8s.io": {"clustertrustbundles", "podcertificaterequests"},
    "storagemigration.k8s.io": {"storageversionmigrations"},
}


@pytest.mark.parametrize("version", GROUPS)
async def test_kinds_that_came_with_1_37_are_served_since_then(version):
    """kube-controller-manager of that version follows them; `tests/kube` compares the answers."""
    api = await started(version)
    for group_name, names in MODERN.items():
        found = await api.call("GET", f"/apis/{group_name}/v1")
        listed = found.body["resources"] if found.status == 200 else ()
        served = {each["name"] for each in listed}
        assert (names if version == "1.37" else set()) == served & names
    await api.close()


async def test_the_signer_of_a_trust_bundle_and_of_a_pods_certificate_needs_permission():
    api = await Api.start(gates=FeatureGates({}, "1.37"), rbac=True)
    role = {
        "metadata": {"name": "writer"},
        "rules": [{"apiGroups": ["certificates.k8s.io"], "resources": ["*"], "verbs": ["create"]}],
    }
    roles = "/apis/rbac.authorization.k8s.io/v1"
    await api.ok("POST", f"{roles}/clusterroles", role)
    subject = {"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}
    reference = {"kind": "ClusterRole", "name": "writer", "apiGroup": subject["apiGroup"]}
    binding = {"metadata": {"name": "writer"}, "subjects": [subject], "roleRef": reference}
    await api.ok("POST", f"{roles}/clusterrolebindings", binding)
    spec = {"signerName": "example.com/s", "trustBundle": authority()}
    body = {"metadata": {"name": "example.com:s:a"}, "spec": spec}

    refused = await api.call(
        "POST",
        "/apis/certificates.k8s.io/v1/clustertrustbundles",
        body,
        {"impersonate-user": "jane"},
    )
    await api.close()

    assert 403 == refused.status
    assert 'not permitted to attest for signerName "example.com/s"' in refused.body["message"]


def authority():
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "x")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), 7, now, now + timedelta(hours=1))
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


@pytest.mark.parametrize("version", GROUPS)
async def test_topology_constraints_are_kept_behind_their_gate_only(version):
    asked = group(schedulingConstraints={"topology": [{"key": "example.com/rack"}]})
    api = await started(version, GenericWorkload=True)
    made = (await api.call("POST", path(version, "podgroups"), asked)).body
    await api.close()

    assert "schedulingConstraints" not in made["spec"]

    api = await started(version, GenericWorkload=True, TopologyAwareWorkloadScheduling=True)
    made = (await api.call("POST", path(version, "podgroups"), asked)).body
    assert asked["spec"]["schedulingConstraints"] == made["spec"]["schedulingConstraints"]
    change = {"spec": {"schedulingConstraints": {"topology": [{"key": "zone"}]}}}
    headers = {"content-type": MERGE}
    refused = await api.call("PATCH", path(version, "podgroups", "g"), change, headers)
    await api.close()

    assert 422 == refused.status
    assert ["spec.schedulingConstraints"] == [
        each["field"] for each in refused.body["details"]["causes"]
    ]


@pytest.mark.parametrize("version", GROUPS)
async def test_topology_constraints_name_one_label(version):
    api = await started(version, GenericWorkload=True, TopologyAwareWorkloadScheduling=True)
    found = []
    for keys in (["a", "b"], [""], ["no label"]):
        constraints = {"topology": [{"key": key} for key in keys]}
        refused = await api.call(
            "POST", path(version, "podgroups"), group(schedulingConstraints=constraints)
        )
        found.append(causes(refused))
    await api.close()
    many, missing, odd = found

    where = "spec.schedulingConstraints.topology"
    assert [f"{where}: Too many: 2: must have at most 1 item"] == many
    assert [f"{where}[0].key: Required value"] == missing
    assert [text.startswith(f'{where}[0].key: Invalid value: "no label": ') for text in odd] == [
        True
    ]


CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"
SCALERS = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
HEALTH = {"status": {"storageHealth": [{"name": "d"}]}}


def csi_node(name="n"):
    return {"metadata": {"name": name}, "spec": {"drivers": [{"name": "d", "nodeID": "x"}]}}


async def test_the_status_of_csi_nodes_came_with_1_37():
    api = await started("1.37")
    made = await api.ok("POST", CSI_NODES, csi_node() | HEALTH)
    change = HEALTH | {"metadata": {"labels": {"a": "b"}}, "spec": {"drivers": []}}
    after = await api.ok("PATCH", f"{CSI_NODES}/n/status", change)
    resources = await api.ok("GET", "/apis/storage.k8s.io/v1")
    await api.close()

    assert {} == made["status"] == after["status"], "what it tells stands behind a gate"
    assert (made["spec"], None) == (after["spec"], after["metadata"].get("labels"))
    assert "csinodes/status" in [each["name"] for each in resources["resources"]]


async def test_csi_nodes_of_1_36_have_no_status():
    api = await started("1.36")
    made = await api.ok("POST", CSI_NODES, csi_node() | HEALTH)
    changed = await api.ok("PATCH", f"{CSI_NODES}/n", HEALTH | {"metadata": {"labels": {"a": "b"}}})
    answer = await api.call("GET", f"{CSI_NODES}/n/status")
    await api.close()

    assert (False, False) == ("status" in made, "status" in changed)
    assert 404 == answer.status


@pytest.mark.parametrize(("version", "kept"), [("1.36", False), ("1.37", True)])
async def test_fields_of_1_37_are_kept_by_it_and_dropped_by_1_36(version, kept):
    api = await started(version)
    info = {"runningInUserNamespace": True, "machineID": "a"}
    node = {"metadata": {"name": "n"}, "status": {"nodeInfo": info}}
    found = (await api.ok("POST", "/api/v1/nodes", node))["status"]["nodeInfo"]
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    spec = {"maxReplicas": 3, "scaleTargetRef": target}
    await api.ok("POST", SCALERS, {"metadata": {"name": "h"}, "spec": spec})
    condition = {"type": "AbleToScale", "status": "True", "observedGeneration": 3}
    status = {"desiredReplicas": 1, "conditions": [condition]}
    told = await api.ok("PATCH", f"{SCALERS}/h/status", {"status": status})
    await api.close()

    assert kept == found.get("runningInUserNamespace", False)
    assert kept == ("observedGeneration" in told["status"]["conditions"][0])


@pytest.mark.parametrize(("version", "counted"), [("1.36", [None] * 3), ("1.37", [1, 1, 2])])
async def test_changes_of_an_autoscaler_are_counted_since_1_37(version, counted):
    api = await started(version)
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    spec = {"maxReplicas": 3, "scaleTargetRef": target}
    changes = ({"metadata": {"labels": {"a": "b"}}}, {"spec": {"maxReplicas": 4}})
    seen = [await api.ok("POST", SCALERS, {"metadata": {"name": "h"}, "spec": spec})]
    seen += [await api.ok("PATCH", f"{SCALERS}/h", change) for change in changes]
    await api.close()

    assert counted == [each["metadata"].get("generation") for each in seen]


async def test_composite_groups_are_served_behind_their_gate_only():
    where = "/apis/scheduling.k8s.io/v1alpha3/namespaces/default/compositepodgroups"
    api = await started("1.37", GenericWorkload=True, TopologyAwareWorkloadScheduling=True)
    assert 404 == (await api.call("GET", where)).status
    part = group(parentCompositePodGroupName="c", workloadRef=REFERENCE)
    made = (await api.call("POST", path("1.37", "podgroups"), part)).body
    assert "parentCompositePodGroupName" not in made["spec"]
    await api.close()

    on = {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True}
    api = await started("1.37", **on, CompositePodGroup=True)
    spec = {"schedulingPolicy": {"gang": {"minGroupCount": 2}}, "workloadRef": REFERENCE}
    made = (await api.call("POST", where, {"metadata": {"name": "c"}, "spec": spec})).body
    assert {**spec, "disruptionMode": {"single": {}}, "priority": 0} == made["spec"]
    made = (await api.call("POST", path("1.37", "podgroups"), part)).body
    assert "c" == made["spec"]["parentCompositePodGroupName"]
    orphan = group("orphan", parentCompositePodGroupName="c")
    refused = await api.call("POST", path("1.37", "podgroups"), orphan)
    await api.close()

    text = "must be set when parentCompositePodGroupName is set"
    assert [f"spec.workloadRef: Required value: {text}"] == causes(refused)


async def test_composite_templates_of_a_workload():
    on = {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True}
    api = await started("1.37", **on, CompositePodGroup=True)
    policy = {"schedulingPolicy": {"gang": {"minGroupCount": 1}}}

    def tree(name, *children, **more):
        leaf = {"name": f"{name}-leaf", "schedulingPolicy": {"basic": {}}}
        inner = "compositePodGroupTemplates" if children else "podGroupTemplates"
        return {"name": name, **policy, inner: list(children) or [leaf], **more}

    async def problems(*templates):
        body = {"metadata": {"name": "w"}, "spec": {"compositePodGroupTemplates": templates}}
        return causes(await api.call("POST", path("1.37", "workloads"), body))

    (twice,) = await problems(tree("a", tree("a")))
    (deep,) = await problems(tree("a", tree("b", tree("c", tree("d")))))
    (mixed,) = await problems(tree("a", tree("b", priority=7)))
    (childless,) = await problems({"name": "a", **policy})
    await api.close()

    inner = "spec.compositePodGroupTemplates[0]"
    assert f'{inner}.compositePodGroupTemplates[0].name: Duplicate value: "a"' == twice
    assert deep.startswith(f"{inner}: Invalid value: ")
    assert deep.endswith(": maximum template hierarchy depth is 4")
    assert mixed.endswith("values must be identical, detected multiple values")
    assert childless.endswith("one child PodGroupTemplate or CompositePodGroupTemplate")
