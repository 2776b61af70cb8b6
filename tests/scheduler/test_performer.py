"""Actions are carried out concurrently, in order where it matters, and their ends are reported."""

import asyncio
import json

import pytest
from msgspec.structs import replace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from bayplan.api import Condition
from bayplan.client import AsgiTransport, Client, RateLimiter
from bayplan.clock import run_virtual
from bayplan.engine.loop.actions import (
    Bind,
    CallApi,
    Evict,
    Observe,
    PatchPod,
    RecordEvent,
)
from bayplan.engine.loop.inputs import BindDone, CallsDone, Evicted
from bayplan.framework import ApiCall
from bayplan.observe.metrics import SchedulerMetrics
from bayplan.observe.spans import Spans
from bayplan.scheduler.event_recorder import EventRecorder
from bayplan.scheduler.performer import BINDERS, Performer
from bayplan.testing.builders import make_pod


class Api:
    """Answers after `delay` seconds with a code by path, and keeps what it was asked."""

    def __init__(self, codes: dict[str, int] | None = None, delay: float = 1.0) -> None:
        self.codes, self.delay = codes or {}, delay
        self.asked: list[tuple[str, str]] = []
        self.bodies: list[dict] = []
        self.now = self.most = 0

    async def __call__(self, scope, receive, send):
        body = (await receive())["body"]
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(self.delay)
        self.asked.append((scope["method"], scope["path"]))
        self.bodies.append(json.loads(body) if body else {})
        code = self.codes.get(scope["path"], 200)
        text = json.dumps({"kind": "Status", "code": code, "message": "no", "reason": "Conflict"})
        self.now -= 1
        await send({"type": "http.response.start", "status": code, "headers": []})
        await send({"type": "http.response.body", "body": text.encode() if code > 399 else b"{}"})


def perform(api, *batches, metrics=None, spans=None, limiter=None, made=None):
    reports = []
    performers = [] if made is None else made

    async def main():
        client = Client(AsgiTransport(api), limiter=limiter)
        recorder = EventRecorder(client, hostname="h")
        counted = metrics or SchedulerMetrics(process=False)
        performer = Performer(client, recorder, counted, reports.append, spans)
        performers.append(performer)
        tasks = [asyncio.create_task(performer.run()), asyncio.create_task(recorder.run())]
        for batch in batches:
            performer.perform(list(batch))
            await asyncio.sleep(0.1)
        await asyncio.sleep(1000)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run_virtual(main())
    return reports


def pod(name):
    return make_pod(name).uid(f"uid-{name}").build()


def path(name, subresource=""):
    return f"/api/v1/namespaces/default/pods/{name}{subresource}"


def test_bindings_run_side_by_side_up_to_the_limit():
    api = Api()
    names = [f"p{i}" for i in range(3 * BINDERS)]

    reports = perform(api, [Bind(pod(name), "n") for name in names])

    assert {BindDone(f"uid-{name}") for name in names} == set(reports)
    assert api.most == BINDERS


def test_a_refused_binding_is_reported_with_the_servers_words():
    api = Api({path("a", "/binding"): 409})

    assert [BindDone("uid-a", "no")] == perform(api, [Bind(pod("a"), "n")])


def waits(of, reason, node=None):
    return PatchPod(of, Condition(type="PodScheduled", status="False", reason=reason), node, 0.0)


def patched(api, name):
    """What was said of a pod, in order."""
    asked = zip(api.asked, api.bodies, strict=True)
    return [body["status"] for (_, where), body in asked if where == path(name, "/status")]


def test_status_patches_of_one_pod_come_one_after_the_other_and_those_that_wait_are_one():
    api = Api()
    one, two = pod("a"), pod("b")

    perform(
        api,
        [waits(one, "first"), PatchPod(two, None, "n", 0.0)],
        [waits(one, "second", "x"), waits(one, "third")],
    )

    said = patched(api, "a")
    assert ["first", "third"] == [status["conditions"][0]["reason"] for status in said]
    assert [None, "x"] == [status.get("nominatedNodeName") for status in said]
    assert api.most == 2


def test_a_patch_does_not_wait_for_that_of_another_pod():
    api = Api()

    perform(api, [waits(pod("a"), "full")], [waits(pod("b"), "full")])

    assert api.most == 2


@pytest.mark.parametrize("turns", range(12))
def test_a_patch_is_sent_whenever_it_comes_while_another_ends(turns):
    performers = []

    class Ending(Api):
        async def __call__(self, scope, receive, send):
            await super().__call__(scope, receive, send)
            if scope["path"] == path("a", "/status"):
                later(turns)

    def later(count):
        if count:
            asyncio.get_running_loop().call_soon(later, count - 1)
        else:
            performers[0].perform([waits(pod("b"), "full")])

    api = Ending()
    perform(api, [waits(pod("a"), "full")], made=performers)

    assert 1 == len(patched(api, "b"))


def test_what_was_said_of_a_pod_is_not_said_again_before_it_is_shown():
    api, a = Api(), pod("a")
    shown = replace(a, metadata=replace(a.metadata, resource_version="7"))

    perform(
        api,
        [waits(a, "full"), waits(pod("b"), "full")],
        [waits(a, "full")],  # under way
        *[[]] * 20,
        [waits(a, "full")],  # done, and not shown
        [waits(shown, "full")],  # shown, and somebody has changed it
    )

    assert 2 == len(patched(api, "a"))
    assert 1 == len(patched(api, "b"))


