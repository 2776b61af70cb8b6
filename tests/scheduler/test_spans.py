"""Spans of attempts and bindings reach a collector, as OpenTelemetry's variables ask."""

import gzip
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from bayplan.observe.spans import spans_from_environment
from bayplan.testing import make_pod


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """A collector at a port of its own; yields the spans that it was sent."""
    got: list[Any] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            request = ExportTraceServiceRequest.FromString(body)
            for resource in request.resource_spans:
                got.extend(span for scope in resource.scope_spans for span in scope.spans)
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    thread = Thread(target=server.serve_forever)
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
    try:
        yield got
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_collector_gets_attempts_and_bindings(collector):
    spans = spans_from_environment("bayplan-scheduler")
    pod = make_pod("web").build()

    spans.attempt(pod, "scheduled", 0.25)
    spans.binding(pod, "node-1", 0.05, failed=False)
    spans.close()

    facts = [{item.key: item.value.string_value for item in span.attributes} for span in collector]
    assert ["schedule pod", "bind pod"] == [span.name for span in collector]
    assert ["web", "web"] == [fact["k8s.pod.name"] for fact in facts]
    assert ("scheduled", "node-1") == (facts[0]["bayplan.result"], facts[1]["k8s.node.name"])
    took = [span.end_time_unix_nano - span.start_time_unix_nano for span in collector]
    assert [0.25, 0.05] == pytest.approx([nanoseconds / 1e9 for nanoseconds in took])


def test_without_the_variables_there_are_no_spans(monkeypatch):
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)

    assert spans_from_environment("bayplan-scheduler") is None
