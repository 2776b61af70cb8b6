"""A heap gives pods in the order of their keys, then of their coming, however they come and go."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bayplan.engine.queue.heap import PodHeap
from bayplan.engine.queue.pods import Place, QueuedPod
from bayplan.testing import make_pod

MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("one"), st.integers(0, 3)),
        st.tuples(st.just("all"), st.lists(st.integers(0, 3), max_size=30)),
        st.tuples(st.just("next"), st.integers(0, 2)),
        st.tuples(st.just("while"), st.tuples(st.integers(0, 3), st.integers(0, 12))),
        st.tuples(st.just("remove"), st.integers(0, 1000)),
    ),
    max_size=25,
)


@given(MOVES)
def test_crowds_come_and_go_as_one_after_the_other(moves: list[tuple[str, Any]]) -> None:
    heap = PodHeap(Place.ACTIVE, lambda item: item.timestamp)
    waiting: list[QueuedPod] = []  # in the order in which they are to come out
    made = 0

    def new(key: int) -> QueuedPod:
        nonlocal made
        made += 1
        item = QueuedPod(make_pod(f"p{made}").build(), float(key))
        waiting.append(item)
        waiting.sort(key=lambda other: other.timestamp)  # which keeps the order of equals
        return item

    for what, given_ in moves:
        if what == "one":
            heap.push(new(given_))
        elif what == "all":
            heap.push_all([new(key) for key in given_])
        elif what == "next":
            for _ in range(given_):
                assert heap.pop() is (waiting.pop(0) if waiting else None)
        elif what == "while":
            below, most = given_
            found = heap.pop_while(lambda item, below=below: item.timestamp < below, most)
            expected = [item for item in waiting if item.timestamp < below][:most]
            assert found == expected
            assert all(item.place is Place.NOWHERE for item in found)
            del waiting[: len(expected)]
        elif waiting:
            heap.remove(waiting.pop(given_ % len(waiting)))
        assert len(heap) == len(waiting)
        assert heap.peek() is (waiting[0] if waiting else None)
        assert heap.upcoming(len(waiting)) == waiting


class Looked(float):
    """A key that counts how often it is looked at."""

    times = 0

    def __eq__(self, other: object) -> bool:
        Looked.times += 1
        return float(self) == other

    __hash__ = float.__hash__


def test_nothing_is_sorted_for_a_pod_that_is_not_wanted() -> None:
    heap = PodHeap(Place.ACTIVE, lambda item: Looked(item.timestamp))
    heap.push_all([QueuedPod(make_pod(f"p{n}").build(), float(n)) for n in range(50)])
    before = Looked.times

    assert [] == heap.pop_while(lambda item: False, 50)
    assert before == Looked.times
    assert 50 == len(heap.pop_while(lambda item: True, 50))