def test_a_patch_that_failed_is_sent_again():
    api, a = Api({path("a", "/status"): 403}), pod("a")

    perform(api, [waits(a, "full")], *[[]] * 20, [waits(a, "full")])

    assert 2 == len(patched(api, "a"))


def test_a_binding_waits_for_the_patch_under_way_and_drops_what_waits():
    api, a = Api(), pod("a")

    reports = perform(
        api,
        [PatchPod(a, None, "x", 0.0)],
        [PatchPod(a, None, "y", 0.0)],
        [Bind(a, "n"), Bind(pod("b"), "n")],
    )

    assert [("PATCH", path("a", "/status")), ("POST", path("b", "/binding"))] == api.asked[:2]
    assert [("POST", path("a", "/binding"))] == api.asked[2:]
    assert {BindDone("uid-a"), BindDone("uid-b")} == set(reports)


def test_bindings_do_not_wait_behind_the_status_of_a_backlog():
    """Of 2,500 pods that do not fit at 50 requests a second, and then room comes for 200."""
    api = Api(delay=0.01)
    pods = [pod(f"p{number}") for number in range(2500)]
    chosen = pods[-200:]

    perform(
        api,
        [waits(each, "full") for each in pods],
        *[[]] * 20,
        [Bind(each, "n") for each in chosen],
        limiter=RateLimiter(50, 100),
    )

    sent = [where.rpartition("/")[2] for _, where in api.asked]
    begun = sent.index("binding")
    ended = len(sent) - sent[::-1].index("binding")
    assert 100 + 2.1 * 50 >= begun, "what had passed before; the first binding is the next"
    assert 200 == sent.count("binding")
    assert 200 * 5 / 4 + 1 >= ended - begun, "four of five are bindings, and the fifth a patch"
    assert 200 * 6 / 5 <= ended - begun
    assert 2500 - 200 == sent.count("status"), "what waited of pods that are bound is outdated"


def test_a_patch_that_changes_nothing_is_not_sent():
    api = Api()

    perform(api, [PatchPod(make_pod("a").nominated("n").build(), None, "n", 0.0)])

    assert [] == api.asked


def test_a_victim_is_marked_and_then_deleted():
    api = Api()

    reports = perform(api, [Evict(pod("v"), pod("p"), "n", "default-scheduler", 0.0)])

    assert [("PATCH", path("v", "/status")), ("DELETE", path("v"))] == api.asked
    assert api.bodies[0]["status"]["conditions"][0]["type"] == "DisruptionTarget"
    assert api.bodies[1] == {"preconditions": {"uid": "uid-v"}}
    assert [Evicted("uid-p", "uid-v")] == reports


def test_a_victim_that_is_gone_counts_as_evicted():
    api = Api({path("v"): 404, path("v", "/status"): 404})

    reports = perform(api, [Evict(pod("v"), pod("p"), "n", "default-scheduler", 0.0)])

    assert [Evicted("uid-p", "uid-v")] == reports


def test_a_victim_that_may_not_be_deleted_is_reported():
    api = Api({path("v"): 403})

    reports = perform(api, [Evict(pod("v"), pod("p"), "n", "default-scheduler", 0.0)])

    assert [Evicted("uid-p", "uid-v", "no")] == reports


def test_calls_of_plugins_run_in_order_and_stop_at_the_first_failure():
    api = Api({"/api/v1/persistentvolumes/two": 422})
    calls = tuple(
        ApiCall("update", "persistentvolumes", "", name, {}) for name in ("one", "two", "three")
    )

    reports = perform(api, [CallApi(7, pod("a"), "VolumeBinding", calls)])

    assert ["one", "two"] == [where.rsplit("/", 1)[-1] for _, where in api.asked]
    assert [CallsDone(7, "no")] == reports


def test_events_and_metrics():
    api, metrics = Api(), SchedulerMetrics(process=False)
    event = RecordEvent(pod("a"), "Normal", "Scheduled", "Binding", "done", "default-scheduler")
    observed = [
        Observe(pod("a"), "default-scheduler", "scheduled", attempts=2, sli_seconds=0.5),
        Observe(pod("a"), "default-scheduler", "preempted", victims=3),
    ]

    perform(api, [event, *observed], metrics=metrics)

    text = metrics.exposition().decode()
    assert api.bodies[0]["note"] == "done"
    assert 'attempts_total{profile="default-scheduler",result="scheduled"} 1.0' in text
    assert "scheduler_preemption_victims_sum 3.0" in text
    assert 'result="preempted"' not in text


def test_attempts_and_bindings_are_told_as_spans():
    seen = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(seen))
    api = Api({path("b", "/binding"): 409})
    actions = [
        Bind(pod("a"), "node-1"),
        Bind(pod("b"), "node-1"),
        Observe(pod("c"), "default-scheduler", "unschedulable"),
        Observe(pod("c"), "default-scheduler", "preempted", victims=3),
    ]

    perform(api, actions, spans=Spans(provider))

    facts = [(span.name, dict(span.attributes)) for span in seen.get_finished_spans()]
    told = {(name, fact["k8s.pod.name"], fact["bayplan.result"]) for name, fact in facts}
    assert {
        ("bind pod", "a", "success"),
        ("bind pod", "b", "error"),
        ("schedule pod", "c", "unschedulable"),
    } == told
    assert 3 == len(facts)
