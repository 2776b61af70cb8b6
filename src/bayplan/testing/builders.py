"""Fluent builders for the objects that tests, lessons and scenarios place.

A builder collects a plain JSON body, so that the same builder gives a struct (`build`), a body to
send to an API server (`body`) and a body to compare with. Methods return the builder:

    make_pod("web").req(cpu="100m", memory="200Mi").label(app="web").build()
    make_node("a").zone("z1").capacity(cpu=4, memory="8Gi").taint("gpu", "NoSchedule").build()

Builders do not apply API server defaults and do not validate: tests need wrong objects too.
"""

from __future__ import annotations

import copy
from typing import Any, Generic, TypeVar

from bayplan.api import Node, Object, Pod, convert
from bayplan.testing.bodies import Body, expressions, label_selector, node_term

T = TypeVar("T", bound=Object)
B = TypeVar("B", bound="Builder[Any]")

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
HOSTNAME = "kubernetes.io/hostname"


class Builder(Generic[T]):
    """Collects the body of one object; base of all builders."""

    def __init__(self, kind: type[T], name: str, namespace: str = "") -> None:
        self.kind = kind
        self.data: Body = {"apiVersion": kind.API_VERSION, "kind": kind.KIND}
        self.meta.update({"name": name, "uid": f"uid-{namespace}-{name}" if namespace else name})
        if namespace:
            self.meta["namespace"] = namespace

    @property
    def meta(self) -> Body:
        meta: Body = self.data.setdefault("metadata", {})
        return meta

    @property
    def spec(self) -> Body:
        spec: Body = self.data.setdefault("spec", {})
        return spec

    @property
    def status(self) -> Body:
        status: Body = self.data.setdefault("status", {})
        return status

    def build(self) -> T:
        """Return the struct."""
        return convert(self.kind, self.data)

    def body(self) -> Body:
        """Return a copy of the JSON body."""
        return copy.deepcopy(self.data)

    def uid(self: B, uid: str) -> B:
        self.meta["uid"] = uid
        return self

    def label(self: B, labels: dict[str, str] | None = None, /, **more: str) -> B:
        self.meta.setdefault("labels", {}).update((labels or {}) | more)
        return self

    def annotate(self: B, annotations: dict[str, str]) -> B:
        self.meta.setdefault("annotations", {}).update(annotations)
        return self

    def created(self: B, time: str) -> B:
        self.meta["creationTimestamp"] = time
        return self

    def terminating(self: B, time: str = "2026-01-01T00:00:00Z") -> B:
        self.meta["deletionTimestamp"] = time
        return self

    def owner(self: B, kind: str, name: str, *, api_version: str = "v1", uid: str = "") -> B:
        owner = {
            "apiVersion": api_version,
            "kind": kind,
            "name": name,
            "uid": uid or name,
            "controller": True,
        }
        self.meta.setdefault("ownerReferences", []).append(owner)
        return self

    def with_spec(self: B, **fields: object) -> B:
        """Set fields of the spec, given with their names on the wire."""
        self.spec.update(fields)
        return self

    def with_status(self: B, **fields: object) -> B:
        """Set fields of the status, given with their names on the wire."""
        self.status.update(fields)
        return self


