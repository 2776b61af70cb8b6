"""Which strategy serves which resource: one table."""

from __future__ import annotations

from bayplan.api.names import dns1123_label
from bayplan.apiserver import event_views
from bayplan.apiserver.validation import (
    aggregation,
    batch,
    configs,
    control,
    devices,
    groups,
    networking,
    nodes,
    policies,
    services,
    storage,
    workloads,
)
from bayplan.apiserver.validation import strategy as s
from bayplan.apiserver.validation.causes import unchanged
from bayplan.apiserver.validation.declared import show_absent, validate_declared
from bayplan.apiserver.validation.formats import path_segment
from bayplan.apiserver.validation.pod_strategy import (
    prepare_pod_create,
    prepare_pod_status,
    prepare_pod_update,
)
from bayplan.apiserver.validation.service_strategy import (
    prepare_service_create,
    prepare_service_update,
)
from bayplan.apiserver.validation.strategy import Strategy

_RBAC = "rbac.authorization.k8s.io"
_DRA = "resource.k8s.io"
_STORAGE = "storage.k8s.io"
_DAEMON_STATUS = {
    "currentNumberScheduled": 0,
    "numberMisscheduled": 0,
    "desiredNumberScheduled": 0,
    "numberReady": 0,
}
_BUDGET_STATUS = {
    "disruptionsAllowed": 0,
    "currentHealthy": 0,
    "desiredHealthy": 0,
    "expectedPods": 0,
}

_CORE: dict[tuple[str, str], Strategy] = {
    ("", "pods"): Strategy(
        prepare_create=prepare_pod_create,
        prepare_update=prepare_pod_update,
        prepare_status=prepare_pod_status,
    ),
    ("", "nodes"): Strategy(
        namespaced=False,
        validate=nodes.validate_node,
        update=nodes.validate_node_update,
        revalidate_meta=True,
        prepare_create=s.prepare_node_create,
        status=nodes.validate_node_update,
    ),
    ("", "namespaces"): Strategy(
        name=dns1123_label,
        namespaced=False,
        validate=configs.validate_namespace,
        revalidate_meta=True,
        prepare_create=s.prepare_namespace_create,
        prepare_update=s.prepare_namespace_update,
        status=configs.validate_namespace_status,
        canonicalize=s.name_namespace,
    ),
    ("", "services"): Strategy(
        update_first=True,
        name=dns1123_label,
        gate=services.validate_addresses,
        validate=services.validate_service,
        update=services.validate_service_update,
        prepare_create=prepare_service_create,
        prepare_update=prepare_service_update,
        status=services.validate_service_status,
        create_on_update=True,
    ),
    ("", "endpoints"): Strategy(
        validate=services.validate_endpoints, revalidate_meta=True, create_on_update=True
    ),
    ("", "configmaps"): Strategy(
        update_first=True,
        validate=configs.validate_config_map,
        update=configs.validate_config_map_update,
        revalidate_meta=True,
    ),
    ("", "secrets"): Strategy(
        update_first=True,
        validate=configs.validate_secret,
        update=configs.validate_secret_update,
        revalidate_meta=True,
        prepare_update=s.prepare_secret_update,
    ),
    ("", "serviceaccounts"): Strategy(
        revalidate_meta=True, prepare_create=s.prepare_service_account
    ),
    ("", "events"): Strategy(
        name=None,
        validate=configs.validate_core_event,
        create_on_update=True,
        canonicalize=event_views.show_times,
    ),
    ("", "persistentvolumes"): Strategy(
        namespaced=False,
        validate=storage.validate_volume,
        update=storage.validate_volume_update,
        revalidate_meta=True,
        meta_update=False,
        prepare_create=s.prepare_volume_create,
        phase_time=True,
    ),
    ("", "persistentvolumeclaims"): Strategy(
        validate=storage.validate_claim,
        update=storage.validate_claim_update,
        revalidate=False,
        prepare_create=s.prepare_claim_create,
        prepare_update=s.prepare_claim_update,
        status=storage.validate_claim_status,
    ),
    ("", "replicationcontrollers"): Strategy(
        validate=workloads.validate_replication_controller,
        new_status={"replicas": 0},
        generation=True,
        status=workloads.validate_replica_set_status,
    ),
    ("", "podtemplates"): Strategy(
        validate=workloads.validate_pod_template, revalidate_meta=True, generation=True
    ),
    ("", "limitranges"): Strategy(
        validate=policies.validate_limit_range,
        revalidate_meta=True,
        meta_update=False,
        create_on_update=True,
    ),
    ("", "resourcequotas"): Strategy(
        validate=policies.validate_quota,
        update=policies.validate_quota_update,
        new_status={},
        status=policies.validate_quota_status,
    ),
}

