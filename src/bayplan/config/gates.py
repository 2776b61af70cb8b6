"""Feature gates: the names and defaults of Kubernetes 1.36.

kube-scheduler accepts every gate of Kubernetes, so that one `--feature-gates` line serves all
parts of a control plane; so do we. A gate that the engine does not read changes nothing here.
Gates may hang on others (`GangScheduling` needs `GenericWorkload`), and a locked gate cannot be
changed.
"""

import enum
from collections.abc import Mapping

from bayplan.config.fields import InvalidConfig


class Stage(enum.Enum):
    """How mature a feature is."""

    ALPHA = "ALPHA"
    BETA = "BETA"
    GA = "GA"
    DEPRECATED = "DEPRECATED"


_TABLE: dict[tuple[Stage, bool, bool], str] = {
    # (stage, default, locked): names
    (Stage.ALPHA, False, False): """
        APIServingWithRoutine AllowUnsafeMalformedObjectDeletion CBORServingAndStorage
        CPUManagerPolicyAlphaOptions CRIListStreaming CSIVolumeHealth ClientsAllowCBOR
        ClientsPreferCBOR ContainerStopSignals CrossNamespaceVolumeDataSource
        DRAListTypeAttributes DRANodeAllocatableResources DRAResourcePoolStatus
        DRAWorkloadResourceClaims EventedPLEG GangScheduling GenericWorkload HPAScaleToZero
        ImageVolumeWithDigest InPlacePodVerticalScalingExclusiveCPUs
        InPlacePodVerticalScalingExclusiveMemory KubeletInUserNamespace LoggingAlphaOptions
        ManifestBasedAdmissionControlConfig MemoryQoS MutablePVNodeAffinity
        PersistentVolumeClaimUnusedSinceTime PodAndContainerStatsFromCRI
        PodLevelResourceManagers PodLogsQuerySplitStreams PodsAPI QOSReserved
        ReduceDefaultCrashLoopBackOffDecay RuntimeClassInImageCriApi ShardedListAndWatch
        StorageCapacityScoring StorageVersionAPI TaintTolerationComparisonOperators
        TopologyAwareWorkloadScheduling TopologyManagerPolicyAlphaOptions
        UserNamespacesHostNetworkSupport VolumeLimitScaling WindowsCPUAndMemoryAffinity
        WorkloadAwarePreemption WorkloadWithJob genericfeatures.APIServingWithRoutine
        genericfeatures.AllowUnsafeMalformedObjectDeletion
        genericfeatures.CBORServingAndStorage
        genericfeatures.ManifestBasedAdmissionControlConfig
        genericfeatures.ShardedListAndWatch genericfeatures.StorageVersionAPI
        kcmfeatures.CloudControllerManagerWatchBasedRoutesReconciliation
        kcmfeatures.CloudControllerManagerWebhook
    """,
    (Stage.BETA, False, False): """
        ClusterTrustBundle ClusterTrustBundleProjection ConcurrentWatchObjectDecode
        CoordinatedLeaderElection DRADeviceTaintRules
        LocalStorageCapacityIsolationFSQuotaMonitoring MaxUnavailableStatefulSet
        PodCertificateRequest SELinuxMount SchedulerAsyncAPICalls StorageVersionMigrator
        genericfeatures.ConcurrentWatchObjectDecode
    """,
    (Stage.BETA, True, False): """
        APIResponseCompression APIServerIdentity AllowParsingUserUIDFromCertAuth AtomicFIFO
        AuthorizePodWebsocketUpgradeCreatePermission CPUManagerPolicyBetaOptions
        ClearingNominatedNodeNameAfterBinding ClientsAllowCARotation ClientsAllowTLSCacheGC
        ComponentFlagz ComponentStatusz ConstrainedImpersonation ContainerCheckpoint
        ContainerRestartRules ContextualLogging DRAConsumableCapacity
        DRADeviceBindingConditions DRADeviceTaints DRAExtendedResource
        DRAPartitionableDevices DRAResourceClaimDeviceStatus
        DRAResourceClaimGranularStatusAuthorization DRASchedulerFilterTimeout
        DeclarativeValidationBeta DeploymentReplicaSetTerminatingReplicas
        DetectCacheInconsistency EnvFiles ExtendWebSocketsToKubelet GracefulNodeShutdown
        GracefulNodeShutdownBasedOnPodPriority HPAConfigurableTolerance HostnameOverride
        InOrderInformersBatchProcess InPlacePodLevelResourcesVerticalScaling
        InPlacePodVerticalScalingInitContainers KubeletCrashLoopBackOffMax
        KubeletEnsureSecretPulledImages KubeletSeparateDiskGC
        KubeletServiceAccountTokenForCredentialProviders ListFromCacheSnapshot
        LoggingBetaOptions MatchLabelKeysInPodTopologySpread
        MatchLabelKeysInPodTopologySpreadSelectorMerge MutablePodResourcesForSuspendedJobs
        MutableSchedulingDirectivesForSuspendedJobs NodeDeclaredFeatures
        NominatedNodeNameForExpectation OpenAPIEnums OpportunisticBatching
        PLEGOnDemandRelist PodDeletionCost PodLevelResources
        PodReadyToStartContainersCondition PodTopologyLabelsAdmission PortForwardWebsockets
        PreventStaticPodAPIReferences RelaxedServiceNameValidation ReloadKubeletClientCAFile
        ReloadKubeletServerCertificateFile RemoteRequestHeaderUID ResourceHealthStatus
        ResourceHealthStatusMessage RestartAllContainersOnContainerExits
        RotateKubeletServerCertificate SchedulerAsyncPreemption SchedulerPopFromBackoffQ
        ServiceAccountNodeAudienceRestriction SizeBasedListCostEstimate
        StaleControllerConsistencyDaemonSet StaleControllerConsistencyJob
        StaleControllerConsistencyReplicaSet StaleControllerConsistencyStatefulSet
        StatefulSetSemanticRevisionComparison StorageVersionHash StrictIPCIDRValidation
        StructuredAuthenticationConfigurationEgressSelector
        StructuredAuthenticationConfigurationJWKSMetrics
        TokenRequestServiceAccountUIDValidation TopologyManagerPolicyBetaOptions
        TranslateStreamCloseWebsocketRequests UnauthenticatedHTTP2DOSMitigation
        UnknownVersionInteroperabilityProxy UnlockWhileProcessingFIFO
        WatchCacheInitializationPostStartHook WatchList WatchListClient
        WindowsGracefulNodeShutdown apiextensionsfeatures.CRDObservedGenerationTracking
        genericfeatures.APIResponseCompression genericfeatures.APIServerIdentity
        genericfeatures.AllowParsingUserUIDFromCertAuth
        genericfeatures.ConstrainedImpersonation genericfeatures.DeclarativeValidationBeta
        genericfeatures.DetectCacheInconsistency genericfeatures.ListFromCacheSnapshot
        genericfeatures.OpenAPIEnums genericfeatures.RemoteRequestHeaderUID
        genericfeatures.SizeBasedListCostEstimate genericfeatures.StorageVersionHash
        genericfeatures.StructuredAuthenticationConfigurationEgressSelector
        genericfeatures.StructuredAuthenticationConfigurationJWKSMetrics
        genericfeatures.TokenRequestServiceAccountUIDValidation
        genericfeatures.UnauthenticatedHTTP2DOSMitigation
        genericfeatures.UnknownVersionInteroperabilityProxy
        genericfeatures.WatchCacheInitializationPostStartHook genericfeatures.WatchList
        zpagesfeatures.ComponentFlagz zpagesfeatures.ComponentStatusz
    """,
    (Stage.DEPRECATED, False, False): """
        AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests
        ChangeContainerStatusOnKubeletRestart DeclarativeValidationTakeover KMSv1
        KubeletRegistrationGetOnExistsOnly SeparateCacheWatchRPC WindowsHostNetwork
        genericfeatures.DeclarativeValidationTakeover genericfeatures.KMSv1
        genericfeatures.SeparateCacheWatchRPC
    """,
    (Stage.DEPRECATED, False, True): """
        AllowOverwriteTerminationGracePeriodSeconds GitRepoVolumeDriver
    """,
    (Stage.DEPRECATED, True, False): """
        KubeletPodResourcesListUseActivePods ServiceCIDRStatusFieldWiping
        StorageNamespaceIndex
    """,
    (Stage.DEPRECATED, True, True): """
        AggregatedDiscoveryRemoveBetaType DisableCPUQuotaWithExclusiveCPUs
        DisableNodeKubeProxyVersion genericfeatures.AggregatedDiscoveryRemoveBetaType
    """,
    (Stage.GA, True, False): """
        AllowServiceExternalIPs CRDValidationRatcheting CustomResourceFieldSelectors
        DRAPrioritizedList InformerResourceVersion MutatingAdmissionPolicy RetryGenerateName
        SidecarContainers apiextensionsfeatures.CustomResourceFieldSelectors
        genericfeatures.MutatingAdmissionPolicy genericfeatures.RetryGenerateName
    """,
    (Stage.GA, True, True): """
        APIServerTracing AnonymousAuthConfigurableEndpoints AnyVolumeDataSource
        AuthorizeNodeWithSelectors AuthorizeWithSelectors BtreeWatchCache
        CPUManagerPolicyOptions CSIServiceAccountTokenSecrets ComponentSLIs
        ConsistentListFromCache CustomCPUCFSQuotaPeriod DRAAdminAccess DeclarativeValidation
        DisableAllocatorDualWrite DynamicResourceAllocation ExecProbeTimeout
        ExternalServiceAccountTokenSigner ImageMaximumGCAge ImageVolume InOrderInformers
        InPlacePodVerticalScaling JobBackoffLimitPerIndex JobManagedBy
        JobPodReplacementPolicy JobSuccessPolicy KubeletCgroupDriverFromCRI
        KubeletFineGrainedAuthz KubeletPSI KubeletPodResourcesDynamicResources
        KubeletPodResourcesGet KubeletTracing LogarithmicScaleDown
        MatchLabelKeysInPodAffinity MultiCIDRServiceAllocator MutableCSINodeAllocatableCount
        NFTablesProxyMode NodeInclusionPolicyInPodTopologySpread NodeLogQuery NodeSwap
        OrderedNamespaceDeletion PodLifecycleSleepAction PodLifecycleSleepActionAllowZero
        PodObservedGenerationTracking PodSchedulingReadiness PreferSameTrafficDistribution
        ProcMountType RecoverVolumeExpansionFailure RecursiveReadOnlyMounts
        RelaxedDNSSearchValidation RelaxedEnvironmentVariableValidation
        ResilientWatchCacheInitialization SELinuxChangePolicy SELinuxMountReadWriteOncePod
        SchedulerQueueingHints SeparateTaintEvictionController ServiceAccountTokenJTI
        ServiceAccountTokenNodeBinding ServiceAccountTokenNodeBindingValidation
        ServiceAccountTokenPodNodeInfo StreamingCollectionEncodingToJSON
        StreamingCollectionEncodingToProtobuf StructuredAuthenticationConfiguration
        SupplementalGroupsPolicy SystemdWatchdog TopologyManagerPolicyOptions
        UserNamespacesSupport VolumeAttributesClass WinDSR WinOverlay
        apiextensionsfeatures.CRDValidationRatcheting genericfeatures.APIServerTracing
        genericfeatures.AnonymousAuthConfigurableEndpoints
        genericfeatures.AuthorizeWithSelectors genericfeatures.BtreeWatchCache
        genericfeatures.ConsistentListFromCache genericfeatures.DeclarativeValidation
        genericfeatures.ResilientWatchCacheInitialization
        genericfeatures.StructuredAuthenticationConfiguration
    """,
}

