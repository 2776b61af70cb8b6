"""Pods that no node takes are looked at again and again, and written of once."""

from __future__ import annotations

from bayplan.sim import ScenarioClient, Settings, run_scenario

HOUR = 3600.0


async def _wait_in_vain(client: ScenarioClient) -> None:
    await client.nodes(2, cpu="4", memory="8Gi", zones=["a", "b"])
    await client.pods(4, "large", cpu="3")
    await client.pod("elsewhere", node_selector={"nowhere": "here"})
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}]
    containers = [{"name": "c", "image": "i"}]
    for name, more in (
        ("unclaimed", {"volumes": volumes}),
        ("gated", {"schedulingGates": [{"name": "example.com/gate"}]}),
        ("of-nobody", {"schedulerName": "nobody"}),
    ):
        spec = {"containers": containers, **more}
        await client.create(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        )
    await client.sleep(HOUR)
    await client.node("late", cpu="1", memory="1Gi")  # it takes none of them, but all are tried
    await client.sleep(HOUR)


def test_pending_pods_are_left_alone_for_an_hour():
    result = run_scenario(_wait_in_vain, seed=1, settings=Settings(faithful=True))

    assert result.ok, result.problems()
    for begin, end in ((HOUR / 2, HOUR), (HOUR + 60, 2 * HOUR)):
        late = [entry.line() for entry in result.entries if begin < entry.time < end]
        assert [] == [line for line in late if "core/events/" not in line]
