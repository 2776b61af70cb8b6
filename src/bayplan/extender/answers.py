"""Checks what the author of an extender returned, and makes a message of it.

Authors return plain Python: names, reasons by node, scores by node. Each function here accepts the
forms that the kit documents and refuses everything else with a sentence that says which value was
wrong and what would be right: the scheduler on the other side would only report a JSON error.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress

import msgspec

from bayplan.errors import BayplanError
from bayplan.extender.wire import MAX_EXTENDER_PRIORITY, FilterResult, Victims

_POSSIBLE = frozenset(range(MAX_EXTENDER_PRIORITY + 1))
DEFAULT_REASON = "node(s) were rejected by the extender"


class AnswerError(BayplanError):
    """An extender's function returned what the protocol cannot carry."""


class Rejection:
    """A filter's full answer: who fails and why, and who can not be helped by preemption."""

    def __init__(
        self, failed: Mapping[str, str] | None = None, unresolvable: Mapping[str, str] | None = None
    ) -> None:
        self.failed = dict(failed or {})
        self.unresolvable = dict(unresolvable or {})


def _must_be_known(names: Collection[object], asked: Collection[str], function: str) -> None:
    with suppress(TypeError):  # something that cannot be a name; found below
        if set(names) <= set(asked):
            return
    for name in names:
        if not isinstance(name, str):
            raise AnswerError(
                f"{function} returned {name!r} where a node name belongs; return names as text"
            )
        if name not in asked:
            raise AnswerError(
                f'{function} returned the node "{name}", which was not asked about; '
                f"return only nodes that were given"
            )


def _reasons(given: Mapping[str, str], function: str) -> dict[str, str]:
    for name, reason in given.items():
        if not isinstance(reason, str):
            raise AnswerError(
                f'{function} returned the reason {reason!r} for node "{name}"; a reason is text'
            )
    return dict(given)


def _rejection(value: object, asked: Sequence[str], function: str) -> Rejection:
    known = set(asked)
    if value is None:
        return Rejection()
    if isinstance(value, Rejection):
        _must_be_known((*value.failed, *value.unresolvable), known, function)
        return Rejection(_reasons(value.failed, function), _reasons(value.unresolvable, function))
    if isinstance(value, Mapping):
        _must_be_known(value, known, function)
        return Rejection(_reasons(value, function))
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        kept = list(value)
        _must_be_known(kept, known, function)
        keep = set(kept)
        return Rejection({name: DEFAULT_REASON for name in asked if name not in keep})
    raise AnswerError(
        f"{function} returned {type(value).__name__}; a filter returns the names to keep, "
        f"a dict from rejected node to reason, or a Rejection"
    )


def filter_answer(
    value: object, names: Sequence[str], nodes: Sequence[msgspec.Raw] | None, function: str
) -> FilterResult:
    """Make the filter's answer; `nodes` are sent back when the request carried objects."""
    verdict = _rejection(value, names, function)
    out = {*verdict.failed, *verdict.unresolvable}
    result = FilterResult(failed_nodes=verdict.failed, unresolvable_nodes=verdict.unresolvable)
    if nodes is None:
        result.node_names = [name for name in names if name not in out]
    else:
        result.nodes = [node for name, node in zip(names, nodes, strict=True) if name not in out]
    return result


def prioritize_answer(value: object, asked: Sequence[str], function: str) -> dict[str, int]:
    """Make the scores; a node that the author left out gets 0."""
    if value is None:
        value = {}
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
        try:
            value = dict(value)
        except (TypeError, ValueError) as cause:
            raise AnswerError(
                f"{function} returned a sequence that is not made of (node, score) pairs"
            ) from cause
    if not isinstance(value, Mapping):
        raise AnswerError(
            f"{function} returned {type(value).__name__}; return a dict from node to score"
        )
    _must_be_known(value, set(asked), function)
    scores = dict.fromkeys(asked, 0)
    if _all_in_range(value.values()):
        scores.update(value)
        return scores
    for name, score in value.items():
        scores[name] = _score(name, score, function)
    return scores


def _all_in_range(scores: Collection[object]) -> bool:
    """The common case, told without a look at each: plain whole numbers from 0 to 10."""
    return set(map(type, scores)) == {int} and set(scores) <= _POSSIBLE


def _score(name: str, score: object, function: str) -> int:
    if hasattr(score, "__index__") and not isinstance(score, bool):
        number: int = score.__index__()
        if 0 <= number <= MAX_EXTENDER_PRIORITY:
            return number
        raise AnswerError(
            f'{function} returned the score {number} for node "{name}"; scores are whole numbers '
            f"from 0 to {MAX_EXTENDER_PRIORITY}"
        )
    raise AnswerError(
        f'{function} returned the score {score!r} for node "{name}"; scores are whole numbers '
        f"from 0 to {MAX_EXTENDER_PRIORITY}"
    )


def preempt_answer(
    value: object, asked: Mapping[str, Victims], function: str
) -> dict[str, Victims]:
    """Make the victims that remain: nodes to keep as they are, or UIDs by node."""
    if value is None:
        return dict(asked)
    if isinstance(value, Mapping):
        _must_be_known(value, asked, function)
        return {node: _victims(node, uids, asked[node], function) for node, uids in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        nodes = list(value)
        _must_be_known(nodes, asked, function)
        return {node: asked[node] for node in nodes}
    raise AnswerError(
        f"{function} returned {type(value).__name__}; preempt returns the node names to keep or "
        f"a dict from node to the UIDs of its victims"
    )


def _victims(node: str, uids: object, proposed: Victims, function: str) -> Victims:
    if isinstance(uids, Victims):
        return uids
    if not isinstance(uids, Iterable) or isinstance(uids, str | bytes):
        raise AnswerError(
            f'{function} returned {type(uids).__name__} as the victims on node "{node}"; '
            f"return a list of pod UIDs"
        )
    chosen = [str(uid) for uid in uids]
    if not chosen:
        raise AnswerError(
            f'{function} returned no victim on node "{node}"; leave the node out instead'
        )
    return Victims(uids=chosen, num_pdb_violations=proposed.num_pdb_violations)


def bind_answer(value: object, function: str) -> str:
    """The error text of a bind: none when the function returned nothing."""
    if value is None or value is True:
        return ""
    if isinstance(value, str):
        return value
    raise AnswerError(
        f"{function} returned {type(value).__name__}; bind returns nothing, or an error as text"
    )
