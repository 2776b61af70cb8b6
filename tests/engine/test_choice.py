"""Ties are broken as kube-scheduler's heap breaks them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
     (50, 1000, 500), (1, 1000, 100), (100, 5000, 5000)],
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
