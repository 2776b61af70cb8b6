"""Rows that are alike have one number, others never."""

import random

from bayplan.cluster import kinds as module
from bayplan.cluster.table import NodeTable
from bayplan.framework import PodInfos
from bayplan.testing import make_node, make_pod


def changing_table(seed, steps):
    """A table in which nodes and pods come and go; told after each step."""
    draw, table, infos, placed = random.Random(seed), NodeTable(), PodInfos(), []
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


def test_rows_have_one_number_if_and_only_if_their_sums_are_equal(monkeypatch):
    monkeypatch.setattr(module, "_SPARE", 0)  # numbers without rows are forgotten at once
    for seed in range(20):
        for table, draw in changing_table(seed, 60):
            if draw.random() < 0.5:  # else several changes are followed together
                continue
            table.kinds.sync()
            sums = [table.sums_at(row) for row in range(table.count)]
            numbers = table.kinds.of[: table.count].tolist()
            assert len(set(zip(sums, numbers, strict=True))) == len(set(sums)) == len(set(numbers))


def test_groups_give_one_row_of_each_kind():
    table = NodeTable()
    for number in range(12):
        size = {"cpu": "4" if number % 3 else "8", "pods": "9"}
        table.add_node(make_node(f"n{number}").capacity(size).build())
    table.kinds.sync()
    rows, places = table.kinds.groups()
    of = table.kinds.of[: table.count]
    assert len(rows) == 2
    assert (of[rows][places] == of).all()


def test_rows_that_are_all_different_have_no_groups():
    table = NodeTable()
    for number in range(1, 9):
        table.add_node(make_node(f"n{number}").capacity({"cpu": str(number), "pods": "9"}).build())
    table.kinds.sync()
    assert table.kinds.groups() is None
