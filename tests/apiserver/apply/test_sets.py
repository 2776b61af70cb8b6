"""Sets of fields and what they are made of: unions, elements of lists, duplicates in them."""

import pytest

from bayplan.api.schema import type_for
from bayplan.apiserver.apply import managed
from bayplan.apiserver.apply.fieldset import (
    difference,
    ensure_named,
    path_text,
    paths,
    union,
    without,
)
from bayplan.apiserver.apply.walk import (
    MISSING,
    TypedError,
    _json,
    compare,
    element,
    merge,
    remove,
)

SERVICE = type_for("v1", "Service")
PORTS = SERVICE.fields["spec"].type.fields["ports"].type
FINALIZERS = SERVICE.fields["metadata"].type.fields["finalizers"].type
LEAF = {}
KEY = 'k:{"port":1,"protocol":"TCP"}'


def port(number=1, **more):
    return {"port": number, "protocol": "TCP", **more}


@pytest.mark.parametrize(
    ("left", "right", "both"),
    [
        (LEAF, LEAF, LEAF),
        (LEAF, {"f:b": LEAF}, {".": LEAF, "f:b": LEAF}),
        ({"f:b": LEAF}, LEAF, {".": LEAF, "f:b": LEAF}),
        (LEAF, {".": LEAF, "f:b": LEAF}, {".": LEAF, "f:b": LEAF}),
        ({"f:b": LEAF}, {"f:c": LEAF}, {"f:b": LEAF, "f:c": LEAF}),
        ({"f:b": LEAF}, {".": LEAF, "f:c": LEAF}, {".": LEAF, "f:b": LEAF, "f:c": LEAF}),
    ],
)
def test_a_path_stays_in_a_union_with_those_below_it(left, right, both):
    assert {"f:a": both} == union({"f:a": left}, {"f:a": right})


def test_what_is_taken_out_of_a_set():
    items = {"f:a": {".": LEAF, "f:b": LEAF, "f:c": LEAF}, "f:d": {"f:e": LEAF}}

    assert {"f:a": {"f:b": LEAF, "f:c": LEAF}} == difference(
        items, {"f:a": LEAF, "f:d": items["f:d"]}
    )
    assert items == difference(items, {})
    assert items == without(items, "f:x")
    assert {"f:a": {".": LEAF, "f:c": LEAF}, "f:d": {"f:e": LEAF}} == without(items, "f:a", "f:b")
    assert {"f:a": items["f:a"]} == without(items, "f:d")
    assert {"f:a": items["f:a"]} == without(items, "f:d", "f:e")
    assert [("f:a",), ("f:a", "f:b"), ("f:a", "f:c"), ("f:d", "f:e")] == list(paths(items))


def test_declared_fields_are_members_where_something_below_them_is():
    items = {"f:spec": {"f:ports": {KEY: {"f:name": LEAF}}, "f:odd": {"f:x": LEAF}}}

    assert {
        "f:spec": {
            ".": LEAF,
            "f:ports": {".": LEAF, KEY: {"f:name": LEAF}},
            "f:odd": {"f:x": LEAF},
        }
    } == ensure_named(items, SERVICE)


@pytest.mark.parametrize(
    ("value", "text"),
    [("a", "a"), ("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026"), ("é", "é")],
    ids=["plain", "less", "more", "and", "no ASCII"],
)
def test_elements_are_written_as_go_does(value, text):
    assert f'v:"{text}"' == element(FINALIZERS, value)
    assert f'k:{{"port":1,"protocol":"{text}"}}' == element(PORTS, {"port": 1, "protocol": value})


def test_a_key_that_is_left_out_has_its_default():
    assert KEY == element(PORTS, {"port": 1})
    with pytest.raises(TypedError, match="element 3: a list with keys may only hold objects"):
        element(PORTS, "x", 3)
    for odd in ({}, [], None):
        with pytest.raises(TypedError, match="element 2: a set may only hold scalars"):
            element(FINALIZERS, odd, 2)


NAMED = {".": LEAF, "f:name": LEAF, "f:port": LEAF, "f:protocol": LEAF}


