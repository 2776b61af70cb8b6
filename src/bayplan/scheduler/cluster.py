"""A whole cluster in one process: API server, controllers, simulated kubelets, scheduler.

All parts talk to the API server through its ASGI interface, without sockets; kubectl and other
clients use the socket that is open beside it. One event loop runs everything, so nothing needs a
lock, and the end of the block ends all parts in order.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import msgspec

from bayplan.apiserver.local import LocalTransport
from bayplan.apiserver.server import Page
from bayplan.apiserver.serving import Running, Settings, running
from bayplan.client import Client
from bayplan.config import FeatureGates, KubeSchedulerConfiguration
from bayplan.controllers.manager import ControllerManager, options_for, select
from bayplan.framework import Registry
from bayplan.inspect import PREFIX as INSPECT
from bayplan.observe.metrics import CONTENT_TYPE, SchedulerMetrics
from bayplan.scheduler.event_recorder import EventRecorder
from bayplan.scheduler.extenders import Extenders
from bayplan.scheduler.inspecting import EXPLAIN, NAMES, questions
from bayplan.scheduler.live import LiveScheduler
from bayplan.supervised import end, supervised

METRICS = "/bayplan/scheduler/metrics"
"""Where the API server of `bayplan up` shows the scheduler's metrics; its own are at /metrics."""


class LocalCluster(msgspec.Struct, frozen=True):
    """A running cluster."""

    running: Running
    client: Client
    scheduler: LiveScheduler
    extenders: Extenders


@asynccontextmanager
async def local_cluster(
    settings: Settings,
    *,
    config: KubeSchedulerConfiguration,
    gates: FeatureGates,
    registry: Registry,
    controllers: str = "*",
) -> AsyncIterator[LocalCluster]:
    """Run a cluster while the block runs; all parts have synced when it begins."""
    names = select(controllers)
    async with running(msgspec.structs.replace(settings, gates=gates)) as served:
        client = _client(served)
        recorder = EventRecorder(_client(served), hostname=socket.gethostname())
        metrics = SchedulerMetrics()
        extenders = Extenders(metrics)
        scheduler = LiveScheduler(
            extenders=extenders.of(config),
            config=config,
            gates=gates,
            registry=registry,
            client=client,
            recorder=recorder,
            metrics=metrics,
        )
        extenders.take_texts_from(scheduler)
        pages = served.server.pages
        pages[EXPLAIN] = Page(scheduler.explain)
        pages[METRICS] = Page(partial(_metrics, scheduler, metrics), CONTENT_TYPE.encode())
        pages[NAMES] = Page(partial(_names, scheduler))
        served.server.questions[INSPECT] = questions(scheduler, client)
        failures = served.server.backend.background_failures
        tasks = [
            supervised("event recorder", recorder.run, failures),
            supervised("informers", scheduler.run_informers, failures),
        ]
        try:
            options = options_for(served.authority, served.signing_key, gates)
            manager = ControllerManager(_client(served), names, options=options)
            served.server.backend.whole_cluster = bool(names)
            manager.attach(served.server.backend)
            async with manager.running():
                await scheduler.wait_synced()
                tasks.append(supervised("scheduling", scheduler.run, failures))
                yield LocalCluster(served, client, scheduler, extenders)
                await recorder.drain(1.0)
        finally:
            await end(*reversed(tasks))
            extenders.close()


async def _metrics(scheduler: LiveScheduler, metrics: SchedulerMetrics, _rest: str) -> bytes:
    scheduler.refresh_gauges()
    return metrics.exposition()


async def _names(scheduler: LiveScheduler, _rest: str) -> bytes:
    return msgspec.json.encode(sorted(scheduler.core.engine.profiles))


def _client(served: Running) -> Client:
    return Client(LocalTransport(served.server, token=served.token))
