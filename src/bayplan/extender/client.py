"""Calls extenders as kube-scheduler does: what each is asked, and what its answers mean.

One `HttpExtender` stands for one entry of `extenders:`. It implements the framework's `Extender`:
the engine decides who is asked when, and what a failure means. Whole objects are sent as the API
server wrote them, less their managedFields; the text of a node is made once a version and shared.

An extender of Bayplan's kit that has both verbs is asked both at once (`pairs`); its scores are
used only if prioritize is then about exactly the nodes that filter kept.

What it does not do: cache answers, or retry. A pod that failed is tried again by the queue.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec
from prometheus_client import CollectorRegistry, Counter, Histogram

from bayplan.api import Node, Object, Pod, encode
from bayplan.config.types import Extender as ExtenderConfig
from bayplan.errors import DecodeError
from bayplan.extender import pairs, wire
from bayplan.extender.http import Call, Caller, RefusedError, ssl_context
from bayplan.framework.contract.extender import ExtenderError, ExtenderFilterResult
from bayplan.framework.contract.results import Victims

B = TypeVar("B")
T = TypeVar("T")
IN_VAIN = 3
"""How many pairs in a row whose scores could not be used end pairs."""


class _Scored(msgspec.Struct):
    """Scores that came with a filter's answer, and for what."""

    pod: tuple[str, str]
    names: list[str]
    answer: pairs.PairAnswer


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
    ) -> None:
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
        self._scored: _Scored | None = None
        self._in_vain = 0

    def interested(self, pod: Pod) -> bool:
        """Whether the pod's containers mention a resource that the extender manages."""
        return not self._managed or any(name in self._managed for name in _mentioned(pod))

    def filter(self, pod: Pod, nodes: Sequence[Node]) -> ExtenderFilterResult:
        """Ask which of the nodes fit."""
        if self._pairs and (found := self._filter_in_pair(pod, nodes)) is not None:
            return found
        says = f"{pairs.HEADER}: {pairs.KNOWN}\r\n" if self._pairable else ""
        body = self._ask("filter", self.config.filter_verb, self._args(pod, nodes), says)()
        answer = self._read(wire.decode_filter_result, body)
        if answer.error:
            raise ExtenderError(f'extender "{self.name}": {answer.error}')
        return ExtenderFilterResult(
            tuple(self._kept(answer, nodes)), answer.failed_nodes, answer.unresolvable_nodes
        )

    def _filter_in_pair(self, pod: Pod, nodes: Sequence[Node]) -> ExtenderFilterResult | None:
        """Ask both verbs at once; None when it must be asked in the ordinary way."""
        text, answer = self._texts.of(pod), pairs.PairAnswer(unknown=True)
        for _ in range(2):
            call = self._told.call(text, nodes)
            says = f"{pairs.HEADER}: {pairs.CALL}\r\n"
            try:
                body = self._ask("filter", self.config.filter_verb, pairs.encode(call), says)()
            except RefusedError:
                self._pairs = self._pairable = False
            except ExtenderError:
                self._pairs = False  # it may be another program by now: the next call will show
                raise
            if not self._pairs:  # another program answers there by now
                self._told.forget()
                return None
            answer = self._read(pairs.decode_answer, body)
            if not answer.unknown:
                self._told.was_told(call)
                break
            self._told.forget()
        if answer.unknown:
            return None
        if answer.error:
            raise ExtenderError(f'extender "{self.name}": {answer.error}')
        names = [node.metadata.name for node in nodes]
        if answer.kept is not None:
            names = [names[place] for place in answer.kept]
        meta = pod.metadata
        self._scored = _Scored((meta.uid, meta.resource_version), names, answer)
        return ExtenderFilterResult(tuple(names), answer.failed, answer.unresolvable)

    def _scores_of_pair(
        self, pod: Pod, nodes: Sequence[Node]
    ) -> Callable[[], Mapping[str, int]] | None:
        """The scores that came with the filter's answer, if they are about these nodes."""
        scored, self._scored = self._scored, None
        if scored is None:
            return None
        answer, names = scored.answer, scored.names
        known = bool(answer.score_error) or len(answer.scores) == len(names)
        same = scored.pod == (pod.metadata.uid, pod.metadata.resource_version)
        about = len(nodes) == len(names) and {node.metadata.name for node in nodes} == set(names)
        if not known or not same or not about:
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

    def _heard(self, pair: bytes) -> None:
        self._pairs = self._pairable and pair == pairs.KNOWN.encode()

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

    def prioritize_later(self, pod: Pod, nodes: Sequence[Node]) -> Callable[[], Mapping[str, int]]:
        """Begin to ask for scores; the function returned waits for them."""
        if (known := self._scores_of_pair(pod, nodes)) is not None:
            return known
        wait = self._ask("prioritize", self.config.prioritize_verb, self._args(pod, nodes))

        def scores() -> Mapping[str, int]:
            answer = self._read(wire.decode_priorities, wait())
            return {entry.host: entry.score for entry in answer}

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
            return wire.encode_args(text, names=[node.metadata.name for node in nodes])
        return wire.encode_args(text, nodes=[self._texts.of(node) for node in nodes])

    def _ask(self, action: str, verb: str, body: bytes, says: str = "") -> Callable[[], bytes]:
        url = f"{self._base}/{verb}"
        timeout = self.config.timeout_seconds
        heard = self._heard if says else None
        call = Call(
            url, action, body, timeout, self._tls, self._server_name, action != "bind", says, heard
        )
        wait = self._caller.begin(call)
        if self._metrics is None:
            return wait
        metrics = self._metrics

        def counted() -> bytes:
            result = "error"
            try:
                with metrics.seconds.labels(self.name, action).time():
                    answer = wait()
                result = "answered"
                return answer
            finally:
                metrics.calls.labels(self.name, action, result).inc()

        return counted

    def _read(self, read: Callable[[B], T], body: B) -> T:
        try:
            return read(body)
        except DecodeError as cause:
            raise ExtenderError(f'extender "{self.name}" answered garbage: {cause}') from cause


def _mentioned(pod: Pod) -> Iterator[str]:
    """The resources that containers and init containers ask for or limit."""
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        yield from container.resources.requests
        yield from container.resources.limits
