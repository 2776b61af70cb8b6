"""Tells why a pod is where it is, from what the scheduler remembers: nothing is decided anew.

Verdicts of the last attempt are grouped by plugin and reason so that the numbers of nodes add up
to all of them. `changed` then asks once more, without touching anything, and names the nodes that
would be judged differently now. Records are a ring: of a pod that was tried long ago only its
place is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from bayplan.api import Pod
from bayplan.engine.cycle.records import AttemptRecord
from bayplan.framework.contract.status import Status

if TYPE_CHECKING:
    from bayplan.engine.loop.core import Scheduler
    from bayplan.engine.loop.story import Note

FITS = "fits"
NOT_LOOKED_AT = "not looked at"
EXAMPLES = 5


class Verdict(msgspec.Struct, frozen=True, rename="camel"):
    """How many nodes got the same answer, and some of their names."""

    result: str
    """`fits`, `not looked at`, or the status code."""
    nodes: int
    plugin: str = ""
    reasons: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()


class Score(msgspec.Struct, frozen=True, rename="camel"):
    """One node's scores: 0 to 100 by plugin, and the sum of all times their weights."""

    node: str
    total: int
    by_plugin: dict[str, int]


class Attempt(msgspec.Struct, frozen=True, rename="camel"):
    """The last attempt that is remembered."""

    time: float
    node_count: int
    feasible: int
    node: str
    message: str
    verdicts: tuple[Verdict, ...]
    weights: dict[str, int]
    scores: tuple[Score, ...]
    """The best nodes first."""
    victims: tuple[str, ...] = ()
    nominated_node: str = ""


class Change(msgspec.Struct, frozen=True, rename="camel"):
    """A node that would be judged differently now."""

    node: str
    before: str
    now: str


class Happening(msgspec.Struct, frozen=True, rename="camel"):
    """One entry of a pod's history."""

    time: float
    what: str
    detail: str = ""


class Explanation(msgspec.Struct, frozen=True, rename="camel"):
    """All that is known about why a pod is where it is."""

    pod: str
    scheduler: str
    place: str
    node: str = ""
    attempts: int = 0
    waits_for: tuple[str, ...] = ()
    """Plugins whose events would bring the pod back."""
    backoff_until: float = 0.0
    history: tuple[Happening, ...] = ()
    attempt: Attempt | None = None
    changed: tuple[Change, ...] = ()


def explain(scheduler: Scheduler, key: str, now: float, best: int = 10) -> Explanation | None:
    """Explain a pod by `namespace/name`; None if nothing is known. `best` limits the scores."""
    history = scheduler.story(key)
    pod = scheduler.pod(key)
    if pod is None and not history:
        return None
    uid = pod.metadata.uid if pod is not None else history[-1].uid
    records = scheduler.records.of(uid)
    item = scheduler.queue.get(key)
    attempt = _ended(_attempt(_last(records, pod), best), history) if records else None
    waiting = pod is not None and not pod.spec.node_name and bool(records)
    return Explanation(
        pod=key,
        scheduler=pod.spec.scheduler_name if pod is not None else "",
        place=_place(scheduler, key, pod),
        node=pod.spec.node_name if pod is not None else "",
        attempts=item.attempts if item is not None else len({each.now for each in records}),
        waits_for=tuple(sorted(item.rejectors)) if item is not None else (),
        backoff_until=item.backoff_expiration if item is not None else 0.0,
        history=tuple(Happening(note.time, note.what, note.detail) for note in history),
        attempt=attempt,
        changed=_changed(scheduler, pod, records[-1], now) if waiting and pod else (),
    )


def _last(records: Sequence[AttemptRecord], pod: Pod | None) -> AttemptRecord:
    """The newest record; of a group that was tried on several sets of nodes, that of its node."""
    last = records[-1]
    node = pod.spec.node_name if pod is not None else ""
    tries = [each for each in records if each.now == last.now]
    return next((each for each in tries if node and each.node_name == node), last)


