"""Every metric of upstream that we show gets values from real work, in virtual time."""

import asyncio

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from bayplan.apiserver.server import ApiServer
from bayplan.client import AsgiTransport, Client
from bayplan.client.resources import NODES, PODS
from bayplan.clock import run_virtual
from bayplan.config import DEFAULT_GATES, from_data
from bayplan.framework import Code, Status
from bayplan.plugins import in_tree_registry
from bayplan.scheduler.event_recorder import EventRecorder
from bayplan.scheduler.live import LiveScheduler
from bayplan.store.memory import MemoryStore

CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Slow"}]}}}],
}


class Slow:
    """Makes pods that say so wait on Permit until the time is over, and sees bound pods off."""

    name = "Slow"

    def permit(self, state, pod, node_name):
        if "slow" not in pod.metadata.labels:
            return None, 0.0
        return Status(Code.WAIT), 4.0

    def post_bind(self, state, pod, node_name):
        return None


async def work(calm: Client) -> None:
    """Bind, fail, preempt, wait on permit, and add a node that helps."""

    async def node(name: str) -> None:
        capacity = {"cpu": "2", "memory": "8Gi", "pods": "20"}
        await calm.create(NODES, {"metadata": {"name": name}, "status": {"capacity": capacity}})

    async def pod(name: str, cpu: str, namespace: str = "default", **labels: str) -> None:
        spec = {"containers": [{"name": "c", "image": "x"}]}
        spec["containers"][0]["resources"] = {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}
        if namespace == "kube-system":
            spec["priorityClassName"] = "system-cluster-critical"
        meta = {"name": name, "labels": labels}
        await calm.create(PODS, {"metadata": meta, "spec": spec}, namespace)
        await asyncio.sleep(0.1)

    await node("n1")
    for number in range(3):
        await pod(f"p{number}", "500m")
    await pod("slow", "100m", slow="1")
    await asyncio.sleep(6)
    await calm.delete(PODS, "slow", "default")
    await pod("big", "1500m")
    await pod("critical", "800m", "kube-system")
    await asyncio.sleep(1)
    for item in msgspec.json.decode(await calm.list(PODS))["items"]:
        if item["metadata"].get("deletionTimestamp"):
            await calm.delete(PODS, item["metadata"]["name"], "default", grace_period=0)
    await node("n2")
    await asyncio.sleep(30)


def measured() -> dict[tuple[str, str], float]:
    """The samples after that work, by name and one label value each."""
    found: dict[tuple[str, str], float] = {}

    async def main() -> None:
        server = ApiServer(MemoryStore(), admin_token="t")
        await server.start()
        calm = Client(AsgiTransport(server, token="t"))
        recorder = EventRecorder(calm, hostname="h")
        live = LiveScheduler(
            config=from_data(CONFIG),
            gates=DEFAULT_GATES,
            registry={**in_tree_registry(), "Slow": lambda args, handle: Slow()},
            client=calm,
            recorder=recorder,
            wall=lambda: 1_800_000_000.0 + asyncio.get_running_loop().time(),
        )
        parts = (recorder.run(), live.run_informers(), live.run())
        tasks = [asyncio.create_task(part) for part in parts]
        await live.wait_synced()
        await work(calm)
        live.refresh_gauges()
        found.update(samples(live.metrics.exposition().decode()))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.close()

    run_virtual(main())
    return found


def samples(text: str) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            for value in (*sample.labels.values(), ""):
                key = (sample.name, value)
                found[key] = found.get(key, 0.0) + sample.value
    return found


@pytest.fixture(scope="module")
def values():
    return measured()


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("schedule_attempts_total", "scheduled"),
        ("schedule_attempts_total", "unschedulable"),
        ("scheduling_attempt_duration_seconds_sum", "scheduled"),
        ("scheduling_attempt_duration_seconds_sum", "unschedulable"),
        ("scheduling_algorithm_duration_seconds_sum", ""),
        ("pod_scheduling_sli_duration_seconds_count", "1"),
        ("pod_scheduling_attempts_count", ""),
        ("preemption_attempts_total", ""),
        ("preemption_victims_count", ""),
        ("permit_wait_duration_seconds_sum", "Unschedulable"),
        ("queue_incoming_pods_total", "active"),
        ("cache_size", "nodes"),
        ("event_handling_duration_seconds_sum", "NodeAdd"),
        ("event_handling_duration_seconds_sum", "UnschedulablePodAdd"),
        ("event_handling_duration_seconds_sum", "AssignedPodDelete"),
        ("framework_extension_point_duration_seconds_sum", "PreEnqueue"),
        ("framework_extension_point_duration_seconds_sum", "PreFilter"),
        ("framework_extension_point_duration_seconds_sum", "Filter"),
        ("framework_extension_point_duration_seconds_sum", "PostFilter"),
        ("framework_extension_point_duration_seconds_sum", "Permit"),
        ("framework_extension_point_duration_seconds_sum", "Unreserve"),
        ("framework_extension_point_duration_seconds_count", "Bind"),
        ("framework_extension_point_duration_seconds_sum", "PostBind"),
        ("plugin_execution_duration_seconds_sum", "NodeResourcesFit"),
        ("plugin_execution_duration_seconds_sum", "DefaultPreemption"),
        ("plugin_execution_duration_seconds_count", "DefaultBinder"),
        ("plugin_evaluation_total", "NodeResourcesFit"),
        ("queueing_hint_execution_duration_seconds_sum", "NodeResourcesFit"),
        ("async_api_call_execution_total", "pod_binding"),
        ("async_api_call_execution_total", "pod_status_patch"),
        ("async_api_call_duration_seconds_count", "pod_status_patch"),
    ],
)
def test_value_arrives(values, name, label):
    assert values.get((f"scheduler_{name}", label), 0.0) > 0


def test_every_attempt_is_measured(values):
    attempts = values["scheduler_schedule_attempts_total", ""]

    assert values["scheduler_scheduling_attempt_duration_seconds_count", ""] == attempts
    assert values["scheduler_scheduling_algorithm_duration_seconds_count", ""] == attempts


def test_waits_on_permit_have_their_length(values):
    # One until its limit of 4 s; the next one ends when the pod is deleted.
    assert 4.0 < values["scheduler_permit_wait_duration_seconds_sum", ""] < 8.0


def test_nothing_is_in_flight_when_all_is_done(values):
    assert values["scheduler_inflight_events", "PodPopped"] == 0.0
