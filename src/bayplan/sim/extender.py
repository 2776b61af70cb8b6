"""A simulated extender: takes virtual time to answer, and may fail by its time limit.

It filters and scores by plain functions. How long each question takes is only noted here; the
simulated scheduler lets that much virtual time pass before the decision takes effect, as a real
one would have waited.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bayplan.api import Node, Pod
from bayplan.framework.contract.extender import ExtenderError, ExtenderFilterResult
from bayplan.framework.contract.results import Victims

Filter = Callable[[Pod, Node], str]
Score = Callable[[Pod, Node], int]


class SimulatedExtender:
    """One extender of a scenario; `delay` can be changed while it runs."""

    is_binder = False
    supports_preemption = False
    blocking = True

    def __init__(
        self,
        name: str,
        *,
        filter: Filter | None = None,
        score: Score | None = None,
        weight: int = 1,
        ignorable: bool = False,
        delay: float = 0.0,
        timeout: float = 5.0,
    ) -> None:
        self.name = name
        self.weight = weight
        self.ignorable = ignorable
        self.delay = self._first_delay = delay
        self.timeout = timeout
        self.calls = 0
        self._owed = 0.0
        self._filter = filter
        self._score = score

    def reset(self) -> None:
        """Be as when it was made: a fault of one run must not reach the next."""
        self.delay = self._first_delay
        self.calls = 0
        self._owed = 0.0

    @property
    def is_filter(self) -> bool:
        return self._filter is not None

    @property
    def is_prioritizer(self) -> bool:
        return self._score is not None

    def owed(self) -> float:
        """Return the seconds that questions took since the last call."""
        owed, self._owed = self._owed, 0.0
        return owed

    def interested(self, pod: Pod) -> bool:
        return True

    def filter(self, pod: Pod, nodes: Sequence[Node]) -> ExtenderFilterResult:
        self._wait("filter")
        assert self._filter is not None
        verdicts = {node.metadata.name: self._filter(pod, node) for node in nodes}
        fits = tuple(name for name, reason in verdicts.items() if not reason)
        return ExtenderFilterResult(fits, {name: why for name, why in verdicts.items() if why})

    def prioritize_later(self, pod: Pod, nodes: Sequence[Node]) -> Callable[[], Mapping[str, int]]:
        score = self._score
        assert score is not None

        def scores() -> Mapping[str, int]:
            self._wait("prioritize")
            return {node.metadata.name: score(pod, node) for node in nodes}

        return scores

    def process_preemption(self, pod: Pod, victims: Mapping[str, Victims]) -> Mapping[str, Victims]:
        return victims

    def _wait(self, verb: str) -> None:
        self.calls += 1
        self._owed += min(self.delay, self.timeout)
        if self.delay > self.timeout:
            raise ExtenderError(f'extender "{self.name}" {verb}: no answer in {self.timeout:g} s')
