"""Deployment, ReplicaSet, StatefulSet, DaemonSet."""

# ruff: noqa: E501  one case a line is easier to read

from __future__ import annotations

from tests.conformance.api.validation_cases.build import Body, Step, post, template, workload

_EMPTY_SELECTOR: Body = {"selector": {}}

CASES: dict[str, dict[str, Body]] = {
    "Deployment": {
        "plain": workload(),
        "recreate": workload(strategy={"type": "Recreate"}),
        "recreate-rolling": workload(strategy={"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}),
        "strategy-bad": workload(strategy={"type": "Odd"}),
        "rolling-zero": workload(strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
        "rolling-percent": workload(strategy={"rollingUpdate": {"maxSurge": "abc", "maxUnavailable": "101%"}}),
        "rolling-ok": workload(strategy={"rollingUpdate": {"maxSurge": "10%"}}),
        "selector-missing": {"spec": {"template": template()}},
        "selector-empty": workload(**_EMPTY_SELECTOR),
        "selector-bad": workload(selector={"matchExpressions": [{"key": "a", "operator": "Near"}]}),
        "template-bad": workload(template({"app": "x", "a b": "c"}, restartPolicy="OnFailure", activeDeadlineSeconds=4)),
        "template-empty": workload({"metadata": {"labels": {"app": "x"}}, "spec": {}}),
        "counts": workload(replicas=0, minReadySeconds=-1, revisionHistoryLimit=-1, progressDeadlineSeconds=-1),
        "deadline": workload(minReadySeconds=600),
        "status": {**workload(), "status": {"replicas": 5}},
        "host-network": workload(template(hostNetwork=True, containers=[{"name": "c", "image": "i:1", "ports": [{"containerPort": 80}]}])),
        "limits": workload(template(containers=[{"name": "c", "image": "i:1", "resources": {"limits": {"cpu": "0.5"}}}])),
        "negative-grace": workload(template(terminationGracePeriodSeconds=-1)),
        "paused": workload(paused=True),
        "name-dots": {**workload(), "metadata": {"name": "de.ploy"}},
        "warn": workload(template(nodeSelector={"beta.kubernetes.io/os": "linux"})),
    },
    "ReplicaSet": {
        "plain": workload(),
        "bad": workload(template({"app": "y"}), replicas=-1, minReadySeconds=-1),
        "no-template": {"spec": {"selector": {"matchLabels": {"app": "x"}}}},
    },
    "StatefulSet": {
        "plain": workload(serviceName="s"),
        "no-service": workload(),
        "claims": workload(template(containers=[{"name": "c", "image": "i:1", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}]), serviceName="s",
                           volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
                                                                                          "resources": {"requests": {"storage": "1Gi"}}}}]),
        "claims-bad": workload(serviceName="s", volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": {}}]),
        "strategy": workload(serviceName="s", updateStrategy={"type": "OnDelete"}),
        "strategy-bad": workload(serviceName="s", updateStrategy={"type": "Odd"}, podManagementPolicy="Odd"),
        "partition": workload(serviceName="s", updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": -1}}),
        "ondelete-rolling": workload(serviceName="s", updateStrategy={"type": "OnDelete", "rollingUpdate": {"partition": 1}}),
        "retention": workload(serviceName="Bad!", persistentVolumeClaimRetentionPolicy={"whenDeleted": "Delete", "whenScaled": "Odd"}),
        "ordinals": workload(serviceName="s", ordinals={"start": -1}, replicas=-1, minReadySeconds=-3),
        "name-dots": {**workload(serviceName="s"), "metadata": {"name": "a.b"}},
        "restart": workload(template({"app": "y"}, restartPolicy="Never"), serviceName="s"),
    },
    "DaemonSet": {
        "plain": workload(),
        "surge": workload(updateStrategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}),
        "zero": workload(updateStrategy={"rollingUpdate": {"maxUnavailable": 0}}),
        "percent": workload(updateStrategy={"rollingUpdate": {"maxUnavailable": "120%"}}),
        "strategy-bad": workload(updateStrategy={"type": "Odd"}),
        "on-delete": workload(updateStrategy={"type": "OnDelete"}),
        "selector-missing": {"spec": {"template": template()}},
        "selector-empty": workload(**_EMPTY_SELECTOR),
        "mismatch": workload(template({"app": "y"}), minReadySeconds=-1, revisionHistoryLimit=-1),
    },
}  # fmt: skip


def steps(namespace: str) -> list[Step]:
    return [
        post(kind, case, body, namespace)
        for kind, cases in CASES.items()
        for case, body in cases.items()
    ]
