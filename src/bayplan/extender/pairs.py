"""One call for both verbs, where scheduler and extender are both Bayplan's.

A scheduler says in a header of its filter calls that it knows pairs; an extender of the kit that
has both functions says so in its answers, and from then on is sent *pairs*: filter, and prioritize
over what filter kept, in one call. Nodes are sent once: both sides keep a *node set*, to which a
call adds the names (or, for whole objects, the JSON of a version) that were not in it yet, and
names nodes by their place in it. An extender that does not know the set, because it was started
again, says so and is told everything anew.

Others see ordinary calls: they ignore the header. Who answers a pair without the header is another
program by now, and is asked in the ordinary way. What this does not do: decide when scores of a
pair may be used (`client`), or run functions (`kit`).
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TypeVar
from uuid import uuid4

import msgspec
import numpy as np

from bayplan.api import Node
from bayplan.errors import DecodeError
from bayplan.extender.wire import ExtenderArgs, names_of

T = TypeVar("T")
HEADER = "Bayplan-Pair"
HEADER_LOW = HEADER.lower().encode()
KNOWN, CALL = "known", "call"
SETS_KEPT = 8
ENTRIES_KEPT = 200_000
"""Of one set; stale versions of nodes are among them."""


class PairCall(msgspec.Struct, array_like=True, frozen=True):
    """Both verbs for one pod; `runs` are places in the set, first and behind the last."""

    pod: bytes
    set_id: str
    have: int
    """How many entries the extender should have already."""
    add: list[bytes]
    runs: list[tuple[int, int]]
    whole: bool
    """Whether entries are nodes as JSON, or names."""


class PairAnswer(msgspec.Struct, array_like=True, frozen=True):
    """What both said; `kept` are positions in the call's order, None: all."""

    unknown: bool = False
    kept: list[int] | None = None
    failed: dict[str, str] = {}
    unresolvable: dict[str, str] = {}
    error: str = ""
    scores: list[int] = []
    """Of those that are kept; none when there was nothing to choose."""
    score_error: str = ""


encode = msgspec.msgpack.encode
_call = msgspec.msgpack.Decoder(PairCall)
_answer = msgspec.msgpack.Decoder(PairAnswer)


def decode_call(body: bytes) -> PairCall:
    return _read(_call, body, "a pair of calls")


def decode_answer(body: bytes) -> PairAnswer:
    return _read(_answer, body, "the answer to a pair of calls")


def _read(decoder: "msgspec.msgpack.Decoder[T]", body: bytes, what: str) -> T:
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as cause:
        raise DecodeError(f"reading {what}: {cause}") from cause


class ToldNodes:
    """The scheduler's side of a node set."""

    def __init__(self, text_of: Callable[[Node], bytes] | None) -> None:
        """`text_of` gives the JSON of a node; None: names are enough."""
        self._text_of = text_of
        self._id = ""
        self.forget(self._id)

    def forget(self, set_id: str) -> None:
        """Begin another set, unless that has been done since."""
        if set_id != self._id:
            return
        self._id = str(uuid4())
        self._places: dict[str, tuple[str, int]] = {}
        self._objects: dict[int, tuple[Node, int]] = {}
        """By identity: most nodes are the same objects as in the last call."""
        self._entries: list[bytes] = []
        self._told = 0

    def call(self, pod: bytes, nodes: Sequence[Node]) -> PairCall:
        """A call about some nodes; what the extender does not know yet is added."""
        if len(self._entries) > 2 * len(self._places) + 1000:
            self.forget(self._id)  # most are versions that are no more
        known = self._objects
        try:
            places = [known[id(node)][1] for node in nodes]
        except KeyError:
            if len(known) > 2 * len(self._places) + 1000:
                known.clear()
            places = [self._place(node) for node in nodes]
        add = self._entries[self._told :]
        whole = self._text_of is not None
        return PairCall(pod, self._id, self._told, add, _runs(places), whole)

    def _place(self, node: Node) -> int:
        meta = node.metadata
        version = f"{meta.uid}/{meta.resource_version}" if self._text_of is not None else ""
        known = self._places.get(meta.name)
        if known is None or known[0] != version:
            known = self._places[meta.name] = version, len(self._entries)
            text = meta.name.encode() if self._text_of is None else self._text_of(node)
            self._entries.append(text)
        self._objects[id(node)] = node, known[1]
        return known[1]

    def was_told(self, call: PairCall) -> None:
        """The extender has what this call added."""
        if call.set_id == self._id:  # of several calls under way the longest counts
            self._told = max(self._told, call.have + len(call.add))


def _runs(places: Sequence[int]) -> list[tuple[int, int]]:
    if not places:
        return []
    at = np.array(places)
    breaks = np.flatnonzero(np.diff(at) != 1) + 1
    starts = at[np.concatenate(([0], breaks))].tolist()
    ends = at[np.concatenate((breaks - 1, [len(at) - 1]))].tolist()
    return [(start, end + 1) for start, end in zip(starts, ends, strict=True)]


class _Set:
    def __init__(self, whole: bool) -> None:
        self.whole = whole
        self.names: list[str] = []
        self.texts: list[msgspec.Raw] = []


class KnownNodes:
    """The extender's side of node sets; the one used longest ago goes first."""

    def __init__(self, sets: int = SETS_KEPT, entries: int = ENTRIES_KEPT) -> None:
        self._limit = sets
        self._entries = entries
        self._sets: OrderedDict[str, _Set] = OrderedDict()

    def args_of(self, call: PairCall) -> ExtenderArgs | None:
        """The call as an ordinary one; None when its nodes are not known here."""
        known = self._sets.get(call.set_id)
        if known is None:
            if call.have:
                return None
            known = self._sets[call.set_id] = _Set(call.whole)
            while len(self._sets) > self._limit:
                self._sets.popitem(last=False)
        self._sets.move_to_end(call.set_id)
        size = call.have + len(call.add)
        if len(known.names) < call.have or known.whole != call.whole or call.have < 0:
            return None
        if size > self._entries or any(not 0 <= a <= b <= size for a, b in call.runs):
            raise DecodeError(f"reading a pair of calls: the set has {size} nodes")
        if size > len(known.names):
            self._add(known, call)
        names = [name for start, end in call.runs for name in known.names[start:end]]
        if not call.whole:
            return ExtenderArgs(call.pod, None, names)
        texts = [text for start, end in call.runs for text in known.texts[start:end]]
        return ExtenderArgs(call.pod, texts, names)

    @staticmethod
    def _add(known: _Set, call: PairCall) -> None:
        """Take what is new: calls that were under way together add the same."""
        new = call.add[len(known.names) - call.have :]
        if call.whole:
            known.names += names_of(new, "a pair of calls")
            known.texts += [msgspec.Raw(text) for text in new]
            return
        try:
            known.names += [name.decode() for name in new]
        except UnicodeDecodeError as cause:
            raise DecodeError(f"reading a pair of calls: {cause}") from cause
