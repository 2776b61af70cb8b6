"""Dense JSON is read by pieces, to what msgspec reads it at once."""

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bayplan.api import json
from bayplan.api.schema.strict import duplicate_fields
from bayplan.errors import DecodeError

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
def test_pieces_say_what_the_whole_says(text):
    whole = msgspec.json.decode(text)

    # As text: that tells the order of keys, too, and 1 from 1.0 and true.
    assert msgspec.json.encode(json.by_pieces(text)) == msgspec.json.encode(whole)


@given(JSONS, st.integers(0, 1000), st.integers(0, 5), st.sampled_from(list('"[]{},:\\x1e ')))
def test_what_is_no_json_is_refused_either_way(text, place, much, instead):
    place %= len(text)
    text = text[:place] + instead.encode() + text[place + much :]
    whole = outcome(text)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json, "DENSE", 0)
        assert outcome(text) == whole


def outcome(text):
    try:
        return msgspec.json.encode(json.load(text))
    except DecodeError:
        return "refused"


def test_a_refusal_of_dense_json_has_the_same_words(monkeypatch):
    words = [said(text) for text in REFUSED]
    monkeypatch.setattr(json, "DENSE", 0)

    assert words == [said(text) for text in REFUSED]


REFUSED = [b"", b'{"a":', b'{"a":1} x', b"{a: 1}", b"[}", b'["\xff"]', b"[[1e999]]", b"[" * 5000]


def said(text):
    with pytest.raises(DecodeError) as told:
        json.load(text)
    return str(told.value)


@given(JSONS)
def test_what_stands_twice_is_found_however_it_is_read(text):
    value = msgspec.json.decode(text)
    assume(isinstance(value, dict))

    assert twice(text) == sorted(duplicate_fields(text, value))


def twice(text):
    """The paths of keys that stand twice, by the standard library's decoder."""
    import json as plain

    found = []

    def look(item, path):
        if isinstance(item, tuple):
            names = set()
            for key, each in item[0]:
                inner = f"{path}.{key}" if path else key
                found.extend([inner] * (key in names))
                names.add(key)
                look(each, inner)
        elif isinstance(item, list):
            for index, each in enumerate(item):
                look(each, f"{path}[{index}]")

    look(plain.loads(text, object_pairs_hook=lambda pairs: (pairs,)), "")
    return sorted(found)
