"""Equal elements end up where Go's sort leaves them: a table made by the real one (go1.26).

A row is [keys, restless keys, order]. `tests/kube/test_go_sort.py` asks Go itself.
"""

import json
from pathlib import Path
from random import Random

import pytest

from bayplan.plugins import go_sort
from bayplan.plugins.go_sort import go_sorted

TABLE = Path(__file__).with_name("go_sort.jsonl")
ROWS = [json.loads(line) for line in TABLE.read_text().splitlines()]


def drawn(random: Random) -> tuple[list[int], list[int]]:
    """Keys with ties in patterns that the sort treats apart, and which of them are restless."""
    count = random.choice((random.randrange(1, 13), random.randrange(13, 61), 120))
    kinds = random.choice((1, 2, 3, 5, 20, 2 * count))
    keys = [random.randrange(kinds) for _ in range(count)]
    pattern = random.choice(("random", "rising", "falling", "strays", "cycle", "roof", "valley"))
    if pattern in ("rising", "strays"):
        keys.sort()
    if pattern == "strays":
        for _ in range(random.randrange(1, 8)):
            a, b = random.randrange(count), random.randrange(count)
            keys[a], keys[b] = keys[b], keys[a]
    if pattern == "falling":
        keys.sort(reverse=True)
    if pattern == "cycle":
        keys = [place * place % (kinds + 1) for place in range(count)]
    if pattern == "roof":
        keys = [min(place, count - 1 - place) for place in range(count)]
    if pattern == "valley":
        keys = [max(place, count - 1 - place) // 2 for place in range(count)]
    rest = [key for key in sorted(set(keys)) if random.random() < 0.3]
    return keys, rest if random.random() < 0.3 else []


def ours(keys, restless):
    return go_sorted(range(len(keys)), keys, [key in restless for key in keys])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{len(row[0])}-{sum(row[0])}")
def test_as_the_real_sort(row):
    keys, restless, order = row
    assert ours(keys, restless) == order


def test_the_table_reaches_every_step_of_the_sort(monkeypatch):
    reached = set()
    steps = ("_insert", "_heap_sort", "_stir", "_nearly_sorted", "_skip_equal", "_split")

    def watch(name, step):
        def run(*args):
            reached.add(name)
            return step(*args)

        monkeypatch.setattr(go_sort, name, run)

    for name in steps:
        watch(name, getattr(go_sort, name))
    for keys, restless, _ in ROWS:
        ours(keys, restless)

    assert reached == set(steps)


def test_the_table_shows_that_the_sort_is_not_stable():
    moved = [
        (keys, restless)
        for keys, restless, order in ROWS
        if sorted(range(len(keys)), key=keys.__getitem__) != order
    ]

    assert len(moved) > len(ROWS) / 3
    assert all(restless or len(keys) > 12 for keys, restless in moved)


def test_few_or_different_elements_are_sorted_plainly(monkeypatch):
    monkeypatch.setattr(go_sort, "_sort", None)
    random = Random(7)
    few = [random.randrange(3) for _ in range(12)]
    different = random.sample(range(500), 200)

    for keys in (few, different, []):
        assert ours(keys, []) == sorted(range(len(keys)), key=keys.__getitem__)