_NEEDS: dict[str, tuple[str, ...]] = {
    "GangScheduling": ("GenericWorkload",),
    "TopologyAwareWorkloadScheduling": ("GenericWorkload",),
    "WorkloadAwarePreemption": ("GangScheduling",),
    "WorkloadWithJob": ("GenericWorkload",),
    "DRADeviceBindingConditions": ("DynamicResourceAllocation", "DRAResourceClaimDeviceStatus"),
    "DRADeviceTaintRules": ("DRADeviceTaints",),
    "DRAWorkloadResourceClaims": ("DynamicResourceAllocation", "GenericWorkload"),
    "InPlacePodLevelResourcesVerticalScaling": (
        "InPlacePodVerticalScaling",
        "PodLevelResources",
        "NodeDeclaredFeatures",
    ),
}


class FeatureGates:
    """Which features are on. Immutable once made; ask with `gates["Name"]`."""

    def __init__(self, changes: Mapping[str, bool] | None = None) -> None:
        """Start from the defaults and apply `changes`; raise InvalidConfig with all problems."""
        self._stage = {n: key for key, names in _TABLE.items() for n in names.split()}
        self._on = {name: default for name, (_, default, _) in self._stage.items()}
        self.changed = dict(changes or {})
        problems = [text for name in self.changed if (text := self._problem(name))]
        if problems:
            raise InvalidConfig(problems)
        for stage, word in ((Stage.ALPHA, "AllAlpha"), (Stage.BETA, "AllBeta")):
            if word in self.changed:
                self._on |= {
                    name: self.changed[word]
                    for name, (its, _, locked) in self._stage.items()
                    if its is stage and not locked
                }
        self._on |= {n: v for n, v in self.changed.items() if n in self._stage}
        self._check_needs()

    def _problem(self, name: str) -> str | None:
        if name in ("AllAlpha", "AllBeta"):
            return None
        if name not in self._stage:
            return f"unrecognized feature gate: {name}"
        _, default, locked = self._stage[name]
        if locked and self.changed[name] != default:
            on = str(default).lower()
            value = str(self.changed[name]).lower()
            return f"cannot set feature gate {name} to {value}, feature is locked to {on}"
        return None

    def _check_needs(self) -> None:
        problems = [
            f"{name} is enabled, but depends on features that are disabled: "
            f"[{' '.join(n for n in needs if not self._on[n])}]"
            for name, needs in _NEEDS.items()
            if self._on[name] and not all(self._on[n] for n in needs)
        ]
        if problems:
            raise InvalidConfig(problems)

    def __getitem__(self, name: str) -> bool:
        """Whether a feature is on; an unknown name is a programmer's error."""
        return self._on[name]

    def names(self) -> list[str]:
        """Every known gate, sorted."""
        return sorted(self._stage)

    def stage(self, name: str) -> Stage:
        return self._stage[name][0]

    def locked(self, name: str) -> bool:
        return self._stage[name][2]


def parse_gates(text: str) -> FeatureGates:
    """Read `--feature-gates A=true,B=false`."""
    changes: dict[str, bool] = {}
    problems = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (part.strip() for part in item.partition("="))
        if not equals:
            problems.append(f"missing bool value for feature gate key: {item}")
        elif value in ("1", "t", "T", "TRUE", "true", "True"):
            changes[name] = True
        elif value in ("0", "f", "F", "FALSE", "false", "False"):
            changes[name] = False
        else:
            problems.append(f"invalid value of {name}={value}, expected true or false")
    if problems:
        raise InvalidConfig(problems)
    return FeatureGates(changes)


DEFAULT_GATES = FeatureGates()
