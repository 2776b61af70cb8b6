"""Questions that the page asks: why a pod is where it is, and what would follow from a change.

Answers are those of `bayplan why` and `bayplan whatif`, on the cluster of the moment that is shown.
The engine is asked in a thread, one question at a time. Nothing is read from the machine: manifests
and another configuration are given as text, never as the name of a file.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bayplan.api import yaml
from bayplan.config import FeatureGates, default_config, from_data, parse_version
from bayplan.config.types import API_VERSION, KIND
from bayplan.errors import ConfigError
from bayplan.inspect import Cluster, Settings
from bayplan.inspect.whatif import AnyChange, parse_change, what_if
from bayplan.inspect.whatif.changes import NODE_WORDS, Apply, OfOwner
from bayplan.inspect.why import Judged, why_pod
from bayplan.inspect.why.answer import FITS, REJECTED
from bayplan.page.after import After
from bayplan.page.app import packed, problem
from bayplan.page.sources import Json, Source, moment_of
from bayplan.page.trying import changes_of
from bayplan.supervised import to_its_end

MOST_CHANGES = 20
MAX_BODY = 64 * 1024
VERBS = ("drain", "cordon", "uncordon", "remove", "add", "scale", "priority", "request", "delete",
         "patch")  # fmt: skip
APPLY = "apply"
"""`apply=TEXT`: manifests."""
SCHEDULER = ("version", "config")
"""What changes the scheduler instead of the cluster: `version=1.36`, `config=TEXT`."""
CONFIG_FILE = "scheduler.yaml"
HEAD = {"apiVersion": API_VERSION, "kind": KIND}
"""What the page lets a configuration leave out; a file needs it."""

T = TypeVar("T")


class Asked(msgspec.Struct, frozen=True):
    """The body of a what-if."""

    changes: list[str]
    run: str = ""
    time: str = ""
    """The moment as addresses have it; see `moment_of`."""


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

    async def why(self, key: str, run: str = "", time: str = "") -> Json:
        """Return the answer of `why` and how every node was judged; each fix as changes to try."""

        def work(cluster: Cluster) -> Json:
            pod = cluster.pod(key)
            found = why_pod(cluster, pod, every_node=True)
            answer: Json = msgspec.to_builtins(replace(found, judged=()))
            answer["fixes"] = [
                {**msgspec.to_builtins(fix), "try": changes_of(cluster, pod.key, fix)}
                for fix in found.fixes
            ]
            return {"answer": answer, "nodes": packed_verdicts(found.judged)}

        return await self._ask(run, time, work)

    async def what_if(self, asked: Asked) -> Json:
        """Return what would follow from changes, and the same as a command."""
        if not asked.changes or len(asked.changes) > MOST_CHANGES:
            raise ConfigError(f"give one to {MOST_CHANGES} changes")
        changes: list[AnyChange] = []
        scheduler: dict[str, str] = {}
        for text in asked.changes:
            verb, _, value = text.partition("=")
            if verb in SCHEDULER:
                scheduler[verb] = value
            else:
                changes.append(read_change(verb, value))

        def work(cluster: Cluster) -> Json:
            other = changed_scheduler(cluster.settings, **scheduler) if scheduler else None
            after = After(cluster)
            named = [in_namespace(change, cluster.origin.namespace) for change in changes]
            found = what_if(cluster, named, settings=other, look=after.look)
            told = self._where is not None and not asked.time  # a moment has no command
            return {
                "answer": msgspec.to_builtins(found),
                "after": after.told(),
                "command": command(asked.changes, self._where or "") if told else "",
            }

        return await self._ask(asked.run, asked.time, work)

    async def _ask(self, run: str, time: str, work: Callable[[Cluster], T]) -> T:
        async with self._lock:
            cluster = await self._cluster(run, moment_of(self._source, run, time))
            return await to_its_end(partial(work, cluster))

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
        found = await self.why(words.get("pod", ""), words.get("run", ""), words.get("t", ""))
        return packed(msgspec.json.encode(found))

    async def _what_if(self, request: Request) -> Response:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MAX_BODY:
                return problem(413, "too long a question")
        try:
            asked = msgspec.json.decode(body, type=Asked)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return problem(400, str(error))
        return packed(msgspec.json.encode(await self.what_if(asked)))


def read_change(verb: str, value: str) -> AnyChange:
    """Read a change of the cluster."""
    if verb == APPLY:
        documents = yaml.load_all(value)
        if not documents or not all(isinstance(item, dict) for item in documents):
            raise ConfigError("apply takes manifests in YAML, not the name of a file")
        return Apply(documents=tuple(item for item in documents if isinstance(item, dict)))
    if verb not in VERBS:
        known = ", ".join((*VERBS, APPLY, *SCHEDULER))
        raise ConfigError(f'change "{verb}={value}": use one of {known}')
    return parse_change(verb, value)


def in_namespace(change: AnyChange, namespace: str) -> AnyChange:
    """Let a change name the namespace that it means, so that the answer tells it."""
    if isinstance(change, OfOwner) and not change.namespace and change.kind not in NODE_WORDS:
        return replace(change, namespace=namespace)
    return change


def packed_verdicts(judged: Iterable[Judged]) -> Json:
    """Return how every node was judged, each reason and plugin written once."""
    plugins: list[str] = []
    scored: list[list[str | int | None]] = []
    reasons: dict[str, int] = {}
    rejected: list[tuple[str, int]] = []
    for item in judged:
        if item.verdict == FITS:
            plugins = plugins or list(item.scores)
            scored.append([item.node, item.total, *item.scores.values()])
        elif item.verdict == REJECTED:  # the page counts those that nobody looked at
            why = ", ".join(item.reasons)
            text = f"{item.plugin}: {why}" if item.plugin else why
            rejected.append((item.node, reasons.setdefault(text, len(reasons))))
    return {"plugins": plugins, "scored": scored, "reasons": list(reasons), "rejected": rejected}


def changed_scheduler(settings: Settings, version: str = "", config: str = "") -> Settings:
    """Return the scheduler as another version, or with another configuration."""
    gates = FeatureGates(version=parse_version(version)) if version else settings.gates
    if config:
        document = yaml.load(config)
        if not isinstance(document, dict):
            raise ConfigError("the configuration must be a KubeSchedulerConfiguration in YAML")
        found = from_data({**HEAD, **document}, gates)
        return replace(settings, config=found, gates=gates, source=CONFIG_FILE)
    plain = settings.config == default_config(settings.gates)
    found = default_config(gates) if plain else settings.config
    return replace(settings, config=found, gates=gates)


def command(changes: list[str], where: str = "") -> str:
    """Return the same question as a command; texts are written to files before it."""
    flags = {"version": "emulated-version"}
    words = [where] if where else []
    files: list[str] = []
    for change in changes:
        verb, _, value = change.partition("=")
        if verb == APPLY:
            name = f"manifests-{len(files) + 1}.yaml"
            files.append(_written(name, value))
            value = name
        elif verb == "config":
            files.append(_written(CONFIG_FILE, _whole(value)))
            value = CONFIG_FILE
        words.append(f"--{flags.get(verb, verb)} {shlex.quote(value)}")
    return f"{''.join(files)}bayplan whatif {' '.join(words)}"


def _written(name: str, text: str) -> str:
    """Return what writes a file in a shell; no line of the text ends it early."""
    end = "END"
    while end in text:
        end += "_"
    return f"cat > {name} <<'{end}'\n{text}\n{end}\n"


def _whole(config: str) -> str:
    """Return a configuration as a file has it: as it was given, if nothing is missing."""
    document = yaml.load(config)
    if not isinstance(document, dict) or document.keys() >= HEAD.keys():
        return config
    return yaml.dump({**HEAD, **document}).rstrip("\n")