_WORKLOADS: dict[tuple[str, str], Strategy] = {
    ("apps", "deployments"): Strategy(
        validate=workloads.validate_deployment,
        update=unchanged("spec.selector"),
        new_status={},
        generation=True,
        status=workloads.validate_deployment_status,
        prepare_status=s.keep_labels,
    ),
    ("apps", "replicasets"): Strategy(
        validate=workloads.validate_replica_set,
        update=unchanged("spec.selector"),
        new_status={"replicas": 0},
        generation=True,
        status=workloads.validate_replica_set_status,
    ),
    ("apps", "statefulsets"): Strategy(
        name=dns1123_label,
        validate=workloads.validate_stateful_set,
        update=workloads.validate_stateful_set_update,
        revalidate=False,
        new_status={"replicas": 0, "availableReplicas": 0},
        generation=True,
        status=workloads.validate_stateful_set_status,
    ),
    ("apps", "daemonsets"): Strategy(
        update_first=True,
        validate=workloads.validate_daemon_set,
        update=unchanged("spec.selector"),
        new_status=_DAEMON_STATUS,
        generation=True,
        prepare_create=s.prepare_daemon_set_create,
        prepare_update=s.prepare_daemon_set_update,
        status=workloads.validate_daemon_set_status,
    ),
    ("apps", "controllerrevisions"): Strategy(
        validate=workloads.validate_controller_revision,
        update=workloads.validate_controller_revision_update,
        revalidate=False,
    ),
    ("batch", "jobs"): Strategy(
        validate=batch.validate_job,
        update=batch.validate_job_update,
        revalidate_meta=True,
        new_status={},
        generation=True,
        prepare_create=s.prepare_job_create,
        canonicalize=s.label_job,
        status=batch.validate_job_status,
    ),
    ("batch", "cronjobs"): Strategy(
        validate=batch.validate_cron_job,
        update=batch.validate_cron_job_update,
        revalidate=False,
        new_status={},
        generation=True,
    ),
}

