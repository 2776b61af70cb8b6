"""The messages of the extender protocol as they travel.

Upstream's structs carry no JSON tags, so keys are Go's field names (`NodeNames`, `FailedNodes`) and
Go reads them in any case; the Pod and Node objects inside keep their ordinary camelCase. We write
Go's spelling and read any. Objects inside are kept as raw bytes: a call with 5,000 nodes is mostly
node text, and neither side should parse what it does not look at.

What it does not do: HTTP, and judging whether an answer makes sense (see `client` and `answers`).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from bayplan.errors import DecodeError

T = TypeVar("T")
RawMap = dict[str, msgspec.Raw]

_raw_map = msgspec.json.Decoder(RawMap | None)
_raw_list = msgspec.json.Decoder(list[msgspec.Raw] | None)
_text = msgspec.json.Decoder(str | None)
_number = msgspec.json.Decoder(int)
_texts = msgspec.json.Decoder(list[str] | None)
_text_map = msgspec.json.Decoder(dict[str, str] | None)
_encode = msgspec.json.encode

MAX_EXTENDER_PRIORITY = 10
AHEAD_LOW, AHEAD_YES = b"bayplan-ahead", b"yes"
"""The header of answers by which an extender promises that it keeps nothing between calls."""


class _Meta(msgspec.Struct, gc=False):
    name: str = ""


class _Named(msgspec.Struct, gc=False):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


_named = msgspec.json.Decoder(list[_Named] | None)


class ExtenderArgs(msgspec.Struct):
    """What filter and prioritize are asked: one pod, and nodes as objects or as names."""

    pod: bytes
    nodes: list[msgspec.Raw] | None = None
    names: list[str] = []
    """The nodes' names, in whichever form they came."""


class FilterResult(msgspec.Struct):
    """What a filter answers, to be sent: nodes in the form of the call."""

    nodes: Sequence[msgspec.Raw] | None = None
    node_names: list[str] | None = None
    failed_nodes: dict[str, str] = {}
    unresolvable_nodes: dict[str, str] = {}
    error: str = ""


class FilterAnswer(msgspec.Struct):
    """What a filter answered, as read: of whole nodes only the names."""

    nodes: list[str] | None = None
    node_names: list[str] | None = None
    failed_nodes: dict[str, str] = {}
    unresolvable_nodes: dict[str, str] = {}
    error: str = ""


class HostPriority(msgspec.Struct, rename={"host": "Host", "score": "Score"}, gc=False):
    """One node's score, 0 to 10."""

    host: str
    score: int


class Victims(msgspec.Struct):
    """Who would have to go from one node: whole pods, or only their UIDs."""

    pods: list[bytes] = []
    uids: list[str] = []
    num_pdb_violations: int = 0


class PreemptionArgs(msgspec.Struct):
    """What preempt is asked: the victims that the scheduler would take, by node."""

    pod: bytes
    victims: dict[str, Victims]
    by_uid: bool


class BindingArgs(msgspec.Struct):
    """What bind is asked."""

    pod_name: str
    pod_namespace: str
    pod_uid: str
    node: str


class _GoNodeList(msgspec.Struct):
    items: list[_Named] | None = None


class _GoFilterResult(msgspec.Struct, rename="pascal", forbid_unknown_fields=True):
    """An answer in Go's own spelling, read in one pass."""

    nodes: _GoNodeList | None = None
    node_names: list[str] | None = None
    failed_nodes: dict[str, str] | None = None
    failed_and_unresolvable_nodes: dict[str, str] | None = None
    error: str | None = None

    def plain(self) -> FilterAnswer:
        nodes = None if self.nodes is None else self.nodes.items or []
        return FilterAnswer(
            nodes=None if nodes is None else [node.metadata.name for node in nodes],
            node_names=self.node_names,
            failed_nodes=self.failed_nodes or {},
            unresolvable_nodes=self.failed_and_unresolvable_nodes or {},
            error=self.error or "",
        )


_go_filter_result = msgspec.json.Decoder(_GoFilterResult)
_priorities = msgspec.json.Decoder(list[HostPriority] | None)


def _fields(body: bytes | msgspec.Raw, what: str) -> RawMap:
    """Top-level fields by lower-cased key; an exact Go spelling wins over another case."""
    try:
        found = _raw_map.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as cause:
        raise DecodeError(f"reading {what}: {cause}") from cause
    result: RawMap = {}
    for key, value in (found or {}).items():
        low = key.lower()
        if low not in result or key[:1].isupper():
            result[low] = value
    return result