def _ended(attempt: Attempt, history: Sequence[Note]) -> Attempt:
    """An attempt that found a node and failed all the same, as for its group, has no node."""
    last = history[-1] if history else None
    if last is None or last.time < attempt.time or not last.what.startswith("failed, "):
        return attempt
    return msgspec.structs.replace(attempt, node="", message=last.detail)


def _place(scheduler: Scheduler, key: str, pod: Pod | None) -> str:
    if pod is None:
        return "gone"
    return f"bound to {pod.spec.node_name}" if pod.spec.node_name else scheduler.place_of(key)


def _attempt(record: AttemptRecord, best: int) -> Attempt:
    victims = () if record.victims is None else tuple(pod.key for pod in record.victims.pods)
    return Attempt(
        time=record.now,
        node_count=len(record.names),
        feasible=record.feasible_count,
        node=record.node_name,
        message=record.message,
        verdicts=_verdicts(record),
        weights=dict(record.weights),
        scores=_scores(record, best),
        victims=victims,
        nominated_node=record.nominated_node_name,
    )


def _verdicts(record: AttemptRecord) -> tuple[Verdict, ...]:
    """Groups whose numbers add up to the number of nodes, the largest first."""
    grouped: dict[tuple[str, str, tuple[str, ...]], list[int]] = {}
    for status, rows in record.groups():
        key = (status.code.text, status.plugin, status.all_reasons)
        grouped.setdefault(key, []).extend(rows.tolist())
    verdicts = [
        Verdict(code, len(rows), plugin, reasons, _names(record, rows))
        for (code, plugin, reasons), rows in grouped.items()
    ]
    verdicts.sort(key=lambda verdict: (-verdict.nodes, verdict.plugin, verdict.reasons))
    rest = len(record.names) - record.feasible_count - sum(v.nodes for v in verdicts)
    if record.feasible_count:
        verdicts.insert(0, Verdict(FITS, record.feasible_count))
    if rest > 0:
        verdicts.append(Verdict(NOT_LOOKED_AT, rest))
    return tuple(verdicts)


def _names(record: AttemptRecord, rows: list[int]) -> tuple[str, ...]:
    return tuple(record.names[row] for row in rows[:EXAMPLES])


def _scores(record: AttemptRecord, best: int) -> tuple[Score, ...]:
    if not record.normalized:
        return ()
    total = np.zeros(len(record.names), dtype=np.int64)
    for name, column in record.normalized.items():
        total += column.astype(np.int64) * record.weights[name]
    fits = np.ones(len(record.names), dtype=bool)
    for _, rows in record.groups():
        fits[rows] = False
    chosen: list[int] = np.flatnonzero(fits).tolist()
    # among equals the one that was chosen comes first
    chosen.sort(key=lambda row: (-int(total[row]), record.names[row] != record.node_name))
    return tuple(
        Score(
            record.names[row],
            int(total[row]),
            {name: int(column[row]) for name, column in record.normalized.items()},
        )
        for row in chosen[:best]
    )


def _changed(
    scheduler: Scheduler, pod: Pod, record: AttemptRecord, now: float
) -> tuple[Change, ...]:
    before = _by_node(record)
    fresh = scheduler.judge(pod, now)
    if fresh is None:
        return ()
    after = _by_node(fresh)
    names = [*after, *(name for name in before if name not in after)]
    changes = [
        Change(name, before.get(name, "unknown"), after.get(name, "gone"))
        for name in names
        if before.get(name, "unknown") != after.get(name, "gone")
    ]
    return tuple(changes)


def _by_node(record: AttemptRecord) -> dict[str, str]:
    result = dict.fromkeys(record.names, FITS if record.feasible_count else NOT_LOOKED_AT)
    for status, rows in record.groups():
        text = _text(status)
        for row in rows.tolist():
            result[record.names[row]] = text
    return result


def _text(status: Status) -> str:
    return f"{status.plugin}: {', '.join(status.all_reasons)}" if status.plugin else status.message
