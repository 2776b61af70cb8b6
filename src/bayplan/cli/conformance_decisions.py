"""`bayplan conformance decisions`: recorded decisions of kube-scheduler, decided again.

A recording is a gzip file with a JSON object a line: the objects of a cluster, a pod, optionally a
configuration, and what kube-scheduler decided under `expect`. Only what `expect` names is compared.
`bayplan.conformance.compare` says what counts as equal.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from bayplan import packed
from bayplan.cli import values
from bayplan.config import FeatureGates, parse_version
from bayplan.conformance.compare import differences, leaving
from bayplan.errors import BayplanError

Body = dict[str, Any]
Decide = Callable[[Body], Body]
"""Takes a recorded decision and returns a body like `expect`."""

MAX_LINE = 256 << 20
FIRST_RECORDED = "1.36"
"""The version of recordings that name none."""


def read(path: Path) -> Iterator[Body]:
    """Yield the recorded decisions of a file, packed or plain."""
    try:
        with path.open("rb") as file:
            lines = packed.lines(file, MAX_LINE) if path.suffix == ".gz" else file
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _parse(line, path, number)
    except (OSError, packed.PackedError) as problem:
        raise unreadable(path, problem) from problem


def unreadable(path: Path, problem: object) -> BayplanError:
    """An error for a file that is no recording of decisions, which says how one is made."""
    return BayplanError(
        f'reading decisions from "{path}": {problem}; give a recording that `bayplan conformance '
        "record` has made, .jsonl or .jsonl.gz"
    )


def _parse(line: bytes, path: Path, number: int) -> Body:
    try:
        row: Body = dict(json.loads(line))
        missing = [key for key in ("id", "family", "objects", "pod", "expect") if key not in row]
    except (ValueError, TypeError) as problem:
        raise unreadable(path, f"line {number} is no JSON object") from problem
    if missing:
        raise unreadable(path, f"line {number}: {', '.join(missing)} missing")
    return row


def engine_decide(row: Body, version: str = "") -> Body:
    """Decide with the engine, as the version that was recorded or the one given does."""
    from bayplan.engine.replay import decide

    version = version or parse_version(row.get("version", FIRST_RECORDED))
    gates = FeatureGates(row.get("gates"), version)
    return decide(row["objects"], row["pod"], row.get("config"), gates=gates)


def replay(rows: Iterator[Body], decide: Decide, *, show: int) -> tuple[int, int]:
    """Compare all rows, print differences and agreement by family; return (agreeing, all)."""
    agreeing: Counter[str] = Counter()
    total: Counter[str] = Counter()
    shown = 0
    for row in rows:
        total[row["family"]] += 1
        try:
            lines = differences(
                row["expect"],
                decide(row),
                leaving(row),
            )
        except BayplanError as problem:
            lines = [f"the engine refused it: {problem}"]
        if not lines:
            agreeing[row["family"]] += 1
            continue
        shown += 1
        if shown <= show:
            click.echo(f"{row['id']} differs in {len(lines)} place(s):")
            for line in lines[:8]:
                click.echo(f"  {line}")
    if shown > show:
        click.echo(f"… and {shown - show} more decisions that differ (--show N shows more)")
    for family in sorted(total):
        click.echo(f"{family:<16} {agreeing[family]:>5}/{total[family]}")
    return agreeing.total(), total.total()


@click.command()
@click.argument("file", type=values.ReadFile(path=True))
@click.option(
    "--show",
    default=10,
    type=values.COUNT,
    show_default=True,
    help="How many differing decisions to print.",
)
@click.option("--family", multiple=True, help="Only this family of decisions; may be repeated.")
@click.option("--id", "ids", multiple=True, help="Only this decision; may be repeated.")
@click.option("--emulated-version", default="", type=values.VERSION,
              help="Decide as this version, not the recorded.")  # fmt: skip
def command(
    file: Path, show: int, family: tuple[str, ...], ids: tuple[str, ...], emulated_version: str
) -> None:
    """Decide recorded decisions of kube-scheduler again and compare.

    FILE is a .jsonl or .jsonl.gz recording. Exits 0 only when all decisions agree.
    """
    rows = (
        row
        for row in read(file)
        if (not family or row["family"] in family) and (not ids or row["id"] in ids)
    )
    version = parse_version(emulated_version) if emulated_version else ""
    agreeing, total = replay(rows, lambda row: engine_decide(row, version), show=show)
    if not total:
        known = sorted({row["family"] for row in read(file)})
        if not known:
            raise unreadable(file, "it holds none")
        raise BayplanError(f"{file}: none of its decisions is chosen; families: {', '.join(known)}")
    click.echo(f"agreement: {agreeing}/{total}")
    sys.exit(0 if agreeing == total else 1)