def _starts(raw: msgspec.Raw, text: bytes) -> bool:
    return bytes(memoryview(raw)[: len(text)]) == text  # raw may be megabytes: no whole copy


def _is_null(raw: msgspec.Raw) -> bool:
    return _starts(raw, b"null")


def _read(decoder: msgspec.json.Decoder[T], fields: RawMap, name: str, what: str) -> T | None:
    raw = fields.get(name.lower())
    if raw is None or _is_null(raw):
        return None
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as cause:
        raise DecodeError(f"reading {what}: field {name}: {cause}") from cause


def _nodes_of(fields: RawMap, what: str) -> msgspec.Raw | None:
    """The items of a NodeList (or a bare list, which some extenders send), unread."""
    raw = fields.get("nodes")
    if raw is None or _is_null(raw):
        return None
    if _starts(raw, b"["):
        return raw
    items = _fields(raw, f"{what}: field Nodes").get("items")
    return msgspec.Raw(b"[]") if items is None or _is_null(items) else items


def names_of(nodes: Iterable[bytes], what: str) -> list[str]:
    """The names of nodes as JSON."""
    return _names_in(msgspec.Raw(b"[" + b",".join(nodes) + b"]"), what)


def _names_in(items: msgspec.Raw, what: str) -> list[str]:
    try:
        return [node.metadata.name for node in _named.decode(items) or ()]
    except (msgspec.DecodeError, UnicodeDecodeError) as cause:
        raise DecodeError(f"reading {what}: field Nodes: {cause}") from cause


def decode_args(body: bytes) -> ExtenderArgs:
    """Read ExtenderArgs."""
    fields = _fields(body, "ExtenderArgs")
    pod = fields.get("pod")
    if pod is None or _is_null(pod):
        raise DecodeError("reading ExtenderArgs: field Pod is missing")
    items = _nodes_of(fields, "ExtenderArgs")
    if items is not None:
        names = _names_in(items, "ExtenderArgs")  # and that they are a list
        return ExtenderArgs(bytes(pod), _raw_list.decode(items) or [], names)
    return ExtenderArgs(bytes(pod), None, _read(_texts, fields, "NodeNames", "ExtenderArgs") or [])


def encode_args(
    pod: bytes, *, nodes: Iterable[bytes] | None = None, names: Sequence[str] | None = None
) -> bytes:
    """Write ExtenderArgs with either node objects or names, the other null."""
    listed = b"null" if nodes is None else b'{"metadata":{},"items":[' + b",".join(nodes) + b"]}"
    named = b"null" if names is None else _encode(names)
    return b'{"Pod":%b,"Nodes":%b,"NodeNames":%b}' % (pod, listed, named)


def decode_filter_result(body: bytes) -> FilterAnswer:
    """Read ExtenderFilterResult."""
    what = "ExtenderFilterResult"
    try:
        return _go_filter_result.decode(body).plain()
    except (msgspec.DecodeError, UnicodeDecodeError):  # another spelling, or wrong
        fields = _fields(body, what)
    items = _nodes_of(fields, what)
    return FilterAnswer(
        nodes=None if items is None else _names_in(items, what),
        node_names=_read(_texts, fields, "NodeNames", what),
        failed_nodes=_read(_text_map, fields, "FailedNodes", what) or {},
        unresolvable_nodes=_read(_text_map, fields, "FailedAndUnresolvableNodes", what) or {},
        error=_read(_text, fields, "Error", what) or "",
    )


def encode_filter_result(result: FilterResult) -> bytes:
    """Write ExtenderFilterResult."""
    nodes = result.nodes
    listed = b"null" if nodes is None else b'{"metadata":{},"items":[' + b",".join(nodes) + b"]}"
    return (
        b'{"Nodes":%b,"NodeNames":%b,"FailedNodes":%b,"FailedAndUnresolvableNodes":%b,"Error":%b}'
        % (
            listed,
            _encode(result.node_names),
            _encode(result.failed_nodes),
            _encode(result.unresolvable_nodes),
            _encode(result.error),
        )
    )


def decode_priorities(body: bytes) -> list[HostPriority]:
    """Read HostPriorityList, a bare array."""
    try:
        return _priorities.decode(body) or []
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _priorities_in_any_case(body)


def _priorities_in_any_case(body: bytes) -> list[HostPriority]:
    what = "HostPriorityList"
    try:
        items = _raw_list.decode(body) or []
    except (msgspec.DecodeError, UnicodeDecodeError) as cause:
        raise DecodeError(f"reading {what}: {cause}") from cause
    result = []
    for position, item in enumerate(items):
        where = f"{what}[{position}]"
        fields = _fields(item, where)
        host = _read(_text, fields, "Host", where) or ""
        result.append(HostPriority(host, _read(_number, fields, "Score", where) or 0))
    return result


