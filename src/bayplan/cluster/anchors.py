"""Finds what may match by one label that it must have.

A selector with a requirement `key in (values)` can only match something with one of these labels:
its *anchor*. Selectors are looked up by the labels of a pod, groups of pods by the anchor of a
selector; only what has no anchor is looked at every time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar

from bayplan.api.labels import IN, Selector

T = TypeVar("T")


class Labelled(Protocol):
    """Anything with labels."""

    @property
    def labels(self) -> Mapping[str, str]: ...


L = TypeVar("L", bound=Labelled)


def anchor(*selectors: Selector) -> tuple[str, tuple[str, ...]] | None:
    """A label key and the values of which one is a must; None if there is no such requirement."""
    best: tuple[str, tuple[str, ...]] | None = None
    for selector in selectors:
        for item in selector.requirements:
            if item.operator == IN and (best is None or len(item.values) < len(best[1])):
                best = (item.key, item.values)
    return best


class Anchored(Generic[T]):
    """Things with selectors, found by the labels that these might match."""

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str], dict[T, None]] = {}
        self._loose: dict[T, None] = {}

    def add(self, item: T, *selectors: Selector) -> None:
        found = anchor(*selectors)
        if found is None:
            self._loose[item] = None
            return
        for value in found[1]:
            self._by_label.setdefault((found[0], value), {})[item] = None

    def remove(self, item: T, *selectors: Selector) -> None:
        found = anchor(*selectors)
        if found is None:
            del self._loose[item]
            return
        for value in found[1]:
            items = self._by_label[(found[0], value)]
            del items[item]
            if not items:
                del self._by_label[(found[0], value)]

    def candidates(self, labels: Mapping[str, str]) -> Iterator[T]:
        """What might match these labels, each once: an anchor has one key, a pod one value."""
        if self._by_label:
            for label in labels.items():
                yield from self._by_label.get(label, ())
        yield from self._loose


class GroupIndex(Generic[L]):
    """Labelled things, found by the anchor of a selector; a label key is indexed on first use."""

    def __init__(self, everything: Callable[[], Iterable[L]]) -> None:
        self._everything = everything
        self._by_key: dict[str, dict[str, dict[L, None]]] = {}

    def add(self, item: L) -> None:
        for key, values in self._by_key.items():
            value = item.labels.get(key)
            if value is not None:
                values.setdefault(value, {})[item] = None

    def remove(self, item: L) -> None:
        for key, values in self._by_key.items():
            value = item.labels.get(key)
            if value is not None:
                items = values[value]
                del items[item]
                if not items:
                    del values[value]

    def candidates(self, *selectors: Selector) -> Iterable[L]:
        """What selectors might match."""
        found = anchor(*selectors)
        if found is None:
            return self._everything()
        key, wanted = found
        values = self._by_key.get(key)
        if values is None:
            values = self._by_key[key] = {}
            for item in self._everything():
                value = item.labels.get(key)
                if value is not None:
                    values.setdefault(value, {})[item] = None
        return [item for value in wanted for item in values.get(value, ())]
