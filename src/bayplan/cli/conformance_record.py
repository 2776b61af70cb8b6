"""`bayplan conformance record`: random cases with the real scheduler's answers, as a recording."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import click

from bayplan.cli import values
from bayplan.cli.conformance_fuzz import FAMILY, chosen_families
from bayplan.conformance import fuzz
from bayplan.conformance.oracle import Oracle, OracleFailed
from bayplan.words import plural


@click.command(short_help="Record what the real scheduler decides.")
@click.argument("file", type=values.WrittenFile())
@click.option("--oracle", "program", required=True, type=values.FILE,
              help="The program that `make oracle` builds.")  # fmt: skip
@click.option("--cases", "count", default=900, type=values.COUNT, show_default=True,
              help="How many cases to record.")  # fmt: skip
@click.option("--seed", default=1, show_default=True, help="Where the cases come from.")
@click.option(
    "--family", multiple=True, type=FAMILY, help="Only this family of cases; may be repeated."
)
def command(file: Path, program: str, count: int, seed: int, family: tuple[str, ...]) -> None:
    """Write random cases and what the real scheduler decides to FILE (.jsonl.gz).

    `conformance decisions FILE` replays them. Cases that the scheduler refuses are left out.
    """
    rows: list[str] = []
    with Oracle(program) as oracle:
        version = oracle.describe()["version"]
        for case in fuzz.cases(chosen_families(family), seed, 2 * count):
            if len(rows) == count:
                break
            try:
                expect = oracle.decide(case, tries=fuzz.MANY_TRIES)
            except OracleFailed:
                continue
            row = {**case, "version": fuzz.minor(version), "recorded": version, "expect": expect}
            rows.append(json.dumps(row, separators=(",", ":")))
    # without a time in the header the same cases give the same file
    file.write_bytes(gzip.compress("".join(f"{row}\n" for row in rows).encode(), mtime=0))
    click.echo(f"{plural(len(rows), 'decision')} of {version} written to {file}")
