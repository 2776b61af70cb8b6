"""YAML is read and written as Kubernetes' Go programs do."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.api import yaml
from bayplan.errors import DecodeError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("y", True),
        ("No", False),
        ("OFF", False),
        ("'y'", "y"),
        ("yEs", "yEs"),
        ("~", None),
        ("", None),
        ("12:30:45", "12:30:45"),
        ("2001-01-01", "2001-01-01"),
        ("2001-01-01T00:00:00Z", "2001-01-01T00:00:00Z"),
        ("1e3", 1000),
        ("017", 15),
        ("0o17", 15),
        ("08", 8),
        ("0x1F", 31),
        ("0b11", 3),
        ("1_000", 1000),
        ("-1.50", -1.5),
        (".5", 0.5),
        ("1.0", 1),
        ("1.2.3", "1.2.3"),
        ("100m", "100m"),
        ("deadbeef", "deadbeef"),
        ("18446744073709551615", 18446744073709551615),
        ("!!str 12", "12"),
        ("!!binary aGk=", "hi"),
        ("!other x", "x"),
    ],
)
def test_scalar_is_resolved_by_gos_rules(text, value):
    document = yaml.load(f"a: {text}\n")

    assert {"a": value} == document


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\na: 2", 'yaml: line 2: key "a" already set in map'),
        ("a: b: c", "yaml: line 1: mapping values are not allowed in this context"),
        ("a: &x [*x]", "yaml: an anchor's value contains itself"),
        ("a: &x {<<: *x}", "yaml: an anchor's value contains itself"),
        ("a: &x {<<: [{b: 1}, *x]}", "yaml: an anchor's value contains itself"),
        ("a: .nan", "yaml: line 1: json: unsupported value: nan"),
        ("a: !!bool foo", "yaml: line 1: cannot decode !!str `foo` as a !!bool"),
        ("? [a]\n: 1", "yaml: line 1: invalid map key: it must be a scalar"),
        ("a: 1\n---\nb: 2", "yaml: expected a single document in the stream, but found another"),
        pytest.param("a: \x00", "yaml: unacceptable character", id="a zero byte"),
    ],
)
def test_bad_document_names_the_line(text, message):
    with pytest.raises(DecodeError) as caught:
        yaml.load(text)

    assert message in str(caught.value)


def test_alias_bomb_is_refused():
    lines = ["a: &a [1,1,1,1,1,1,1,1,1,1]"]
    for this, last in zip("bcdefghi", "abcdefgh", strict=True):
        lines.append(f"{this}: &{this} [{','.join(['*' + last] * 10)}]")

    with pytest.raises(DecodeError, match="excessive aliasing"):
        yaml.load("\n".join(lines))


def test_keys_become_strings_and_merge_keys_do_not_clash():
    document = yaml.load("1: one\ntrue: t\nbase: &b {x: 1, z: 0}\nuse: {<<: *b, x: 2}\n")

    assert document == {"1": "one", "true": "t", "base": {"x": 1, "z": 0}, "use": {"x": 2, "z": 0}}


def test_empty_documents_are_left_out():
    assert yaml.load_all("---\n---\na: 1\n---\n\n---\nb: 2\n") == [{"a": 1}, {"b": 2}]


def test_dump_quotes_what_would_be_read_otherwise():
    text = yaml.dump({"a": "y", "b": ["1e3", "2001-01-01"], "c": "x\ny\n", "d": 0.5, "e": "1.2.3"})

    assert text == 'a: "y"\nb:\n- "1e3"\n- "2001-01-01"\nc: |\n  x\n  y\nd: 0.5\ne: 1.2.3\n'


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False).filter(
        lambda n: not n.is_integer() and math.isfinite(n)
    )
    | st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn", "Co"]))
)
data = st.recursive(
    scalars,
    lambda inner: st.lists(inner) | st.dictionaries(st.text("abcyn01.-: ", max_size=5), inner),
    max_leaves=8,
)


@given(data)
def test_dump_and_load_give_the_same_data(value):
    again = yaml.load(yaml.dump({"v": value}))

    assert json.dumps({"v": value}, sort_keys=True) == json.dumps(again, sort_keys=True)
