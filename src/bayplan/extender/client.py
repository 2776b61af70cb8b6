"""Calls extenders as kube-scheduler does: what each is asked, and what its answers mean.

One `HttpExtender` stands for one entry of `extenders:`. It implements the framework's `Extender`:
the engine decides who is asked when, and what a failure means. Whole objects are sent as the API
server wrote them, less their managedFields; the text of a node is made once a version and shared.

An extender of Bayplan's kit that has both verbs is asked both at once (`pairs`); its scores are
used only if prioritize is then about exactly the nodes that filter kept.

Where an extender promises that it keeps nothing between calls, in a header of its answers, or
whoever runs the scheduler promises it, it may be asked about pods ahead of their turn; the engine
decides when.

What it does not do: cache answers, or retry. A pod that failed is tried again by the queue.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Generic, Protocol, TypeVar

import msgspec
from prometheus_client import CollectorRegistry, Counter, Histogram

from bayplan.api import Node, Object, Pod, encode
from bayplan.config.types import Extender as ExtenderConfig
from bayplan.errors import DecodeError
from bayplan.extender import pairs, wire
from bayplan.extender.http import Call, Caller, RefusedError, ssl_context
from bayplan.framework.contract.extender import (
    ALWAYS,
    PROMISED,
    ExtenderError,
    ExtenderFilterResult,
    Later,
)
from bayplan.framework.contract.results import Victims

B = TypeVar("B")
T = TypeVar("T")
IN_VAIN = 3
"""How many pairs in a row whose scores could not be used end pairs."""


SCORED_KEPT = 16
"""Scores of so many pairs wait to be asked for; more than there are calls ahead."""


class _Scored(msgspec.Struct):
    """Scores that came with a filter's answer, and about what."""

    names: list[str]
    answer: pairs.PairAnswer


class _Reading(Generic[T]):
    """An answer on its way, and how it is understood."""

    def __init__(self, wait: Later[bytes], read: Callable[[Later[bytes]], T]) -> None:
        self._wait = wait
        self._read = read

    def __call__(self) -> T:
        return self._read(self._wait)

    def ready(self) -> bool:
        return self._wait.ready()

    def drop(self) -> None:
        self._wait.drop()


class _Known(Generic[T]):
    """An answer that needs no call."""

    def __init__(self, tell: Callable[[], T]) -> None:
        self._tell = tell

    def __call__(self) -> T:
        return self._tell()

    def ready(self) -> bool:
        return True

    def drop(self) -> None:
        pass


class Texts(Protocol):
    """Finds the JSON of objects as the API server sent it."""

    def text_of(self, item: Object) -> bytes | None:
        """The object's JSON at the version given, None when it is not kept."""


class TextCache:
    """The JSON of pods and nodes for the wire, made once a version."""

    LIMIT = 100_000

    def __init__(self, source: Texts | None = None) -> None:
        self.source = source
        self._known: dict[str, tuple[str, bytes]] = {}

    def of(self, item: Object) -> bytes:
        """The object as JSON, without managedFields; what scheduling knows if there is no text."""
        meta = item.metadata
        known = self._known.get(meta.uid) if meta.uid else None
        if known is not None and known[0] == meta.resource_version:
            return known[1]
        text = self.source.text_of(item) if self.source is not None else None
        text = encode(item) if text is None else _without_managed_fields(text)
        if meta.uid:
            if len(self._known) >= self.LIMIT:
                self._known.clear()
            self._known[meta.uid] = (meta.resource_version, text)
        return text


def _without_managed_fields(text: bytes) -> bytes:
    if b'"managedFields"' not in text:
        return text
    item = msgspec.json.decode(text)
    item.get("metadata", {}).pop("managedFields", None)
    return msgspec.json.encode(item)


