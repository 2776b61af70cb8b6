"""JSON patch, merge patch and strategic merge patch on plain dicts."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.api.patch import (
    BadPatch,
    PatchError,
    PatchNotApplicable,
    PatchTooLarge,
    apply_json_patch,
    apply_merge_patch,
    apply_strategic_merge,
    clone,
    same,
)
from bayplan.api.schema import type_for

DEPLOYMENT = type_for("apps/v1", "Deployment")
POD = type_for("v1", "Pod")
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.text(max_size=3))
JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=10,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), JSON, max_size=3)


# -- merge patch (RFC 7386, appendix A) ---------------------------------------------------------


@pytest.mark.parametrize(
    ("doc", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patches_follow_the_rfc(doc, patch, result):
    before = copy.deepcopy(doc)

    assert result == apply_merge_patch(doc, patch)
    assert before == doc


@given(OBJECTS, OBJECTS)
def test_a_merge_patch_applied_twice_changes_nothing_more(doc, patch):
    once = apply_merge_patch(doc, patch)

    assert without_nulls(once) == without_nulls(apply_merge_patch(once, patch))


def without_nulls(value):
    """Nulls inside lists are kept or dropped depending on what was there before, as upstream."""
    if isinstance(value, dict):
        return {k: without_nulls(v) for k, v in value.items() if v is not None}
    return [without_nulls(v) for v in value] if isinstance(value, list) else value


@given(OBJECTS)
def test_an_empty_merge_patch_changes_nothing(doc):
    assert doc == apply_merge_patch(doc, {})


@pytest.mark.parametrize("patch", [None, [], "x", 1])
def test_a_merge_patch_must_be_an_object(patch):
    with pytest.raises(BadPatch):
        apply_merge_patch({}, patch)


# -- JSON patch (RFC 6902 and upstream's liberties) ---------------------------------------------


@pytest.mark.parametrize(
    ("doc", "ops", "result"),
    [
        ({"a": 1}, [{"op": "add", "path": "/b", "value": 2}], {"a": 1, "b": 2}),
        ({"a": [1, 2]}, [{"op": "add", "path": "/a/1", "value": 9}], {"a": [1, 9, 2]}),
        ({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 9}], {"a": [1, 9]}),
        ({"a": [1, 2]}, [{"op": "remove", "path": "/a/-1"}], {"a": [1]}),
        ({"a": 1}, [{"op": "replace", "path": "/b", "value": 2}], {"a": 1, "b": 2}),
        ({"a": {"x": 1}}, [{"op": "move", "from": "/a/x", "path": "/y"}], {"a": {}, "y": 1}),
        ({"a": [1]}, [{"op": "copy", "from": "/a", "path": "/b"}], {"a": [1], "b": [1]}),
        ({"a/b": 1}, [{"op": "remove", "path": "/a~1b"}], {}),
        ({}, [{"op": "test", "path": "/none", "value": None}], {}),
        ({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 2}}], {"b": 2}),
    ],
)
def test_json_patches_apply(doc, ops, result):
    before = copy.deepcopy(doc)

    assert result == apply_json_patch(doc, ops)
    assert before == doc


@pytest.mark.parametrize(
    ("ops", "status"),
    [
        ({"op": "add"}, 400),
        (["x"], 400),
        ([{"op": 1, "path": "/a"}], 400),
        ([{"op": "test", "path": "/a", "value": 2}], 422),
        ([{"op": "test", "path": "/a", "value": 1.0}], 422),
        ([{"op": "test", "path": "/a", "value": True}], 422),
        ([{"op": "remove", "path": "/b"}], 422),
        ([{"op": "add", "path": "/b/c", "value": 1}], 422),
        ([{"op": "add", "path": "/l/5", "value": 1}], 422),
        ([{"op": "add", "path": "/l/x", "value": 1}], 422),
        ([{"op": "fly", "path": "/a"}], 422),
        ([{"op": "test", "path": "/a", "value": 1}] * 10_001, 413),
    ],
)
def test_json_patches_that_do_not_apply_have_a_status(ops, status):
    with pytest.raises(PatchError) as caught:
        apply_json_patch({"a": 1, "l": []}, ops)

    assert status == caught.value.status


def test_a_patch_with_too_many_operations_is_too_large():
    with pytest.raises(PatchTooLarge, match="10000"):
        apply_json_patch({}, [{}] * 10_001)


@given(OBJECTS, JSON)
def test_what_is_added_can_be_tested_and_removed(doc, value):
    ops = [
        {"op": "add", "path": "/new", "value": value},
        {"op": "test", "path": "/new", "value": value},
    ]

    assert doc == apply_json_patch(doc, [*ops, {"op": "remove", "path": "/new"}])


# -- strategic merge patch ----------------------------------------------------------------------


def deployment(*containers, **pod):
    return {"spec": {"template": {"spec": {"containers": list(containers), **pod}}}}


def names(obj):
    return [c["name"] for c in obj["spec"]["template"]["spec"]["containers"]]


LIVE = deployment(
    {
        "name": "web",
        "image": "a",
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
    },
    {"name": "log", "image": "l"},
    tolerations=[{"key": "k"}],
    volumes=[{"name": "v", "emptyDir": {}}],
)
LIVE["spec"]["strategy"] = {"type": "RollingUpdate"}


def order(*wanted):
    return {"$setElementOrder/containers": [{"name": name} for name in wanted]}


def test_containers_and_their_env_merge_by_name():
    patch = deployment(
        {"name": "web", "env": [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}]}
    )

    out = apply_strategic_merge(LIVE, patch, DEPLOYMENT)

    web = out["spec"]["template"]["spec"]["containers"][0]
    assert ["web", "log"] == names(out)
    assert [("A", "1"), ("B", "3"), ("C", "4")] == [(e["name"], e["value"]) for e in web["env"]]
    assert "a" == web["image"]


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        pytest.param(deployment({"name": "log", "$patch": "delete"}), ["web"], id="delete an item"),
        pytest.param(deployment({"name": "x"}, {"$patch": "replace"}), ["x"], id="replace all"),
        pytest.param(deployment({"name": "new"}), ["new", "web", "log"], id="new items come first"),
        pytest.param(
            deployment({"name": "new"}, **order("log", "new", "web")),
            ["log", "new", "web"],
            id="an order is obeyed",
        ),
        pytest.param(
            deployment(**order("log", "web")),
            ["log", "web"],
            id="only the order changes",
        ),
    ],
)
def test_lists_with_a_merge_key(patch, expected):
    if not patch["spec"]["template"]["spec"]["containers"]:
        del patch["spec"]["template"]["spec"]["containers"]

    assert expected == names(apply_strategic_merge(LIVE, patch, DEPLOYMENT))


SIDECAR = deployment({"name": "a"}, {"name": "sidecar"}, {"name": "b"})
GONE = {"name": "b", "$patch": "delete"}


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        pytest.param(
            deployment({"name": "c"}, GONE, **order("a", "c")),
            ["a", "sidecar", "c"],
            id="what replaces an item comes after what only the server has",
        ),
        pytest.param(
            deployment({"name": "b", "image": "2"}, GONE, **order("a", "b")),
            ["a", "sidecar", "b"],
            id="what is deleted and comes back is at the end",
        ),
        pytest.param(
            deployment(
                {"name": "a", "image": "2"}, {"name": "a", "$patch": "delete"}, **order("b", "a")
            ),
            ["sidecar", "b", "a"],
            id="the first, deleted and given again, goes behind the others",
        ),
        pytest.param(
            deployment({"name": "c"}, {"name": "d"}, GONE, **order("c", "d")),
            ["a", "sidecar", "c", "d"],
            id="of two new ones the first takes the free place",
        ),
        pytest.param(
            deployment({"name": "c"}, **order("a", "c")),
            ["a", "c", "sidecar", "b"],
            id="without a delete a new one comes first",
        ),
    ],
)
def test_an_ordered_list_keeps_the_places_of_what_only_the_server_has(patch, expected):
    """As strategicpatch of apimachinery v0.36.4 answers: it deletes and adds in place."""
    assert expected == names(apply_strategic_merge(SIDECAR, patch, DEPLOYMENT))


def test_lists_without_a_merge_key_are_replaced():
    out = apply_strategic_merge(LIVE, deployment(tolerations=[{"key": "other"}]), DEPLOYMENT)

    assert [{"key": "other"}] == out["spec"]["template"]["spec"]["tolerations"]


def test_scalars_merge_as_a_set_and_can_be_deleted():
    live = {"metadata": {"finalizers": ["one"]}}

    both = apply_strategic_merge(live, {"metadata": {"finalizers": ["two"]}}, POD)
    gone = apply_strategic_merge(
        both, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["one"]}}, POD
    )

    assert ["two", "one"] == both["metadata"]["finalizers"]
    assert ["two"] == gone["metadata"]["finalizers"]


def test_retain_keys_drops_the_other_members_of_a_union():
    live = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}

    assert {"type": "Recreate"} == apply_strategic_merge(live, patch, DEPLOYMENT)["spec"][
        "strategy"
    ]


@pytest.mark.parametrize(
    ("patch", "error"),
    [
        (deployment({"image": "no name"}), PatchNotApplicable),
        (deployment({"name": "web", "$patch": "explode"}), PatchNotApplicable),
        ({"spec": {"strategy": {"$retainKeys": "type"}}}, BadPatch),
        ({"spec": {"strategy": {"$retainKeys": [], "type": "x"}}}, BadPatch),
        ([], BadPatch),
        (deployment(**{"$setElementOrder/containers": "x"}), BadPatch),
    ],
)
def test_strategic_patches_that_make_no_sense_are_refused(patch, error):
    with pytest.raises(error):
        apply_strategic_merge(LIVE, patch, DEPLOYMENT)


def test_arguments_are_left_alone():
    live, patch = clone(LIVE), deployment({"name": "web", "image": "b"}, {"name": "x"})
    kept = clone(patch)

    apply_strategic_merge(live, patch, DEPLOYMENT)

    assert live == LIVE
    assert patch == kept


@pytest.mark.parametrize(
    "patch",
    [
        {"spec": {"selector": {"matchLabels": {"a": "b"}}}},
        {"spec": {"template": {"$patch": "replace", "spec": {"volumes": [{"name": "v"}]}}}},
        deployment({"name": "new", "env": [{"name": "A"}]}),
        deployment({"name": "web", "args": ["x"], "env": [{"name": "A"}]}),
        deployment({"$patch": "replace"}, {"name": "only", "args": ["x"]}),
        deployment({"name": "new"}, **{"$setElementOrder/containers": [{"name": "new"}]}),
        deployment(tolerations=[{"key": "other"}]),
    ],
    ids=["new map", "map", "new item", "item", "replaced list", "ordered", "list"],
)
def test_the_result_can_be_changed_without_the_patch(patch):
    kept, result = clone(patch), apply_strategic_merge(LIVE, patch, DEPLOYMENT)

    empty(result)

    assert kept == patch


def empty(value):
    """Take everything out of all maps and lists inside."""
    if isinstance(value, dict | list):
        for item in list(value.values() if isinstance(value, dict) else value):
            empty(item)
        value.clear()


@given(JSON)
def test_clones_are_the_same_but_not_identical(value):
    assert same(value, clone(value))
    assert not same(True, 1)
    assert not same(1, 1.0)
