"""The rows that pass a set of filters, put together from their columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from bayplan.cluster.arrays import BoolArray, IntArray
from bayplan.cluster.column import Column, Rows, rows_of
from bayplan.cluster.label_column import Domains
from bayplan.engine.answers.answer import Answer
from bayplan.engine.answers.asking import Desk
from bayplan.engine.answers.share import AnyColumn, Layout, Share, moment, pay
from bayplan.engine.answers.standing import rows_to_trust
from bayplan.engine.cycle.choice import ListOrder


class Rejecting(Protocol):
    """An answer, or whatever else keeps rows out."""

    @property
    def name(self) -> str: ...
    @property
    def fails(self) -> AnyColumn:
        """0 where a row fits."""


class Candidates:
    """Shared by all pods that the same answers speak about; a row fits if no answer rejects it."""

    __slots__ = (
        "__weakref__",
        "_answers",
        "_desk",
        "_first",
        "_gained",
        "_heap_keys",
        "_layout",
        "_listed",
        "_per_domain",
        "_seen",
        "_serial",
        "_walk",
        "count",
        "filters",
        "fits",
        "said",
    )

    def __init__(self, desk: Desk, filters: tuple[Rejecting, ...]) -> None:
        self._desk = desk
        self._serial = desk.serial()
        self.filters = filters
        self._answers = [item for item in filters if isinstance(item, Answer)]
        self.said = 0
        """Grows when what a filter says of rows may have changed beside their kinds."""
        self._layout: Layout | None = None
        """Where records find what filters said."""
        self.fits = Column(desk.limits.changes)
        """True where a row passes."""
        self.count = 0
        self._seen: list[int] | None = None
        """The version of each filter's column that `fits` was put together from; None: void."""
        self._gained = 0
        """Grows when a row may have become a candidate."""
        self._first: tuple[IntArray, int, int, int] | None = None
        self._heap_keys: tuple[int, IntArray, int, IntArray] | None = None
        self._listed: tuple[int, IntArray, int, IntArray] | None = None
        self._walk: tuple[int, IntArray, int, IntArray] | None = None
        self._per_domain: tuple[int, Domains, list[int]] | None = None

    @property
    def mask(self) -> BoolArray:
        mask = self.fits.values
        assert mask is not None
        return mask

    @property
    def version(self) -> int:
        return self.fits.version

    @property
    def stamp(self) -> tuple[int, int]:
        """Stands for these rows and no others."""
        return self._serial, self.fits.version

    def sync(self) -> None:
        """Follow the columns."""
        values, count = self.fits.values, self._desk.table.count
        if values is not None and self._seen is not None:
            if not self.filters and len(values) == count:
                return
            size = len(values)
            if size < count:
                self.fits.resize(count)
                if count == size + 1:
                    self._sync_row(size)
                else:
                    self._sync_rows(np.arange(size, count, dtype=np.int64))
        rows = self._changed_rows()
        if rows is None:
            mask = np.ones(self._desk.table.count, dtype=bool)
            for answer in self.filters:
                values = answer.fails.values
                if values is not None:
                    mask &= values == 0
            self._gained += 1
            self.fits.replace(mask)
            self.count = int(np.count_nonzero(mask))
        elif isinstance(rows, int):
            self._sync_row(rows)
        elif len(rows):
            self._sync_rows(rows)
        self._seen = [answer.fails.version for answer in self.filters]

    def layout(self) -> tuple[Layout, int]:
        """Where records find what filters said, and the bytes that nobody else accounts for."""
        layout, kinds, size = self._layout, self._desk.table.kinds.column.history, 0
        if layout is None or layout.stamp != self.said or layout.kinds is not kinds:
            layout = self._layout = self.layout_with((), self.said)
            size = self.pay()
        return layout, size

    def layout_with(self, scores: Sequence[Share], stamp: object = None) -> Layout:
        """A layout of what filters said, and of scores; `stamp` stands for its columns' state."""
        fails = [moment(answer.fails) for answer in self._answers]
        return Layout(self._desk, fails, scores, stamp)

    def pay(self) -> int:
        """The bytes that a record of the filters' columns is the first to hold on to."""
        columns = [answer.fails for answer in self._answers]
        return pay([self._desk.table.kinds.column, *columns])

    def problems(self) -> list[str]:
        """What differs from the filters' columns on rows that nobody said have changed since."""
        if self._seen is None:
            return []
        columns = [answer.fails for answer in self.filters]
        wrong = [
            row
            for row in rows_to_trust(list(zip(columns, self._seen, strict=True)), len(self.mask))
            if self.mask.item(row) == any(column.item(row) for column in columns)
        ]
        named = [answer.name for answer in self.filters]
        found = [f"candidates of {named}, rows {wrong}"] if wrong else []
        if self.count != np.count_nonzero(self.mask):
            found.append(f"how many candidates there are of {named}")
        return found

    def _sync_rows(self, rows: IntArray) -> None:
        fits = np.ones(len(rows), dtype=bool)
        for answer in self.filters:
            fits &= answer.fails.take(rows) == 0
        self._gained += 1
        self.fits.set_rows(rows, fits)
        self.count = int(np.count_nonzero(self.mask))

    def _sync_row(self, row: int) -> None:
        fits = True
        for answer in self.filters:
            if answer.fails.item(row):
                fits = False
        if self.mask[row] != fits:
            self.fits.set_row(row, fits)
            self.count += 1 if fits else -1
            self._gained += fits

    def _changed_rows(self) -> Rows | None:
        """The rows to look at again; None for all."""
        values, seen = self.fits.values, self._seen
        self._seen = None
        if seen is None or values is None or len(values) != self._desk.table.count:
            self.said += 1
            return None
        changes: list[Rows] = []
        for answer, version in zip(self.filters, seen, strict=True):
            column = answer.fails
            if column.version != version:
                found = column.since(version)
                if found is None or isinstance(column, Column):
                    self.said += 1
                if found is None:
                    return None
                changes += found
        return rows_of(changes, len(values))

    def heap_keys(self, order: ListOrder, start: int) -> IntArray:
        """Keys of rows in upstream's heap of candidates, kept while these stay the same."""
        known, version = self._heap_keys, self.version
        if known is None or known[0] != version or known[1] is not order.rows or known[2] != start:
            keys = order.heap_keys(self.mask, start)
            known = self._heap_keys = (version, order.rows, start, keys)
        return known[3]

    def listed(self, order: ListOrder, start: int) -> IntArray:
        """The candidates in list order, kept likewise."""
        kept, version = self._listed, self.version
        if kept is None or kept[0] != version or kept[1] is not order.rows or kept[2] != start:
            kept = self._listed = (version, order.rows, start, order.listed(self.mask, start))
        return kept[3]

    def walk(self, order: ListOrder, start: int) -> IntArray:
        """The candidates by heap key, kept likewise."""
        kept, version = self._walk, self.version
        if kept is None or kept[0] != version or kept[1] is not order.rows or kept[2] != start:
            kept = self._walk = (version, order.rows, start, order.walk(self.mask, start))
        return kept[3]

    def first(self, order: ListOrder, start: int) -> int:
        """The candidate that a search from `start` finds first; there is one."""
        known, mask, listed = self._first, self.mask, order.rows
        if (
            known is None
            or known[0] is not listed
            or known[1] != start
            or known[2] != self._gained
            or not mask.item(listed.item(known[3]))
        ):
            place = -1
            if known is not None and known[0] is listed and known[1:3] == (start, self._gained):
                place = self._next_after(known[3], listed)
            if place < 0:
                place = order.first(mask, start)
            known = self._first = (listed, start, self._gained, place)
        return listed.item(known[3])

    def _next_after(self, place: int, listed: IntArray) -> int:
        """The next place with a candidate, if it is near; candidates were only lost since."""
        for near in range(place + 1, min(place + 64, len(listed))):
            if self.mask.item(listed.item(near)):
                return near
        return -1

    def per_domain(self, domains: Domains) -> list[int]:
        """How many candidates each domain has; do not change it."""
        if self.count == len(self.mask):
            return domains.sizes
        known, version = self._per_domain, self.version
        if known is None or known[0] != version or known[1] is not domains:
            counts = np.bincount(domains.codes.compress(self.mask), minlength=len(domains.sizes))
            known = self._per_domain = (version, domains, counts.tolist())
        return known[2]
