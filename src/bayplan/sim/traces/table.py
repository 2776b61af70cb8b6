"""CSV files with typed columns; every error names file, line and column."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path

from bayplan.errors import BayplanError
from bayplan.words import did_you_mean


class TraceError(BayplanError):
    """A trace is wrong; the text names file, line and column."""


class Row:
    """One line of a file."""

    def __init__(self, name: str, line: int, values: dict[str, str]) -> None:
        self._name = name
        self.line = line
        self._values = values

    def error(self, column: str, text: str) -> TraceError:
        return TraceError(f"{self._name}:{self.line}: column {column}: {text}")

    def text(self, column: str) -> str:
        return self._values.get(column, "").strip()

    def integer(self, column: str, default: int | None = None, *, least: int = 0) -> int:
        text = self.text(column)
        if not text and default is not None:
            return default
        try:
            value = int(float(text))
        except (ValueError, OverflowError):
            raise self.error(column, f'"{text}" is not a whole number') from None
        if value < least:
            raise self.error(column, f"{value} is less than {least}")
        return value

    def number(self, column: str, default: float | None = None) -> float:
        text = self.text(column)
        if not text and default is not None:
            return default
        try:
            value = float(text)
        except ValueError:
            raise self.error(column, f'"{text}" is not a number') from None
        if not 0 <= value < 1e12:
            raise self.error(column, f'"{text}" is not a number of at least 0')
        return value


def rows(path: Path, required: tuple[str, ...], known: tuple[str, ...] = ()) -> Iterator[Row]:
    """Read a file with a header; raises TraceError, if `known` are given also at other columns."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            yield from rows_of(file, str(path), required, known)
    except OSError as problem:
        raise TraceError(f"reading trace {path}: {problem.strerror}") from problem


def rows_of(
    lines: Iterable[str], name: str, required: tuple[str, ...], known: tuple[str, ...] = ()
) -> Iterator[Row]:
    """Read lines with a header, as `rows` does; errors call them `name`."""
    try:
        reader = csv.DictReader(lines)
        header = reader.fieldnames or []
        for column in required:
            if column not in header:
                raise TraceError(f'{name}:1: column "{column}" is missing')
        for place, column in enumerate(header if known else ()):
            if not column:
                raise TraceError(f"{name}:1: column {place + 1}: has no name")
            if column not in known:
                hint = did_you_mean(column, known) or f"; known: {', '.join(known)}"
                raise TraceError(f"{name}:1: column {column}: unknown{hint}")
        for values in reader:
            if None in values or None in values.values():
                raise TraceError(
                    f"{name}:{reader.line_num}: column {header[-1]}: "
                    f"the line has not {len(header)} columns as the header"
                )
            yield Row(name, reader.line_num, values)
    except (UnicodeDecodeError, csv.Error) as problem:
        raise TraceError(f"{name}: not a CSV text: {problem}") from problem
