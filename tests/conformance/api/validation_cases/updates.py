"""Changes: what is immutable, what is kept, what raises the generation."""

# ruff: noqa: E501  one case a line is easier to read

from __future__ import annotations

from typing import Any

from tests.conformance.api.validation_cases.build import Step, patch, pod, post

_TERM = "requiredDuringSchedulingIgnoredDuringExecution"
_IMAGE = [{"name": "main", "image": "registry.example/app:2"}]


def _pod_steps(namespace: str) -> list[Step]:
    gated = pod(
        schedulingGates=[{"name": "a.example/one"}, {"name": "a.example/two"}],
        nodeSelector={"disk": "ssd"},
        affinity={"nodeAffinity": {_TERM: {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "z", "operator": "In", "values": ["a"]}]}]}}},
    )  # fmt: skip
    narrowed = {"nodeSelectorTerms": [{"matchExpressions": [
        {"key": "z", "operator": "In", "values": ["a"]}, {"key": "y", "operator": "Exists"}]}]}  # fmt: skip
    widened = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "q", "operator": "Exists"}]}]}
    two_terms = {
        "nodeSelectorTerms": [*narrowed["nodeSelectorTerms"], *widened["nodeSelectorTerms"]]
    }
    changes: list[tuple[str, str, Any, str]] = [
        ("label", "one", {"metadata": {"labels": {"a": "b"}}}, ""),
        ("label-bad", "one", {"metadata": {"labels": {"a b": "c d"}}}, ""),
        ("annotation-bad", "one", {"metadata": {"annotations": {"a b": "x"}}}, ""),
        ("finalizer-bad", "one", {"metadata": {"finalizers": ["odd"]}}, ""),
        ("owner-bad", "one", {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "", "name": "n", "uid": "u"}]}}, ""),
        ("generation", "one", {"metadata": {"generation": 99}}, ""),
        ("uid", "one", {"metadata": {"uid": "11111111-1111-1111-1111-111111111111"}}, ""),
        ("name", "one", {"metadata": {"name": "other"}}, ""),
        ("deadline", "one", {"spec": {"activeDeadlineSeconds": 50}}, ""),
        ("deadline-more", "one", {"spec": {"activeDeadlineSeconds": 60}}, ""),
        ("deadline-less", "one", {"spec": {"activeDeadlineSeconds": 40}}, ""),
        ("deadline-none", "one", {"spec": {"activeDeadlineSeconds": None}}, ""),
        ("image", "one", {"spec": {"containers": _IMAGE}}, ""),
        ("image-and-more", "one", {"spec": {"containers": [{**_IMAGE[0], "command": ["x"]}]}}, ""),
        ("image-empty", "one", {"spec": {"containers": [{"name": "main", "image": ""}]}}, ""),
        ("container-added", "one", {"spec": {"containers": [*_IMAGE, {"name": "b", "image": "i:1"}]}}, ""),
        ("toleration-added", "one", {"spec": {"tolerations": [
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            {"key": "x", "operator": "Exists"}]}}, ""),
        ("toleration-removed", "one", {"spec": {"tolerations": [{"key": "y", "operator": "Exists"}]}}, ""),
        ("tolerations-empty", "one", {"spec": {"tolerations": []}}, ""),
        ("priority", "one", {"spec": {"priority": 5}}, ""),
        ("priority-none", "one", {"spec": {"priority": None, "preemptionPolicy": None}}, ""),
        ("node-name", "one", {"spec": {"nodeName": "n"}}, ""),
        ("grace", "one", {"spec": {"terminationGracePeriodSeconds": 1}}, ""),
        ("volumes", "one", {"spec": {"volumes": [{"name": "v"}]}}, ""),
        ("status-ignored", "one", {"status": {"phase": "Running"}}, ""),
        ("gates-add-to-ungated", "one", {"spec": {"schedulingGates": [{"name": "a.example/x"}]}}, ""),
        ("gated-selector-add", "gated", {"spec": {"nodeSelector": {"zone": "a"}}}, ""),
        ("gated-selector-change", "gated", {"spec": {"nodeSelector": {"disk": "hdd"}}}, ""),
        ("gated-selector-remove", "gated", {"spec": {"nodeSelector": {"disk": None}}}, ""),
        ("gated-affinity-narrow", "gated", {"spec": {"affinity": {"nodeAffinity": {_TERM: narrowed}}}}, ""),
        ("gated-affinity-change", "gated", {"spec": {"affinity": {"nodeAffinity": {_TERM: widened}}}}, ""),
        ("gated-affinity-terms", "gated", {"spec": {"affinity": {"nodeAffinity": {_TERM: two_terms}}}}, ""),
        ("gated-affinity-remove", "gated", {"spec": {"affinity": None}}, ""),
        ("gated-pod-affinity", "gated", {"spec": {"affinity": {"podAffinity": {_TERM: [{"topologyKey": "z"}]}}}}, ""),
        ("gated-gate-removed", "gated", {"spec": {"schedulingGates": [{"name": "a.example/two"}]}}, ""),
        ("gated-gate-replaced", "gated", {"spec": {"schedulingGates": [{"name": "a.example/three"}]}}, ""),
        ("gated-all-removed", "gated", {"spec": {"schedulingGates": []}}, ""),
        ("ungated-selector", "gated", {"spec": {"nodeSelector": {"more": "x"}}}, ""),
        ("status-phase", "one", {"status": {"phase": "Running", "podIP": "10.0.0.9", "hostIP": "10.0.0.1"}}, "status"),
        ("status-ips", "one", {"status": {"podIPs": [{"ip": "x"}, {"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}], "podIP": "x"}}, "status"),
        ("status-host-ips", "one", {"status": {"hostIPs": [{"ip": "10.0.0.2"}]}}, "status"),
        ("status-qos", "one", {"status": {"qosClass": "Guaranteed"}}, "status"),
        ("status-condition", "one", {"status": {"conditions": [{"type": "a b", "status": "True"}, {"type": "Ready", "status": "True"}]}}, "status"),
        ("status-nominated", "one", {"status": {"nominatedNodeName": "Bad!"}}, "status"),
        ("status-nominated-ok", "one", {"status": {"nominatedNodeName": "n1"}}, "status"),
        ("status-spec", "one", {"spec": {"nodeName": "x"}, "status": {"message": "m"}}, "status"),
        ("status-claims", "one", {"status": {"resourceClaimStatuses": [{"name": "x"}]}}, "status"),
        ("status-terminated", "never", {"status": {"containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 0}}}]}}, "status"),
        ("status-revived", "never", {"status": {"containerStatuses": [{"name": "main", "state": {"running": {}}}]}}, "status"),
    ]  # fmt: skip
    setup = [
        post("Pod", "update-one", {**pod(), "metadata": {"name": "one"}}, namespace),
        post("Pod", "update-gated", {**gated, "metadata": {"name": "gated"}}, namespace),
        post("Pod", "update-never", {**pod(restartPolicy="Never"), "metadata": {"name": "never"}}, namespace),
    ]  # fmt: skip
    return setup + [patch("Pod", c, name, body, namespace, sub) for c, name, body, sub in changes]


_CHANGES: dict[str, list[tuple[str, str, Any, str]]] = {
    "Node": [
        ("label", "node-bare", {"metadata": {"labels": {"a": "b"}}}, ""),
        ("taint", "node-bare", {"spec": {"taints": [{"key": "a", "effect": "Odd"}]}}, ""),
        ("provider", "node-full", {"spec": {"providerID": "other"}}, ""),
        ("cidr", "node-full", {"spec": {"podCIDRs": ["10.9.0.0/24"], "podCIDR": "10.9.0.0/24"}}, ""),
        ("unschedulable", "node-full", {"spec": {"unschedulable": None}}, ""),
        ("status-ignored", "node-full", {"status": {"phase": "Running"}}, ""),
        ("status-capacity", "node-full", {"status": {"capacity": {"cpu": "-4"}}}, "status"),
        ("status-allocatable", "node-bare", {"status": {"capacity": {"cpu": "4"}}}, "status"),
        ("status-addresses", "node-full", {"status": {"addresses": [{"type": "A", "address": "b"}, {"type": "A", "address": "b"}]}}, "status"),
    ],
    "ConfigMap": [
        ("data", "configmap-plain", {"data": {"a": "2", "b c": "x"}}, ""),
        ("frozen-data", "configmap-immutable", {"data": {"a": "2"}}, ""),
        ("frozen-flag", "configmap-immutable", {"immutable": False}, ""),
        ("frozen-label", "configmap-immutable", {"metadata": {"labels": {"x": "y"}}}, ""),
        ("label-bad", "configmap-plain", {"metadata": {"labels": {"a b": "y"}}}, ""),
    ],
    "Secret": [
        ("type", "secret-plain", {"type": "kubernetes.io/tls"}, ""),
        ("data", "secret-plain", {"stringData": {"c": "d"}}, ""),
        ("frozen", "secret-own-type", {"data": {"x": "eA=="}}, ""),
    ],
    "Namespace": [
        ("label-removed", "ns-labels", {"metadata": {"labels": {"kubernetes.io/metadata.name": None, "a": "b"}}}, ""),
        ("finalizers-kept", "ns-labels", {"spec": {"finalizers": []}}, ""),
        ("status", "ns-labels", {"status": {"phase": "Terminating"}}, "status"),
    ],
    "Service": [
        ("selector", "service-plain", {"spec": {"selector": {"app": "y"}}}, ""),
        ("cluster-ip", "service-plain", {"spec": {"clusterIP": "10.0.5.5", "clusterIPs": ["10.0.5.5"]}}, ""),
        ("cluster-ip-none", "service-plain", {"spec": {"clusterIP": "", "clusterIPs": []}}, ""),
        ("to-node-port", "service-plain", {"spec": {"type": "NodePort"}}, ""),
        ("back", "service-plain", {"spec": {"type": "ClusterIP"}}, ""),
        ("to-external", "service-affinity", {"spec": {"type": "ExternalName", "externalName": "x.example"}}, ""),
        ("class", "service-balancer", {"spec": {"loadBalancerClass": "z.example/y"}}, ""),
        ("status", "service-balancer", {"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}, "status"),
    ],
    "Deployment": [
        ("replicas", "deployment-plain", {"spec": {"replicas": 3}}, ""),
        ("annotation", "deployment-plain", {"metadata": {"annotations": {"a": "b"}}}, ""),
        ("label", "deployment-plain", {"metadata": {"labels": {"a": "b"}}}, ""),
        ("same", "deployment-plain", {"spec": {"replicas": 3}}, ""),
        ("selector", "deployment-plain", {"spec": {"selector": {"matchLabels": {"more": "x"}}}}, ""),
        ("selector-and-template", "deployment-plain", {"spec": {"selector": {"matchLabels": {"app": "y"}}, "template": {"metadata": {"labels": {"app": "y"}}}}}, ""),
        ("strategy", "deployment-plain", {"spec": {"strategy": {"type": "Recreate", "rollingUpdate": None}}}, ""),
        ("label-bad", "deployment-plain", {"metadata": {"labels": {"a b": "c"}}}, ""),
        ("status", "deployment-plain", {"status": {"replicas": 2, "readyReplicas": 3}}, "status"),
        ("status-ok", "deployment-plain", {"metadata": {"labels": {"z": "z"}}, "status": {"replicas": 2, "readyReplicas": 1, "observedGeneration": 3}}, "status"),
        ("status-negative", "deployment-plain", {"status": {"replicas": -1}}, "status"),
    ],
    "ReplicaSet": [
        ("selector", "replicaset-plain", {"spec": {"selector": {"matchLabels": {"more": "x"}}}}, ""),
        ("status", "replicaset-plain", {"status": {"replicas": 1, "availableReplicas": 2}}, "status"),
    ],
    "StatefulSet": [
        ("replicas", "statefulset-plain", {"spec": {"replicas": 2}}, ""),
        ("service", "statefulset-plain", {"spec": {"serviceName": "other"}}, ""),
        ("policy", "statefulset-plain", {"spec": {"podManagementPolicy": "Parallel"}}, ""),
        ("template", "statefulset-plain", {"spec": {"template": {"spec": {"hostNetwork": True}}}}, ""),
        ("status", "statefulset-plain", {"status": {"replicas": 1, "currentReplicas": 2}}, "status"),
    ],
    "DaemonSet": [
        ("template", "daemonset-plain", {"spec": {"template": {"spec": {"hostNetwork": True}}}}, ""),
        ("selector", "daemonset-plain", {"spec": {"selector": {"matchLabels": {"more": "x"}}}}, ""),
        ("ready", "daemonset-plain", {"spec": {"minReadySeconds": 5}}, ""),
        ("status", "daemonset-plain", {"status": {"numberReady": -1}}, "status"),
    ],
    "ReplicationController": [
        ("replicas", "replicationcontroller-plain", {"spec": {"replicas": 5}}, ""),
        ("selector", "replicationcontroller-plain", {"spec": {"selector": {"app": "z"}}}, ""),
    ],
    "Job": [
        ("parallelism", "job-manual", {"spec": {"parallelism": 2}}, ""),
        ("completions", "job-manual", {"spec": {"completions": 5}}, ""),
        ("template", "job-manual", {"spec": {"template": {"spec": {"hostNetwork": True}}}}, ""),
        ("selector", "job-manual", {"spec": {"selector": {"matchLabels": {"app": "q"}}}}, ""),
        ("mode", "job-manual", {"spec": {"completionMode": "Indexed"}}, ""),
        ("suspend", "job-manual", {"spec": {"suspend": True}}, ""),
        ("status", "job-manual", {"status": {"active": -1}}, "status"),
    ],
    "CronJob": [
        ("schedule", "cronjob-plain", {"spec": {"schedule": "bad"}}, ""),
        ("suspend", "cronjob-plain", {"spec": {"suspend": True}}, ""),
    ],
    "PersistentVolume": [
        ("source", "persistentvolume-plain", {"spec": {"hostPath": {"path": "/other"}}}, ""),
        ("capacity", "persistentvolume-plain", {"spec": {"capacity": {"storage": "2Gi"}}}, ""),
        ("mode", "persistentvolume-plain", {"spec": {"volumeMode": "Block"}}, ""),
        ("affinity", "persistentvolume-local-ok", {"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "q", "operator": "Exists"}]}]}}}}, ""),
        ("reclaim", "persistentvolume-plain", {"spec": {"persistentVolumeReclaimPolicy": "Delete"}}, ""),
    ],
    "PersistentVolumeClaim": [
        ("size", "persistentvolumeclaim-plain", {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}, ""),
        ("smaller", "persistentvolumeclaim-plain", {"spec": {"resources": {"requests": {"storage": "1Mi"}}}}, ""),
        ("modes", "persistentvolumeclaim-plain", {"spec": {"accessModes": ["ReadWriteMany"]}}, ""),
        ("volume", "persistentvolumeclaim-plain", {"spec": {"volumeName": "v1"}}, ""),
        ("volume-again", "persistentvolumeclaim-plain", {"spec": {"volumeName": "v2"}}, ""),
        ("class", "persistentvolumeclaim-plain", {"spec": {"storageClassName": "fast"}}, ""),
        ("class-again", "persistentvolumeclaim-plain", {"spec": {"storageClassName": "slow"}}, ""),
        ("status", "persistentvolumeclaim-plain", {"status": {"phase": "Bound", "capacity": {"storage": "1.5Gi"}}}, "status"),
        ("grow-bound", "persistentvolumeclaim-plain", {"spec": {"resources": {"requests": {"storage": "3Gi"}}}}, ""),
    ],
    "StorageClass": [
        ("provisioner", "storageclass-plain", {"provisioner": "other"}, ""),
        ("parameters", "storageclass-plain", {"parameters": {"a": "b"}}, ""),
        ("expansion", "storageclass-plain", {"allowVolumeExpansion": True}, ""),
        ("mode", "storageclass-plain", {"volumeBindingMode": "WaitForFirstConsumer"}, ""),
    ],
    "PodDisruptionBudget": [
        ("spec", "poddisruptionbudget-plain", {"spec": {"minAvailable": 2}}, ""),
        ("both", "poddisruptionbudget-plain", {"spec": {"maxUnavailable": 2}}, ""),
        ("status", "poddisruptionbudget-plain", {"status": {"disruptionsAllowed": -1}}, "status"),
    ],
    "PriorityClass": [
        ("value", "priorityclass-plain", {"value": 6}, ""),
        ("policy", "priorityclass-plain", {"preemptionPolicy": "Never"}, ""),
        ("description", "priorityclass-plain", {"description": "new"}, ""),
    ],
    "Lease": [("duration", "lease-plain", {"spec": {"leaseDurationSeconds": 0}}, "")],
    "RoleBinding": [("role", "rolebinding-plain", {"roleRef": {"name": "other"}}, "")],
    "ResourceQuota": [("scopes", "resourcequota-plain", {"spec": {"scopes": ["NotTerminating"]}}, "")],
    "ResourceClaim": [("spec", "resourceclaim-plain", {"spec": {"devices": {"requests": []}}}, "")],
    "ResourceClaimTemplate": [("spec", "resourceclaimtemplate-plain", {"spec": {"spec": {"devices": {"requests": []}}}}, "")],
    "ResourceSlice": [("node", "resourceslice-plain", {"spec": {"nodeName": "other", "driver": "e.example"}}, "")],
    "DeviceClass": [("spec", "deviceclass-plain", {"spec": {"selectors": []}}, "")],
    "CSINode": [("driver", "csinode-plain", {"spec": {"drivers": [{"name": "d.example", "nodeID": "other"}]}}, "")],
}  # fmt: skip


def steps(namespace: str) -> list[Step]:
    out = _pod_steps(namespace)
    for kind, changes in _CHANGES.items():
        for case, name, body, sub in changes:
            step = patch(kind, case, name, body, namespace, sub)
            if kind == "PersistentVolume":
                step["compare"] = {"ignore": ["/status/lastPhaseTransitionTime"]}
            out.append(step)
    return out
