"""Custom resources, apply and patches in depth, as kube-apiserver v1.36.4 answered.

The steps in DIFFERENT differ on purpose: see docs/reference/kubectl-differences.md.
"""

from pathlib import Path

from bayplan.testing.servers import start_embedded
from tests.conformance.api.replay import check, load

RECORDED = Path(__file__).parent / "api" / "custom.json.gz"
DIFFERENT = {
    "x-ssa/unknown-field": "a 400: the client's error, where the real server says 500",
    "x-ssa/dup-keys": "a 400: the client's error, where the real server says 500",
    "x-smp/nokey": "a 422: the client's error, where the real server says 500",
    "x-ssa/wrong-name": "the name is checked first; the real server sees the conflict first",
}


def test_custom_resources_and_patches_agree_with_the_recorded_answers():
    steps = load(RECORDED)
    with start_embedded(None, "--store=memory") as cluster:
        secure = cluster.server.startswith("https")
        results = check(steps, cluster.server, cluster.token, insecure=secure)

    differing = {step["id"]: lines for step, lines in results if lines}
    assert DIFFERENT.keys() == differing.keys(), differing
