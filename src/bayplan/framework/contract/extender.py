"""The seam for extenders: services outside that filter, score, preempt and bind beside the plugins.

The engine calls these methods with data and expects data back; whoever implements them decides
how (HTTP lives in `bayplan.extender`, tests use plain objects). A problem is raised as
ExtenderError: the engine skips an ignorable extender and fails the attempt for any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar, runtime_checkable

import msgspec

from bayplan.api import Node, Pod
from bayplan.errors import BayplanError
from bayplan.framework.contract.results import Victims

T_co = TypeVar("T_co", covariant=True)
NEVER, PROMISED, ALWAYS = AHEAD = "never", "promised", "always"
"""Which extenders may be asked about pods ahead of their turn: none, those that promise that they
keep nothing between calls, or all, if whoever runs the scheduler promises it for them."""


class ExtenderError(BayplanError):
    """An extender could not be asked, or answered what it must not."""


class ExtenderFilterResult(msgspec.Struct, frozen=True):
    """Which nodes are left, and why the others are not."""

    node_names: tuple[str, ...]
    failed: dict[str, str] = {}
    """Node to reason; preemption might help."""
    failed_unresolvable: dict[str, str] = {}
    """Node to reason; preemption cannot help."""


class Extender(Protocol):
    """One extender, configured."""

    @property
    def name(self) -> str: ...
    @property
    def ignorable(self) -> bool:
        """Whether the attempt goes on without it when it fails."""

    @property
    def is_filter(self) -> bool: ...
    @property
    def is_prioritizer(self) -> bool: ...
    @property
    def is_binder(self) -> bool: ...
    @property
    def supports_preemption(self) -> bool: ...
    @property
    def weight(self) -> int: ...
    @property
    def blocking(self) -> bool:
        """Whether calls wait for a network: a live driver then keeps its loop free of them."""

    def interested(self, pod: Pod) -> bool:
        """Whether the pod uses one of its resources (or it looks after all pods)."""

    def filter(self, pod: Pod, nodes: Sequence[Node]) -> ExtenderFilterResult:
        """Called with the nodes that passed so far, in their order."""

    def prioritize_later(self, pod: Pod, nodes: Sequence[Node]) -> Callable[[], Mapping[str, int]]:
        """Begin to score; the function returned gives scores 0..10 by node.

        All extenders are asked before the first answer is awaited. The engine multiplies scores
        by weight and by ten.
        """

    def process_preemption(self, pod: Pod, victims: Mapping[str, Victims]) -> Mapping[str, Victims]:
        """Return the candidates that are left, by node; victims may have been changed."""


class Later(Protocol[T_co]):
    """An answer that is on its way: call it once to wait for it, or drop it."""

    def __call__(self) -> T_co:
        """The answer; raises ExtenderError."""

    def ready(self) -> bool:
        """Whether waiting would end at once; never blocks."""

    def drop(self) -> None:
        """Nobody wants the answer any more."""


@runtime_checkable
class AheadExtender(Extender, Protocol):
    """One whose answers can be awaited later, so that several pods' calls can be under way."""

    @property
    def ahead(self) -> bool:
        """Whether it may be asked about a pod before the pods before it have their nodes.

        Only who keeps nothing between filter and prioritize calls may say so.
        """

    def filter_later(self, pod: Pod, nodes: Sequence[Node]) -> Later[ExtenderFilterResult]:
        """Begin to filter."""

    def prioritize_later(self, pod: Pod, nodes: Sequence[Node]) -> Later[Mapping[str, int]]:
        """Begin to score."""
