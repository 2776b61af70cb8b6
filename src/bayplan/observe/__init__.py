"""Metrics, logs and spans.

`logs.configure` sets up structlog once a process; `metrics.SchedulerMetrics` holds kube-scheduler's
metrics. Both may be imported from anywhere; neither imports anything of
bayplan. `spans` tells OpenTelemetry of attempts.
"""
