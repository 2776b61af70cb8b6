"""Defaults, causes and immutability of every kind, as kube-apiserver v1.36.4 answered them.

The suite is built by `validation_suite` and was recorded from the real server; a new recording is
made by `python -m tests.conformance.api.validation_suite SERVER TOKEN`.
"""

from pathlib import Path

from bayplan.testing.servers import start_embedded
from tests.conformance.api.replay import check, load
from tests.conformance.api.validation_suite import steps

RECORDED = Path(__file__).parent / "api" / "validation.json.gz"


def test_the_recording_is_of_this_suite():
    assert [step["id"] for step in steps()] == [step["id"] for step in load(RECORDED)]


def test_answers_agree_with_the_recorded_ones(tmp_path):
    arguments = ("--store=memory", "--anonymous-auth=false", "--emulated-version=1.36")
    with start_embedded(tmp_path, *arguments) as cluster:
        results = check(load(RECORDED), cluster.server, cluster.token, insecure=True)

    assert {} == {step["id"]: lines for step, lines in results if lines}
