"""Custom resources, apply and patches in depth, as kube-apiserver v1.36.4 answered.

What differs on purpose stands in docs/reference/api-differences.md.
"""

from pathlib import Path

from bayplan.testing.servers import start_embedded
from tests.conformance.api.replay import check, load
from tests.conformance.test_api import listed_differences

RECORDED = Path(__file__).parent / "api" / "custom.json.gz"


def test_custom_resources_and_patches_agree_with_the_recorded_answers():
    steps = load(RECORDED)
    with start_embedded(None, "--store=memory") as cluster:
        secure = cluster.server.startswith("https")
        results = check(steps, cluster.server, cluster.token, insecure=secure)

    differing = {step["id"]: lines for step, lines in results if lines}
    listed = listed_differences() & {step["id"] for step in steps}
    assert listed == differing.keys(), differing