_OTHERS: dict[tuple[str, str], Strategy] = {
    ("events.k8s.io", "events"): Strategy(
        validate=configs.validate_event,
        update=configs.validate_event_update,
        revalidate=False,
        create_on_update=True,
    ),
    ("policy", "poddisruptionbudgets"): Strategy(
        name=None,
        validate=policies.validate_disruption_budget,
        new_status=_BUDGET_STATUS,
        generation=True,
        status=policies.validate_disruption_budget_status,
        unconditional=False,
    ),
    ("scheduling.k8s.io", "priorityclasses"): Strategy(
        namespaced=False,
        validate=policies.validate_priority_class,
        update=policies.validate_priority_class_update,
        revalidate=False,
        generation=True,
        update_generation=False,
    ),
    ("scheduling.k8s.io", "compositepodgroups"): Strategy(
        validate=validate_declared,
        update=validate_declared,
        revalidate=False,
        new_status={},
        prepare_status=s.keep_metadata,
        status=groups.validate_pod_group_status,
        canonicalize=show_absent,
    ),
    ("scheduling.k8s.io", "podgroups"): Strategy(
        validate=groups.validate_pod_group,
        update=validate_declared,
        revalidate=False,
        new_status={},
        prepare_status=s.keep_metadata,
        status=groups.validate_pod_group_status,
        canonicalize=show_absent,
    ),
    ("scheduling.k8s.io", "workloads"): Strategy(
        validate=groups.validate_workload,
        update=groups.validate_workload,
        revalidate=False,
        canonicalize=show_absent,
    ),
    ("coordination.k8s.io", "leases"): Strategy(
        validate=configs.validate_lease,
        standard_finalizers=False,
        create_on_update=True,
        unconditional=False,
    ),
    (_STORAGE, "storageclasses"): Strategy(
        namespaced=False,
        validate=storage.validate_storage_class,
        update=unchanged("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"),
        revalidate_meta=True,
    ),
    (_STORAGE, "csinodes"): Strategy(
        namespaced=False,
        validate=storage.validate_csi_node,
        update=storage.validate_csi_node_update,
        new_status={},
        prepare_status=s.keep_metadata,
        revalidate_meta=True,
        meta_update=False,
        unconditional=False,
    ),
    (_STORAGE, "csidrivers"): Strategy(
        namespaced=False,
        validate=storage.validate_csi_driver,
        update=storage.validate_csi_driver_update,
        prepare_update=s.bump_generation,
        unconditional=False,
    ),
    (_STORAGE, "csistoragecapacities"): Strategy(
        validate=storage.validate_storage_capacity,
        update=unchanged("nodeTopology", "storageClassName"),
        revalidate_meta=True,
        unconditional=False,
    ),
    (_STORAGE, "volumeattachments"): Strategy(
        namespaced=False,
        validate=storage.validate_attachment,
        update=unchanged("spec"),
        revalidate_meta=True,
        meta_update=False,
        new_status={"attached": False},
        prepare_status=s.keep_metadata,
        unconditional=False,
    ),
    (_DRA, "resourceclaims"): Strategy(
        validate=devices.validate_claim,
        update=unchanged("spec"),
        revalidate=False,
        new_status={},
        prepare_status=s.keep_metadata,
    ),
    (_DRA, "resourceclaimtemplates"): Strategy(
        validate=devices.validate_claim_template,
        update=unchanged("spec"),
        revalidate_meta=True,
    ),
    (_DRA, "deviceclasses"): Strategy(
        namespaced=False, validate=devices.validate_class, generation=True
    ),
    (_DRA, "resourceslices"): Strategy(
        namespaced=False,
        validate=devices.validate_slice,
        update=unchanged("spec.pool.name", "spec.driver", "spec.nodeName"),
        generation=True,
    ),
    (_DRA, "devicetaintrules"): Strategy(
        namespaced=False,
        validate=devices.validate_taint_rule,
        new_status={},
        prepare_update=devices.prepare_taint_rule_update,
        prepare_status=s.keep_metadata,
        status=groups.validate_conditions_of_status,
        generation=True,
    ),
    (_RBAC, "roles"): Strategy(
        name=path_segment,
        validate=policies.validate_role,
        revalidate_meta=True,
        canonicalize=s.drop_empty_rules,
        create_on_update=True,
    ),
    (_RBAC, "clusterroles"): Strategy(
        name=path_segment,
        namespaced=False,
        validate=policies.validate_cluster_role,
        revalidate_meta=True,
        canonicalize=s.drop_empty_rules,
        create_on_update=True,
    ),
    (_RBAC, "rolebindings"): Strategy(
        name=path_segment,
        validate=policies.validate_role_binding,
        update=policies.role_is_immutable,
        revalidate_meta=True,
        create_on_update=True,
    ),
    (_RBAC, "clusterrolebindings"): Strategy(
        name=path_segment,
        namespaced=False,
        validate=policies.validate_cluster_role_binding,
        update=policies.role_is_immutable,
        revalidate_meta=True,
        create_on_update=True,
    ),
}

# Served so that manifests with them can be applied; nothing here acts on them.
_APART: dict[tuple[str, str], Strategy] = {
    ("networking.k8s.io", "ingressclasses"): Strategy(
        namespaced=False,
        validate=networking.validate_ingress_class,
        update=unchanged("spec.controller"),
        revalidate_meta=True,
        update_first=True,
        generation=True,
    ),
    ("networking.k8s.io", "ingresses"): Strategy(
        validate=networking.validate_ingress, generation=True, new_status={"loadBalancer": {}}
    ),
    ("networking.k8s.io", "networkpolicies"): Strategy(
        validate=networking.validate_network_policy, generation=True
    ),
    ("discovery.k8s.io", "endpointslices"): Strategy(
        validate=networking.validate_endpoint_slice,
        update=networking.validate_endpoint_slice_update,
        revalidate=False,
        meta_update=False,
        generation=True,
    ),
    ("apiregistration.k8s.io", "apiservices"): Strategy(
        namespaced=False,
        name=path_segment,
        validate=aggregation.validate_api_service,
        prepare_create=aggregation.prepare_api_service,
        unconditional=False,
    ),
    ("node.k8s.io", "runtimeclasses"): Strategy(
        namespaced=False,
        validate=networking.validate_runtime_class,
        update=unchanged("handler"),
        revalidate=False,
        standard_finalizers=False,
        create_on_update=True,
        unconditional=False,
    ),
    (_STORAGE, "volumeattributesclasses"): Strategy(
        namespaced=False,
        validate=networking.validate_attributes_class,
        update=networking.attributes_class_is_immutable,
        revalidate_meta=True,
        update_first=True,
    ),
}

STRATEGIES: dict[tuple[str, str], Strategy] = {
    **_CORE,
    **_WORKLOADS,
    **_OTHERS,
    **_APART,
    **control.STRATEGIES,
}
