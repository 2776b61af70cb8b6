"""`bayplan scheduler` does what kube-scheduler v1.36.4 did in 66 recorded scenarios.

Always on the embedded API server (without its controllers), and on the real kube-apiserver where
`make kube-assets` has built it. Scenarios mostly wait for quiet, so several run at once, each
group on an API server of its own.
"""

import gzip
import json
import shlex
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bayplan.testing.servers import (
    ServedCluster,
    bayplan_command,
    kube_assets,
    start_embedded,
    start_kube,
)
from tests.conformance.live.replay import Runner, differences

RECORDED = Path(__file__).parent / "live" / "recorded.json.gz"
SCENARIOS = json.loads(gzip.decompress(RECORDED.read_bytes()))["scenarios"]
IDS = [scenario["id"] for scenario in SCENARIOS]
COMMAND = shlex.join(
    [
        *bayplan_command("scheduler"),
        "--config",
        "{config}",
        "--secure-port=0",
        "--emulated-version=1.36",
    ]
)
AT_ONCE = 3
AT_ONCE_REAL = 2  # each has an etcd and a kube-apiserver of its own


def replay(start: Callable[[], ServedCluster], scenarios: list[dict]) -> dict[str, list[str]]:
    """Run scenarios one after the other on a new cluster; scenario id -> differences."""
    with start() as cluster:
        runner = Runner(str(cluster.kubeconfig), COMMAND)
        try:
            return {
                s["id"]: differences(s["expected"], runner.run(s, s["expected"])) for s in scenarios
            }
        finally:
            runner.stop()
            cluster.stop()
            runner.close()


def replay_all(start: Callable[[], ServedCluster], at_once: int = AT_ONCE) -> dict[str, list[str]]:
    groups = [SCENARIOS[i::at_once] for i in range(at_once)]
    with ThreadPoolExecutor(at_once) as pool:
        results = pool.map(lambda group: replay(start, group), groups)
        return {key: value for result in results for key, value in result.items()}


@pytest.fixture(scope="module")
def embedded() -> Iterator[dict[str, list[str]]]:
    return replay_all(start_embedded)


@pytest.fixture(scope="module")
def real() -> Iterator[dict[str, list[str]]]:
    if kube_assets() is None:
        pytest.skip("the real programs are not built: run `make kube-assets`")
    return replay_all(start_kube, AT_ONCE_REAL)


@pytest.mark.slow
@pytest.mark.xdist_group("live")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("scenario", IDS)
def test_scenario_on_the_embedded_api_server(embedded, scenario):
    assert [] == embedded[scenario]


@pytest.mark.kube
@pytest.mark.slow
@pytest.mark.xdist_group("live-kube")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("scenario", IDS)
def test_scenario_on_the_real_api_server(real, scenario):
    assert [] == real[scenario]
