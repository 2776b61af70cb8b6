"""Sets of fields and what they are made of: unions, elements of lists, duplicates in them."""

from functools import reduce

import pytest

from bayplan.api.schema import Type, type_for
from bayplan.apiserver.apply import managed
from bayplan.apiserver.apply.fieldset import (
    difference,
    ensure_named,
    path_text,
    paths,
    union,
    union_of_all,
    without,
)
from bayplan.apiserver.apply.walk import (
    DEDUCED,
    MISSING,
    TypedError,
    _json,
    check,
    compare,
    element,
    merge,
    remove,
)

SERVICE = type_for("v1", "Service")
PORTS = SERVICE.fields["spec"].type.fields["ports"].type
FINALIZERS = SERVICE.fields["metadata"].type.fields["finalizers"].type
CONTAINERS = type_for("v1", "Pod").fields["spec"].type.fields["containers"].type
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


@pytest.mark.parametrize("count", range(1, 8))
def test_the_union_of_all_is_that_of_one_after_the_other(count):
    sets = [{f"f:{n % 3}": {f"f:{n}": LEAF}, "f:x": {}} for n in range(count)]

    assert list(reduce(union, sets).items()) == list(union_of_all(sets).items())


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
    assert 'k:{"port":1,"protocol":null}' == element(PORTS, {"port": 1, "protocol": None})


# What follows is as structured-merge-diff 6.3.3 (that of Kubernetes 1.36) says it.
@pytest.mark.parametrize(
    ("type_", "item", "text"),
    [
        (PORTS, "x", "associative list with keys may not have non-map elements"),
        (PORTS, None, "associative list with keys may not have a null element"),
        (
            CONTAINERS,
            {"image": "i"},
            'associative list with keys has an element that omits all key fields ["name"] '
            "(and doesn't have default values for any key fields)",
        ),
        (FINALIZERS, {}, "associative list without keys has an element that's a map type"),
        (FINALIZERS, [], "not supported: associative list with lists as elements"),
        (FINALIZERS, None, "associative list without keys has an element that's an explicit null"),
    ],
)
def test_items_that_cannot_be_told_apart_end_the_check_of_a_list(type_, item, text):
    with pytest.raises(TypedError) as caught:
        element(type_, item, 3)

    assert f"element 3: {text}" == str(caught.value)
    assert [f".a: element 0: {text}"] == check([item, item, 5], type_, ".a")


NESTED = {"b": None, "a": [True, 1.5, "q"]}


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("string", 1, "expected string, got &value.valueUnstructured{Value:1}"),
        ("string", 1e6, "expected string, got &value.valueUnstructured{Value:1e+06}"),
        ("bytes", True, "expected string, got &value.valueUnstructured{Value:true}"),
        (
            "time",
            NESTED,
            "expected string, got &value.valueUnstructured{Value:map[string]interface {}"
            '{"a":[]interface {}{true, 1.5, "q"}, "b":interface {}(nil)}}',
        ),
        ("int32", "x", "expected numeric (int or float), got string"),
        ("int64", True, "expected numeric (int or float), got bool"),
        ("number", [], "expected numeric (int or float), got []interface {}"),
        ("number", {}, "expected numeric (int or float), got map[string]interface {}"),
        ("boolean", 1, "expected boolean, got &{1}"),
        ("boolean", "x", "expected boolean, got &{x}"),
        ("quantity", NESTED, "expected any scalar, got &{map[a:[true 1.5 q] b:<nil>]}"),
        ("intorstring", [1, "<"], "expected any scalar, got &{[1 <]}"),
        ("map", 100000.0, "expected map, got &{100000}"),
        ("struct", [], "expected map, got &{[]}"),
        ("list", {}, "expected list, got &{map[]}"),
    ],
)
def test_values_of_another_kind_are_told_as_go_shows_them(kind, value, text):
    assert [f".a: {text}"] == check(value, Type(kind), ".a")
    assert [] == check(None, Type(kind), ".a")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("string", "x"),
        ("number", 1),
        ("number", 1.5),
        ("boolean", False),
        ("quantity", 1.5),
        ("quantity", "1"),
        ("intorstring", True),
        ("any", [1]),
        ("map", {}),
        ("list", []),
    ],
)
def test_values_of_their_kind_are_no_problem(kind, value):
    assert [] == check(value, Type(kind), ".a")


def test_what_is_wrong_in_a_list_is_told_by_its_item():
    numbers = Type("list", elem=Type("number"))

    assert [
        ".a[0]: expected numeric (int or float), got string",
        ".a[2]: expected numeric (int or float), got bool",
    ] == check(["x", 1, True], numbers, ".a")
    assert [
        '.a[="x"]: expected numeric (int or float), got string',
        ".a: duplicate entries for key [=1]",
    ] == check(["x", 1, 1], Type("list", elem=Type("number"), list_type="set"), ".a")


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
    assert [port(2)] == remove([port(2)], {KEY: LEAF}, PORTS)


def test_what_is_no_longer_an_object_stays_when_parts_of_it_are_removed():
    parts = {"f:a": {"f:x": LEAF}}

    for scalar in (5, "x", None, [1]):
        assert {"a": scalar, "b": 1} == remove({"a": scalar, "b": 1}, parts, DEDUCED)
    assert {"a": None, "b": 1} == remove({"a": {"x": 1}, "b": 1}, parts, DEDUCED)
    assert {"a": {"y": 1}} == remove({"a": {"x": 1, "y": 1}}, parts, DEDUCED)


def test_what_is_owned_as_a_whole_goes_as_a_whole():
    service = {"spec": {"selector": {"app": "x"}, "type": "ClusterIP"}}

    left = remove(service, {"f:spec": {"f:selector": {"f:app": LEAF}}}, SERVICE)

    assert {"spec": {"selector": None, "type": "ClusterIP"}} == left


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
