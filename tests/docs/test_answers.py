"""The page about answers as data names every field that they have, and no other."""

import re

import msgspec
import pytest

from bayplan.inspect.cluster import Unread
from bayplan.inspect.why import (
    Answer,
    Fix,
    FunnelRow,
    Group,
    Judged,
    Near,
    OwnerAnswer,
    Pending,
    Score,
)
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "reference" / "answers.md").read_text("utf-8")
HEADINGS = {
    "One pod": Answer,
    "One node": Judged,
    "All pending pods": Pending,
}
ROWS = {"a row of `funnel`": FunnelRow, "one of `nearest`": Near, "one of `scores`": Score,
        "one of `fixes`": Fix, "`groups`": Group, "`unread`": Unread}  # fmt: skip


def fields(struct):
    return {field.encode_name for field in msgspec.structs.fields(struct)}


def section(heading):
    return PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("heading", HEADINGS)
def test_a_table_has_every_field(heading):
    rows = [line.split("|")[1] for line in section(heading).splitlines() if line.startswith("| `")]
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]

    assert fields(HEADINGS[heading]) == set(named)
    assert len(named) == len(set(named))


@pytest.mark.parametrize("row", ROWS)
def test_a_part_has_every_field(row):
    text = next(line for line in PAGE.splitlines() if line.startswith(f"| {row} |"))
    named = set(re.findall(r"`(\w+)`", text.partition(row)[2]))

    assert fields(ROWS[row]) <= named


def test_an_owner_has_every_field():
    named = set(re.findall(r"`(\w+)`", section("An owner")))

    assert fields(OwnerAnswer) == named
