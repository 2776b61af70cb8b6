"""Defaults of a pod spec, in a Pod or in a template.

Only what upstream writes into every PodSpec is here; what it writes into Pods alone (requests from
limits, service links, host ports) is in `pods`. This is the hot path of a create: look-ups by
`in`/`get` on what is present, nothing is visited twice.
"""

from __future__ import annotations

from bayplan.api.defaults.json_types import Object
from bayplan.api.defaults.quantities import round_lists
from bayplan.api.defaults.volumes import default_pull_policy, default_references, default_volume

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")


def default_pod_spec(spec: Object) -> None:
    """Write the defaults that every pod spec gets."""
    if not spec.get("dnsPolicy"):
        spec["dnsPolicy"] = "ClusterFirst"
    if not spec.get("restartPolicy"):
        spec["restartPolicy"] = "Always"
    if spec.get("securityContext") is None:
        spec["securityContext"] = {}
    if spec.get("terminationGracePeriodSeconds") is None:
        spec["terminationGracePeriodSeconds"] = 30
    if not spec.get("schedulerName"):
        # a virtual machine is placed on a site by the global scheduler, not on a node
        vm = spec.get("virtualMachine")
        spec["schedulerName"] = "global-scheduler" if vm else "default-scheduler"
    _default_service_account(spec)
    for volume in spec.get("volumes") or ():
        default_volume(volume)
    for kind in CONTAINER_LISTS:
        for container in spec.get(kind) or ():
            default_container(container)
    round_lists(spec, "overhead")
    if resources := spec.get("resources"):
        round_lists(resources, "limits", "requests")


def _default_service_account(spec: Object) -> None:
    """Keep the deprecated alias `serviceAccount` equal to `serviceAccountName`."""
    name = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if name:
        spec["serviceAccountName"] = name
        spec["serviceAccount"] = name


def default_container(container: Object) -> None:
    """Write the defaults of one container of any kind."""
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = default_pull_policy(container.get("image") or "")
    if not container.get("terminationMessagePath"):
        container["terminationMessagePath"] = "/dev/termination-log"
    if not container.get("terminationMessagePolicy"):
        container["terminationMessagePolicy"] = "File"
    resources = container.get("resources")
    if resources:
        round_lists(resources, "limits", "requests")
    elif resources is None:
        container["resources"] = {}
    for port in container.get("ports") or ():
        if not port.get("protocol"):
            port["protocol"] = "TCP"
    for env in container.get("env") or ():
        source = env.get("valueFrom")
        if source:
            _default_env_source(source)
    for name in _PROBES:
        probe = container.get(name)
        if probe is not None:
            _default_probe(probe)
    lifecycle = container.get("lifecycle")
    if lifecycle:
        for moment in ("postStart", "preStop"):
            _default_http_get((lifecycle.get(moment) or {}).get("httpGet"))


def _default_env_source(source: Object) -> None:
    default_references(source)
    file_ref = source.get("fileKeyRef")
    if file_ref is not None and file_ref.get("optional") is None:
        file_ref["optional"] = False


def _default_probe(probe: Object) -> None:
    if not probe.get("timeoutSeconds"):
        probe["timeoutSeconds"] = 1
    if not probe.get("periodSeconds"):
        probe["periodSeconds"] = 10
    if not probe.get("successThreshold"):
        probe["successThreshold"] = 1
    if not probe.get("failureThreshold"):
        probe["failureThreshold"] = 3
    _default_http_get(probe.get("httpGet"))
    grpc = probe.get("grpc")
    if grpc is not None and grpc.get("service") is None:
        grpc["service"] = ""


def _default_http_get(action: Object | None) -> None:
    if action is None:
        return
    if not action.get("path"):
        action["path"] = "/"
    if not action.get("scheme"):
        action["scheme"] = "HTTP"
