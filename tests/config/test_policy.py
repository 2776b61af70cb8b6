"""Files of schedulers before 1.23 are converted, and nothing is dropped silently."""

import json

import pytest
from click.testing import CliRunner

from bayplan.cli.config import command
from bayplan.config import NodeResourcesFitArgs, load
from bayplan.errors import ConfigError

POLICY = {
    "kind": "Policy",
    "apiVersion": "v1",
    "predicates": [
        {"name": "GeneralPredicates"},
        {"name": "CheckNodeMemoryPressure"},
        {"name": "Ssd", "argument": {"labelsPresence": {"labels": ["ssd"], "presence": True}}},
    ],
    "priorities": [
        {"name": "MostRequestedPriority", "weight": 5},
        {"name": "SelectorSpreadPriority", "weight": 1},
        {"name": "EvenPodsSpreadPriority", "weight": 2},
        {"name": "NodePreferAvoidPodsPriority", "weight": 10000},
    ],
    "extenders": [
        {
            "urlPrefix": "http://127.0.0.1:12346/scheduler",
            "FilterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "weight": 5,
            "enableHttps": False,
            "httpTimeout": 30000000000,
            "nodeCacheCapable": True,
            "managedResources": [{"name": "example.com/foo", "ignoredByScheduler": True}],
        }
    ],
    "hardPodAffinitySymmetricWeight": 10,
}


def test_policy_becomes_a_profile():
    loaded = load(json.dumps(POLICY))
    profile = loaded.config.profiles[0]
    plugins = profile.plugins
    enabled = {p.name: p.weight for p in plugins.multi_point.enabled}

    assert enabled["NodeResourcesFit"] == 5
    assert enabled["PodTopologySpread"] == 3
    assert "VolumeZone" not in enabled
    assert "ImageLocality" not in enabled
    assert {"SchedulingGates", "PrioritySort", "DefaultBinder", "TaintToleration"} <= set(enabled)
    assert ("PodTopologySpread",) == tuple(p.name for p in plugins.filter.disabled)
    assert {"NodeAffinity", "TaintToleration"} == {p.name for p in plugins.score.disabled}
    fit = profile.args("NodeResourcesFit")
    assert isinstance(fit, NodeResourcesFitArgs)
    assert fit.scoring_strategy.type == "MostAllocated"
    assert fit.ignored_resources == ("example.com/foo",)
    assert profile.args("InterPodAffinity").hard_pod_affinity_weight == 10
    required = profile.args("NodeAffinity").added_affinity.required
    assert required.node_selector_terms[0].match_expressions[0].key == "ssd"


def test_policys_extenders_are_kept():
    extender = load(json.dumps(POLICY)).config.extenders[0]

    assert extender.url_prefix == "http://127.0.0.1:12346/scheduler"
    assert extender.filter_verb == "filter"
    assert extender.timeout_seconds == 30
    assert extender.node_cache_capable


def test_conversion_warns_about_what_it_leaves_out():
    warnings = load(json.dumps(POLICY)).warnings

    assert any("kind Policy was removed" in text for text in warnings)
    assert any("CheckNodeMemoryPressure" in text for text in warnings)
    assert any("NodePreferAvoidPodsPriority" in text for text in warnings)


def test_policy_without_lists_means_the_old_defaults():
    config = load('{"kind": "Policy", "apiVersion": "v1"}').config
    disabled = config.profiles[0].plugins.multi_point.disabled

    assert disabled == ()


