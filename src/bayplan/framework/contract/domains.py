"""Scores that are equal within a topology domain, told by domain instead of by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from bayplan.framework.contract.state import CycleState

P = TypeVar("P", contravariant=True)
T = TypeVar("T", contravariant=True)


class DomainScores(NamedTuple):
    """Scores before normalising by value of a label."""

    key: str
    """The label."""
    worth: Sequence[int]
    """By code of the value (`Nodes.label_codes`); the last is for nodes without the label."""
    own: Mapping[int, int]
    """Rows that have another score than their domain."""


class DomainScorePlugin(Protocol[P, T]):
    """Optional, for plugins with `score` and `normalize`: lets the engine keep totals by domain."""

    def score_domains(self, state: CycleState, pod: P, nodes: T) -> DomainScores | None:
        """Say the same as `score`, by domain; None if that cannot be said shortly."""

    def normalize_domains(self, state: CycleState, pod: P, scores: list[int]) -> list[int]:
        """Say the same as `normalize` for all the different scores that feasible nodes have.

        That is one a domain with a feasible node and one for each such node with its own.
        """
