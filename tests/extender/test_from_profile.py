import asyncio
import json

import pytest

from bayplan.errors import ConfigError
from bayplan.extender import Extender, wire
from bayplan.extender.from_profile import ProfileExtender
from bayplan.framework.contract.status import unresolvable
from bayplan.plugins import in_tree_registry
from bayplan.testing.builders import make_node, make_pod

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: mine
  plugins:
    multiPoint:
      enabled: [{name: OddNode}]
    filter:
      disabled: [{name: NodeResourcesFit}]
    score:
      disabled: [{name: "*"}]
      enabled: [{name: OddNode, weight: 2}]
"""


class OddNode:
    """Ten lines of Python: rejects node 0, likes odd numbers."""

    name = "OddNode"

    def filter_node(self, state, pod, node):
        return unresolvable("node(s) were zero") if node.name.endswith("0") else None

    def score_node(self, state, pod, node):
        return 100 if int(node.name[-1]) % 2 else 30


@pytest.fixture
def app(tmp_path):
    path = tmp_path / "ksc.yaml"
    path.write_text(CONFIG)
    registry = in_tree_registry() | {"OddNode": lambda args, handle: OddNode()}
    return Extender(ProfileExtender.load(path, "", registry))


def nodes(*builders):
    return [json.dumps(builder.body()).encode() for builder in builders]


def ask(app, verb, texts):
    pod = json.dumps(make_pod("p").req(cpu="1").body()).encode()
    return json.loads(asyncio.run(app.answer(verb, wire.encode_args(pod, nodes=texts))))


FOUR = [make_node(f"n{n}").capacity(cpu="4", memory="8Gi", pods="10") for n in range(4)]


def test_filters_of_the_profile_reject_with_their_reasons(app):
    tainted = make_node("n5").capacity(cpu="4", pods="10").taint("k")

    answer = ask(app, "filter", nodes(*FOUR, tainted))

    assert ["n1", "n2", "n3"] == [item["metadata"]["name"] for item in answer["Nodes"]["items"]]
    assert {
        "n0": "node(s) were zero",
        "n5": "node(s) had untolerated taint(s)",
    } == answer["FailedAndUnresolvableNodes"]


def test_scores_are_brought_to_ten(app):
    answer = ask(app, "prioritize", nodes(*FOUR[1:]))

    assert [("n1", 10), ("n2", 3), ("n3", 10)] == [(e["Host"], e["Score"]) for e in answer]


def test_a_node_that_changed_is_taken_over(app):
    ask(app, "filter", nodes(*FOUR))
    changed = make_node("n1").capacity(cpu="4", memory="8Gi", pods="10").cordon()

    answer = ask(app, "filter", nodes(changed, FOUR[2]))

    assert ["n2"] == [item["metadata"]["name"] for item in answer["Nodes"]["items"]]


def test_a_watched_cluster_takes_the_place_of_what_is_sent(tmp_path):
    """Pods that run count; those without a node, and those that have gone, do not."""
    path = tmp_path / "ksc.yaml"
    path.write_text("\n".join(CONFIG.splitlines()[:3]) + "\n")
    implementation = ProfileExtender.load(path, "", in_tree_registry())
    app = Extender(implementation)
    node = make_node("n1").capacity(cpu="2", memory="8Gi", pods="10").build()
    full = make_pod("full").uid("1").req(cpu="2").node("n1").build()
    waits = make_pod("waits").uid("2").req(cpu="2").build()

    def told(*changes):
        implementation.changed([(kind, item, None) for kind, item in changes])
        failed = ask(app, "filter", nodes(make_node("n1").capacity(cpu="64", pods="10")))
        return failed["FailedNodes"].get("n1", "")

    assert "" == told(("ADDED", node), ("ADDED", waits))
    assert "Insufficient cpu" in told(("ADDED", full))
    assert "" == told(("DELETED", full))


def test_an_unknown_profile_is_named(tmp_path):
    path = tmp_path / "ksc.yaml"
    path.write_text(
        CONFIG.replace("[{name: OddNode}]", "[]").replace(
            "name: OddNode, weight: 2", "name: ImageLocality"
        )
    )

    with pytest.raises(ConfigError, match='no profile "other"; it has: mine'):
        ProfileExtender.load(path, "other", in_tree_registry())


def test_a_plugin_that_breaks_fails_the_call_and_not_the_nodes(tmp_path):
    class Broken(OddNode):
        def filter_node(self, state, pod, node):
            raise RuntimeError("no odd nodes today")

    path = tmp_path / "ksc.yaml"
    path.write_text(CONFIG)
    registry = in_tree_registry() | {"OddNode": lambda args, handle: Broken()}
    app = Extender(ProfileExtender.load(path, "", registry))

    assert "no odd nodes today" in ask(app, "filter", nodes(*FOUR))["Error"]
