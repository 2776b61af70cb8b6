"""`bayplan scheduler` does what kube-scheduler v1.36.4 and v1.37.1 did in 66 recorded scenarios.

Always on the embedded API server (without its controllers), and on the real kube-apiserver where
`make kube-assets` has built it. Scenarios mostly wait for quiet, so several run at once, each
group on an API server of its own. v1.37.1 was recorded on the embedded API server; of what it does
otherwise than v1.36.4 a third is replayed.
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

HERE = Path(__file__).parent / "live"


def recorded(name: str) -> list[dict]:
    return json.loads(gzip.decompress((HERE / name).read_bytes()))["scenarios"]


SCENARIOS = recorded("recorded.json.gz")
IDS = [scenario["id"] for scenario in SCENARIOS]
BEFORE = {scenario["id"]: scenario["expected"] for scenario in SCENARIOS}
CHANGED = [s for s in recorded("recorded-1.37.json.gz") if s["expected"] != BEFORE[s["id"]]][::3]


def command(version: str) -> str:
    words = ("--config", "{config}", "--secure-port=0", f"--emulated-version={version}")
    return shlex.join([*bayplan_command("scheduler"), *words])


AT_ONCE = 3
AT_ONCE_REAL = 2  # each has an etcd and a kube-apiserver of its own


def replay(
    start: Callable[[], ServedCluster], version: str, scenarios: list[dict]
) -> dict[str, list[str]]:
    """Run scenarios one after the other on a new cluster; scenario id -> differences.

    Those of one configuration follow each other, since they share a scheduler.
    """
    scenarios = sorted(scenarios, key=lambda s: json.dumps(s.get("config")))
    with start() as cluster:
        runner = Runner(str(cluster.kubeconfig), command(version))
        try:
            return {
                s["id"]: differences(s["expected"], runner.run(s, s["expected"])) for s in scenarios
            }
        finally:
            runner.stop()
            cluster.stop()
            runner.close()


def replay_all(
    start: Callable[[], ServedCluster],
    at_once: int = AT_ONCE,
    scenarios: list[dict] = SCENARIOS,
    version: str = "1.36",
) -> dict[str, list[str]]:
    groups = [scenarios[i::at_once] for i in range(at_once)]
    with ThreadPoolExecutor(at_once) as pool:
        results = pool.map(lambda group: replay(start, version, group), groups)
        return {key: value for result in results for key, value in result.items()}


@pytest.fixture(scope="module")
def embedded() -> Iterator[dict[str, list[str]]]:
    return replay_all(start_embedded)


@pytest.fixture(scope="module")
def newer() -> Iterator[dict[str, list[str]]]:
    return replay_all(start_embedded, AT_ONCE, CHANGED, "1.37")


@pytest.fixture(scope="module")
def real() -> Iterator[dict[str, list[str]]]:
    if kube_assets() is None:
        pytest.skip("the real programs are not built: run `make kube-assets`")
    return replay_all(start_kube, AT_ONCE_REAL)


@pytest.mark.long
@pytest.mark.xdist_group("live")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("scenario", IDS)
def test_scenario_on_the_embedded_api_server(embedded, scenario):
    assert [] == embedded[scenario]


@pytest.mark.long
@pytest.mark.xdist_group("live-newer")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("scenario", [scenario["id"] for scenario in CHANGED])
def test_scenario_as_1_37_goes_through_it(newer, scenario):
    assert [] == newer[scenario]


@pytest.mark.kube
@pytest.mark.slow
@pytest.mark.xdist_group("live-kube")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("scenario", IDS)
def test_scenario_on_the_real_api_server(real, scenario):
    assert [] == real[scenario]
