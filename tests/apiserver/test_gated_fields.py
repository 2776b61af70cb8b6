"""Fields behind a gate that is off are dropped, unless the stored object uses the feature.

What the strategies of kube-apiserver v1.36.4 and v1.37.1 drop; `tests/kube/test_gated_fields.py`
asks them.
"""

from copy import deepcopy

import pytest

from bayplan.api.schema import type_for
from bayplan.apiserver.gated_fields import _features, drop, gated, tree_of
from bayplan.apiserver.kinds import built_in
from bayplan.config import FeatureGates
from tests.apiserver.api import Api

PODS = "/api/v1/namespaces/default/pods"
GROUP = {"schedulingGroup": {"podGroupName": "g"}}
STOP = {"lifecycle": {"stopSignal": "SIGUSR1"}}
TEMPLATED = {
    "deployments": "apps",
    "replicasets": "apps",
    "daemonsets": "apps",
    "statefulsets": "apps",
    "jobs": "batch",
}


def pod(name="p", container=None, **spec):
    first = {"name": "c", "image": "i", **deepcopy(container or {})}
    return {"metadata": {"name": name}, "spec": {"containers": [first], **spec}}


async def started(version="1.37", **changes):
    return await Api.start(gates=FeatureGates(changes, version))


@pytest.mark.parametrize("version", ["1.36", "1.37"])
async def test_a_pod_keeps_its_scheduling_group_only_behind_the_gate(version):
    for on in (False, True):
        api = await started(version, GenericWorkload=on)
        made = (await api.call("POST", PODS, pod(**GROUP))).body
        await api.close()

        assert on == ("schedulingGroup" in made["spec"])


@pytest.mark.parametrize("resource", TEMPLATED)
async def test_so_does_a_template(resource):
    labels = {"app": "a"}
    spec = {"template": {**pod(**GROUP), "metadata": {"labels": labels}}}
    spec["template"]["spec"]["restartPolicy"] = "Never" if resource == "jobs" else "Always"
    if resource != "jobs":
        spec["selector"] = {"matchLabels": labels}
    for on in (False, True):
        api = await started(GenericWorkload=on)
        path = f"/apis/{TEMPLATED[resource]}/v1/namespaces/default/{resource}"
        made = await api.call("POST", path, {"metadata": {"name": "w"}, "spec": spec})
        await api.close()

        assert 201 == made.status
        assert on == ("schedulingGroup" in made.body["spec"]["template"]["spec"])


async def test_an_emptied_lifecycle_goes_and_another_stays():
    api = await started()
    made = (await api.call("POST", PODS, pod("p", STOP))).body
    assert "lifecycle" not in made["spec"]["containers"][0]

    command = {"preStop": {"exec": {"command": ["x"]}}}
    both = {"lifecycle": {**command, "stopSignal": "SIGUSR1"}}
    made = (await api.call("POST", PODS, pod("q", both))).body
    assert command == made["spec"]["containers"][0]["lifecycle"]
    await api.close()


async def test_1_37_gives_a_stateful_set_what_1_36_drops():
    spec = {"serviceName": "s", "selector": {"matchLabels": {"a": "b"}}}
    spec["template"] = {**pod(), "metadata": {"labels": {"a": "b"}}}
    path = "/apis/apps/v1/namespaces/default/statefulsets"
    for version, wanted in (
        ("1.36", {"partition": 0}),
        ("1.37", {"partition": 0, "maxUnavailable": 1}),
    ):
        api = await started(version)
        made = (await api.call("POST", path, {"metadata": {"name": "s"}, "spec": spec})).body
        change = {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}
        after = (await api.call("PATCH", f"{path}/s", change)).body
        await api.close()

        assert wanted == made["spec"]["updateStrategy"]["rollingUpdate"]
        assert 1 == after["metadata"]["generation"]


async def test_a_data_source_of_another_namespace_goes_as_a_whole():
    api = await started()
    path = "/api/v1/namespaces/default/persistentvolumeclaims"
    for namespace in ("", "other"):
        source = {"kind": "PersistentVolumeClaim", "name": "from"}
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "dataSourceRef": source | ({"namespace": namespace} if namespace else {}),
        }
        claim = {"metadata": {"name": f"c{namespace}"}, "spec": spec}
        made = (await api.call("POST", path, claim)).body["spec"]

        assert (not namespace) == ("dataSourceRef" in made)
        assert (not namespace) == ("dataSource" in made)
    await api.close()


def dropped(obj, old, *resource, version="1.37", **changes):
    tree = tree_of(gated(*resource, FeatureGates(changes, version)))
    drop(tree, obj, old)
    return obj


def test_a_feature_that_the_stored_object_uses_anywhere_is_kept():
    old = pod(container=STOP)
    new = pod(container=STOP)
    new["spec"]["initContainers"] = [{"name": "i", **STOP}]

    assert STOP["lifecycle"] == dropped(new, old, "", "pods")["spec"]["initContainers"][0].get(
        "lifecycle"
    )
    new["spec"]["initContainers"] = [{"name": "i", "lifecycle": {"stopSignal": "SIGUSR1"}}]
    assert "lifecycle" not in dropped(new, pod(), "", "pods")["spec"]["initContainers"][0]


def test_the_paths_of_a_feature_are_kept_together():
    gates = {"DRAPartitionableDevices": False}
    slices = ("resource.k8s.io", "resourceslices")

    def devices():
        return {"spec": {"sharedCounters": [{}], "devices": [{"name": "a", "allNodes": True}]}}

    assert {"spec": {"devices": [{"name": "a"}]}} == dropped(devices(), None, *slices, **gates)
    old = {"spec": {"devices": [{"name": "b", "allNodes": False}]}}
    assert devices() == dropped(devices(), old, *slices, **gates)


def test_values_of_a_map_are_looked_into():
    attributes = {"x": {"ints": [1]}, "y": {"int": 1}}
    obj = {"spec": {"devices": [{"attributes": attributes}]}}
    found = dropped(obj, None, "resource.k8s.io", "resourceslices")

    assert {"x": {}, "y": {"int": 1}} == found["spec"]["devices"][0]["attributes"]


def test_every_path_of_the_table_is_in_the_schema():
    kinds = {f"{k.resource}.{k.group}".rstrip("."): k for k in built_in() if not k.hub}
    missing = []
    for resource, features in _features().items():
        kind = kinds[resource]
        for _, paths in features:
            for path in paths:
                at = type_for(kind.api_version, kind.kind)
                for name in path:
                    name = name.partition("?")[0]
                    at = at.elem if name == "*" else getattr(at.fields.get(name), "type", None)
                    if at is None:
                        missing.append((resource, ".".join(path)))
                        break

    assert [] == missing
