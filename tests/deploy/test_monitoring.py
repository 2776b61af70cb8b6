"""Dashboard and alerts ask for metrics and labels that the scheduler really has.

What the rules do with them is tried with promtool by `make test-rules`.
"""

import json
import re

import pytest
import yaml
from prometheus_client import Counter
from prometheus_client.metrics import MetricWrapperBase

from bayplan.observe.histogram import Histogram
from bayplan.observe.metrics import SchedulerMetrics
from tests.deploy.checks import DEPLOY

PLACE = DEPLOY / "monitoring"
RULES = yaml.safe_load((PLACE / "alerts.yaml").read_text("utf-8"))["groups"][0]["rules"]
DASHBOARD = json.loads((PLACE / "dashboard.json").read_text("utf-8"))
EXPRESSIONS = {rule["alert"]: rule["expr"] for rule in RULES} | {
    f"{panel['title']}, {target['refId']}": target["expr"]
    for panel in DASHBOARD["panels"]
    for target in panel["targets"]
}
ADDED = {"namespace", "le"}  # by Prometheus, and by every histogram
SELECTOR = re.compile(r"\b((?:scheduler|bayplan|leader_election|rest_client)_\w+)(?:\{([^}]*)\})?")
GROUPING = re.compile(r"\bby \(([^)]*)\)")


@pytest.fixture(scope="module")
def labels():
    """The labels of every metric, by the names that queries use."""
    found = {}
    for metric in vars(SchedulerMetrics()).values():
        names = getattr(metric, "_labelnames", getattr(metric, "_labels", None))
        if isinstance(metric, Histogram):
            found |= {metric._name + end: set(names) for end in ("_bucket", "_sum", "_count")}
        elif isinstance(metric, MetricWrapperBase):
            end = "_total" if isinstance(metric, Counter) else ""
            found[metric._name + end] = set(names)
    return found


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_a_query_asks_for_what_there_is(name, labels):
    expression = EXPRESSIONS[name]
    asked = SELECTOR.findall(expression)
    assert asked

    known = set(ADDED)
    for metric, selection in asked:
        assert metric in labels, f"there is no {metric}"
        known |= labels[metric]
        used = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selection))
        assert used <= labels[metric] | ADDED
    grouped = {word.strip() for group in GROUPING.findall(expression) for word in group.split(",")}
    assert grouped <= known


def test_every_alert_is_tried_and_says_what_to_do():
    tried = yaml.safe_load((PLACE / "alerts_test.yaml").read_text("utf-8"))["tests"]
    silent = {case["alertname"] for case in tried[0]["alert_rule_test"]}
    firing = str(tried[1]["promql_expr_test"])

    assert {rule["alert"] for rule in RULES} == silent
    for rule in RULES:
        assert rule["alert"] in firing
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert {"summary", "description"} == set(rule["annotations"])


def test_panels_do_not_overlap_and_have_words():
    places = [tuple(panel["gridPos"].values()) for panel in DASHBOARD["panels"]]

    assert len(set(places)) == len(places)
    assert all(panel["description"] for panel in DASHBOARD["panels"])
