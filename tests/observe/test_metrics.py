"""Metrics: names, labels and buckets are those of kube-scheduler v1.36."""

import pytest

from bayplan.observe.metrics import SchedulerMetrics, exponential


@pytest.mark.parametrize(
    "name",
    [
        "scheduler_schedule_attempts_total",
        "scheduler_scheduling_attempt_duration_seconds",
        "scheduler_pending_pods",
        "scheduler_preemption_attempts_total",
        "scheduler_preemption_victims",
        "scheduler_pod_scheduling_sli_duration_seconds",
        "scheduler_pod_scheduling_attempts",
        "scheduler_queue_incoming_pods_total",
        "scheduler_framework_extension_point_duration_seconds",
        "scheduler_plugin_execution_duration_seconds",
        "scheduler_permit_wait_duration_seconds",
        "scheduler_cache_size",
        "scheduler_unschedulable_pods",
        "scheduler_plugin_evaluation_total",
        "rest_client_requests_total",
        "rest_client_request_duration_seconds",
        "leader_election_master_status",
    ],
)
def test_metric_exists(name):
    assert f"# TYPE {name} " in SchedulerMetrics(process=False).exposition().decode()


def test_buckets_are_exponential():
    assert [0.001, 0.002, 0.004] == exponential(0.001, 2, 3)


def test_attempts_above_fourteen_share_a_label():
    metrics = SchedulerMetrics(process=False)
    metrics.bound(3, 0.5)
    metrics.bound(15, 0.5)
    metrics.bound(40, 0.5)

    text = metrics.exposition().decode()

    assert 'scheduler_pod_scheduling_sli_duration_seconds_count{attempts="3"} 1.0' in text
    assert 'scheduler_pod_scheduling_sli_duration_seconds_count{attempts="15+"} 2.0' in text
    assert "scheduler_pod_scheduling_attempts_sum 58.0" in text


def test_a_gauge_forgets_nothing_that_it_showed():
    metrics = SchedulerMetrics(process=False)
    metrics.show(metrics.unschedulable_pods, {("NodePorts", "p"): 3, ("NodeName", "p"): 1})
    metrics.show(metrics.unschedulable_pods, {("NodeName", "p"): 2})

    text = metrics.exposition().decode()

    assert 'scheduler_unschedulable_pods{plugin="NodePorts",profile="p"} 0.0' in text
    assert 'scheduler_unschedulable_pods{plugin="NodeName",profile="p"} 2.0' in text
