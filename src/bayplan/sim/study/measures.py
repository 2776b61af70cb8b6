"""What a run came to, in a few numbers and two curves.

| measure | what it is |
| --- | --- |
| `pending` | mean seconds from creation to binding; a pod never bound counts until the end |
| `pending_p50`, `pending_p99` | the same, as quantiles |
| `unbound` | pods never bound |
| `evicted` | pods that somebody other than their owner ended |
| `nodes` | nodes with a pod on them, mean over time |
| `cpu` | share of all CPU that is requested, mean over time |
| `fragmentation` | share of the free CPU on nodes where a pod of this workload would not fit |
| `spread` | standard deviation between nodes of the requested share of CPU |

The last two are means over moments evenly spread between the first binding and the last end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from bayplan.sim.tracker import NodeLife, PodLife

MOMENTS = 48
QUANTILES = tuple(range(0, 101, 5))
Floats = npt.NDArray[np.float64]


class Measures(msgspec.Struct, frozen=True):
    """One run."""

    pods: int
    unbound: int
    evicted: int
    pending: float
    pending_p50: float
    pending_p99: float
    nodes: float
    cpu: float
    fragmentation: float
    spread: float
    seconds: float
    """Simulated, until the end of the run."""


class Curves(msgspec.Struct, frozen=True):
    """For pictures: how waits are spread, and how the run went."""

    waits: list[float]
    """At every twentieth."""
    times: list[float]
    pending: list[int]
    cpu: list[float]


NAMES = Measures.__struct_fields__
LESS_IS_BETTER = {"pending", "pending_p50", "pending_p99", "unbound", "evicted", "nodes",
                  "fragmentation", "spread", "seconds"}  # fmt: skip


def measure(
    pods: Iterable[PodLife], nodes: Iterable[NodeLife], seconds: float
) -> tuple[Measures, Curves]:
    """Sum up a run."""
    lives, hosts = sorted(pods, key=lambda life: (life.created, life.key)), list(nodes)
    waits = np.array([_wait(life, seconds) for life in lives]) if lives else np.zeros(1)
    load = Load(lives, hosts, seconds)
    times = load.moments()
    states = [load.at(time) for time in times]
    shapes = Counter((life.cpu, life.memory) for life in lives)
    p50, p99 = np.percentile(waits, [50, 99])
    measures = Measures(
        pods=len(lives),
        unbound=sum(life.bound is None for life in lives),
        evicted=sum(bool(life.disruption) for life in lives),
        pending=_plain(waits.mean()),
        pending_p50=_plain(p50),
        pending_p99=_plain(p99),
        nodes=_mean([state.busy for state in states]),
        cpu=_mean([state.share for state in states]),
        fragmentation=_mean([state.fragmentation(shapes) for state in states]),
        spread=_mean([state.spread for state in states]),
        seconds=_plain(seconds),
    )
    curves = Curves(
        waits=[_plain(value) for value in np.percentile(waits, QUANTILES)],
        times=[_plain(time) for time in times],
        pending=[_pending(lives, time) for time in times],
        cpu=[_plain(state.share) for state in states],
    )
    return measures, curves


def _wait(life: PodLife, seconds: float) -> float:
    ended = life.gone if life.gone is not None else seconds
    return max((life.bound if life.bound is not None else ended) - life.created, 0.0)


def _pending(lives: Sequence[PodLife], time: float) -> int:
    def until(life: PodLife) -> float:
        first = life.bound if life.bound is not None else life.gone
        return np.inf if first is None else first

    return sum(life.created <= time < until(life) for life in lives)


def _plain(value: float) -> float:
    """Without the last digits, which nobody reads."""
    return round(float(value), 6)


def _mean(values: Sequence[float]) -> float:
    return _plain(sum(values) / len(values)) if values else 0.0


class State:
    """All nodes at one moment."""

    def __init__(self, capacity: Floats, used: Floats, count: npt.NDArray[np.int64]) -> None:
        self._capacity, self._used = capacity, used
        """(nodes, 2): CPU and memory."""
        self.busy = float(np.count_nonzero(count))
        total = capacity[:, 0].sum()
        self.share = float(used[:, 0].sum() / total) if total else 0.0
        shares = used[:, 0] / np.maximum(capacity[:, 0], 1)
        self.spread = float(shares.std()) if len(shares) else 0.0

    def fragmentation(self, shapes: Counter[tuple[int, int]]) -> float:
        free = self._capacity - self._used
        room = free[:, 0].clip(min=0)
        total, pods = room.sum(), sum(shapes.values())
        if not total or not pods:
            return 0.0
        lost = 0.0
        for (cpu, memory), number in shapes.items():
            unfit = (free[:, 0] < cpu) | (free[:, 1] < memory)
            lost += number / pods * float(room[unfit].sum())
        return lost / float(total)


class Load:
    """Who ran where, and when."""

    def __init__(self, lives: Sequence[PodLife], hosts: Sequence[NodeLife], end: float) -> None:
        rows = {host.name: row for row, host in enumerate(hosts)}
        placed = [life for life in lives if life.bound is not None and life.node in rows]
        self._row = np.array([rows[life.node] for life in placed], dtype=np.int64)
        self._from = np.array([life.bound for life in placed], dtype=np.float64)
        ends = [end + 1 if life.end is None else life.end for life in placed]
        self._to = np.array(ends, dtype=np.float64)
        self._asks = np.array([(life.cpu, life.memory) for life in placed], dtype=np.float64)
        self._asks = self._asks.reshape(len(placed), 2)
        sizes = [(host.cpu, host.memory) for host in hosts]
        self._capacity = np.array(sizes, dtype=np.float64).reshape(len(hosts), 2)
        self._end = end

    def moments(self) -> list[float]:
        """Evenly spread over the time in which pods ran."""
        if not len(self._from):
            return []
        first, last = float(self._from.min()), float(np.minimum(self._to, self._end).max())
        step = (last - first) / MOMENTS
        return [first + step * (number + 0.5) for number in range(MOMENTS)] if step > 0 else [first]

    def at(self, time: float) -> State:
        here = (self._from <= time) & (time < self._to)
        used = np.zeros_like(self._capacity)
        np.add.at(used, self._row[here], self._asks[here])
        count = np.bincount(self._row[here], minlength=len(self._capacity))
        return State(self._capacity, used, count)
