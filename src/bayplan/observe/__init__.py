"""Metrics and logs.

`logs.configure` sets up structlog once a process; `metrics.SchedulerMetrics` holds kube-scheduler's
metrics. Both may be imported from anywhere; neither imports anything of bayplan.
"""
