"""Fields that stand twice in any JSON are found, as the standard library's decoder finds them."""

import json

import msgspec
from hypothesis import assume, example, given
from hypothesis import strategies as st

from bayplan.api.schema.strict import duplicate_fields

SPACE = st.text(" \t\r\n", max_size=2)
TEXTS = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=4).map(
        lambda text: msgspec.json.encode(text).decode()
    ),
    st.sampled_from(
        ['"\\"', '"\\\\', '"\\u00e9', '"\\ud83d\\ude00', '"[', '"]{', '"a,b', '":']
    ).map(lambda text: text + '"'),
)
SCALARS = st.one_of(
    TEXTS,
    st.integers(-(2**70), 2**70).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["null", "true", "false", "-0", "-0.0", "1E+5", "0e1", "1e-400"]),
)


def spaced(parts):
    return st.tuples(parts, SPACE, SPACE).map(lambda found: found[1] + found[0] + found[2])


def inside(items):
    many = st.integers(0, 3)
    lists = st.lists(spaced(items), max_size=20)
    pairs = st.tuples(spaced(TEXTS | st.just('"a"')), spaced(items)).map(":".join)
    return st.one_of(
        st.tuples(lists, many, SPACE).map(lambda of: f"[{','.join(of[0] * 4 ** of[1]) or of[2]}]"),
        st.tuples(st.lists(pairs, max_size=20), SPACE).map(
            lambda of: f"{{{','.join(of[0]) or of[1]}}}"
        ),
        st.tuples(st.integers(1, 12), items).map(lambda of: "[" * of[0] + of[1] + "]" * of[0]),
    )


JSONS = spaced(st.recursive(SCALARS, inside, max_leaves=30)).map(str.encode)


@given(JSONS)
@example(b'{"":{"":1,"":2}}')  # a path that began counts, though its text is empty
def test_what_stands_twice_is_found(text):
    value = msgspec.json.decode(text)
    assume(isinstance(value, dict))

    assert twice(text) == sorted(duplicate_fields(text, value))


def twice(text):
    """The paths of keys that stand twice, by the standard library's decoder."""
    found = []

    def look(item, path):
        if isinstance(item, tuple):
            names = set()
            for key, each in item[0]:
                inner = key if path is None else f"{path}.{key}"
                found.extend([inner] * (key in names))
                names.add(key)
                look(each, inner)
        elif isinstance(item, list):
            for index, each in enumerate(item):
                look(each, f"{path or ''}[{index}]")

    look(json.loads(text, object_pairs_hook=lambda pairs: (pairs,)), None)
    return sorted(found)
