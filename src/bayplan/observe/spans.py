"""Attempts and bindings as spans of OpenTelemetry, where its standard variables ask for them.

`OTEL_EXPORTER_OTLP_ENDPOINT` (or the one for traces) names a collector; the other variables of
OpenTelemetry's SDK work as it documents. Spans are made of times that are measured anyway, are
sent by the SDK's own thread in batches, and are dropped when the collector cannot keep up: nothing
here waits. Without the variables nothing is imported and nothing costs.
"""

from __future__ import annotations

import os
import time
from typing import Any

from bayplan.api import Pod
from bayplan.extras import needed

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


class Spans:
    """Tells a collector what was tried and bound."""

    def __init__(self, provider: Any) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("bayplan.scheduler")

    def attempt(self, pod: Pod, result: str, seconds: float, **more: int | str) -> None:
        """An attempt of a pod that ended now, binding included."""
        self._span("schedule pod", pod, seconds, {"bayplan.result": result, **more})

    def binding(self, pod: Pod, node: str, seconds: float, failed: bool) -> None:
        """A binding that was answered now."""
        result = "error" if failed else "success"
        self._span("bind pod", pod, seconds, {"k8s.node.name": node, "bayplan.result": result})

    def close(self) -> None:
        """Send what waits; the SDK gives up by itself."""
        self._provider.shutdown()

    def _span(self, name: str, pod: Pod, seconds: float, facts: dict[str, int | str]) -> None:
        meta, end = pod.metadata, time.time_ns()
        attributes = {
            "k8s.namespace.name": meta.namespace,
            "k8s.pod.name": meta.name,
            "k8s.pod.uid": meta.uid,
            "bayplan.profile": pod.spec.scheduler_name,
            **facts,
        }
        begun = end - int(seconds * 1e9)
        self._tracer.start_span(name, attributes=attributes, start_time=begun).end(end)


def spans_from_environment(service: str) -> Spans | None:
    """Spans for the collector that the environment names, if it names one."""
    if not any(os.environ.get(name) for name in ENDPOINTS):
        return None
    sdk = needed("opentelemetry.sdk.trace", "otel")
    resources = needed("opentelemetry.sdk.resources", "otel")
    batches = needed("opentelemetry.sdk.trace.export", "otel")
    otlp = needed("opentelemetry.exporter.otlp.proto.http.trace_exporter", "otel")
    name = os.environ.get("OTEL_SERVICE_NAME", service)
    provider = sdk.TracerProvider(resource=resources.Resource.create({"service.name": name}))
    provider.add_span_processor(batches.BatchSpanProcessor(otlp.OTLPSpanExporter()))
    return Spans(provider)
