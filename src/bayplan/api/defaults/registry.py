"""Which function writes the defaults of which resource, as one table."""

from __future__ import annotations

from collections.abc import Callable

from bayplan.api.defaults import control, core, other_groups, pods, workloads
from bayplan.api.defaults.json_types import Object

_RBAC = "rbac.authorization.k8s.io"
_DRA = "resource.k8s.io"

_DEFAULTS: dict[tuple[str, str], Callable[[Object], None]] = {
    ("", "pods"): pods.default_pod,
    ("", "services"): core.default_service,
    ("", "configmaps"): core.default_config_map,
    ("", "secrets"): core.default_secret,
    ("", "persistentvolumes"): core.default_persistent_volume,
    ("", "persistentvolumeclaims"): core.default_claim,
    ("", "namespaces"): core.default_namespace,
    ("", "nodes"): core.default_node,
    ("", "endpoints"): core.default_endpoints,
    ("", "limitranges"): core.default_limit_range,
    ("", "resourcequotas"): core.default_resource_quota,
    ("", "podtemplates"): workloads.default_template,
    ("", "replicationcontrollers"): workloads.default_replication_controller,
    ("apps", "deployments"): workloads.default_deployment,
    ("apps", "daemonsets"): workloads.default_daemon_set,
    ("apps", "statefulsets"): workloads.default_stateful_set,
    ("apps", "replicasets"): workloads.default_replica_set,
    ("batch", "jobs"): workloads.default_job,
    ("batch", "cronjobs"): workloads.default_cron_job,
    ("scheduling.k8s.io", "priorityclasses"): other_groups.default_priority_class,
    ("storage.k8s.io", "storageclasses"): other_groups.default_storage_class,
    ("storage.k8s.io", "csidrivers"): other_groups.default_csi_driver,
    (_RBAC, "rolebindings"): other_groups.default_role_binding,
    (_RBAC, "clusterrolebindings"): other_groups.default_role_binding,
    ("scheduling.k8s.io", "compositepodgroups"): other_groups.default_pod_group,
    ("scheduling.k8s.io", "podgroups"): other_groups.default_pod_group,
    (_DRA, "devicetaintrules"): other_groups.default_device_taint_rule,
    (_DRA, "resourceclaims"): other_groups.default_resource_claim,
    (_DRA, "resourceclaimtemplates"): other_groups.default_resource_claim_template,
    (_DRA, "resourceslices"): other_groups.default_resource_slice,
    ("networking.k8s.io", "networkpolicies"): other_groups.default_network_policy,
    ("networking.k8s.io", "ingressclasses"): other_groups.default_ingress_class,
    ("node.k8s.io", "runtimeclasses"): other_groups.default_runtime_class,
    ("certificates.k8s.io", "podcertificaterequests"): other_groups.default_certificate_request,
    ("discovery.k8s.io", "endpointslices"): other_groups.default_endpoint_slice,
    **control.DEFAULTS,
}


def apply_defaults(group: str, resource: str, obj: Object) -> None:
    """Write the API server's defaults into `obj` in place; unknown resources stay as they are."""
    function = _DEFAULTS.get((group, resource))
    if function is not None:
        function(obj)
