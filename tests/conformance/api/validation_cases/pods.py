"""Pods: every part of the spec, right and wrong."""

# ruff: noqa: E501  one case a line is easier to read

from __future__ import annotations

from tests.conformance.api.validation_cases.build import Body, Step, pod, post

_LONG = "x" * 64
_TERM = "requiredDuringSchedulingIgnoredDuringExecution"
_SOFT = "preferredDuringSchedulingIgnoredDuringExecution"


def _volumes(*volumes: Body) -> Body:
    return pod(volumes=list(volumes))


def _affinity(**parts: Body) -> Body:
    return pod(affinity=parts)


def _probe(**probe: object) -> Body:
    return pod({"livenessProbe": probe})


CASES: dict[str, Body] = {
    # images, names and metadata
    "image-latest": pod({"image": "registry.example/app:latest"}),
    "image-none-tag": pod({"image": "registry.example:5000/a/b"}),
    "image-digest": pod({"image": "registry.example/app@sha256:" + "a" * 64}),
    "image-tag-digest": pod({"image": "registry.example/app:latest@sha256:" + "a" * 64}),
    "image-upper": pod({"image": "Registry/App"}),
    "image-spaces": pod({"image": " registry.example/app:1 "}),
    "image-empty": pod({"image": ""}),
    "name-container-upper": pod({"name": "Main"}),
    "name-container-dots": pod({"name": "a.b"}),
    "name-container-long": pod({"name": _LONG}),
    "name-container-empty": pod({"name": ""}),
    "name-upper": {**pod(), "metadata": {"name": "Upper"}},
    "name-dots": {**pod(), "metadata": {"name": "pod.with.dots"}},
    "generate-name": {**pod(), "metadata": {"generateName": "gen-"}},
    "generate-name-bad": {**pod(), "metadata": {"generateName": "Gen_"}},
    "annotation-key": {**pod(), "metadata": {"name": "ann", "annotations": {"a b": "x", "C/d": "y"}}},
    "owner-bad": {**pod(), "metadata": {"name": "own", "ownerReferences": [
        {"apiVersion": "", "kind": "", "name": "", "uid": ""}]}},
    "owner-two-controllers": {**pod(), "metadata": {"name": "own2", "ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "a", "uid": "1", "controller": True},
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "b", "uid": "2", "controller": True}]}},
    "finalizers-both": {**pod(), "metadata": {"name": "fin", "finalizers": [
        "orphan", "foregroundDeletion", "unknown"]}},
    "deletion-cost": {**pod(), "metadata": {"name": "cost", "annotations": {
        "controller.kubernetes.io/pod-deletion-cost": "+7"}}},
    "status-is-dropped": {**pod(), "status": {"phase": "Running", "podIP": "10.0.0.1"}},
    # the spec's own fields
    "restart-policy": pod(restartPolicy="Sometimes"),
    "dns-policy": pod(dnsPolicy="Mine"),
    "dns-none": pod(dnsPolicy="None"),
    "dns-none-empty": pod(dnsPolicy="None", dnsConfig={"searches": ["a.example"]}),
    "dns-config": pod(dnsConfig={"nameservers": ["1.1.1.1", "not-an-ip", "8.8.8.8", "9.9.9.9"],
                                 "searches": ["ok.example", "Bad!", "."], "options": [{"value": "x"}]}),
    "host-network": pod({"ports": [{"containerPort": 80}]}, hostNetwork=True),
    "host-network-mismatch": pod({"ports": [{"containerPort": 80, "hostPort": 81}]}, hostNetwork=True),
    "service-account": pod(serviceAccountName="robot"),
    "service-account-old": pod(serviceAccount="robot"),
    "service-account-bad": pod(serviceAccountName="Robot!"),
    "node-name": pod(nodeName="some-node"),
    "node-name-bad": pod(nodeName="Some Node"),
    "node-name-gated": pod(nodeName="some-node", schedulingGates=[{"name": "a.example/g"}]),
    "deadline-zero": pod(activeDeadlineSeconds=0),
    "deadline-big": pod(activeDeadlineSeconds=3000000000),
    "deadline-ok": pod(activeDeadlineSeconds=60),
    "hostname": pod(hostname="web", subdomain="front", setHostnameAsFQDN=True),
    "hostname-bad": pod(hostname="Web.1", subdomain="f_r"),
    "hostname-override": pod(hostnameOverride="a.b", hostNetwork=True, setHostnameAsFQDN=True),
    "host-aliases": pod(hostAliases=[{"ip": "1.2.3.4", "hostnames": ["a.b", "A"]}, {"ip": "x"}]),
    "priority-class-name": pod(priorityClassName="system-node-critical"),
    "priority-class-cluster": pod(priorityClassName="system-cluster-critical"),
    "priority-class-bad": pod(priorityClassName="Bad Name"),
    "preemption-policy-mismatch": pod(preemptionPolicy="Never"),
    "preemption-policy-bad": pod(preemptionPolicy="Perhaps"),
    "priority-given": pod(priority=10),
    "runtime-class-missing": pod(runtimeClassName="vm"),
    "overhead-without-class": pod(overhead={"cpu": "1"}),
    "os-linux": pod(os={"name": "linux"}),
    "os-bad": pod(os={"name": "plan9"}),
    "os-empty": pod(os={"name": ""}),
    "node-selector-bad": pod(nodeSelector={"a b": "c d"}),
    "pull-secrets": pod(imagePullSecrets=[{"name": "s"}, {}]),
    "readiness-gates": pod(readinessGates=[{"conditionType": "a.example/ok"}, {"conditionType": "-"}]),
    "share-process": pod(shareProcessNamespace=True, hostPID=True),
    "host-users": pod(hostUsers=False, hostNetwork=True, hostPID=True, hostIPC=True),
    "scheduling-gates": pod(schedulingGates=[{"name": "a.example/one"}]),
    "ephemeral-on-create": pod(ephemeralContainers=[{"name": "dbg", "image": "i:1"}]),
    "no-spec": {},
    "topology-key-empty": pod(topologySpreadConstraints=[
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway",
         "labelSelector": {}},
        {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]),
    "spread-policies": pod(topologySpreadConstraints=[
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 0,
         "nodeAffinityPolicy": "Maybe", "nodeTaintsPolicy": "Honor",
         "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}]),
    "spread-keys": {**pod(topologySpreadConstraints=[
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
         "matchLabelKeys": ["app", "missing"], "labelSelector": {"matchLabels": {"tier": "a"}}}]),
        "metadata": {"name": "spread-keys", "labels": {"app": "x", "tier": "a"}}},
    "spread-keys-twice": {**pod(topologySpreadConstraints=[
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
         "matchLabelKeys": ["app"], "labelSelector": {"matchLabels": {"app": "x"}}}]),
        "metadata": {"name": "spread-keys-twice", "labels": {"app": "x"}}},
    "spread-keys-no-selector": pod(topologySpreadConstraints=[
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
         "matchLabelKeys": ["app"]}]),
    # containers
    "ports-names": pod({"ports": [{"name": "http", "containerPort": 80}, {"name": "http", "containerPort": 81},
                                  {"name": "UPPER", "containerPort": 82}, {"name": "a--b", "containerPort": 83},
                                  {"name": "1234", "containerPort": 84}, {"containerPort": 0}]}),
    "ports-protocol": pod({"ports": [{"containerPort": 80, "protocol": "ICMP", "hostPort": 70000}]}),
    "ports-host-ip": pod({"ports": [{"containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.1"},
                                    {"containerPort": 81, "hostPort": 80, "hostIP": "10.0.0.2"}]}),
    "env": pod({"env": [{"name": "A", "value": "1"}, {"name": "", "value": "2"}, {"name": "a=b"},
                        {"name": "F", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                        {"name": "G", "valueFrom": {"fieldRef": {"fieldPath": "spec.unknown"}}},
                        {"name": "H", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['x']"}}},
                        {"name": "I", "valueFrom": {"fieldRef": {"fieldPath": "status.phase"}}},
                        {"name": "J", "valueFrom": {}},
                        {"name": "K", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}),
    "env-refs": pod({"env": [
        {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "k"}}},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "Bad!", "key": "a b"}}},
        {"name": "C", "valueFrom": {"secretKeyRef": {"name": "s"}}},
        {"name": "D", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
        {"name": "E", "valueFrom": {"resourceFieldRef": {"resource": "limits.gpu"}}},
        {"name": "F", "valueFrom": {"resourceFieldRef": {"resource": "requests.memory", "divisor": "3"}}}]}),
    "env-ok": pod({"env": [
        {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "k", "optional": True}}},
        {"name": "D", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}],
        "envFrom": [{"prefix": "P_", "configMapRef": {"name": "cm"}}, {"secretRef": {"name": "s"}}]}),
    "env-from": pod({"envFrom": [{}, {"configMapRef": {"name": ""}, "secretRef": {"name": "s"}},
                                 {"secretRef": {"name": "Bad!"}}]}),
    "pull-policy": pod({"imagePullPolicy": "Often"}),
    "message-policy": pod({"terminationMessagePolicy": "Shout"}),
    "resources-odd": pod({"resources": {"requests": {"cpu": "1.5", "memory": "1.5Gi", "ephemeral-storage": "1e3"},
                                        "limits": {"cpu": "2000m", "memory": "2048Mi"}}}),
    "resources-nano": pod({"resources": {"requests": {"cpu": "0.0001"}}}),
    "resources-hugepages": pod({"resources": {"requests": {"hugepages-2Mi": "3Mi"}, "limits": {"hugepages-2Mi": "3Mi"}}}),
    "resources-hugepages-ok": pod({"resources": {"limits": {"hugepages-2Mi": "4Mi", "memory": "1Gi"}}}),
    "resources-extended": pod({"resources": {"limits": {"vendor.example/chip": "2"}}}),
    "resources-extended-mismatch": pod({"resources": {"limits": {"vendor.example/chip": "2"},
                                                      "requests": {"vendor.example/chip": "1"}}}),
    "resources-kubernetes": pod({"resources": {"limits": {"kubernetes.io/x": "2", "requests.example/x": "1"}}}),
    "resources-claims": pod({"resources": {"claims": [{"name": "gpu"}, {"name": "gpu"}, {"name": ""}, {"name": "no"}]}},
                            resourceClaims=[{"name": "gpu", "resourceClaimName": "g"}]),
    "resource-claims-bad": pod(resourceClaims=[{"name": "a"}, {"name": "a", "resourceClaimName": "x"},
                                               {"name": "", "resourceClaimName": "X"},
                                               {"name": "b", "resourceClaimName": "x", "resourceClaimTemplateName": "y"}]),
    "resources-pod-level": pod({"resources": {"requests": {"cpu": "100m"}}},
                               resources={"limits": {"cpu": "1", "memory": "1Gi"}}),
    "resources-pod-level-small": pod({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "3"}}},
                                     resources={"requests": {"cpu": "1"}, "limits": {"cpu": "1", "gizmo": "1"}}),
    "guaranteed": pod({"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}),
    "resize-policy": pod({"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"},
                                           {"resourceName": "cpu", "restartPolicy": "Often"},
                                           {"resourceName": "disk", "restartPolicy": "RestartContainer"}]}),
    "resize-never": pod({"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]}, restartPolicy="Never"),
    "container-restart": pod({"restartPolicy": "Never"}),
    "container-restart-rules": pod({"restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "Near", "values": [1]}},
                                                           {"action": "Jump"}]}),
    # probes and lifecycle
    "probe-exec": _probe(exec={"command": ["true"]}),
    "probe-none": _probe(periodSeconds=5),
    "probe-two": _probe(exec={"command": ["true"]}, tcpSocket={"port": 80}),
    "probe-negative": _probe(exec={}, initialDelaySeconds=-1, timeoutSeconds=-1, successThreshold=2),
    "probe-http": _probe(httpGet={"port": "http-port-name-too-long", "scheme": "GOPHER", "httpHeaders": [{"name": "a b", "value": ""}]}),
    "probe-http-ok": _probe(httpGet={"port": "web", "host": "h"}, terminationGracePeriodSeconds=5),
    "probe-grpc": _probe(grpc={"port": 99999}),
    "probe-grpc-ok": _probe(grpc={"port": 9090}),
    "probe-grace-zero": _probe(tcpSocket={"port": 1}, terminationGracePeriodSeconds=0),
    "probe-ready-grace": pod({"readinessProbe": {"tcpSocket": {"port": 1}, "terminationGracePeriodSeconds": 5, "successThreshold": 3}}),
    "probe-startup": pod({"startupProbe": {"tcpSocket": {"port": 0}, "successThreshold": 3}}),
    "lifecycle": pod({"lifecycle": {"postStart": {}, "preStop": {"sleep": {"seconds": 99}}}}),
    "lifecycle-ok": pod({"lifecycle": {"preStop": {"httpGet": {"port": 80}}, "postStart": {"exec": {"command": ["a"]}}}}),
    # init containers
    "init-probes": pod(initContainers=[{"name": "i", "image": "i:1", "livenessProbe": {"exec": {"command": ["x"]}},
                                        "readinessProbe": {"exec": {"command": ["x"]}}, "lifecycle": {"preStop": {"exec": {"command": ["x"]}}}}]),
    "init-sidecar": pod(initContainers=[{"name": "i", "image": "i:1", "restartPolicy": "Always",
                                         "startupProbe": {"exec": {"command": ["x"]}}, "ports": [{"containerPort": 1}]}]),
    "init-restart": pod(initContainers=[{"name": "i", "image": "i:1", "restartPolicy": "Maybe"}]),
    "init-twice": pod(initContainers=[{"name": "i", "image": "i:1"}, {"name": "i", "image": ""}]),
    # volumes and mounts
    "volume-default": _volumes({"name": "v"}),
    "volume-many": _volumes({"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}, "secret": {"secretName": "s"}}),
    "volume-names": _volumes({"name": "A"}, {"name": "v"}, {"name": "v"}, {"emptyDir": {}}),
    "volume-host-path": _volumes({"name": "a", "hostPath": {"path": "/x"}}, {"name": "b", "hostPath": {"path": "/a/../b"}},
                                 {"name": "c", "hostPath": {"path": ""}}, {"name": "d", "hostPath": {"path": "/x", "type": "Odd"}}),
    "volume-host-path-ok": _volumes({"name": "a", "hostPath": {"path": "/x", "type": "Directory"}}),
    "volume-config-map": _volumes({"name": "a", "configMap": {"name": ""}}, {"name": "b", "configMap": {
        "name": "c", "defaultMode": 1000, "items": [{"key": "", "path": ""}, {"key": "k", "path": "/abs"}, {"key": "k", "path": "..x", "mode": -1}]}}),
    "volume-secret": _volumes({"name": "a", "secret": {}}, {"name": "b", "secret": {"secretName": "s", "items": [{"key": "k", "path": "a/../b"}]}}),
    "volume-downward": _volumes({"name": "a", "downwardAPI": {"items": [
        {"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}, {"path": "", "fieldRef": {"fieldPath": "spec.nodeName"}},
        {"path": "x"}, {"path": "r", "resourceFieldRef": {"resource": "limits.cpu"}}]}}),
    "volume-downward-ok": _volumes({"name": "a", "downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}}),
    "volume-projected": _volumes({"name": "a", "projected": {"sources": [
        {"secret": {"name": "s", "items": [{"key": "k", "path": "p"}]}}, {"configMap": {"name": "c", "items": [{"key": "k", "path": "p"}]}},
        {"secret": {"name": ""}, "configMap": {"name": "c"}}, {"serviceAccountToken": {"expirationSeconds": 5, "path": ""}}]}}),
    "volume-projected-ok": pod(serviceAccountName="robot", volumes=[{"name": "a", "projected": {"sources": [
        {"serviceAccountToken": {"path": "token"}}, {"configMap": {"name": "c"}},
        {"downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]}}]}}]),
    "volume-claim": _volumes({"name": "a", "persistentVolumeClaim": {"claimName": ""}}),
    "volume-csi": _volumes({"name": "a", "csi": {"driver": ""}}, {"name": "b", "csi": {"driver": "Csi.example", "nodePublishSecretRef": {}}}),
    "volume-nfs": _volumes({"name": "a", "nfs": {"server": "", "path": "rel"}}),
    "volume-old": _volumes({"name": "a", "gcePersistentDisk": {"pdName": "", "partition": 300}}, {"name": "b", "awsElasticBlockStore": {"volumeID": ""}},
                           {"name": "c", "rbd": {"monitors": [], "image": ""}}, {"name": "d", "iscsi": {"targetPortal": "", "iqn": "bad", "lun": 999}},
                           {"name": "e", "fc": {}}, {"name": "f", "azureDisk": {"diskName": "", "diskURI": ""}},
                           {"name": "g", "cephfs": {"monitors": []}}, {"name": "h", "flocker": {}}),
    "volume-old-ok": _volumes({"name": "c", "rbd": {"monitors": ["m"], "image": "i"}},
                              {"name": "d", "iscsi": {"targetPortal": "1.2.3.4", "iqn": "iqn.2001-04.com.example:disk", "lun": 1}},
                              {"name": "i", "scaleIO": {"gateway": "g", "system": "s", "volumeName": "v", "secretRef": {"name": "x"}}}),
    "volume-ephemeral": _volumes({"name": "a", "ephemeral": {}}, {"name": "b", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}),
    "volume-ephemeral-ok": _volumes({"name": "b", "ephemeral": {"volumeClaimTemplate": {"spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}}),
    "volume-image": _volumes({"name": "a", "image": {"reference": "r.example/x:latest"}}, {"name": "b", "image": {"reference": "", "pullPolicy": "No"}}),
    "volume-size-limit": _volumes({"name": "a", "emptyDir": {"sizeLimit": "-1"}}),
    "volume-size-limit-ok": _volumes({"name": "a", "emptyDir": {"medium": "Memory", "sizeLimit": "0.5Gi"}}),
    "mounts": pod({"volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "no", "mountPath": "/a"}, {"name": "v", "mountPath": ""},
                                    {"name": "v", "mountPath": "/b", "subPath": "/abs"}, {"name": "v", "mountPath": "/c", "subPath": "a", "subPathExpr": "../b"},
                                    {"name": "v", "mountPath": "/d", "mountPropagation": "Sideways"},
                                    {"name": "v", "mountPath": "/e", "recursiveReadOnly": "Enabled"}]}, volumes=[{"name": "v", "emptyDir": {}}]),
    "devices": pod({"volumeDevices": [{"name": "v", "devicePath": "/dev/a"}, {"name": "p", "devicePath": "/dev/a"}, {"name": "no", "devicePath": "../x"},
                                      {"name": "p", "devicePath": ""}]},
                   volumes=[{"name": "v", "emptyDir": {}}, {"name": "p", "persistentVolumeClaim": {"claimName": "c"}}]),
    # security
    "security": pod({"securityContext": {"runAsUser": -1, "runAsGroup": 3000000000, "procMount": "Odd", "seccompProfile": {"type": "Localhost"},
                                         "appArmorProfile": {"type": "Localhost", "localhostProfile": " x"}}},
                    securityContext={"fsGroup": -5, "supplementalGroups": [1, -1], "fsGroupChangePolicy": "Never", "seccompProfile": {"type": ""},
                                     "sysctls": [{"name": "", "value": ""}, {"name": "kernel.shm_rmid_forced", "value": "1"}, {"name": "A", "value": ""}]}),
    "security-escalation": pod({"securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"add": ["CAP_SYS_ADMIN"]}}}),
    "security-ok": pod({"securityContext": {"runAsUser": 1000, "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}}},
                       securityContext={"runAsNonRoot": True, "fsGroup": 0, "fsGroupChangePolicy": "OnRootMismatch"}),
    # placement
    "tolerations": pod(tolerations=[{"operator": "Equal"}, {"key": "a b", "operator": "Exists", "value": "x"}, {"key": "k", "operator": "Near"},
                                    {"key": "k", "effect": "Odd"}, {"key": "k", "effect": "NoSchedule", "tolerationSeconds": 5},
                                    {"key": "k", "value": "a b"}, {"key": "k", "operator": "Gt", "value": "5"}]),
    "tolerations-all": pod(tolerations=[{"operator": "Exists"}]),
    "tolerations-key": pod(tolerations=[{"key": "node.kubernetes.io/not-ready", "operator": "Equal", "value": "x", "effect": "NoExecute"}]),
    "node-affinity-empty": _affinity(nodeAffinity={_TERM: {"nodeSelectorTerms": []}}),
    "node-affinity-fields": _affinity(nodeAffinity={_TERM: {"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}, {"key": "metadata.uid", "operator": "Exists"}]},
        {"matchExpressions": [{"key": "", "operator": "Near", "values": ["a b"]}]}]}}),
    "node-affinity-soft": _affinity(nodeAffinity={_SOFT: [{"weight": 0, "preference": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["a b"]}]}},
                                                          {"weight": 101, "preference": {}}]}),
    "node-affinity-ok": _affinity(nodeAffinity={_TERM: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "n", "operator": "Gt", "values": ["5"]}]}]}}),
    "pod-affinity": _affinity(podAffinity={_TERM: [{"topologyKey": "a b", "namespaces": ["Bad!"], "labelSelector": {"matchLabels": {"a b": "c"}},
                                                     "namespaceSelector": {"matchExpressions": [{"key": "x", "operator": "In"}]}}],
                                           _SOFT: [{"weight": 1, "podAffinityTerm": {"topologyKey": "", "matchLabelKeys": ["a"]}}]}),
    "pod-affinity-keys": {**_affinity(podAntiAffinity={_TERM: [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"tier": "a"}},
                                                                "matchLabelKeys": ["app"], "mismatchLabelKeys": ["team"]}]}),
                          "metadata": {"name": "aff-keys", "labels": {"app": "x", "team": "blue"}}},
    "pod-affinity-keys-both": {**_affinity(podAffinity={_TERM: [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}},
                                                                 "matchLabelKeys": ["app"], "mismatchLabelKeys": ["app"]}]}),
                               "metadata": {"name": "aff-both", "labels": {"app": "x"}}},
    # allowed, with a warning
    "warn-env": pod({"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}, {"name": "A", "value": "x$(A)"}]}),
    "warn-ports": pod({"ports": [{"containerPort": 80, "name": "a"}, {"containerPort": 80, "hostPort": 8080}, {"containerPort": 80, "name": "b"}]},
                      initContainers=[{"name": "i", "image": "i:1", "ports": [{"containerPort": 81, "name": "a"}]}]),
    "warn-labels": pod(nodeSelector={"beta.kubernetes.io/os": "linux"}, topologySpreadConstraints=[
        {"maxSkew": 1, "topologyKey": "failure-domain.beta.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}]),
    "warn-affinity": _affinity(podAffinity={_TERM: [{"topologyKey": "zone"}]}, podAntiAffinity={_SOFT: [{"weight": 1, "podAffinityTerm": {"topologyKey": "zone"}}]},
                               nodeAffinity={_SOFT: [{"weight": 1, "preference": {"matchExpressions": [
                                   {"key": "beta.kubernetes.io/arch", "operator": "In", "values": ["a b"]}]}}]}),
    "warn-fraction": pod({"resources": {"requests": {"memory": "1500m", "ephemeral-storage": "0.5"}}}),
    "warn-annotations": {**pod(), "metadata": {"name": "warn-ann", "annotations": {
        "scheduler.alpha.kubernetes.io/critical-pod": "", "seccomp.security.alpha.kubernetes.io/pod": "unconfined"}}},
    "warn-lists": pod(hostAliases=[{"ip": "1.2.3.4"}, {"ip": "1.2.3.4"}], imagePullSecrets=[{"name": "a"}, {"name": "a"}]),
    "warn-grace": pod(terminationGracePeriodSeconds=-1),
    # empties that vanish or stay
    "empties": {"metadata": {"name": "empties", "labels": {}, "annotations": {}},
                "spec": {"containers": [{"name": "c", "image": "i:1", "command": [], "args": [], "env": [], "ports": [], "resources": {"limits": {}},
                                         "volumeMounts": [], "securityContext": {}, "workingDir": ""}],
                         "volumes": [], "tolerations": [], "nodeSelector": {}, "affinity": {}, "hostNetwork": False, "nodeName": "",
                         "imagePullSecrets": [], "initContainers": [], "automountServiceAccountToken": False}},
}  # fmt: skip


def steps(namespace: str) -> list[Step]:
    out = [post("Pod", case, body, namespace) for case, body in CASES.items()]
    for step in out:
        if step["id"].endswith("generate-name-bad"):
            step["compare"] = {"ignore": ["/details/name"]}  # its random ending is no name
    return out
