"""The real kube-scheduler writes the same configuration and has the same complaints."""

import json
import re
import subprocess

import pytest

from bayplan.api import yaml
from bayplan.config import FeatureGates, InvalidConfig, load, to_data
from bayplan.testing.servers import kube_assets

pytestmark = pytest.mark.kube

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
current-context: a
users: [{name: a, user: {}}]
"""
GOOD = {
    "default": "",
    "profiles": """
percentageOfNodesToScore: 50
podInitialBackoffSeconds: 2
profiles:
- schedulerName: one
  percentageOfNodesToScore: 10
  plugins:
    multiPoint: {disabled: [{name: ImageLocality}], enabled: [{name: NodeAffinity, weight: 7}]}
    score: {enabled: [{name: InterPodAffinity, weight: 5}, {name: TaintToleration}]}
    filter: {disabled: [{name: NodePorts}]}
- schedulerName: two
  plugins: {postFilter: {disabled: [{name: "*"}]}}
  pluginConfig:
  - name: NodeResourcesFit
    args:
      ignoredResources: [example.com/foo]
      scoringStrategy:
        type: RequestedToCapacityRatio
        resources: [{name: cpu}, {name: nvidia.com/gpu, weight: 5}]
        requestedToCapacityRatio:
          shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]
  - name: PodTopologySpread
    args:
      defaultingType: List
      defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]
  - name: NodeAffinity
    args: {addedAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [
      {weight: 5, preference: {matchExpressions: [{key: a, operator: Exists}]}}]}}
""",
    "extender": """
extenders:
- {urlPrefix: "http://e", filterVerb: f, weight: 1, httpTimeout: 1500ms, enableHTTPS: true,
   tlsConfig: {insecure: true}, managedResources: [{name: example.com/x, ignoredByScheduler: true}]}
""",
}
BAD = """
parallelism: 0
podMaxBackoffSeconds: 0
percentageOfNodesToScore: 101
leaderElection: {leaseDuration: 5s, resourceLock: endpoints}
profiles:
- schedulerName: a
  plugins: {queueSort: {enabled: [{name: X}]}, filter: {enabled: [{name: EBSLimits}]}}
- schedulerName: b
  percentageOfNodesToScore: -1
  pluginConfig:
  - name: DefaultPreemption
    args: {minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0}
  - name: InterPodAffinity
    args: {hardPodAffinityWeight: 101}
  - name: NodeAffinity
    args: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
      {matchExpressions: [{key: "a//b", operator: In}, {key: b, operator: Foo},
        {key: c, operator: Gt, values: [x]}, {key: d, operator: In, values: ["a b"]}],
       matchFields: [{key: metadata.name, operator: Exists}]}]}}}
  - name: PodTopologySpread
    args: {defaultConstraints: [
      {maxSkew: 0, topologyKey: "zone/", whenUnsatisfiable: Foo, labelSelector: {}},
      {maxSkew: 1, topologyKey: "zone/", whenUnsatisfiable: Foo}]}
  - name: VolumeBinding
    args: {bindTimeoutSeconds: -1, shape: [{utilization: 0, score: 1}]}
  - name: NodeResourcesBalancedAllocation
    args: {resources: [{name: cpu, weight: 2}, {name: cpu}]}
  - name: DynamicResources
    args: {filterTimeout: -1s, bindingTimeout: 1ms}
extenders:
- {urlPrefix: "http://a", prioritizeVerb: p, bindVerb: b,
   managedResources: [{name: example.com/foo}, {name: cpu}, {name: "Ex/-"}]}
- {urlPrefix: "http://b", bindVerb: b, managedResources: [{name: example.com/foo}]}
"""


@pytest.fixture
def real(tmp_path):
    """Runs the real kube-scheduler on a configuration; returns what it wrote and what it said."""
    assets = kube_assets()
    if assets is None:
        pytest.skip("the real programs are not built: run `make kube-assets`")
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)

    def run(text):
        file, out = tmp_path / "config.yaml", tmp_path / "out.yaml"
        file.write_text(f"{HEAD}clientConnection: {{kubeconfig: {kubeconfig}}}\n{text}")
        command = [
            assets / "kube-scheduler",
            f"--config={file}",
            f"--write-config-to={out}",
            "--secure-port=0",
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return file.read_text(), out.read_text() if out.exists() else "", done.stderr

    return run


def simplified(document):
    """Without what means nothing: zero weights, and the order of plugin arguments."""
    for profile in document["profiles"]:
        profile["pluginConfig"].sort(key=lambda item: item["name"])
        for sets in profile["plugins"].values():
            for plugin in sets.get("enabled", []) + sets.get("disabled", []):
                if not plugin.get("weight"):
                    plugin.pop("weight", None)
    return document


@pytest.mark.parametrize("name", GOOD)
def test_completed_configuration_is_the_real_one(real, name):
    text, written, said = real(GOOD[name])

    assert written, said
    expected = simplified(yaml.load(written))
    assert simplified(to_data(load(text, FeatureGates(version="1.36")).config)) == expected


def test_complaints_are_the_real_ones(real):
    text, _, said = real(BAD)
    with pytest.raises(InvalidConfig) as caught:
        load(text, FeatureGates(version="1.36"))
    quoted = re.search(r'err="(.*)"\n', said)
    theirs = json.loads(f'"{quoted[1]}"') if quoted else said

    missing = [problem for problem in caught.value.problems if problem not in theirs]
    left = theirs
    for problem in sorted(caught.value.problems, key=len, reverse=True):
        left = left.replace(problem, "")

    assert missing == []
    assert left.strip("[], \n") == ""
