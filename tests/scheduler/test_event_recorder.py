"""The event recorder: what is written, what becomes a series, what is dropped."""

import asyncio
import json

from bayplan.client import AsgiTransport, Client
from bayplan.clock import run_virtual
from bayplan.engine.loop.actions import truncated
from bayplan.scheduler.event_recorder import EventRecorder, Reference

POD = Reference("Pod", "ns", "p", "u1", resource_version="5")


class Sink:
    """Keeps what was sent; answers with the given codes, then 201."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)
        self.sent: list[tuple[str, str, dict]] = []

    async def __call__(self, scope, receive, send):
        body = json.loads((await receive())["body"])
        self.sent.append((scope["method"], scope["path"], body))
        code = self.codes.pop(0) if self.codes else 201
        answer = json.dumps({"kind": "Status", "code": code}).encode() if code >= 400 else b"{}"
        await send({"type": "http.response.start", "status": code, "headers": []})
        await send({"type": "http.response.body", "body": answer})


def run(sink, script, **options):
    async def main():
        recorder = EventRecorder(Client(AsgiTransport(sink)), hostname="host", **options)
        task = asyncio.create_task(recorder.run())
        await script(recorder)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run_virtual(main())
    return sink.sent


def failed(recorder, note="no", regarding=POD):
    recorder.record(
        regarding,
        type_="Warning",
        reason="FailedScheduling",
        action="Scheduling",
        note=note,
        controller="default-scheduler",
    )


def test_an_event_is_written_as_upstream_writes_it():
    async def script(recorder):
        failed(recorder)
        await asyncio.sleep(1)

    ((method, path, body),) = run(Sink(), script)

    assert ("POST", "/apis/events.k8s.io/v1/namespaces/ns/events") == (method, path)
    assert body["metadata"]["name"].startswith("p.")
    assert body["reportingInstance"] == "default-scheduler-host"
    assert body["regarding"] == {
        "kind": "Pod",
        "namespace": "ns",
        "name": "p",
        "uid": "u1",
        "apiVersion": "v1",
        "resourceVersion": "5",
    }


def test_equal_events_become_a_series_that_is_patched_once():
    async def script(recorder):
        for _ in range(5):
            failed(recorder)
            await asyncio.sleep(1)

    sent = run(Sink(), script)

    assert ["POST", "PATCH"] == [method for method, _, _ in sent]
    assert sent[1][2]["series"]["count"] == 2


def test_a_series_is_written_again_when_it_has_ended():
    async def script(recorder):
        for _ in range(5):
            failed(recorder)
            await asyncio.sleep(1)
        await asyncio.sleep(1000)

    sent = run(Sink(), script)

    assert [2, 5] == [body["series"]["count"] for method, _, body in sent if method == "PATCH"]


def test_a_changed_object_makes_a_new_event():
    async def script(recorder):
        failed(recorder, "one")
        failed(recorder, "two", Reference("Pod", "ns", "p", "u1", resource_version="6"))
        await asyncio.sleep(1)

    assert ["one", "two"] == [body["note"] for _, _, body in run(Sink(), script)]


def test_a_refused_event_is_given_up():
    outcomes = []

    async def script(recorder):
        failed(recorder)
        await asyncio.sleep(100)

    sent = run(Sink(403), script, count=outcomes.append)

    assert (1, ["rejected"]) == (len(sent), outcomes)


def test_a_full_queue_drops_and_counts():
    outcomes = []

    async def script(recorder):
        for i in range(5):
            failed(recorder, regarding=Reference("Pod", "ns", f"p{i}", f"u{i}"))
        await asyncio.sleep(1)

    sent = run(Sink(), script, limit=3, count=outcomes.append)

    assert len(sent) == 3
    assert outcomes.count("dropped") == 2


def test_while_binding_is_busy_few_workers_send():
    seen = []

    class Slow(Sink):
        under_way = 0

        async def __call__(self, scope, receive, send):
            self.under_way += 1
            seen.append(self.under_way)
            await asyncio.sleep(1)
            await super().__call__(scope, receive, send)
            self.under_way -= 1

    async def script(recorder):
        for i in range(20):
            failed(recorder, regarding=Reference("Pod", "ns", f"p{i}", f"u{i}"))
        await recorder.drain(60)

    sent = run(Slow(), script, binding_busy=lambda: True)

    assert len(sent) == 20
    assert max(seen) <= 3


def test_notes_are_cut_at_1024_bytes():
    assert truncated("x" * 1024) == "x" * 1024
    assert truncated("x" * 1025) == "x" * 1020 + " ..."
    assert len(truncated("é" * 900).encode()) <= 1024
