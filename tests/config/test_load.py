"""KubeSchedulerConfiguration v1: decoding, defaults and validation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.api import yaml
from bayplan.config import (
    DefaultPreemptionArgs,
    FeatureGates,
    InvalidConfig,
    NodeResourcesFitArgs,
    default_config,
    from_data,
    load,
    load_file,
    parse_gates,
    parse_version,
    to_data,
)
from bayplan.errors import ConfigError

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def problems_of(text, gates=None):
    with pytest.raises(InvalidConfig) as caught:
        load(HEAD + text, gates or FeatureGates(version="1.36"))
    return list(caught.value.problems)


def test_empty_file_means_the_default():
    assert load(HEAD).config == default_config()


def test_default_has_kube_schedulers_values():
    config = default_config()
    profile = config.profiles[0]

    assert config.parallelism == 16
    assert config.client_connection.qps == 50
    assert str(config.leader_election.lease_duration) == "15s"
    assert profile.scheduler_name == "default-scheduler"
    assert profile.args("DefaultPreemption") == DefaultPreemptionArgs()
    weights = {p.name: p.weight for p in profile.plugins.multi_point.enabled if p.weight}
    assert weights == {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "DynamicResources": 2,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
    }


def test_printed_default_loads_to_itself():
    text = yaml.dump(to_data(default_config()))

    assert load(text).config == default_config()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "parallelizm: 3\nprofiles: [{plugin: 1}]",
            [
                'strict decoding error: unknown field "parallelizm", did you mean "parallelism"?',
                'strict decoding error: unknown field "profiles[0].plugin", '
                'did you mean "plugins"?',
            ],
            id="all unknown fields are named",
        ),
        pytest.param(
            "parallelism: '3'\nleaderElection: {leaseDuration: 15, leaderElect: 1}",
            [
                'strict decoding error: parallelism: expected an integer, got "3"',
                "strict decoding error: leaderElection.leaseDuration: "
                'expected a duration such as "15s", got 15',
                "strict decoding error: leaderElection.leaderElect: expected true or false, got 1",
            ],
            id="wrong types are named",
        ),
        pytest.param(
            "leaderElection: {leaseDuration: 15x, renewDeadline: '10'}",
            [
                "strict decoding error: leaderElection.leaseDuration: "
                'time: unknown unit "x" in duration "15x"',
                "strict decoding error: leaderElection.renewDeadline: "
                'time: missing unit in duration "10"',
            ],
            id="bad durations",
        ),
        pytest.param(
            "parallelism: 4294967296",
            ["strict decoding error: parallelism: number 4294967296 does not fit into int32"],
            id="too large for its type",
        ),
        pytest.param(
            "profiles: [{pluginConfig: [{name: NodeAffinity, args: {addedAfinity: {}}}]}]",
            [
                "strict decoding error: unknown field "
                '"profiles[0].pluginConfig[0].args.addedAfinity", did you mean "addedAffinity"?'
            ],
            id="unknown field in plugin args",
        ),
        pytest.param(
            "profiles: [{pluginConfig: [{name: NodeAffinity, args: {kind: VolumeBindingArgs}}]}]",
            [
                "strict decoding error: profiles[0].pluginConfig[0].args: args for plugin "
                "NodeAffinity were not of type NodeAffinityArgs.kubescheduler.config.k8s.io, "
                "got VolumeBindingArgs"
            ],
            id="args of another plugin",
        ),
        pytest.param(
            "profiles: [{}, {schedulerName: a}, {schedulerName: a}]",
            [
                "profiles[0].schedulerName: Required value",
                "profiles[2].schedulerName: Duplicate value: profiles[1].schedulerName",
            ],
            id="names of profiles",
        ),
        pytest.param(
            "parallelism: 0\npercentageOfNodesToScore: 101\npodInitialBackoffSeconds: 0\n"
            "podMaxBackoffSeconds: -1\nclientConnection: {burst: -1}\n"
            "leaderElection: {leaseDuration: -5s, resourceLock: endpoints}",
            [
                "clientConnection.burst: Invalid value: -1: must be non-negative",
                'leaderElection.leaseDuration: Invalid value: "-5s": must be greater than zero',
                'leaderElection.leaseDuration: Invalid value: "10s": '
                "must be greater than `RenewDeadline`",
                'leaderElection.resourceLock: Invalid value: "endpoints": '
                'resourceLock value must be "leases"',
                "parallelism: Invalid value: 0: should be an integer value greater than zero",
                "percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
                "podInitialBackoffSeconds: Invalid value: 0: must be greater than 0",
                "podMaxBackoffSeconds: Invalid value: -1: "
                "must be greater than or equal to PodInitialBackoffSeconds",
            ],
            id="every top-level problem at once",
        ),
        pytest.param(
            "profiles:\n- plugins: {filter: {enabled: [{name: EBSLimits}]}}\n"
            "  pluginConfig: [{name: X}, {name: X}]",
            [
                'profiles[0].plugins.filter.enabled[0]: Invalid value: "EBSLimits": was invalid '
                'in version "v1" (KubeSchedulerConfiguration is '
                'version "kubescheduler.config.k8s.io/v1")',
                'profiles[0].pluginConfig[1]: Duplicate value: "X"',
            ],
            id="removed plugins and double args",
        ),
        pytest.param(
            "profiles: [{schedulerName: a}, {schedulerName: b, "
            "plugins: {queueSort: {enabled: [{name: Mine}]}}}]",
            [
                'profiles[1].plugins.queueSort: Invalid value: {"Enabled":[{"Name":"Mine",'
                '"Weight":0}],"Disabled":null}: must be the same for all profiles'
            ],
            id="one queue sort for all",
        ),
        pytest.param(
            "extenders: [{urlPrefix: http://a, prioritizeVerb: p, bindVerb: b, "
            "managedResources: [{name: example.com/foo}, {name: cpu}]}, "
            "{urlPrefix: http://b, bindVerb: b, managedResources: [{name: example.com/foo}]}]",
            [
                "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it",
                'extenders[0].managedResources[1].name: Invalid value: "cpu": '
                "is an invalid extended resource name",
                'extenders[1].managedResources[0].name: Invalid value: "example.com/foo": '
                "duplicate extender managed resource name",
                'extenders: Invalid value: "found 2 extenders implementing bind": '
                "only one extender can implement bind",
            ],
            id="extenders",
        ),
    ],
)
def test_problems_are_worded_as_upstream(text, expected):
    assert problems_of(text) == expected


ARGS = "profiles:\n- pluginConfig:\n  - name: {name}\n    args: {args}\n"
PATH = "profiles[0].pluginConfig[0].args"


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        (
            "DefaultPreemption",
            "{minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0}",
            [
                ".minCandidateNodesPercentage: Invalid value: 0: "
                "cannot be zero at the same time as minCandidateNodesAbsolute",
                ".minCandidateNodesAbsolute: Invalid value: 0: "
                "cannot be zero at the same time as minCandidateNodesPercentage",
            ],
        ),
        (
            "InterPodAffinity",
            "{hardPodAffinityWeight: 101}",
            [".hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]"],
        ),
        (
            "NodeAffinity",
            "{addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
            "[{matchExpressions: [{key: a, operator: In}, {key: b, operator: Foo}, "
            "{key: c, operator: Gt, values: [x]}]}]}}}",
            [
                ".addedAffinity.requiredDuringSchedulingIgnoredDuringExecution."
                "nodeSelectorTerms[0].matchExpressions[0].values: Invalid value: null: "
                "for 'in', 'notin' operators, values set can't be empty",
                ".addedAffinity.requiredDuringSchedulingIgnoredDuringExecution."
                'nodeSelectorTerms[0].matchExpressions[1].operator: Unsupported value: "Foo": '
                'supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"',
                ".addedAffinity.requiredDuringSchedulingIgnoredDuringExecution."
                'nodeSelectorTerms[0].matchExpressions[2].values[0]: Invalid value: "x": '
                "for 'Gt', 'Lt' operators, the value must be an integer",
            ],
        ),
        (
            "NodeResourcesFit",
            "{ignoredResourceGroups: [a/b], scoringStrategy: {type: Foo, "
            "resources: [{name: cpu, weight: 101}], requestedToCapacityRatio: {}}}",
            [
                '.ignoredResourceGroups[0]: Invalid value: "a/b": '
                "resource group name can't contain '/'",
                '.scoringStrategy.type: Unsupported value: "Foo": supported values: '
                '"LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"',
                ".scoringStrategy.resources[0].weight: Invalid value: 101: "
                "resource weight of cpu not in valid range (0, 100]",
                ".scoringStrategy.requestedToCapacityRatio: Forbidden: "
                "must be nil when type is not RequestedToCapacityRatio",
            ],
        ),
        (
            "NodeResourcesFit",
            "{scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: "
            "{shape: [{utilization: 10, score: 11}, {utilization: 5, score: -1}]}}}",
            [
                ".scoringStrategy.requestedToCapacityRatio.shape[1].utilization: "
                "Invalid value: 5: values must be sorted in increasing order",
                ".scoringStrategy.requestedToCapacityRatio.shape[0].score: "
                "Invalid value: 11: not in valid range [0, 10]",
                ".scoringStrategy.requestedToCapacityRatio.shape[1].score: "
                "Invalid value: -1: not in valid range [0, 10]",
            ],
        ),
        (
            "NodeResourcesBalancedAllocation",
            "{resources: [{name: cpu, weight: 2}, {name: cpu}]}",
            [
                ".resources[0].weight: Invalid value: 2: must be 1",
                '.resources[1].name: Duplicate value: "cpu"',
            ],
        ),
        (
            "PodTopologySpread",
            "{defaultConstraints: [{maxSkew: 0, topologyKey: zone, whenUnsatisfiable: Foo, "
            "labelSelector: {}}, {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: Foo}]}",
            [
                '.defaultingType: Invalid value: "System": when .defaultConstraints are not empty',
                ".defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf)",
                '.defaultConstraints[0].whenUnsatisfiable: Unsupported value: "Foo": '
                'supported values: "DoNotSchedule", "ScheduleAnyway"',
                ".defaultConstraints[0].labelSelector: Forbidden: "
                "constraint must not define a selector, as they deduced for each pod",
                '.defaultConstraints[1].whenUnsatisfiable: Unsupported value: "Foo": '
                'supported values: "DoNotSchedule", "ScheduleAnyway"',
                '.defaultConstraints[1]: Duplicate value: "{zone, Foo}"',
            ],
        ),
        (
            "VolumeBinding",
            "{bindTimeoutSeconds: -1, shape: [{utilization: 0, score: 1}]}",
            [
                ".bindTimeoutSeconds: Invalid value: -1: "
                "invalid BindTimeoutSeconds, should not be a negative value",
                '.shape: Invalid value: [{"Utilization":0,"Score":1}]: unexpected field `shape`, '
                "remove it or turn on the feature gate StorageCapacityScoring",
            ],
        ),
        (
            "DynamicResources",
            "{filterTimeout: -1s, bindingTimeout: 1ms}",
            [
                '.filterTimeout: Invalid value: "-1s": must be zero or positive',
                '.bindingTimeout: Invalid value: "1ms": must be at least 1 second',
            ],
        ),
    ],
)
def test_plugin_args_problems_are_worded_as_upstream(name, args, expected):
    problems = problems_of(ARGS.replace("{name}", name).replace("{args}", args))

    assert [PATH + text for text in expected] == problems


def test_args_that_hang_on_a_gate():
    gates = FeatureGates({"DRASchedulerFilterTimeout": False, "StorageCapacityScoring": True})
    profile = default_config(gates).profiles[0]

    assert profile.args("DynamicResources").filter_timeout is None
    assert [10, 0] == [point.score for point in profile.args("VolumeBinding").shape]
    text = ARGS.replace("{name}", "DynamicResources").replace("{args}", "{filterTimeout: 1s}")
    assert problems_of(text, gates) == [
        f"{PATH}.filterTimeout: Forbidden: DRASchedulingFilterTimeout feature gate is disabled"
    ]


def test_weight_zero_counts_as_one():
    text = "{resources: [{name: nvidia.com/gpu}]}"
    config = load(
        HEAD + ARGS.replace("{name}", "NodeResourcesBalancedAllocation").replace("{args}", text)
    ).config

    resources = config.profiles[0].args("NodeResourcesBalancedAllocation").resources

    assert [("nvidia.com/gpu", 1)] == [(item.name, item.weight) for item in resources]


def test_unknown_plugins_args_are_passed_on():
    config = load(HEAD + "profiles: [{pluginConfig: [{name: Mine, args: {x: [1]}}]}]").config

    assert config.profiles[0].args("Mine") == {"x": [1]}


def test_resources_left_to_an_extender_replace_the_ignored_ones():
    config = load(
        HEAD + "extenders: [{urlPrefix: http://a, filterVerb: f, "
        "managedResources: [{name: example.com/x, ignoredByScheduler: true}]}]"
    ).config

    fit = config.profiles[0].args("NodeResourcesFit")

    assert isinstance(fit, NodeResourcesFitArgs)
    assert fit.ignored_resources == ("example.com/x",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: Foo", "'apiVersion' is missing"),
        ("apiVersion: kubescheduler.config.k8s.io/v1", "'kind' is missing"),
        (
            "apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration",
            'no kind "KubeSchedulerConfiguration" is registered for version '
            '"kubescheduler.config.k8s.io/v1beta3"; use kubescheduler.config.k8s.io/v1',
        ),
        ("apiVersion: v1\nkind: Pod", 'no kind "Pod" is registered for version "v1"'),
        ("- 1", "expected an object with apiVersion and kind"),
        ("", "expected an object with apiVersion and kind"),
        ("a: b: c", "yaml: line 1"),
        (HEAD + "parallelism: 1\nparallelism: 2", 'key "parallelism" already set in map'),
    ],
)
def test_broken_file_is_one_clear_error(tmp_path, text, message):
    file = tmp_path / "config.yaml"
    file.write_text(text)

    with pytest.raises(ConfigError) as caught:
        load_file(file)

    assert message in str(caught.value)
    assert str(file) in str(caught.value)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        load_file(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Foo=true", "unrecognized feature gate: Foo"),
        ("GenericWorklaod=true", "GenericWorklaod; did you mean GenericWorkload"),
        ("Foo", "missing bool value for feature gate key: Foo"),
        ("GangScheduling=maybe", "invalid value of GangScheduling=maybe"),
        (
            "SchedulerQueueingHints=false",
            "cannot set feature gate SchedulerQueueingHints to false, feature is locked to true",
        ),
        (
            "GangScheduling=true",
            "GangScheduling is enabled, but depends on features that are disabled: "
            "[GenericWorkload]",
        ),
    ],
)
def test_bad_feature_gates(text, problem):
    with pytest.raises(InvalidConfig) as caught:
        parse_gates(text, "1.36")

    assert problem in str(caught.value)


def test_a_gate_that_is_not_near_is_not_suggested():
    with pytest.raises(InvalidConfig, match=r"unrecognized feature gate: Nope$"):
        parse_gates("Nope=true", "1.36")


def test_gates_change_the_default_plugins():
    gates = parse_gates(
        "GenericWorkload=true,GangScheduling=true, NodeDeclaredFeatures=false,"
        "InPlacePodLevelResourcesVerticalScaling=false,ExtendWebSocketsToKubelet=false,"
        "InPlacePodVerticalScalingInitContainers=false,RestartAllContainersOnContainerExits=false",
        "1.36",
    )
    names = [p.name for p in default_config(gates).profiles[0].plugins.multi_point.enabled]

    assert "NodeDeclaredFeatures" not in names
    assert names[-1] == "GangScheduling"


def test_all_alpha_turns_alpha_features_on():
    gates = parse_gates("AllAlpha=true,GangScheduling=false,WorkloadAwarePreemption=false", "1.36")

    assert gates["StorageCapacityScoring"]
    assert not gates["GangScheduling"]
    assert gates["SchedulerPopFromBackoffQ"]


@pytest.mark.parametrize(
    ("gate", "old", "new"),
    [
        ("StorageCapacityScoring", False, True),
        ("VolumeLimitScaling", False, True),
        ("DRADeviceTaintRules", False, True),
        ("NodeDeclaredFeatures", True, True),
        ("GangScheduling", False, False),
        ("CompositePodGroup", False, False),
    ],
)
def test_defaults_belong_to_a_version(gate, old, new):
    assert old == FeatureGates(version="1.36")[gate]
    assert new == FeatureGates()[gate]


def test_a_gate_of_another_version_cannot_be_set():
    with pytest.raises(InvalidConfig, match="unrecognized feature gate: SidecarContainers"):
        parse_gates("SidecarContainers=true", "1.37")
    with pytest.raises(InvalidConfig, match="unrecognized feature gate: CompositePodGroup"):
        parse_gates("CompositePodGroup=true", "1.36")


def test_a_gate_that_became_part_of_another_is_still_taken():
    gates = parse_gates("GangScheduling=true,GenericWorkload=true", "1.37")

    assert {"GenericWorkload": True} == gates.changed


def test_a_gate_may_name_its_component():
    assert parse_gates("kube:GenericWorkload=true")["GenericWorkload"]


def test_a_gate_that_no_version_knows_is_an_error_of_the_programmer():
    with pytest.raises(KeyError):
        FeatureGates()["Nonsense"]


@pytest.mark.parametrize(
    ("text", "version"), [("", "1.37"), ("1.36", "1.36"), ("kube=1.36", "1.36"), ("v1.37", "1.37")]
)
def test_versions_are_spelled_as_upstream(text, version):
    assert version == parse_version(text)


@pytest.mark.parametrize("text", ["1.20", "new", "other=1.36"])
def test_other_versions_are_refused(text):
    with pytest.raises(InvalidConfig, match="emulated-version"):
        parse_version(text)


def test_the_order_of_default_plugins_belongs_to_a_version():
    def names(version):
        config = default_config(FeatureGates(version=version))
        found = [p.name for p in config.profiles[0].plugins.multi_point.enabled]
        return found[2:4]

    assert ["NodeUnschedulable", "NodeName"] == names("1.36")
    assert ["NodeName", "NodeUnschedulable"] == names("1.37")


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["profiles", "plugins", "name", "args", "pluginConfig", "filter", "enabled", "weight",
             "parallelism", "leaderElection", "leaseDuration", "extenders", "schedulerName"]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=20,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(["profiles", "extenders", "parallelism"]), json_like))
def test_no_data_breaks_the_loader(data):
    """Whatever the file holds, the result is a configuration or an error for the user."""
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    try:
        config = from_data({**head, **data})
    except ConfigError:
        return

    assert from_data(to_data(config)) == config
