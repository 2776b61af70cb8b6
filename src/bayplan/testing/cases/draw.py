"""Draws from one seed, biased by traits.

A family of cases is a table of traits with their probabilities; a generator asks `wants(trait)`
and adds what the trait stands for. The same seed and traits give the same case on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")
Body = dict[str, Any]


class Draw:
    """A stream of choices."""

    def __init__(self, seed: object, traits: Mapping[str, float]) -> None:
        self._random = Random(str(seed))
        self.traits = traits

    def wants(self, trait: str) -> bool:
        return self.chance(self.traits.get(trait, 0.0))

    def chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def pick(self, choices: Sequence[T]) -> T:
        return self._random.choice(choices)

    def some(self, choices: Sequence[T], most: int | None = None, least: int = 0) -> list[T]:
        """Different choices in random order."""
        most = min(len(choices), len(choices) if most is None else most)
        return self._random.sample(choices, self._random.randint(min(least, most), most))

    def number(self, least: int, most: int) -> int:
        return self._random.randint(least, most)