class PodBuilder(Builder[Pod]):
    """Builds a pod. It has one container without requests until told otherwise."""

    def __init__(self, name: str = "pod", namespace: str = "default") -> None:
        super().__init__(Pod, name, namespace)
        self.spec["containers"] = [{"name": "c0", "image": "registry.example/app:v1"}]

    def req(self, resources: dict[str, Any] | None = None, /, **more: object) -> PodBuilder:
        """Set the requests of the first container; `ephemeral_storage` becomes a dashed name."""
        found = (resources or {}) | {k.replace("_", "-"): v for k, v in more.items()}
        self.spec["containers"][0].setdefault("resources", {})["requests"] = found
        return self

    def container(self, image: str = "", **requests: object) -> PodBuilder:
        """Add a container."""
        containers = self.spec["containers"]
        containers.append(self._container(f"c{len(containers)}", image, requests))
        return self

    def init(self, *, sidecar: bool = False, image: str = "", **requests: object) -> PodBuilder:
        """Add an init container, or a sidecar."""
        containers = self.spec.setdefault("initContainers", [])
        body = self._container(f"i{len(containers)}", image, requests)
        containers.append(body | ({"restartPolicy": "Always"} if sidecar else {}))
        return self

    @staticmethod
    def _container(name: str, image: str, requests: dict[str, Any]) -> Body:
        found = {k.replace("_", "-"): v for k, v in requests.items()}
        return {"name": name, "image": image, "resources": {"requests": found}}

    def image(self, image: str) -> PodBuilder:
        self.spec["containers"][0]["image"] = image
        return self

    def host_port(self, port: int, protocol: str = "TCP", ip: str = "") -> PodBuilder:
        body = {"containerPort": port, "hostPort": port, "protocol": protocol, "hostIP": ip}
        self.spec["containers"][0].setdefault("ports", []).append(body)
        return self

    def overhead(self, **resources: object) -> PodBuilder:
        self.spec["overhead"] = resources
        return self

    def pod_level(self, **resources: object) -> PodBuilder:
        self.spec["resources"] = {"requests": resources}
        return self

    def node(self, name: str) -> PodBuilder:
        """Bind the pod to a node."""
        self.spec["nodeName"] = name
        return self

    def nominated(self, node: str) -> PodBuilder:
        self.status["nominatedNodeName"] = node
        return self

    def priority(self, value: int) -> PodBuilder:
        self.spec["priority"] = value
        return self

    def never_preempts(self) -> PodBuilder:
        self.spec["preemptionPolicy"] = "Never"
        return self

    def started(self, time: str) -> PodBuilder:
        self.status["startTime"] = time
        return self

    def phase(self, phase: str) -> PodBuilder:
        self.status["phase"] = phase
        return self

    def scheduler(self, name: str) -> PodBuilder:
        self.spec["schedulerName"] = name
        return self

    def gate(self, *names: str) -> PodBuilder:
        gates = self.spec.setdefault("schedulingGates", [])
        gates.extend({"name": name} for name in names)
        return self

    def group(self, name: str) -> PodBuilder:
        """Make the pod a member of a pod group."""
        self.spec["schedulingGroup"] = {"podGroupName": name}
        return self

    def node_selector(self, labels: dict[str, str]) -> PodBuilder:
        self.spec["nodeSelector"] = labels
        return self

    def tolerate(
        self, key: str = "", effect: str = "", *, operator: str = "Exists", value: str = ""
    ) -> PodBuilder:
        body = {"key": key, "operator": operator, "value": value, "effect": effect}
        self.spec.setdefault("tolerations", []).append({k: v for k, v in body.items() if v})
        return self

    def require_node(self, *requirements: str, fields: tuple[str, ...] = ()) -> PodBuilder:
        """Add a required node affinity term, e.g. `require_node("zone in (a, b)", "gpu")`."""
        affinity = self._affinity("nodeAffinity")
        required = affinity.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {})
        required.setdefault("nodeSelectorTerms", []).append(node_term(requirements, fields))
        return self

    def prefer_node(self, weight: int, *requirements: str) -> PodBuilder:
        """Add a preferred node affinity term."""
        preferred = self._affinity("nodeAffinity").setdefault(
            "preferredDuringSchedulingIgnoredDuringExecution", []
        )
        preferred.append({"weight": weight, "preference": node_term(requirements, ())})
        return self

    def near(self, selector: str | None, key: str = ZONE, **more: Any) -> PodBuilder:
        """Require to be near the pods that a selector in query form matches."""
        return self._pod_affinity("podAffinity", selector, key, more)

    def apart(self, selector: str | None, key: str = HOSTNAME, **more: Any) -> PodBuilder:
        """Require to be apart from the pods that a selector in query form matches."""
        return self._pod_affinity("podAntiAffinity", selector, key, more)

    def prefer_near(
        self, weight: int, selector: str | None, key: str = ZONE, **more: Any
    ) -> PodBuilder:
        return self._pod_affinity("podAffinity", selector, key, more, weight)

    def prefer_apart(
        self, weight: int, selector: str | None, key: str = HOSTNAME, **more: Any
    ) -> PodBuilder:
        return self._pod_affinity("podAntiAffinity", selector, key, more, weight)

    def spread(
        self,
        max_skew: int = 1,
        key: str = ZONE,
        selector: str | None = "",
        *,
        hard: bool = True,
        **more: object,
    ) -> PodBuilder:
        """Add a topology spread constraint; the selector is in query form, None leaves it out."""
        body: Body = {
            "maxSkew": max_skew,
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
            **more,
        }
        if selector is not None:
            body["labelSelector"] = label_selector(selector)
        self.spec.setdefault("topologySpreadConstraints", []).append(body)
        return self

    def volume(self, source: Body, name: str = "") -> PodBuilder:
        """Add a volume with a source such as `{"gcePersistentDisk": {"pdName": "d"}}`."""
        volumes = self.spec.setdefault("volumes", [])
        volumes.append({"name": name or f"v{len(volumes)}", **source})
        return self

    def claim(self, name: str) -> PodBuilder:
        """Mount a persistent volume claim."""
        return self.volume({"persistentVolumeClaim": {"claimName": name}})

    def ephemeral(self, volume: str) -> PodBuilder:
        """Add a generic ephemeral volume; its claim is called `<pod>-<volume>`."""
        return self.volume({"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}, volume)

    def device_claim(self, claim: str) -> PodBuilder:
        """Use a resource claim."""
        claims = self.spec.setdefault("resourceClaims", [])
        claims.append({"name": f"r{len(claims)}", "resourceClaimName": claim})
        return self

    def device_template(self, template: str, claim: str = "") -> PodBuilder:
        """Use a resource claim template, from which `claim` has been made if it is named."""
        claims = self.spec.setdefault("resourceClaims", [])
        name = f"r{len(claims)}"
        claims.append({"name": name, "resourceClaimTemplateName": template})
        if claim:
            statuses = self.status.setdefault("resourceClaimStatuses", [])
            statuses.append({"name": name, "resourceClaimName": claim})
        return self

    def _affinity(self, kind: str) -> Body:
        affinity: Body = self.spec.setdefault("affinity", {}).setdefault(kind, {})
        return affinity

    def _pod_affinity(
        self, kind: str, selector: str | None, key: str, more: Body, weight: int | None = None
    ) -> PodBuilder:
        term: Body = {"topologyKey": key, **more}
        if selector is not None:
            term["labelSelector"] = label_selector(selector)
        if "namespaceSelector" in term and isinstance(term["namespaceSelector"], str):
            term["namespaceSelector"] = label_selector(term["namespaceSelector"])
        mode = "required" if weight is None else "preferred"
        terms = self._affinity(kind).setdefault(f"{mode}DuringSchedulingIgnoredDuringExecution", [])
        terms.append(term if weight is None else {"weight": weight, "podAffinityTerm": term})
        return self


class NodeBuilder(Builder[Node]):
    """Builds a node. It offers 110 pods, 4 cpu and 32Gi until told otherwise."""

    def __init__(self, name: str = "node") -> None:
        super().__init__(Node, name)
        self.label({HOSTNAME: name})
        self.capacity(cpu=4, memory="32Gi", pods=110)

    def capacity(self, resources: dict[str, Any] | None = None, /, **more: object) -> NodeBuilder:
        """Set what the node offers; resources not named stay as they are."""
        found = (resources or {}) | {k.replace("_", "-"): v for k, v in more.items()}
        self.status.setdefault("capacity", {}).update(found)
        self.status.setdefault("allocatable", {}).update(found)
        return self

    def zone(self, zone: str, region: str = "") -> NodeBuilder:
        return self.label({ZONE: zone} | ({REGION: region} if region else {}))

    def taint(self, key: str, effect: str = "NoSchedule", value: str = "") -> NodeBuilder:
        body = {"key": key, "effect": effect} | ({"value": value} if value else {})
        self.spec.setdefault("taints", []).append(body)
        return self

    def cordon(self) -> NodeBuilder:
        self.spec["unschedulable"] = True
        return self

    def image(self, name: str, size: int) -> NodeBuilder:
        self.status.setdefault("images", []).append({"names": [name], "sizeBytes": size})
        return self

    def features(self, *names: str) -> NodeBuilder:
        self.status["declaredFeatures"] = list(names)
        return self

    def ready(self, status: str = "True") -> NodeBuilder:
        self.status.setdefault("conditions", []).append({"type": "Ready", "status": status})
        return self


def make_pod(name: str = "pod", namespace: str = "default") -> PodBuilder:
    """Start a pod."""
    return PodBuilder(name, namespace)


def make_node(name: str = "node") -> NodeBuilder:
    """Start a node."""
    return NodeBuilder(name)


__all__ = [
    "HOSTNAME",
    "REGION",
    "ZONE",
    "Builder",
    "NodeBuilder",
    "PodBuilder",
    "expressions",
    "label_selector",
    "make_node",
    "make_pod",
]
