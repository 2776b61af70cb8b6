import json
import re

import pytest
from click.testing import CliRunner

from bayplan.cli.extender import command
from bayplan.errors import BayplanError
from bayplan.extender import Extender, check
from bayplan.extender.check import Verbs, checks, reach, run
from tests.extender.servers import plain_server, serving

VERBS = Verbs(preempt="preempt", bind="bind")


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """A busy machine is not a slow extender."""
    monkeypatch.setattr(check, "SLOW_SECONDS", 600.0)


def good_extender():
    app = Extender()
    app.filter(lambda names: names[:1])
    app.prioritize(lambda names: dict.fromkeys(names, 5))
    app.preempt(lambda victims: list(victims))
    app.bind(lambda pod_name: f"no pod {pod_name}")
    return app


@pytest.mark.parametrize("names", [True, False])
def test_an_extender_of_our_kit_passes(names):
    with serving(good_extender()) as url:
        problems = [(f.check, f.problem) for f in run(url, VERBS, names=names) if f.problem]

    assert [] == problems


def test_an_answer_that_is_right_but_comes_late_is_a_finding(monkeypatch):
    monkeypatch.setattr(check, "SLOW_SECONDS", -1.0)
    with serving(good_extender()) as url:
        first = next(run(url, VERBS, names=True))

    assert "a pod waits for it in every cycle" in first.problem


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        pytest.param(b'{"NodeNames":["zz"]}', '"zz", which was not asked about', id="stranger"),
        pytest.param(b"{}", "neither NodeNames nor Nodes is set", id="empty"),
        pytest.param(
            b'{"NodeNames":["check-0"],"FailedNodes":{"check-0":"x"}}', "both kept", id="both"
        ),
        pytest.param(b'{"Error":"boom"}', "Error is set: boom", id="error"),
    ],
)
def test_a_wrong_filter_answer_is_explained(answer, says):
    with plain_server(lambda path, body: (200, answer)) as url:
        first = next(run(url, Verbs(prioritize="", preempt=""), names=True))

    assert says in first.problem


def test_a_malformed_call_that_is_taken_for_good_is_a_finding():
    with plain_server(lambda path, body: (200, b"[]")) as url:
        found = {f.check: f.problem for f in run(url, Verbs(filter="", preempt=""), names=True)}

    assert "answered with 200 and no Error" in found["prioritize refuses a body that is no pod"]


def test_the_command_says_what_failed_and_exits_1():
    with plain_server(lambda path, body: (500, b"oops")) as url:
        result = CliRunner().invoke(command, ["check", url, "--node-cache-capable"])

    assert 1 == result.exit_code
    assert "FAIL filter 3 names" in result.output
    assert "answered 500 where 200 was expected: oops" in result.output


def test_the_command_prints_json_and_exits_0_when_all_is_well():
    with serving(good_extender()) as url:
        result = CliRunner().invoke(command, ["check", url, "-o", "json"])

    assert 0 == result.exit_code
    assert all(finding["problem"] == "" for finding in json.loads(result.output.splitlines()[-1]))


@pytest.mark.parametrize(
    ("url", "says"),
    [
        pytest.param("http://127.0.0.1:1", "is it running?", id="nobody listens"),
        pytest.param("localhost:8080", "want a URL", id="no URL"),
        pytest.param("http://127.0.0.1:99999", "is it running?", id="no such port"),
    ],
)
def test_a_wrong_address_is_one_problem(url, says):
    with pytest.raises(BayplanError, match=re.escape(says)):
        list(run(url, VERBS, names=True))


def counting(counts):
    """An extender that promises to keep nothing, and offers each node once if it counts."""
    app, offered = Extender(ahead=True), set()

    @app.filter
    def fresh(pod, names):
        left = [name for name in names if name not in offered]
        if counts and pod.metadata.name != "bayplan-check":
            offered.update(left[:1])
        return left

    return app


@pytest.mark.parametrize("counts", [False, True])
def test_a_promise_to_keep_nothing_is_looked_into(counts):
    with serving(counting(counts)) as url:
        found = {f.check: f.problem for f in run(url, Verbs(prioritize="", preempt=""), names=True)}

    assert counts == ("changes with what was asked before" in found["filter keeps its promise"])


def test_who_promises_nothing_is_not_asked_twice():
    with serving(good_extender()) as url:
        found = [f.check for f in run(url, VERBS, names=True)]

    assert [] == [name for name in found if "promise" in name]


@pytest.mark.parametrize(
    ("verbs", "asked"),
    [
        (Verbs("", "", "", "bind"), ["bind a pod that does not exist"]),
        (Verbs("", "", "preempt"), ["preempt 2 nodes"]),
        (Verbs("", "", ""), []),
    ],
)
def test_only_verbs_that_are_named_are_asked(verbs, asked):
    assert asked == [check.name for check in checks(verbs, names=True)]


def test_who_binds_a_pod_that_does_not_exist_is_found_out():
    with plain_server(lambda path, body: (200, b'{"Error":""}')) as url:
        [found] = run(url, Verbs("", "", "", "bind"), names=True)

    assert "200 and no Error" in found.problem


@pytest.mark.parametrize(
    ("url", "port"), [("http://h/x", 80), ("https://h", 443), ("https://h:8443/x", 8443)]
)
def test_an_address_without_a_port_has_that_of_its_scheme(url, port, monkeypatch):
    asked = []

    def refused(address, timeout):
        asked.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(check.socket, "create_connection", refused)
    with pytest.raises(BayplanError, match="is it running"):
        reach(url)

    assert [("h", port)] == asked
