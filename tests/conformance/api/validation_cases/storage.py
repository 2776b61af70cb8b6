"""PersistentVolume, PersistentVolumeClaim and storage.k8s.io."""

# ruff: noqa: E501  one case a line is easier to read

from __future__ import annotations

from typing import Any

from tests.conformance.api.validation_cases.build import Body, Step, post

_RWO = ["ReadWriteOnce"]
_TERMS = {
    "required": {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "h", "operator": "In", "values": ["a"]}]}
        ]
    }
}


def volume(**spec: Any) -> Body:
    base = {"capacity": {"storage": "1Gi"}, "accessModes": _RWO, "hostPath": {"path": "/x"}}
    merged = {**base, **spec}
    return {"spec": {key: value for key, value in merged.items() if value is not None}}


def claim(**spec: Any) -> Body:
    merged = {"accessModes": _RWO, "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return {"spec": {key: value for key, value in merged.items() if value is not None}}


_TIME = {"ignore": ["/status/lastPhaseTransitionTime"]}

CASES: dict[str, dict[str, Body]] = {
    "PersistentVolume": {
        "plain": volume(),
        "local": volume(hostPath=None, local={"path": "/d"}),
        "local-ok": volume(hostPath=None, local={"path": "/d"}, nodeAffinity=_TERMS, storageClassName="fast"),
        "no-source": volume(hostPath=None),
        "two-sources": volume(nfs={"server": "s", "path": "/p"}),
        "modes": volume(accessModes=["Odd", "ReadWriteOncePod", "ReadWriteOnce"]),
        "modes-empty": volume(accessModes=[]),
        "capacity": volume(capacity={"storage": "-1", "cpu": "1"}),
        "capacity-missing": volume(capacity=None),
        "capacity-zero": volume(capacity={"storage": "0"}),
        "reclaim": volume(persistentVolumeReclaimPolicy="Odd"),
        "reclaim-recycle-root": volume(hostPath={"path": "/"}, persistentVolumeReclaimPolicy="Recycle"),
        "class-bad": volume(storageClassName="Bad!", volumeMode="Odd"),
        "csi": volume(hostPath=None, csi={"driver": "d.example", "volumeHandle": ""}),
        "csi-ok": volume(hostPath=None, csi={"driver": "d.example", "volumeHandle": "h", "nodePublishSecretRef": {"name": "s"}}),
        "affinity-bad": volume(nodeAffinity={"required": {"nodeSelectorTerms": []}}),
        "affinity-empty": volume(nodeAffinity={}),
        "claim-ref": volume(claimRef={"namespace": "checks", "name": "c"}),
        "status": {**volume(), "status": {"phase": "Available"}},
        "warn": volume(persistentVolumeReclaimPolicy="Recycle", nodeAffinity={"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "failure-domain.beta.kubernetes.io/zone", "operator": "In", "values": ["a"]}]}]}}),
        "attributes": volume(volumeAttributesClassName=""),
    },
    "PersistentVolumeClaim": {
        "plain": claim(),
        "class": claim(storageClassName="", volumeName="v"),
        "modes": claim(accessModes=["Odd"], volumeMode="Odd", storageClassName="Bad!"),
        "size": claim(resources={"requests": {"storage": "-1"}}),
        "size-zero": claim(resources={"requests": {"storage": "0"}}),
        "warn-fraction": claim(resources={"requests": {"storage": "1500m"}}),
        "size-fraction": claim(resources={"requests": {"storage": "1.5Gi"}}),
        "selector": claim(selector={"matchLabels": {"a b": "c"}}),
        "source": claim(dataSource={"kind": "VolumeSnapshot", "name": "s", "apiGroup": "snapshot.storage.k8s.io"}),
        "source-bad": claim(dataSource={"kind": "Odd", "name": ""}),
        "source-ref": claim(dataSourceRef={"kind": "PersistentVolumeClaim", "name": "c"}),
        "status": {**claim(), "status": {"phase": "Bound"}},
    },
    "StorageClass": {
        "plain": {"provisioner": "p.example/x"},
        "full": {"provisioner": "P.example/x", "parameters": {"a": "b"}, "reclaimPolicy": "Retain", "volumeBindingMode": "WaitForFirstConsumer",
                 "allowVolumeExpansion": True, "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}]},
        "bad": {"provisioner": "a b", "reclaimPolicy": "Recycle", "volumeBindingMode": "Odd",
                "allowedTopologies": [{"matchLabelExpressions": [{"key": "a b", "values": []}, {"key": "z", "values": ["a", "a"]}]}]},
        "no-provisioner": {},
    },
    "CSINode": {
        "plain": {"spec": {"drivers": [{"name": "d.example", "nodeID": "n", "topologyKeys": ["zone"], "allocatable": {"count": 5}}]}},
        "bad": {"spec": {"drivers": [{"name": "", "nodeID": ""}, {"name": "d", "nodeID": "n", "allocatable": {"count": -1}, "topologyKeys": ["", "a", "a"]},
                                     {"name": "d", "nodeID": "n"}]}},
    },
    "CSIDriver": {
        "plain": {"spec": {}},
        "bad": {"spec": {"fsGroupPolicy": "Odd", "volumeLifecycleModes": ["Odd"]}},
    },
    "CSIStorageCapacity": {
        "plain": {"storageClassName": "fast", "capacity": "1.5Gi", "nodeTopology": {"matchLabels": {"a": "b"}}},
        "bad": {"storageClassName": "Bad!", "capacity": "-1", "maximumVolumeSize": "-1"},
    },
}  # fmt: skip


def steps(namespace: str) -> list[Step]:
    return [
        post(kind, case, body, namespace, **({"compare": _TIME} if kind == "PersistentVolume" else {}))
        for kind, cases in CASES.items()
        for case, body in cases.items()
    ]  # fmt: skip
