"""What the predicates and priorities of old policies are called today."""

FILTERS = frozenset(
    {
        "InterPodAffinity",
        "NodeAffinity",
        "NodeName",
        "NodePorts",
        "NodeResourcesFit",
        "NodeUnschedulable",
        "NodeVolumeLimits",
        "PodTopologySpread",
        "TaintToleration",
        "VolumeBinding",
        "VolumeRestrictions",
        "VolumeZone",
    }
)
"""Default plugins that a policy's predicates switch on."""

SCORERS = {
    "ImageLocality": 1,
    "InterPodAffinity": 2,
    "NodeAffinity": 2,
    "NodeResourcesBalancedAllocation": 1,
    "NodeResourcesFit": 1,
    "PodTopologySpread": 2,
    "TaintToleration": 3,
}
"""Default plugins that a policy's priorities switch on, with today's weights."""

MANDATORY = ("NodeUnschedulable", "TaintToleration")
"""Predicates that old schedulers always ran, named or not."""

_GENERAL = ("NodeResourcesFit", "NodeName", "NodePorts", "NodeAffinity")

PREDICATES: dict[str, tuple[str, ...]] = {
    "CheckNodeUnschedulable": ("NodeUnschedulable",),
    "CheckVolumeBinding": ("VolumeBinding",),
    "EvenPodsSpread": ("PodTopologySpread",),
    "GeneralPredicates": _GENERAL,
    "HostName": ("NodeName",),
    "MatchInterPodAffinity": ("InterPodAffinity",),
    "MatchNodeSelector": ("NodeAffinity",),
    "MaxAzureDiskVolumeCount": ("NodeVolumeLimits",),
    "MaxCSIVolumeCountPred": ("NodeVolumeLimits",),
    "MaxCinderVolumeCount": ("NodeVolumeLimits",),
    "MaxEBSVolumeCount": ("NodeVolumeLimits",),
    "MaxGCEPDVolumeCount": ("NodeVolumeLimits",),
    "NoDiskConflict": ("VolumeRestrictions",),
    "NoVolumeZoneConflict": ("VolumeZone",),
    "PodFitsHost": ("NodeName",),
    "PodFitsHostPorts": ("NodePorts",),
    "PodFitsPorts": ("NodePorts",),
    "PodFitsResources": ("NodeResourcesFit",),
    "PodToleratesNodeTaints": ("TaintToleration",),
}

PRIORITIES: dict[str, tuple[str, str]] = {
    # name: (plugin, scoring strategy of NodeResourcesFit or "")
    "BalancedResourceAllocation": ("NodeResourcesBalancedAllocation", ""),
    "EvenPodsSpreadPriority": ("PodTopologySpread", ""),
    "ImageLocalityPriority": ("ImageLocality", ""),
    "InterPodAffinityPriority": ("InterPodAffinity", ""),
    "LeastRequestedPriority": ("NodeResourcesFit", "LeastAllocated"),
    "MostRequestedPriority": ("NodeResourcesFit", "MostAllocated"),
    "NodeAffinityPriority": ("NodeAffinity", ""),
    "SelectorSpreadPriority": ("PodTopologySpread", ""),
    "ServiceSpreadingPriority": ("PodTopologySpread", ""),
    "TaintTolerationPriority": ("TaintToleration", ""),
}

_TAINTED = "the node controller taints such nodes, and TaintToleration keeps pods off them"

GONE: dict[str, str] = {
    "CheckNodeCondition": _TAINTED,
    "CheckNodeDiskPressure": _TAINTED,
    "CheckNodeMemoryPressure": _TAINTED,
    "CheckNodePIDPressure": _TAINTED,
    "PodToleratesNodeNoExecuteTaints": "TaintToleration looks at NoExecute taints, too",
    "EqualPriority": "it gave every node the same score",
    "NodePreferAvoidPodsPriority": "its annotation no longer exists; use taints",
    "ResourceLimitsPriority": "it was removed in Kubernetes 1.20",
}
"""Predicates and priorities without a counterpart, and why that is no loss."""

ALIASES = {
    name.lower(): name
    for name in (
        "urlPrefix",
        "filterVerb",
        "preemptVerb",
        "prioritizeVerb",
        "weight",
        "bindVerb",
        "enableHTTPS",
        "tlsConfig",
        "httpTimeout",
        "nodeCacheCapable",
        "managedResources",
        "ignorable",
        "insecure",
        "serverName",
        "certFile",
        "keyFile",
        "caFile",
        "certData",
        "keyData",
        "caData",
        "name",
        "ignoredByScheduler",
    )
}
"""Policies were read without regard to case; today's field by its lower-case name."""
