"""Questions that the page asks: why a pod is where it is, and what would follow from a change.

Answers are those of `bayplan why` and `bayplan whatif`, on the cluster of the moment that is shown.
The engine is asked in a thread, one question at a time. Changes that name files are refused: the
page must not read from the machine; another configuration is given as text.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable
from typing import TypeVar

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bayplan.api import Pod, yaml
from bayplan.config import FeatureGates, default_config, from_data, parse_version
from bayplan.config.types import API_VERSION, KIND
from bayplan.errors import BayplanError, ConfigError
from bayplan.framework import Status
from bayplan.inspect import Cluster, Settings, unbound
from bayplan.inspect.whatif import AnyChange, parse_change, what_if
from bayplan.inspect.why import why_pod
from bayplan.page.after import After
from bayplan.page.app import packed, problem
from bayplan.page.sources import Json, Source
from bayplan.page.trying import helping

MOST_CHANGES = 20
MAX_BODY = 64 * 1024
VERBS = ("drain", "cordon", "uncordon", "remove", "add", "scale", "priority", "request", "delete")
SCHEDULER = ("version", "config")
"""What changes the scheduler instead of the cluster: `version=1.36`, `config=TEXT`."""
HELP = "help"
"""`help=NAMESPACE/POD=CHANGE`: what `why` says would help that pod."""
CONFIG_FILE = "scheduler.yaml"

T = TypeVar("T")


class Asked(msgspec.Struct, frozen=True):
    """The body of a what-if."""

    changes: list[str]
    run: str = ""
    time: float | None = None


class Questions:
    """Answers for one source; `routes` are for the page's application."""

    def __init__(self, source: Source, where: str | None = "") -> None:
        self._source = source
        self._where = where  # the flags that name the source to a command; None: it has none
        self._lock = asyncio.Lock()
        self._kept: tuple[tuple[str, float | None], Cluster] | None = None
        self.routes = [
            Route("/api/why", self._why),
            Route("/api/what-if", self._what_if, methods=["POST"]),
        ]

    async def why(self, key: str, run: str = "", moment: float | None = None) -> Json:
        """Return the answer of `why` and how every node was judged."""

        def work(cluster: Cluster) -> Json:
            pod = cluster.pod(key)
            answer: Json = msgspec.to_builtins(why_pod(cluster, pod))
            return {"answer": answer, "nodes": judged(cluster, pod)}

        return await self._ask(run, moment, work)

    async def what_if(self, asked: Asked) -> Json:
        """Return what would follow from changes, and the same as a command."""
        if not asked.changes or len(asked.changes) > MOST_CHANGES:
            raise ConfigError(f"give one to {MOST_CHANGES} changes")
        changes: list[AnyChange] = []
        scheduler: dict[str, str] = {}
        helps: list[str] = []
        for text in asked.changes:
            verb, _, value = text.partition("=")
            if verb in SCHEDULER:
                scheduler[verb] = value
            elif verb == HELP:
                helps.append(value)
            elif verb in VERBS:
                changes.append(parse_change(verb, value))
            else:
                raise ConfigError(
                    f'change "{text}": use one of {", ".join((*VERBS, *SCHEDULER, HELP))}'
                )

        def work(cluster: Cluster) -> Json:
            other = changed_scheduler(cluster.settings, **scheduler) if scheduler else None
            commands = []
            if self._where is not None and (changes or scheduler):
                commands.append(command(asked.changes, self._where))
            for text in helps:
                key, _, change = text.partition("=")
                fix, more = helping(cluster, key, change)
                changes.extend(more)
                commands += fix.commands
            after = After(cluster)
            found = what_if(cluster, changes, settings=other, look=after.look)
            return {
                "answer": msgspec.to_builtins(found),
                "after": after.told(found),
                "command": "\n".join(commands),
            }

        return await self._ask(asked.run, asked.time, work)

    async def _ask(self, run: str, moment: float | None, work: Callable[[Cluster], T]) -> T:
        async with self._lock:
            cluster = await self._cluster(run, moment)
            return await asyncio.to_thread(work, cluster)

    async def _cluster(self, run: str, moment: float | None) -> Cluster:
        """Return the cluster of a moment; one that cannot change is kept with its engine."""
        if moment is None and self._source.live:
            return await self._source.cluster(run, moment)
        key = (run, moment)
        if self._kept is None or self._kept[0] != key:
            self._kept = (key, await self._source.cluster(run, moment))
        return self._kept[1]

    # -- HTTP

    async def _why(self, request: Request) -> Response:
        words = request.query_params
        try:
            moment = float(words["t"]) if words.get("t") else None
        except ValueError:
            return problem(400, "t must be a number of seconds")
        found = await self.why(words.get("pod", ""), words.get("run", ""), moment)
        return packed(msgspec.json.encode(found))

    async def _what_if(self, request: Request) -> Response:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MAX_BODY:
                return problem(413, "too long a question")
        try:
            asked = msgspec.json.decode(body, type=Asked)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return problem(400, str(error))
        return packed(msgspec.json.encode(await self.what_if(asked)))


def judged(cluster: Cluster, pod: Pod) -> Json:
    """Return how every node was judged: what rejected it first, or its scores by plugin."""
    with cluster.trial() as trial:
        if pod.spec.node_name and not pod.finished:
            trial.delete(pod)
        try:
            decision = trial.decide(unbound(pod), preempt=False)
        except BayplanError:  # a pod of a scheduler that is not known
            return {"plugins": [], "scored": [], "reasons": [], "rejected": []}
        engine = trial.engine
        plugins, scored = [], []
        if decision.placed:
            names, columns, totals, _ = engine.all_scores(decision)
            rows = zip(names, totals.tolist(), *(c.tolist() for c in columns.values()), strict=True)
            plugins, scored = list(columns), [list(row) for row in rows]
        reasons: dict[str, int] = {}
        rejected = [
            [name, reasons.setdefault(_reason(status), len(reasons))]
            for name, status in engine.node_statuses(decision).items()
            if status is not None
        ]
        return {"plugins": plugins, "scored": scored, "reasons": list(reasons),
                "rejected": rejected}  # fmt: skip


def _reason(status: Status) -> str:
    why = ", ".join(status.all_reasons) or status.message
    return f"{status.plugin}: {why}" if status.plugin else why


def changed_scheduler(settings: Settings, version: str = "", config: str = "") -> Settings:
    """Return the scheduler as another version, or with another configuration."""
    gates = FeatureGates(version=parse_version(version)) if version else settings.gates
    if config:
        document = yaml.load(config)
        if not isinstance(document, dict):
            raise ConfigError("the configuration must be a KubeSchedulerConfiguration in YAML")
        found = from_data({"apiVersion": API_VERSION, "kind": KIND, **document}, gates)
        return replace(settings, config=found, gates=gates, source=CONFIG_FILE)
    plain = settings.config == default_config(settings.gates)
    found = default_config(gates) if plain else settings.config
    return replace(settings, config=found, gates=gates)


def command(changes: list[str], where: str = "") -> str:
    """Return the same question as a command; a configuration is the file that one saves it in."""
    flags = {"version": "emulated-version"}
    words = [where] if where else []
    for change in changes:
        verb, _, value = change.partition("=")
        if verb == HELP:
            continue
        value = CONFIG_FILE if verb == "config" else value
        words.append(f"--{flags.get(verb, verb)} {shlex.quote(value)}")
    return f"bayplan whatif {' '.join(words)}"
