"""What is over leaves nothing behind, so that long runs do not grow."""

import gc

import pytest

from bayplan.controllers.kubelet.container import Container
from bayplan.controllers.kubelet.pod import PodRun
from bayplan.sim import Settings, run_scenario
from bayplan.sim.workload import Lifetime, Workload, run_workload


def kept():
    """The simulated pods that are still in memory; other tests may have some."""
    return [one for one in gc.get_objects() if isinstance(one, PodRun | Container)]


@pytest.mark.parametrize("faithful", [False, True], ids=["fast", "faithful"])
def test_pods_that_are_gone_do_not_wait_for_the_garbage_collector(faithful):
    """Simulated kubelets once kept each in a cycle: a day of pods took hundreds of megabytes."""
    left = []
    gc.collect()
    others = kept()

    async def scenario(client):
        await client.nodes(2)
        work = Workload("web", count=20, rate=1.0, lifetime=Lifetime("fixed", 10.0))
        await run_workload(client, work)
        await client.sleep(5)
        left.extend(one for one in kept() if not any(one is other for other in others))

    gc.disable()
    try:
        result = run_scenario(scenario, settings=Settings(keep=False, faithful=faithful))
    finally:
        gc.enable()

    assert result.ok, result.problems()
    assert 20 == result.tracker.ended
    assert [] == left
