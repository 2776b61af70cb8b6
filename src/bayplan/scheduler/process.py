"""The scheduler as a process: starts everything, waits for signals, ends in order.

    informers fill the cache  →  the lease is won  →  pods are scheduled  →  SIGTERM or a lost lease

Health and metrics are served from the first moment on, also while standing by. SIGHUP or a changed
file loads configuration and plugins again; what does not load is refused and the old stays.
SIGUSR2 logs a summary of cache and queue. Exit codes: 0 after a signal, 1 when the lease was lost
or something could not start.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import signal
import socket
import ssl
import uuid
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
import structlog

from bayplan import eventloop, stopping
from bayplan.client import (
    ApiError,
    Client,
    Connection,
    LeaderElector,
    TransportError,
    connect,
    load_kubeconfig,
)
from bayplan.client.fence import fenced
from bayplan.config import to_data
from bayplan.errors import BayplanError, ConfigError
from bayplan.observe.metrics import SchedulerMetrics
from bayplan.scheduler.delegated import Gatekeeper
from bayplan.scheduler.event_recorder import EventRecorder
from bayplan.scheduler.extenders import Extenders
from bayplan.scheduler.extensions import load_registry
from bayplan.scheduler.filewatch import FileWatch
from bayplan.scheduler.inspecting import NAMES
from bayplan.scheduler.live import LiveScheduler
from bayplan.scheduler.options import Options
from bayplan.scheduler.resources import resources_page
from bayplan.supervised import end, supervised

if TYPE_CHECKING:
    from bayplan.observe.spans import Spans
    from bayplan.scheduler.serving import Endpoints, Server

log = structlog.get_logger(__name__)

USER_AGENT = "bayplan/scheduler"
EVENT_DRAIN = 1.0
RIVAL_SECONDS = 5.0
GC_THRESHOLDS = (50_000, 20, 50)


def run(options: Options) -> int:
    """Run a scheduler until it is told to stop; return the exit code."""
    return eventloop.run(SchedulerProcess(options).run())


def _spans() -> Spans | None:
    if not any(name.startswith("OTEL_") for name in os.environ):
        return None  # nothing needs to be loaded
    from bayplan.observe.spans import spans_from_environment

    return spans_from_environment("bayplan-scheduler")


class SchedulerProcess:
    """Everything between `main` and the scheduling loop."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._stop = asyncio.Event()
        self._reload = asyncio.Event()
        self._metrics = SchedulerMetrics()
        self._elector: LeaderElector | None = None
        self._clients: list[Client] = []

    async def run(self) -> int:
        """Start, serve, schedule; return the exit code."""
        options = self._options
        for text in options.warnings:
            log.warning("note", text=text)
        connection = options.connection()
        client = self._connect(connection)
        await self._refuse_rival(connection, client)
        recorder = EventRecorder(
            fenced(self._connect(connection), self._holds),
            hostname=socket.gethostname(),
            binding_busy=lambda: live.binding_busy,
            count=lambda outcome: self._metrics.events.labels(outcome).inc(),
        )
        self._extenders = Extenders(self._metrics, options.values.text("extender-calls-ahead"))
        spans = _spans()
        live = LiveScheduler(
            extenders=self._extenders.of(options.config),
            config=options.config,
            gates=options.gates,
            registry=load_registry(options.values.items("plugins")),
            client=client,
            recorder=recorder,
            metrics=self._metrics,
            spans=spans,
            max_in_unschedulable=options.values.seconds("pod-max-in-unschedulable-pods-duration"),
            holds=self._holds,
        )
        self._extenders.take_texts_from(live)
        self._signals(live)
        server = await self._serve(live, client)
        try:
            return await self._supervise(live, recorder, client)
        finally:
            if server is not None:
                await server.close()
            self._extenders.close()
            if spans is not None:
                await asyncio.to_thread(spans.close)
            for one in self._clients:
                await one.close()

    def _connect(self, connection: Connection) -> Client:
        settings = self._options.config.client_connection
        client = connect(
            connection,
            qps=settings.qps,
            burst=settings.burst,
            user_agent=USER_AGENT,
            compression=False,
            observe=self._metrics.request_observer(urlsplit(connection.server).netloc),
        )
        self._clients.append(client)
        return client

    async def _refuse_rival(self, connection: Connection, client: Client) -> None:
        """Raise where the API server is that of a `bayplan up` which takes the same pods.

        It holds no Lease, so nothing else would keep the two from binding each other's pods.
        """
        try:
            async with asyncio.timeout(RIVAL_SECONDS):
                body = await client.request("GET", NAMES)
            theirs = msgspec.json.decode(body, type=set[str])
        except (ApiError, TransportError, TimeoutError, msgspec.DecodeError):
            return  # another API server, or none yet
        ours = {profile.scheduler_name for profile in self._options.config.profiles}
        if same := sorted(theirs & ours):
            raise ConfigError(
                f'`bayplan up` at {connection.server} schedules pods of "{same[0]}" itself, and '
                "two schedulers of one name fight; give this one another schedulerName in "
                "--config, or give --config and --plugins to `bayplan up`"
            )

    # -- life

    async def _supervise(self, live: LiveScheduler, recorder: EventRecorder, client: Client) -> int:
        """Run until a signal (0) or until a part fails (1)."""
        recording = supervised("event recorder", recorder.run, Counter())
        tasks = {
            asyncio.create_task(self._lead(live, client), name="lead"),
            asyncio.create_task(self._stop.wait(), name="stop"),
            asyncio.create_task(self._reloading(live), name="reload"),
            asyncio.create_task(self._watch_files(), name="files"),
        }
        if not self._options.config.delay_cache_until_active:
            tasks.add(asyncio.create_task(live.run_informers(), name="informers"))
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            code = _exit_code(done)
            log.info("ending", code=code)
            return code
        finally:
            self._extenders.close()  # an attempt that waits for one ends
            await end(*tasks)
            await recorder.drain(EVENT_DRAIN)
            await end(recording)

    async def _lead(self, live: LiveScheduler, client: Client) -> None:
        """Schedule while the lease is ours; its loss ends the process."""
        election = self._options.config.leader_election
        if not election.leader_elect:
            await self._schedule(live)
            return
        self._elector = LeaderElector(
            client.unlimited(),  # renewals do not queue behind what a backlog of pods sends
            f"{socket.gethostname()}_{uuid.uuid4()}",
            namespace=election.resource_namespace,
            name=election.resource_name,
            lease_duration=election.lease_duration.seconds,
            renew_deadline=election.renew_deadline.seconds,
            retry_period=election.retry_period.seconds,
            jitter=random.random,
            on_new_leader=lambda who: log.info("new leader elected", identity=who),
            on_lost=_end_at_once,
        )
        gauge = self._metrics.leader.labels(election.resource_name)
        gauge.set(0)

        async def work() -> None:
            gauge.set(1)
            await self._schedule(live)

        await self._elector.run(work)

    def _holds(self) -> bool:
        """Tell whether writes may be sent: the lease is ours, or nobody asks for one."""
        return self._elector is None or self._elector.holds()

    async def _schedule(self, live: LiveScheduler) -> None:
        async with asyncio.TaskGroup() as group:
            if self._options.config.delay_cache_until_active:
                group.create_task(live.run_informers())
            await live.wait_synced()
            # What the first lists brought stays for long; the collector need not look at it again.
            gc.collect()
            gc.freeze()
            gc.set_threshold(*GC_THRESHOLDS)
            log.info("caches are synced", **live.sizes())
            await live.run()

    # -- reload

    async def _watch_files(self) -> None:
        await FileWatch(self._options.watched_files(), self._reload.set).run()

    async def _reloading(self, live: LiveScheduler) -> None:
        while True:
            await self._reload.wait()
            self._reload.clear()
            try:
                options = self._options.reload()
                registry = load_registry(options.values.items("plugins"), again=True)
                extenders = self._extenders.of(options.config)
                await live.quiet()
                live.reconfigure(options.config, registry, extenders)
            except BayplanError as problem:
                self._metrics.reloads.labels("refused").inc()
                log.error("configuration refused, the old one stays", err=str(problem))
                continue
            self._options = options
            self._metrics.reloads.labels("taken").inc()
            log.info("configuration reloaded", profiles=len(options.config.profiles))

    # -- signals and endpoints

    def _signals(self, live: LiveScheduler) -> None:
        stopping.stop_on_signals(self._stop)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self._reload.set)
        loop.add_signal_handler(signal.SIGUSR2, lambda: log.info("state", **live.sizes()))

    async def _serve(self, live: LiveScheduler, client: Client) -> Server | None:
        values = self._options.values
        if not values.integer("secure-port") and not values.integer("port"):
            return None
        from bayplan.scheduler.serving import Server  # its library is slow to load

        server = Server(self._endpoints(live, client), self._gatekeeper(client))
        host = values.text("bind-address")
        if port := values.integer("secure-port"):
            await server.listen(host, port, self._tls())
        if port := values.integer("port"):
            await server.listen(values.text("address") or host, port, None)
        return server

    def _tls(self) -> ssl.SSLContext:
        # Making certificates costs a fifth of a second to import; not all serve HTTPS.
        from bayplan.scheduler.certificates import server_context

        values = self._options.values
        return server_context(
            values.text("tls-cert-file"),
            values.text("tls-private-key-file"),
            cert_dir=values.text("cert-dir"),
            client_ca_file=values.text("client-ca-file"),
            min_version=values.text("tls-min-version"),
        )

    def _gatekeeper(self, client: Client) -> Gatekeeper:
        values = self._options.values
        at_once = client.unlimited()  # who asks for metrics does not queue behind a backlog of pods
        return Gatekeeper(
            self._other_client("authentication-kubeconfig") or at_once,
            self._other_client("authorization-kubeconfig") or at_once,
            local_token=_token(values.text("metrics-token-file")),
            always_allow=values.items("authorization-always-allow-paths"),
        )

    def _other_client(self, flag: str) -> Client | None:
        path = self._options.values.text(flag)
        return self._connect(load_kubeconfig(path)) if path else None

    def _endpoints(self, live: LiveScheduler, client: Client) -> Endpoints:
        from bayplan.scheduler.inspecting import questions
        from bayplan.scheduler.serving import Endpoints, configz_page, metrics_page

        def election() -> str | None:
            elector = self._elector
            return None if elector is None or elector.healthy() else "the lease was not renewed"

        def synced() -> str | None:
            return None if live.has_synced else "informers have not synced"

        def ping() -> str | None:
            return None

        elects = self._options.config.leader_election.leader_elect
        watchdog = {"leaderElection": election} if elects else {}

        def exposition() -> bytes:
            live.refresh_gauges()
            return self._metrics.exposition()

        return Endpoints(
            healthz={"ping": ping, **watchdog},
            livez={"ping": ping},
            readyz={"ping": ping, **watchdog, "sched-handler-sync": synced},
            pages={
                "/metrics": metrics_page(exposition),
                "/metrics/resources": metrics_page(lambda: resources_page(live.pods())),
                "/configz": configz_page(lambda: to_data(self._options.config)),
            },
            inspect=questions(live, client),
            explain=live.explain,
        )


def _end_at_once() -> None:
    """End as upstream does: whatever waits, here or in threads of plugins, is another's now."""
    log.error("leaderelection lost")
    os._exit(1)


def _exit_code(done: set[asyncio.Task[Any]]) -> int:
    """Return 0 for a signal, else 1; raise what a task raised."""
    for task in done:
        if task.get_name() == "stop":
            return 0
        if task.exception() is not None:
            with contextlib.suppress(BaseExceptionGroup):
                raise task.exception()  # type: ignore[misc]
            log.error("a part of the scheduler failed", exc_info=task.exception())
    return 1


def _token(path: str) -> str:
    if not path:
        return ""
    try:
        return Path(path).read_text().strip()
    except OSError as problem:
        raise ConfigError(
            f'--metrics-token-file "{path}": {problem.strerror}; check the path'
        ) from problem