def encode_priorities(scores: Mapping[str, int]) -> bytes:
    """Write HostPriorityList."""
    return _encode([HostPriority(host, score) for host, score in scores.items()])


def _decode_victims(raw: msgspec.Raw, where: str) -> Victims:
    fields = _fields(raw, where)
    pods = _read(_raw_list, fields, "Pods", where) or []
    uids = []
    for position, pod in enumerate(pods):
        uid = _read(_text, _fields(pod, f"{where}.Pods[{position}]"), "UID", where)
        if uid:
            uids.append(uid)
    whole = [] if uids else [bytes(pod) for pod in pods]
    violations = _read(_number, fields, "NumPDBViolations", where) or 0
    return Victims(pods=whole, uids=uids, num_pdb_violations=violations)


def _decode_victims_by_node(fields: RawMap, name: str, what: str) -> dict[str, Victims] | None:
    by_node = _read(_raw_map, fields, name, what)
    if by_node is None:
        return None
    return {node: _decode_victims(raw, f"{what}: {name}[{node}]") for node, raw in by_node.items()}


def decode_preemption_args(body: bytes) -> PreemptionArgs:
    """Read ExtenderPreemptionArgs."""
    what = "ExtenderPreemptionArgs"
    fields = _fields(body, what)
    pod = fields.get("pod")
    if pod is None or _is_null(pod):
        raise DecodeError(f"reading {what}: field Pod is missing")
    by_uid = _decode_victims_by_node(fields, "NodeNameToMetaVictims", what)
    whole = _decode_victims_by_node(fields, "NodeNameToVictims", what)
    victims = by_uid if by_uid is not None else whole
    return PreemptionArgs(pod=bytes(pod), victims=victims or {}, by_uid=by_uid is not None)


def encode_preemption_args(pod: bytes, victims: Mapping[str, Victims], *, by_uid: bool) -> bytes:
    """Write ExtenderPreemptionArgs: whole victims, or their UIDs where nodeCacheCapable."""
    if by_uid:
        return b'{"Pod":%b,"NodeNameToVictims":null,"NodeNameToMetaVictims":%b}' % (
            pod,
            _encode_meta_victims(victims),
        )
    whole = b",".join(
        b'%b:{"Pods":[%b],"NumPDBViolations":%d}'
        % (_encode(node), b",".join(entry.pods), entry.num_pdb_violations)
        for node, entry in victims.items()
    )
    return b'{"Pod":%b,"NodeNameToVictims":{%b},"NodeNameToMetaVictims":null}' % (pod, whole)


def _encode_meta_victims(victims: Mapping[str, Victims]) -> bytes:
    return _encode(
        {
            node: {
                "Pods": [{"UID": uid} for uid in entry.uids],
                "NumPDBViolations": entry.num_pdb_violations,
            }
            for node, entry in victims.items()
        }
    )


def decode_preemption_result(body: bytes) -> dict[str, Victims]:
    """Read ExtenderPreemptionResult, which always speaks in UIDs."""
    what = "ExtenderPreemptionResult"
    return _decode_victims_by_node(_fields(body, what), "NodeNameToMetaVictims", what) or {}


def encode_preemption_result(victims: Mapping[str, Victims]) -> bytes:
    """Write ExtenderPreemptionResult."""
    return b'{"NodeNameToMetaVictims":%b}' % _encode_meta_victims(victims)


def decode_binding_args(body: bytes) -> BindingArgs:
    """Read ExtenderBindingArgs."""
    what = "ExtenderBindingArgs"
    fields = _fields(body, what)
    return BindingArgs(
        pod_name=_read(_text, fields, "PodName", what) or "",
        pod_namespace=_read(_text, fields, "PodNamespace", what) or "",
        pod_uid=_read(_text, fields, "PodUID", what) or "",
        node=_read(_text, fields, "Node", what) or "",
    )


def encode_binding_args(args: BindingArgs) -> bytes:
    """Write ExtenderBindingArgs."""
    return _encode(
        {
            "PodName": args.pod_name,
            "PodNamespace": args.pod_namespace,
            "PodUID": args.pod_uid,
            "Node": args.node,
        }
    )


def decode_error(body: bytes, what: str) -> str:
    """The Error field of an answer, empty when all is well."""
    return _read(_text, _fields(body, what), "Error", what) or ""


def encode_binding_result(error: str) -> bytes:
    """Write ExtenderBindingResult."""
    return _encode({"Error": error})