@pytest.mark.parametrize(
    ("old", "new", "removed", "modified", "added"),
    [
        pytest.param([port()], [port()], {}, {}, {}, id="the same"),
        pytest.param([port(name="a")], [port(name="b")], {}, {KEY: {"f:name": LEAF}}, {}, id="one"),
        pytest.param([], [port(name="a")], {}, {}, {KEY: NAMED}, id="a new one"),
        pytest.param([port(name="a")], [], {KEY: NAMED}, {}, {}, id="one less"),
        pytest.param([port(name="a")] * 2, [port(name="a")] * 2, {}, {}, {}, id="the same two"),
        pytest.param(
            [port(name="a")] * 2, [port(name="a"), port(name="b")], {}, {KEY: LEAF}, {}, id="two"
        ),
        pytest.param(
            [port(name="a")] * 2, [port(name="a")], {KEY: LEAF}, {}, {KEY: NAMED}, id="two, one"
        ),
        pytest.param([port(name="a")] * 2, [], {KEY: LEAF}, {}, {}, id="two, none"),
        pytest.param(
            [port(name="a")], [port(name="a")] * 2, {KEY: NAMED}, {}, {KEY: LEAF}, id="one, two"
        ),
        pytest.param([], [port(name="a")] * 2, {}, {}, {KEY: LEAF}, id="none, two"),
    ],
)
def test_lists_with_duplicates_are_compared_as_wholes(old, new, removed, modified, added):
    found = compare({"spec": {"ports": old}}, {"spec": {"ports": new}}, SERVICE)

    def below(items):
        return items.get("f:spec", {}).get("f:ports", {})

    assert (removed, modified, added) == tuple(map(below, found))


@pytest.mark.parametrize(
    ("old", "new", "merged"),
    [
        (MISSING, MISSING, MISSING),
        (MISSING, [port()], [port()]),
        ([port(name="a")], MISSING, [port(name="a")]),
        ([port(name="a", nodePort=5)], [port(name="b")], [port(name="b", nodePort=5)]),
        ([port(1), port(2)], [port(3), port(2)], [port(1), port(3), port(2)]),
        ([port(1), port(2), port(3)], [port(3), port(1)], [port(2), port(3), port(1)]),
        ([port(1, name="a"), port(1, name="b")], [port(1, nodePort=5)], [port(1, nodePort=5)]),
    ],
)
def test_lists_are_merged_by_their_keys(old, new, merged):
    assert merged == merge(old, new, PORTS)


def test_what_is_removed_of_a_list():
    items = [port(1, name="a"), port(2, name="b")]

    assert [port(2, name="b")] == remove(items, {KEY: LEAF}, PORTS)
    assert [port(1), port(2, name="b")] == remove(items, {KEY: {"f:name": LEAF}}, PORTS)
    assert MISSING is remove([port(1)], {KEY: LEAF}, PORTS)
    assert ["b"] == remove(["a", "b"], {'v:"a"': LEAF}, FINALIZERS)


@pytest.mark.parametrize(
    ("fields", "valid"), [(None, True), ({}, True), ({"f:a": {}}, True), ("x", False), ([], False)]
)
def test_fields_of_a_manager_are_an_object_or_not_there(fields, valid):
    entry = {
        "manager": "m",
        "operation": "Apply",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }

    found = managed.read([entry])

    assert valid is (found is not None)
    if valid:
        assert [fields or {}] == [owner.fields for owner in found.values()]


def test_a_path_is_told_as_it_was_written():
    path = ("f:spec", 'k:{"name":"ü","port":1}', 'v:"é"', "i:3")

    assert '.spec[name="ü",port=1][="é"][3]' == path_text(path)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("é<", '"é\\u003c"'),
        ({"b": "é", "a": 1}, '{"a":1,"b":"é"}'),
        (["é", True], '["é",true]'),
        ({"b": ["é&"], "a": 1.5}, '{"a":1.5,"b":["é\\u0026"]}'),
    ],
    ids=["text", "keys", "list", "nested"],
)
def test_values_in_paths_are_written_as_go_writes_them(value, text):
    assert text == _json(value)


def test_keys_are_shown_in_the_letters_they_were_written_in():
    assert '[name="é",port=80]' == path_text(('k:{"name":"é","port":80}',))
