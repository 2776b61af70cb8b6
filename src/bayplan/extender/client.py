"""Calls extenders as kube-scheduler does: who is asked, in which order, and what answers mean.

One `ExtenderClient` stands for one entry of `extenders:`. Objects come as JSON bytes, so that a
node's text is made once and shared by all calls. Errors name the extender; whether an error fails
the pod or is passed over (`ignorable`, or any failure of prioritize) is decided by the caller, the
scheduling cycle, with the functions at the end of this module.

What it does not do: cache answers, or retry. A pod that failed is tried again by the queue.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec
from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram

from bayplan.config.types import Extender
from bayplan.errors import DecodeError
from bayplan.extender import wire
from bayplan.extender.http import Call, Caller, ExtenderError, ssl_context

B = TypeVar("B")
T = TypeVar("T")

MAX_NODE_SCORE = 100
SCALE = MAX_NODE_SCORE // wire.MAX_EXTENDER_PRIORITY


class NodeTexts(Protocol):
    """Finds the JSON of nodes, for extenders that want whole objects."""

    def node_json(self, name: str) -> bytes:
        """The node as JSON."""


class Filtered(msgspec.Struct, frozen=True):
    """What is left after a filter call, in the extender's order, and why the others fail."""

    kept: list[str]
    failed: dict[str, str]
    unresolvable: dict[str, str]


class ExtenderMetrics:
    """Counts and times calls by extender and verb."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
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


class ExtenderClient:
    """One extender, asked over HTTP."""

    def __init__(self, settings: Extender, caller: Caller) -> None:
        self.settings = settings
        self.name = settings.url_prefix
        self._caller = caller
        self._base = settings.url_prefix.rstrip("/")
        secure = settings.enable_https or self._base.startswith("https:")
        self._tls = ssl_context(settings) if secure else None
        self._server_name = settings.tls_config.server_name if settings.tls_config else ""
        self._managed = frozenset(entry.name for entry in settings.managed_resources)

    def is_interested(self, resources: Iterable[str]) -> bool:
        """Whether a pod is this extender's business, by the resources its containers mention."""
        return not self._managed or any(resource in self._managed for resource in resources)

    def filter(self, pod: bytes, names: Sequence[str], texts: NodeTexts) -> Filtered:
        """Ask which of the nodes fit."""
        settings = self.settings
        if not settings.filter_verb:
            return Filtered(list(names), {}, {})
        call = self._call("filter", settings.filter_verb, self._args(pod, names, texts))
        answer = self._decode(wire.decode_filter_result, self._ask(call))
        if answer.error:
            raise ExtenderError(f'extender "{self.name}": {answer.error}')
        return Filtered(
            self._kept(answer, set(names)), answer.failed_nodes, answer.unresolvable_nodes
        )

    def _kept(self, answer: wire.FilterResult, asked: set[str]) -> list[str]:
        if self.settings.node_cache_capable and answer.node_names is not None:
            for name in answer.node_names:
                if name not in asked:
                    raise ExtenderError(
                        f'extender "{self.name}" claims a filtered node "{name}" which is not '
                        f"found in the input node list"
                    )
            return answer.node_names
        if answer.nodes is None:
            return []
        # upstream would go on with a node it never heard of; here it cannot be placed on
        return [name for name in self._decode(wire.node_names, answer.nodes) if name in asked]

    def prioritize_call(self, pod: bytes, names: Sequence[str], texts: NodeTexts) -> Call | None:
        """The prioritize request, to be made together with the other extenders'."""
        verb = self.settings.prioritize_verb
        return self._call("prioritize", verb, self._args(pod, names, texts)) if verb else None

    def weighted(self, body: bytes) -> dict[str, int]:
        """Read scores and bring them to the plugins' scale."""
        factor = self.settings.weight * SCALE
        answer = self._decode(wire.decode_priorities, body)
        return {entry.host: entry.score * factor for entry in answer}

    def preempt(self, pod: bytes, victims: Mapping[str, wire.Victims]) -> dict[str, wire.Victims]:
        """Ask which victims are acceptable; the answer replaces the proposal."""
        body = wire.encode_preemption_args(pod, victims, by_uid=self.settings.node_cache_capable)
        call = self._call("preempt", self.settings.preempt_verb, body)
        answer = self._decode(wire.decode_preemption_result, self._ask(call))
        for node, entry in answer.items():
            if node not in victims:
                raise ExtenderError(f'extender "{self.name}" returned an unknown node "{node}"')
            if unknown := [uid for uid in entry.uids if uid not in victims[node].uids]:
                raise ExtenderError(
                    f'extender "{self.name}" returned pod {unknown[0]} as a victim, which is not '
                    f'among those proposed on node "{node}"'
                )
        return answer

    def bind(self, args: wire.BindingArgs) -> None:
        """Let the extender bind; an error is raised."""
        call = self._call("bind", self.settings.bind_verb, wire.encode_binding_args(args))
        body = self._ask(call)
        if error := self._decode(lambda raw: wire.decode_error(raw, "ExtenderBindingResult"), body):
            raise ExtenderError(f'extender "{self.name}": {error}')

    def _args(self, pod: bytes, names: Sequence[str], texts: NodeTexts) -> bytes:
        if self.settings.node_cache_capable:
            return wire.encode_args(pod, names=list(names))
        return wire.encode_args(pod, nodes=[texts.node_json(name) for name in names])

    def _call(self, action: str, verb: str, body: bytes) -> Call:
        url = f"{self._base}/{verb}"
        timeout = self.settings.timeout_seconds
        return Call(url, action, body, timeout, self._tls, self._server_name)

    def _ask(self, call: Call) -> bytes:
        answer = self._caller.call([call])[0]
        if isinstance(answer, ExtenderError):
            raise answer
        return answer

    def _decode(self, read: Callable[[B], T], body: B) -> T:
        try:
            return read(body)
        except DecodeError as cause:
            raise ExtenderError(f'extender "{self.name}" answered garbage: {cause}') from cause


def in_calling_order(clients: Iterable[ExtenderClient]) -> list[ExtenderClient]:
    """Configured order, with the ignorable ones moved behind the others, as upstream does."""
    return sorted(clients, key=lambda client: client.settings.ignorable)
