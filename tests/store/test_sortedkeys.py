"""The ordered key set against Python's own sorting."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.store import sortedkeys
from bayplan.store.sortedkeys import SortedKeys, prefix_end

texts = st.text(alphabet="ab/\U0010ffff\ud7ffé", max_size=4)


@given(st.lists(st.tuples(st.booleans(), texts), max_size=80), texts, texts)
def test_sorted_keys_agree_with_a_sorted_set(
    changes: list[tuple[bool, str]], low: str, high: str
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sortedkeys, "BLOCK", 4)
        keys = SortedKeys(["b", "a"])
        expected = {"a", "b"}
        for add, key in changes:
            if add and key not in expected:
                keys.add(key)
                expected.add(key)
            elif not add and key in expected:
                keys.remove(key)
                expected.remove(key)

        within = sorted(key for key in expected if low <= key and (not high or key < high))
        assert within == list(keys.span(low, high))
        assert len(expected) == len(keys)
        if not high or low <= high:
            assert len(within) == keys.count(low, high)


@given(st.lists(texts), texts)
def test_prefix_end_bounds_exactly_the_prefix(keys: list[str], prefix: str) -> None:
    end = prefix_end(prefix)
    for key in keys:
        assert key.startswith(prefix) == (key >= prefix and (not end or key < end))


def test_blocks_split_in_the_middle_and_stay_in_order(monkeypatch) -> None:
    monkeypatch.setattr(sortedkeys, "BLOCK", 4)
    keys = SortedKeys("agm")  # two blocks: those of a and g, and that of m
    for key in "bcdefhijkl":
        keys.add(key)

    assert list("abcdefghijklm") == list(keys.span("", ""))
    assert [13, 6] == [len(keys), keys.count("d", "j")]
    for key in "agdm":
        keys.remove(key)
    assert list("bcefhijkl") == list(keys.span("", ""))


def test_removing_what_is_not_there_is_an_error() -> None:
    with pytest.raises(KeyError):
        SortedKeys(["a"]).remove("b")


@pytest.mark.parametrize(
    ("prefix", "end"),
    [("a", "b"), ("\ud7ff", "\ue000"), ("a\U0010ffff", "b"), ("\U0010ffff", ""), ("", "")],
    ids=["letter", "before the surrogates", "last of all", "nothing after", "empty"],
)
def test_what_comes_after_a_prefix(prefix: str, end: str) -> None:
    assert end == prefix_end(prefix)