class ExtenderMetrics:
    """Counts and times calls by extender and verb."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.calls = Counter(
            "bayplan_extender_requests",
            "Calls to extenders by result.",
            ["extender", "verb", "result"],
            registry=registry,
        )
        self.seconds = Histogram(
            "bayplan_extender_request_duration_seconds",
            "Time that the scheduling cycle waited for an extender.",
            ["extender", "verb"],
            registry=registry,
        )


class HttpExtender:
    """One extender, asked over HTTP."""

    blocking = True
    """Calls wait for the network: the driver lets the scheduling cycle run in a thread."""

    def __init__(
        self,
        config: ExtenderConfig,
        caller: Caller,
        texts: TextCache | None = None,
        metrics: ExtenderMetrics | None = None,
        ahead: str = PROMISED,
    ) -> None:
        self.ahead = ahead == ALWAYS
        """Whether it may be asked about pods ahead of their turn."""
        self._may_promise = ahead == PROMISED
        self.config = config
        self.name = config.url_prefix
        self.ignorable = config.ignorable
        self.weight = config.weight
        self.is_filter = bool(config.filter_verb)
        self.is_prioritizer = bool(config.prioritize_verb)
        self.is_binder = bool(config.bind_verb)
        self.supports_preemption = bool(config.preempt_verb)
        self._caller = caller
        self._texts = texts or TextCache()
        self._metrics = metrics
        self._base = config.url_prefix.rstrip("/")
        secure = config.enable_https or self._base.startswith("https:")
        self._tls = ssl_context(config) if secure else None
        self._server_name = config.tls_config.server_name if config.tls_config else ""
        self._managed = frozenset(entry.name for entry in config.managed_resources)
        self._pairable = self.is_filter and self.is_prioritizer
        self._pairs = False
        """Whether the extender has said that it knows pairs."""
        whole = None if config.node_cache_capable else self._texts.of
        self._told = pairs.ToldNodes(whole)
        self._scored: dict[tuple[str, str], _Scored] = {}
        self._named: tuple[Sequence[Node], list[str]] = ((), [])
        """The nodes of the last call and their names: filter and prioritize are about the same."""
        self._in_vain = 0

    def interested(self, pod: Pod) -> bool:
        """Whether the pod's containers mention a resource that the extender manages."""
        return not self._managed or any(name in self._managed for name in _mentioned(pod))

    def filter(self, pod: Pod, nodes: Sequence[Node]) -> ExtenderFilterResult:
        """Ask which of the nodes fit."""
        return self.filter_later(pod, nodes)()

    def filter_later(self, pod: Pod, nodes: Sequence[Node]) -> Later[ExtenderFilterResult]:
        """Begin to ask which of the nodes fit."""
        if not self._pairs:
            return _Reading(self._ask_filter(pod, nodes), partial(self._filtered, nodes))
        call = self._told.call(self._texts.of(pod), nodes)
        return _Reading(self._ask_pair(call), partial(self._filtered_in_pair, pod, nodes, call))

    def _ask_filter(self, pod: Pod, nodes: Sequence[Node]) -> Later[bytes]:
        says = f"{pairs.HEADER}: {pairs.KNOWN}\r\n" if self._pairable else ""
        return self._ask("filter", self.config.filter_verb, self._args(pod, nodes), says)

    def _ask_pair(self, call: pairs.PairCall) -> Later[bytes]:
        says = f"{pairs.HEADER}: {pairs.CALL}\r\n"
        return self._ask("filter", self.config.filter_verb, pairs.encode(call), says)

    def _filtered(self, nodes: Sequence[Node], wait: Later[bytes]) -> ExtenderFilterResult:
        answer = self._read(wire.decode_filter_result, wait())
        if answer.error:
            raise ExtenderError(f'extender "{self.name}": {answer.error}')
        return ExtenderFilterResult(
            tuple(self._kept(answer, nodes)), answer.failed_nodes, answer.unresolvable_nodes
        )

    def _filtered_in_pair(
        self, pod: Pod, nodes: Sequence[Node], call: pairs.PairCall, wait: Later[bytes]
    ) -> ExtenderFilterResult:
        """What both verbs said at once; who does not understand is asked in the ordinary way."""
        answer = self._pair_answer(call, wait)
        if answer is not None and answer.unknown:
            self._told.forget(call.set_id)
            call = self._told.call(call.pod, nodes)
            answer = self._pair_answer(call, self._ask_pair(call))
        if answer is None or answer.unknown:
            self._told.forget(call.set_id)
            return self._filtered(nodes, self._ask_filter(pod, nodes))
        self._told.was_told(call)
        if answer.error:
            raise ExtenderError(f'extender "{self.name}": {answer.error}')
        names = [node.metadata.name for node in nodes]
        if answer.kept is not None:
            names = [names[place] for place in answer.kept]
        while len(self._scored) >= SCORED_KEPT:
            del self._scored[next(iter(self._scored))]
        self._scored[_version(pod)] = _Scored(names, answer)
        return ExtenderFilterResult(tuple(names), answer.failed, answer.unresolvable)

    def _pair_answer(self, call: pairs.PairCall, wait: Later[bytes]) -> pairs.PairAnswer | None:
        """The answer to a pair; None if another program answers there by now."""
        try:
            body = wait()
        except RefusedError:
            self._pairs = self._pairable = False
            return None
        except ExtenderError:
            self._pairs = False  # it may be another program by now: the next call will show
            raise
        return self._read(pairs.decode_answer, body) if self._pairs else None

    def _scores_of_pair(
        self, pod: Pod, nodes: Sequence[Node]
    ) -> Callable[[], Mapping[str, int]] | None:
        """The scores that came with the filter's answer, if they are about these nodes."""
        scored = self._scored.pop(_version(pod), None)
        if scored is None:
            return None
        answer, names = scored.answer, scored.names
        known = bool(answer.score_error) or len(answer.scores) == len(names)
        about = len(nodes) == len(names) and {node.metadata.name for node in nodes} == set(names)
        if not known or not about:
            self._in_vain += 1
            self._pairable = self._pairable and self._in_vain < IN_VAIN
            self._pairs = self._pairs and self._pairable
            return None
        self._in_vain = 0

        def scores() -> Mapping[str, int]:
            if answer.score_error:
                raise ExtenderError(f'extender "{self.name}": {answer.score_error}')
            return dict(zip(names, answer.scores, strict=True))

        return scores

    def _heard(self, pair: bool, said: Mapping[bytes, bytes]) -> None:
        if pair:
            known = said.get(pairs.HEADER_LOW) == pairs.KNOWN.encode()
            self._pairs = self._pairable and known
        if self._may_promise:
            self.ahead = said.get(wire.AHEAD_LOW) == wire.AHEAD_YES

    def _kept(self, answer: wire.FilterAnswer, nodes: Sequence[Node]) -> list[str]:
        if self.config.node_cache_capable and answer.node_names is not None:
            return answer.node_names
        if answer.nodes is None:
            return []
        # upstream would go on with a node it never heard of; here it cannot be placed on
        asked = {node.metadata.name for node in nodes}
        return [name for name in answer.nodes if name in asked]

    def prioritize(self, pod: Pod, nodes: Sequence[Node]) -> Mapping[str, int]:
        """Ask for scores, 0 to 10."""
        return self.prioritize_later(pod, nodes)()

    def prioritize_later(self, pod: Pod, nodes: Sequence[Node]) -> Later[Mapping[str, int]]:
        """Begin to ask for scores."""
        if (known := self._scores_of_pair(pod, nodes)) is not None:
            return _Known(known)
        body = self._args(pod, nodes)
        return _Reading(self._ask("prioritize", self.config.prioritize_verb, body), self._scores)

    def _scores(self, wait: Later[bytes]) -> Mapping[str, int]:
        entries = self._read(wire.decode_priorities, wait())
        scores = {entry.host: entry.score for entry in entries}
        if len(scores) < len(entries):  # of a node that is named more than once, all count
            scores = dict.fromkeys(scores, 0)
            for entry in entries:
                scores[entry.host] += entry.score
        return scores

    def process_preemption(self, pod: Pod, victims: Mapping[str, Victims]) -> Mapping[str, Victims]:
        """Ask which victims are acceptable; the answer replaces the proposal."""
        proposal = {node: self._proposal(entry) for node, entry in victims.items()}
        text = self._texts.of(pod)
        by_uid = self.config.node_cache_capable
        body = wire.encode_preemption_args(text, proposal, by_uid=by_uid)
        answer = self._read(
            wire.decode_preemption_result, self._ask("preempt", self.config.preempt_verb, body)()
        )
        return {node: self._accepted(node, entry, victims) for node, entry in answer.items()}

    def _proposal(self, entry: Victims) -> wire.Victims:
        whole = [] if self.config.node_cache_capable else [self._texts.of(p) for p in entry.pods]
        return wire.Victims(
            pods=whole,
            uids=[pod.metadata.uid for pod in entry.pods],
            num_pdb_violations=entry.pdb_violations,
        )

    def _accepted(self, node: str, entry: wire.Victims, proposed: Mapping[str, Victims]) -> Victims:
        if node not in proposed:
            raise ExtenderError(f'extender "{self.name}" returned an unknown node "{node}"')
        pods = {pod.metadata.uid: pod for pod in proposed[node].pods}
        if unknown := [uid for uid in entry.uids if uid not in pods]:
            raise ExtenderError(
                f'extender "{self.name}" returned pod {unknown[0]} as a victim, which is not '
                f'among those proposed on node "{node}"'
            )
        return Victims(tuple(pods[uid] for uid in entry.uids), entry.num_pdb_violations)

    def bind(self, pod: Pod, node_name: str) -> None:
        """Let the extender bind; an error is raised."""
        meta = pod.metadata
        args = wire.BindingArgs(meta.name, meta.namespace, meta.uid, node_name)
        body = self._ask("bind", self.config.bind_verb, wire.encode_binding_args(args))()
        if error := self._read(lambda raw: wire.decode_error(raw, "ExtenderBindingResult"), body):
            raise ExtenderError(f'extender "{self.name}": {error}')

    def _args(self, pod: Pod, nodes: Sequence[Node]) -> bytes:
        text = self._texts.of(pod)
        if self.config.node_cache_capable:
            return wire.encode_args(text, names=self._names(nodes))
        return wire.encode_args(text, nodes=[self._texts.of(node) for node in nodes])

    def _names(self, nodes: Sequence[Node]) -> list[str]:
        known, names = self._named
        if known is not nodes:
            names = [node.metadata.name for node in nodes]
            self._named = nodes, names
        return names

    def _ask(self, action: str, verb: str, body: bytes, says: str = "") -> Later[bytes]:
        url = f"{self._base}/{verb}"
        timeout = self.config.timeout_seconds
        heard = partial(self._heard, bool(says)) if action in ("filter", "prioritize") else None
        call = Call(
            url, action, body, timeout, self._tls, self._server_name, action != "bind", says, heard
        )
        wait = self._caller.begin(call)
        if self._metrics is None:
            return wait
        return _Reading(wait, partial(self._counted, self._metrics, action))

    def _counted(self, metrics: ExtenderMetrics, action: str, wait: Later[bytes]) -> bytes:
        result = "error"
        try:
            with metrics.seconds.labels(self.name, action).time():
                answer = wait()
            result = "answered"
            return answer
        finally:
            metrics.calls.labels(self.name, action, result).inc()

    def _read(self, read: Callable[[B], T], body: B) -> T:
        try:
            return read(body)
        except DecodeError as cause:
            raise ExtenderError(f'extender "{self.name}" answered garbage: {cause}') from cause


def _version(pod: Pod) -> tuple[str, str]:
    return pod.metadata.uid, pod.metadata.resource_version


def _mentioned(pod: Pod) -> Iterator[str]:
    """The resources that containers and init containers ask for or limit."""
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        yield from container.resources.requests
        yield from container.resources.limits
