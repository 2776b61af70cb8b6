"""Rows that are alike have one number, others never."""

import random

from bayplan.cluster.limits import Limits
from bayplan.cluster.table import NodeTable
from bayplan.framework import PodInfos
from bayplan.testing import make_node, make_pod


def changing_table(seed, steps):
    """A table in which nodes and pods come and go; told after each step."""
    draw, infos, placed = random.Random(seed), PodInfos(), []
    table = NodeTable(
        Limits(alike=0, changes=2, journal=3)
    )  # numbers without rows are forgotten at once
    for step in range(steps):
        kind = draw.choice(("node", "node", "pod", "pod", "pod", "gone", "left"))
        if kind == "node":
            size = {"cpu": draw.choice("48"), "pods": "9"}
            table.add_node(make_node(f"n{draw.randrange(8)}").capacity(size).build())
        elif kind == "left" and table.count:
            table.remove_node(table.name_of(draw.randrange(table.count)))
        elif kind == "pod" and table.count:
            asked = make_pod(f"p{step}").req({"cpu": draw.choice("12")}).build()
            placed.append(infos.make(asked, table.name_of(draw.randrange(table.count))))
            table.add_pod(placed[-1])
        elif kind == "gone" and placed:
            table.remove_pod(placed.pop(draw.randrange(len(placed))))
        yield table, draw


def test_rows_have_one_number_if_and_only_if_their_sums_are_equal():
    for seed in range(20):
        for table, draw in changing_table(seed, 60):
            if draw.random() < 0.5:  # else several changes are followed together
                continue
            table.kinds.sync()
            sums = [table.sums_at(row) for row in range(table.count)]
            numbers = table.kinds.of.tolist()
            assert len(set(zip(sums, numbers, strict=True))) == len(set(sums)) == len(set(numbers))
            assert max(numbers, default=-1) < table.kinds.size


def test_within_an_era_a_number_stands_for_the_same_sums():
    eras = set()
    for seed in range(20):
        meant = {}
        for table, _ in changing_table(seed, 60):
            table.kinds.sync()
            eras.add(table.kinds.era)
            for row, number in enumerate(table.kinds.of.tolist()):
                sums = table.sums_at(row)
                assert meant.setdefault((table.kinds.era, number), sums) == sums
    assert len(eras) > 1


def test_one_row_of_each_kind_is_told():
    table = NodeTable()
    for number in range(12):
        size = {"cpu": "4" if number % 3 else "8", "pods": "9"}
        table.add_node(make_node(f"n{number}").capacity(size).build())
    table.kinds.sync()
    kinds, rows = table.kinds.in_use()
    assert [0, 1] == kinds.tolist() == table.kinds.of[rows].tolist()
    assert [0, 1] == [table.kinds.of.item(row) for row in table.kinds.rows_of([0, 1])]


def test_whoever_follows_the_births_knows_every_kind_that_rows_have():
    for seed in range(20):
        known, stamp, era = set(), None, -1
        for table, draw in changing_table(seed, 60):
            if draw.random() < 0.3:
                continue
            kinds = table.kinds
            kinds.sync()
            if kinds.era != era:
                known, stamp, era = set(), None, kinds.era
            born = None if stamp is None else kinds.born(stamp)
            alive = kinds.in_use()[0].tolist() if born is None else born
            for kind in alive:
                rows = kinds.rows_of([kind])
                assert all(kinds.of.item(row) == kind for row in rows)
                known |= {kind} if rows else set()
            stamp = kinds.births.generation
            assert set(kinds.of.tolist()) <= known
