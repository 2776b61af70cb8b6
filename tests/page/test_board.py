"""Rows in slots, frames of changes, and a history that stays bounded."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from bayplan.api import Condition
from bayplan.page.board import POD_FLAGS, PODS, Board
from bayplan.page.rows import DISRUPTED, GHOST, NODE_FIELDS, PLACE, POD_FIELDS, UNSCHEDULABLE
from bayplan.testing import make_node, make_pod

FLAGS = NODE_FIELDS.index("flags")


class Clock:
    def __init__(self):
        self.time = 100.0

    def __call__(self):
        return self.time


def board(**options):
    return Board(Clock(), **options)


def rows_of(table):
    return {str(row[0]): row for row in table.rows if row is not None}


def test_a_pod_that_names_an_unknown_node_makes_a_ghost_that_goes_with_it():
    found = board()
    pod = make_pod("a").node("n1").build()
    found.put(pod)

    assert int(rows_of(found.nodes)["n1"][FLAGS]) & GHOST

    found.delete(pod)
    assert rows_of(found.nodes) == {}


def test_a_node_that_goes_while_it_has_pods_stays_as_a_ghost():
    found = board()
    node, pod = make_node("n1").build(), make_pod("a").node("n1").build()
    found.put(node)
    found.put(pod)
    found.delete(node)

    assert int(rows_of(found.nodes)["n1"][FLAGS]) & GHOST

    found.put(node)
    assert not int(rows_of(found.nodes)["n1"][FLAGS]) & GHOST


def test_a_write_that_changes_nothing_that_is_shown_makes_no_frame():
    found = board()
    found.put(make_node("n1").build())
    found.frame()
    found.put(make_node("n1").annotate({"heartbeat": "2"}).build())

    assert found.frame() is None


def test_nodes_come_before_the_pods_that_name_them():
    found = board()
    found.put(make_pod("a").node("n1").build())
    frame = found.frame()

    assert [change[0] for change in frame.changes] == [0, 1]


def test_a_place_from_the_queue_replaces_what_the_object_tells():
    found = board()
    found.put(make_pod("a").build())
    (slot,) = found.waiting
    found.place(slot, UNSCHEDULABLE)

    assert found.pods.rows[slot][PLACE] == UNSCHEDULABLE
    assert found.key_of(slot) == "default/a"


def test_texts_that_nobody_uses_are_forgotten_and_followers_begin_anew(monkeypatch):
    found = board()
    monkeypatch.setattr("bayplan.page.board.MOST_TEXTS", 20)
    for number in range(40):
        pod = make_pod(f"p{number}").label(version=str(number)).build()
        found.put(pod)
        if number:
            found.delete(make_pod(f"p{number - 1}").build())
    found.frame()

    assert found.epoch == 1
    assert len(found.texts.all) < 10
    row = rows_of(found.pods)["p39"]
    assert found.texts.all[int(row[POD_FIELDS.index("labels")])] == "version=39"


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 12))
def test_the_start_and_all_frames_make_the_present(seed, most):
    """Whatever happens and however little is kept, the history leads to what is there now."""
    rng = random.Random(seed)
    found = board(most_changes=most)
    for _ in range(rng.randrange(60)):
        name = f"x{rng.randrange(5)}"
        if rng.random() < 0.3:
            item = make_node(name).build()
        else:
            item = make_pod(name).node(rng.choice(["", "x1", "x2", "gone"])).build()
        (found.delete if rng.random() < 0.4 else found.put)(item)
        if rng.random() < 0.4:
            found.frame()
    found.frame()

    tables = [list(found.start[0]), list(found.start[1])]
    for frame in found.frames:
        for table, slot, row in frame.changes:
            tables[table].extend([None] * (slot + 1 - len(tables[table])))
            tables[table][slot] = row
    for table, now in zip(tables, (found.nodes.rows, found.pods.rows), strict=True):
        table.extend([None] * (len(now) - len(table)))

        assert table == now
    waiting = {slot for slot, row in enumerate(found.pods.rows) if row is not None and not row[2]}
    assert waiting == found.waiting
    assert PODS == 1


def test_a_pod_that_is_evicted_and_gone_within_one_frame_is_told_as_both():
    found = board()
    pod = make_pod("a").node("n1").build()
    found.put(pod)
    found.frame()
    target = Condition(type="DisruptionTarget", status="True", reason="EvictionByEvictionAPI")
    evicted = replace(pod, status=replace(pod.status, conditions=(target,)))
    found.put(evicted)
    found.delete(evicted)
    frame = found.frame()

    told = [row and int(row[POD_FLAGS]) & DISRUPTED for table, _, row in frame.changes if table]

    assert told == [DISRUPTED, None]


def test_an_eviction_that_was_told_is_not_told_again():
    found = board()
    target = Condition(type="DisruptionTarget", status="True")
    pod = make_pod("a").node("n1").build()
    evicted = replace(pod, status=replace(pod.status, conditions=(target,)))
    found.put(evicted)
    found.frame()
    found.delete(evicted)

    assert [row for table, _, row in found.frame().changes if table] == [None]