def test_capacity_ratio_and_label_preference():
    policy = {
        "kind": "Policy",
        "priorities": [
            {
                "name": "Ratio",
                "weight": 2,
                "argument": {
                    "requestedToCapacityRatioArguments": {
                        "shape": [
                            {"utilization": 0, "score": 0},
                            {"utilization": 100, "score": 10},
                        ],
                        "resources": [{"name": "example.com/gpu", "weight": 3}],
                    }
                },
            },
            {
                "name": "Disk",
                "weight": 4,
                "argument": {"labelPreference": {"label": "disk", "presence": False}},
            },
            {
                "name": "Zones",
                "weight": 1,
                "argument": {"serviceAntiAffinity": {"label": "zone"}},
            },
        ],
    }
    profile = load(json.dumps(policy)).config.profiles[0]

    strategy = profile.args("NodeResourcesFit").scoring_strategy
    assert strategy.type == "RequestedToCapacityRatio"
    assert strategy.resources[0].name == "example.com/gpu"
    preferred = profile.args("NodeAffinity").added_affinity.preferred
    assert preferred[0].preference.match_expressions[0].operator == "DoesNotExist"
    assert profile.args("PodTopologySpread").default_constraints[0].topology_key == "zone"


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"predicates": [{"name": "Nope"}]}, 'predicates[0]: unknown predicate "Nope"'),
        ({"priorities": [{"name": "Nope", "weight": 1}]}, 'unknown priority "Nope"'),
        ({"priorities": [{"name": "ImageLocalityPriority"}]}, "priorities[0].weight"),
        ({"predicates": "x"}, "predicates: expected a list"),
        ({"predicates": [1]}, "predicates[0]: expected an object with a name"),
    ],
)
def test_bad_policy_is_named(policy, message):
    with pytest.raises(ConfigError) as caught:
        load(json.dumps({"kind": "Policy", **policy}))

    assert message in str(caught.value)


def component(source):
    return {
        "apiVersion": "componentconfig/v1alpha1",
        "kind": "KubeSchedulerConfiguration",
        "schedulerName": "my-scheduler",
        "algorithmSource": source,
        "leaderElection": {"leaderElect": True, "lockObjectName": "my-scheduler"},
        "healthzBindAddress": "0.0.0.0:10251",
    }


def test_component_config_with_a_policy_file(tmp_path):
    file = tmp_path / "policy.cfg"
    file.write_text(json.dumps(POLICY))
    loaded = load(json.dumps(component({"policy": {"file": {"path": str(file)}}})))

    assert loaded.config.profiles[0].scheduler_name == "my-scheduler"
    assert loaded.config.leader_election.resource_name == "my-scheduler"
    assert loaded.config.extenders[0].weight == 5
    assert any("healthzBindAddress" in text for text in loaded.warnings)


def test_component_config_with_a_config_map():
    text = json.dumps(
        component({"policy": {"configMap": {"namespace": "kube-system", "name": "policy"}}})
    )

    def read(namespace, name):
        assert (namespace, name) == ("kube-system", "policy")
        return {"policy.cfg": json.dumps(POLICY)}

    assert load(text, read_config_map=read).config.extenders[0].weight == 5
    with pytest.raises(ConfigError, match="kubectl -n kube-system get configmap policy"):
        load(text)


def test_config_map_with_a_policy():
    text = json.dumps({"kind": "ConfigMap", "data": {"policy.cfg": json.dumps(POLICY)}})

    assert load(text).config.extenders[0].weight == 5
    with pytest.raises(ConfigError, match=r'no key "policy\.cfg"'):
        load('{"kind": "ConfigMap", "data": {}}')


def test_provider_means_the_default_plugins():
    loaded = load(json.dumps(component({"provider": "ClusterAutoscalerProvider"})))

    assert any("ClusterAutoscalerProvider" in text for text in loaded.warnings)


def test_commands(tmp_path):
    good, bad = tmp_path / "policy.json", tmp_path / "bad.yaml"
    good.write_text(json.dumps(POLICY))
    bad.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "parallelism: 0\npodMaxBackoffSeconds: 0\n"
    )
    run = CliRunner().invoke

    converted = run(command, ["convert", str(good)])
    checked = run(command, ["validate", str(good)])
    failed = run(command, ["validate", str(bad)])

    assert converted.exit_code == 0
    assert "warning: kind Policy was removed" in converted.stderr
    assert load(converted.stdout).config == load(good.read_text()).config
    assert "valid; profiles: default-scheduler; extenders: 1" in checked.stdout
    assert failed.exit_code == 1
    assert "parallelism: Invalid value: 0" in failed.stderr
    assert failed.stderr.endswith("has 2 problems\n")
    assert "kind: KubeSchedulerConfiguration" in run(command, ["print-default"]).stdout


def test_validate_puts_profiles_together(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{plugins: {filter: {enabled: [{name: Nope}]}}}]\n"
    )

    result = CliRunner().invoke(command, ["validate", str(file)])

    assert result.exit_code == 1
    assert 'plugin "Nope" is not registered' in result.stderr
