"""Ties are broken as kube-scheduler's heap breaks them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.engine.cycle import choice
from bayplan.engine.cycle.choice import ListOrder, nodes_to_find, preorder_keys, sample
from bayplan.framework import NodeTable
from bayplan.testing import make_node


def heap_root(scores):
    """The index that Go's container/heap leaves at the root of a max-heap."""
    heap = list(enumerate(scores))

    def better(a, b):
        return heap[a][1] > heap[b][1]

    size = len(heap)
    for start in range(size // 2 - 1, -1, -1):
        parent = start
        while (child := 2 * parent + 1) < size:
            if child + 1 < size and better(child + 1, child):
                child += 1
            if not better(child, parent):
                break
            heap[parent], heap[child] = heap[child], heap[parent]
            parent = child
    return heap[0][0]


def order_of(count):
    table = NodeTable()
    for number in range(count):
        table.add_node(make_node(f"n{number}").build())
    return ListOrder().sync(table)


@given(scores=st.lists(st.integers(0, 3), min_size=1, max_size=70))
def test_the_first_in_preorder_is_the_root_of_the_heap(scores):
    ties = [place for place, score in enumerate(scores) if score == max(scores)]
    keys = preorder_keys(len(scores))

    assert heap_root(scores) == min(ties, key=lambda place: keys[place])


def test_keys_are_in_preorder_in_the_largest_clusters_too():
    """In preorder a node comes before its children, and all below the left one before the right."""
    keys = preorder_keys(1 << 18)
    place = np.arange(1, len(keys) + 1)  # as heaps are told that start at 1
    parents = place[: len(keys) // 2 - 1]
    left, right = 2 * parents, 2 * parents + 1
    last = left.copy()  # the last one below the left child
    while (2 * last + 1 <= len(keys)).any():
        last = np.where(2 * last + 1 <= len(keys), 2 * last + 1, last)

    assert (keys[parents - 1] < keys[left - 1]).all()
    assert (keys[last - 1] < keys[right - 1]).all()


CASE = st.lists(st.tuples(st.booleans(), st.integers(0, 2)), min_size=1, max_size=40)


@given(case=CASE, start=st.integers(0, 39), some=st.booleans())
def test_all_ways_to_the_first_agree_with_sorting(case, start, some):
    """With chunks of two rows, so that there are several in a small table."""
    count, start = len(case), start % len(case)
    whole = order_of(count)
    order = whole.of(whole.rows[::-1].copy()) if some else whole
    feasible = np.array([fits for fits, _ in case])
    totals = np.array([total for _, total in case])
    keys = preorder_keys(count).tolist()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(choice, "_CHUNK", 2)
        rolled = np.roll(order.rows, -start).tolist()
        listed = [row for row in rolled if feasible[row]]
        by_key = sorted(listed, key=lambda row: keys[listed.index(row)])

        assert listed == order.listed(feasible, start).tolist()
        assert by_key == order.walk(feasible, start).tolist()
        if listed:
            assert listed[0] == order.rows[order.first(feasible, start)]
        for top in range(3):
            best = [row for row in by_key if totals[row] == top]
            if best:
                found = order.leading(order.listed(feasible, start), totals, top).tolist()
                assert best[: len(found)] == found != []
            else:
                with pytest.raises(ValueError, match=f"no row has a total of {top}"):
                    order.leading(order.listed(feasible, start), totals, top)


def test_rows_from_a_place_on_are_rolled_once():
    order = order_of(5)
    turned = order.from_place(3)

    assert [3, 4, 0, 1, 2] == turned.tolist()
    assert turned is order.from_place(3)
    assert [1, 2, 3, 4, 0] == order.from_place(1).tolist()
    order.rows = order.rows[::-1]
    assert [3, 2, 1, 0, 4] == order.from_place(1).tolist()
    assert order.rows is order.from_place(0)


@given(case=CASE, start=st.integers(0, 39), wanted=st.integers(1, 6), limited=st.booleans())
def test_a_sample_is_what_a_walk_from_the_start_finds(case, start, wanted, limited):
    start %= len(case)
    order = order_of(len(case))
    feasible, within = (np.array(one) for one in ([f for f, _ in case], [t > 0 for _, t in case]))
    rows = [r for r in np.roll(order.rows, -start).tolist() if within[r] or not limited]
    found, seen = set(), set()
    for row in rows:
        if len(found) < wanted:
            seen.add(row)
            if feasible[row]:
                found.add(row)

    got = sample(order, feasible, start, wanted, within if limited else None)

    assert (found, seen) == tuple(set(np.flatnonzero(mask).tolist()) for mask in got[:2])
    assert len(seen) == got[2]


@given(data=st.data(), count=st.integers(1, 12), start=st.integers(0, 11))
def test_keys_follow_the_feasible_list_from_any_start(data, count, start):
    start %= count
    feasible = np.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    order = order_of(count)
    keys = order.heap_keys(feasible, start)
    rows = [row for row in np.roll(order.rows, -start).tolist() if feasible[row]]

    expected = preorder_keys(count)
    assert [int(expected[place]) for place in range(len(rows))] == [int(keys[row]) for row in rows]


@pytest.mark.parametrize(
    ("percentage", "count", "found"),
    [(0, 99, 99), (0, 100, 100), (0, 500, 230), (0, 1000, 420), (0, 5000, 500), (0, 6000, 300),
     (50, 1000, 500), (1, 1000, 100), (100, 5000, 5000), (99, 5000, 4950), (101, 5000, 5000),
     (0, 101, 100), (50, 201, 100), (50, 202, 101), (0, 250, 120), (0, 5500, 330), (0, 5625, 281),
     (0, 10_000, 500), (4, 5000, 200)],
)  # fmt: skip
def test_how_many_nodes_upstream_looks_for(percentage, count, found):
    assert found == nodes_to_find(percentage, count)


def test_a_sample_ends_with_the_last_node_found():
    order = order_of(6)
    feasible = np.array([True, False, True, True, False, True])
    found, seen, looked_at = sample(order, feasible, 1, 2, None)

    assert [2, 3] == np.flatnonzero(found).tolist()
    assert [1, 2, 3] == np.flatnonzero(seen).tolist()
    assert 3 == looked_at
