"""The request suites on both servers side by side: answers recorded now, checked now."""

import pytest

from bayplan.testing.servers import TOKEN, start_embedded, start_kube
from tests.conformance.api.replay import check, load, record
from tests.conformance.test_api import HERE, listed_differences

pytestmark = pytest.mark.kube


@pytest.mark.parametrize("suite", ["recorded", "kinds", "edges", "flows", "custom"])
def test_both_servers_answer_alike(suite, tmp_path):
    steps = load(HERE / f"{suite}.json.gz")
    with start_kube() as real:
        recorded = record(steps, real.server, TOKEN)
    tokens = tmp_path / "tokens.csv"
    tokens.write_text(f"{TOKEN},admin,admin,system:masters\n", "utf-8")
    version = "--emulated-version=1.36"  # that of the real server
    arguments = ("--anonymous-auth=false", f"--token-file={tokens}", version)
    with start_embedded(tmp_path, *arguments) as ours:
        results = check(recorded, ours.server, TOKEN, insecure=True)

    differing = {step["id"]: lines for step, lines in results if lines}
    ids = {step["id"] for step in steps}
    assert listed_differences() & ids == set(differing), differing
