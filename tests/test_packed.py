"""One reader of gzip that never unpacks more than it may."""

import gzip
import io
import random
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


def test_the_limit_is_the_last_length_that_is_read():
    data = gzip.compress(b"x" * 1000)

    assert 1000 == len(packed.unpack(data, 1000))
    with pytest.raises(packed.TooLargeError):
        packed.unpack(data, 999)


def test_what_was_packed_in_parts_is_read_as_one_and_bounded_as_one():
    data = gzip.compress(b"x" * 600) + gzip.compress(b"y" * 400) + b"\0\0"

    assert b"x" * 600 + b"y" * 400 == packed.unpack(data, 1000)
    with pytest.raises(packed.TooLargeError):
        packed.unpack(data, 999)
    with pytest.raises(packed.PackedError):
        packed.unpack(data + b"rubbish", 1 << 20)


def test_lines_are_read_one_by_one():
    data = gzip.compress(b"a\nbb\n\n") + gzip.compress(b"c\nlast")

    assert [b"a\n", b"bb\n", b"\n", b"c\n", b"last"] == list(packed.lines(io.BytesIO(data), 10))


def test_a_line_may_be_as_long_as_the_limit():
    data = gzip.compress(b"a" * 9 + b"\n" + b"b" * 10)

    assert [10, 10] == [len(line) for line in packed.lines(io.BytesIO(data), 10)]
    with pytest.raises(packed.TooLargeError):
        list(packed.lines(io.BytesIO(data), 9))


def test_lines_of_what_was_cut_off_come_before_the_error():
    data = gzip.compress(b"".join(b"%d\n" % i for i in range(9999)))[:-100]
    found: list[bytes] = []

    with pytest.raises(packed.CutOffError):
        found.extend(packed.lines(io.BytesIO(data), 100))

    assert b"0\n" == found[0]
    assert len(found) > 5000


def test_a_line_that_is_a_bomb_costs_no_more_than_its_bound():
    bomb = gzip.compress(b"\0" * (64 << 20))
    tracemalloc.start()

    with pytest.raises(packed.TooLargeError):
        list(packed.lines(io.BytesIO(bomb), 1 << 20))

    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("between", [b"", b"\0", b"\0" * 3000], ids=["bare", "zero", "zeros"])
def test_many_small_parts_cost_their_length_and_not_its_square(between, monkeypatch):
    fed, unpack = [], packed._decompress
    monkeypatch.setattr(
        packed,
        "_decompress",
        lambda stream, data, limit: fed.append(len(data)) or unpack(stream, data, limit),
    )
    data = (gzip.compress(b"") + between) * 4096

    assert b"" == packed.unpack(data, 1000)
    assert sum(fed) <= 4096 * 512


def test_a_body_of_too_many_parts_is_refused():
    with pytest.raises(packed.PackedError, match="more than 4096 parts"):
        packed.unpack(gzip.compress(b"") * 4097, 1000)


@pytest.mark.parametrize("size", [511, 512, 513, 100_000])
def test_parts_end_anywhere(size):
    text = random.Random(size).randbytes(size)
    data = gzip.compress(text) + gzip.compress(b"") + b"\0" * 600 + gzip.compress(text[::-1])

    assert text + text[::-1] == packed.unpack(data, 2 * size)
