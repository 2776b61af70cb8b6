"""One reader of gzip that never unpacks more than it may."""

import gzip
import tracemalloc

import pytest

from bayplan import packed


def test_what_was_packed_comes_back():
    assert b"x" * 1000 == packed.unpack(packed.pack(b"x" * 1000), 1000)


@pytest.mark.parametrize("limit", [1 << 20, 256 << 20])
def test_a_bomb_costs_no_more_than_its_bound(limit):
    bomb = gzip.compress(b"\0" * (64 << 20))
    tracemalloc.start()

    with pytest.raises(packed.TooLargeError):
        packed.unpack(bomb, limit)

    assert tracemalloc.get_traced_memory()[1] < 40 << 20
    tracemalloc.stop()


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"not gzip", id="not gzip"),
        pytest.param(gzip.compress(b"x" * 100)[:-5], id="cut short"),
    ],
)
def test_what_is_not_whole_is_refused(data):
    with pytest.raises(packed.PackedError):
        packed.unpack(data, 1000)
