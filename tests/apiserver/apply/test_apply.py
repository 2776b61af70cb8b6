"""Server-side apply and managedFields on plain dicts."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.api.schema import custom_resource, type_for
from bayplan.apiserver.apply import ApplyConflict, ApplyRejected, server_side_apply, track_update
from bayplan.apiserver.apply.fieldset import difference, intersection, paths, union
from bayplan.apiserver.apply.managed import UPDATE, Identity, Owner, cap_updaters
from bayplan.apiserver.apply.walk import check, compare, everything, field_set, merge
from tests.effort import at_most

CONFIG_MAP = type_for("v1", "ConfigMap")
DEPLOYMENT = type_for("apps/v1", "Deployment")
POD = type_for("v1", "Pod")
NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"


def config(**data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}


def deployment(*containers, **spec):
    template = {"spec": {"containers": list(containers)}}
    body = {**spec, **({"template": template} if containers else {})}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": body}


def apply(live, applied, manager="ann", *, force=False, kind=None, now=NOW):
    kind = kind or type_for(applied["apiVersion"], applied["kind"])
    return server_side_apply(live, applied, manager=manager, force=force, kind=kind, now=now)


def owners(obj):
    entries = obj["metadata"].get("managedFields", [])
    return {(e["manager"], e["operation"]): e["fieldsV1"] for e in entries}


def test_the_first_apply_owns_what_it_sets():
    obj, changed = apply(None, config(color="red"))

    assert changed
    assert {"color": "red"} == obj["data"]
    assert {("ann", "Apply"): {"f:data": {"f:color": {}}}} == owners(obj)


def test_applying_the_same_again_changes_nothing():
    obj, _ = apply(None, config(color="red"))

    again, changed = apply(obj, config(color="red"), now=LATER)

    assert not changed
    assert again is obj


def test_a_field_that_is_no_longer_applied_is_removed():
    obj, _ = apply(None, config(color="red", size="1"))

    obj, changed = apply(obj, config(color="blue"), now=LATER)

    assert changed
    assert {"color": "blue"} == obj["data"]
    assert LATER == obj["metadata"]["managedFields"][0]["time"]


def test_a_field_that_someone_else_also_applies_stays():
    obj, _ = apply(None, config(color="red", size="1"))
    obj, _ = apply(obj, config(size="1"), "bob")

    obj, _ = apply(obj, config(color="red"))

    assert {"color": "red", "size": "1"} == obj["data"]
    assert {"f:data": {"f:size": {}}} == owners(obj)["bob", "Apply"]


def test_changing_what_another_owns_is_a_conflict():
    obj, _ = apply(None, config(color="red"))

    with pytest.raises(ApplyConflict) as caught:
        apply(obj, config(color="green"), "bob")

    text = 'Apply failed with 1 conflict: conflict with "ann": .data.color'
    assert text == str(caught.value)
    assert [(".data.color", 'conflict with "ann"')] == caught.value.causes


def test_several_conflicts_are_listed_by_manager():
    obj, _ = apply(None, deployment({"name": "c", "image": "a:1"}, replicas=1))

    with pytest.raises(ApplyConflict) as caught:
        apply(obj, deployment({"name": "c", "image": "a:2"}, replicas=2), "bob")

    assert (
        'Apply failed with 2 conflicts: conflicts with "ann":\n- .spec.replicas\n'
        '- .spec.template.spec.containers[name="c"].image'
    ) == str(caught.value)


def test_conflicts_name_the_fields_of_a_level_before_those_below_it():
    mine = deployment({"name": "c", "image": "a:1"})
    mine["spec"]["template"]["spec"]["nodeSelector"] = {}
    obj, _ = apply(None, mine)
    theirs = deployment({"name": "c", "image": "a:2"})
    theirs["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "ssd"}

    with pytest.raises(ApplyConflict) as caught:
        apply(obj, theirs, "bob")

    assert [
        ".spec.template.spec.nodeSelector",
        '.spec.template.spec.containers[name="c"].image',
    ] == [field for field, _ in caught.value.causes]


def test_force_moves_the_ownership():
    obj, _ = apply(None, config(color="red"))

    obj, _ = apply(obj, config(color="green"), "bob", force=True)

    assert {("bob", "Apply"): {"f:data": {"f:color": {}}}} == owners(obj)


def test_list_items_merge_by_key_with_defaults():
    port = {"containerPort": 80}
    obj, _ = apply(None, deployment({"name": "c", "image": "a", "ports": [port]}))

    other = deployment({"name": "c", "ports": [{"containerPort": 80, "protocol": "UDP"}]})
    obj, _ = apply(obj, other, "bob")

    ports = obj["spec"]["template"]["spec"]["containers"][0]["ports"]
    assert [port, {"containerPort": 80, "protocol": "UDP"}] == ports
    keys = owners(obj)["ann", "Apply"]["f:spec"]["f:template"]["f:spec"]["f:containers"]
    assert 'k:{"containerPort":80,"protocol":"TCP"}' in keys['k:{"name":"c"}']["f:ports"]


def test_kubectl_takes_over_from_its_own_client_side_apply():
    annotation = "kubectl.kubernetes.io/last-applied-configuration"
    live = config(color="red")
    live["metadata"] |= {
        "uid": "u",
        "annotations": {
            annotation: '{"apiVersion":"v1","kind":"ConfigMap","data":{"color":"red"}}'
        },
    }
    live = track_update(None, live, "kubectl-client-side-apply", "Update", NOW)

    obj, _ = apply(live, config(color="blue"), "kubectl")

    assert {"color": "blue"} == obj["data"]
    assert '"blue"' in obj["metadata"]["annotations"][annotation]
    with pytest.raises(ApplyConflict):
        apply(live, config(color="blue"), "other")


TYPED = "failed to create typed patch object "


@pytest.mark.parametrize(
    ("applied", "text"),
    [
        (
            {**config(), "datum": {}},
            f"{TYPED}(/c; /v1, Kind=ConfigMap): .datum: field not declared in schema",
        ),
        (
            {**config(a=1, b=True), "metadata": {"name": "c", "namespace": "n"}},
            f"{TYPED}(n/c; /v1, Kind=ConfigMap): errors:\n"
            "  .data.a: expected string, got &value.valueUnstructured{Value:1}\n"
            "  .data.b: expected string, got &value.valueUnstructured{Value:true}",
        ),
        (
            {**config(), "metadata": [1]},
            f"{TYPED}(/; /v1, Kind=ConfigMap): .metadata: expected map, got &{{[1]}}",
        ),
        (
            deployment({"name": "c"}, {"name": "c"}),
            f"{TYPED}(/d; apps/v1, Kind=Deployment): "
            '.spec.template.spec.containers: duplicate entries for key [name="c"]',
        ),
        (
            {**config(), "metadata": {"name": "c", "managedFields": []}},
            "metadata.managedFields must be nil",
        ),
    ],
    ids=["undeclared", "two kinds", "no metadata", "twice", "managed"],
)
def test_objects_that_do_not_fit_are_rejected(applied, text):
    with pytest.raises(ApplyRejected) as caught:
        apply(None, applied)

    assert text == str(caught.value)


def test_custom_lists_merge_as_their_schema_says():
    item = {"type": "object", "properties": {"name": {"type": "string"}, "n": {"type": "integer"}}}
    holds = {
        "type": "array",
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    }
    kind = custom_resource({"type": "object", "properties": {"holds": holds}}, "Ship")

    def ship(*holds):
        return {
            "apiVersion": "x/v1",
            "kind": "Ship",
            "metadata": {"name": "s"},
            "holds": list(holds),
        }

    obj, _ = apply(None, ship({"name": "a", "n": 1}), kind=kind)
    obj, _ = apply(obj, ship({"name": "b"}), "bob", kind=kind)

    assert [{"name": "a", "n": 1}, {"name": "b"}] == obj["holds"]


# -- ordinary writes ----------------------------------------------------------------------------


def test_a_create_owns_everything_but_what_the_server_sets():
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "uid": "u", "labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {}}]},
        "status": {"phase": "Pending"},
    }

    tracked = track_update(None, pod, "kubectl-create", "Update", NOW)

    item = {".": {}, "f:name": {}, "f:image": {}, "f:resources": {}}
    assert {
        "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
        "f:spec": {"f:containers": {'k:{"name":"c"}': item}},
    } == owners(tracked)["kubectl-create", "Update"]
    assert "managedFields" not in pod["metadata"]


def test_an_update_takes_the_changed_fields_only():
    live = track_update(None, config(a="1", b="2"), "one", "Update", NOW)
    live["metadata"]["uid"] = "u"
    new = copy.deepcopy(live)
    new["data"] = {"a": "9", "c": "3"}

    tracked = track_update(live, new, "two", "Update", LATER)

    assert {"f:data": {}} == owners(tracked)["one", "Update"]
    assert {"f:data": {"f:a": {}, "f:c": {}}} == owners(tracked)["two", "Update"]


def test_an_update_that_changes_nothing_keeps_the_entries():
    live = track_update(None, config(a="1"), "one", "Update", NOW)

    assert live == track_update(live, copy.deepcopy(live), "two", "Update", LATER)


def test_clearing_managed_fields_switches_tracking_off():
    live = track_update(None, config(a="1"), "one", "Update", NOW)
    new = copy.deepcopy(live)
    new["metadata"]["managedFields"] = []

    cleared = track_update(live, new, "two", "Update", LATER)

    assert "managedFields" not in cleared["metadata"]
    assert cleared == track_update(cleared, cleared, "two", "Update", LATER)


def test_more_than_ten_updaters_are_merged():
    obj = track_update(None, config(a="0"), "m0", "Update", NOW)
    for number in range(1, 15):
        new = copy.deepcopy(obj)
        new["data"][f"k{number}"] = "x"
        obj = track_update(obj, new, f"m{number}", "Update", f"2026-01-01T00:00:{number:02}Z")

    managers = [e["manager"] for e in obj["metadata"]["managedFields"]]
    assert len(managers) == 10
    assert "ancient-changes" in managers


def test_status_writes_do_not_own_the_spec():
    live = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}, "status": {}}
    live = track_update(None, {**live, "spec": {"nodeName": "n"}}, "one", "Update", NOW)
    new = {**live, "spec": {"nodeName": "m"}, "status": {"phase": "Running"}}

    tracked = track_update(live, new, "kubelet", "Update", LATER, "status")

    assert {"f:status": {"f:phase": {}}} == owners(tracked)["kubelet", "Update"]
    assert "status" == tracked["metadata"]["managedFields"][-1]["subresource"]


# -- properties ---------------------------------------------------------------------------------

CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from("abc")},
        optional={
            "image": st.sampled_from(["i", "j"]),
            "args": st.lists(st.sampled_from("xy"), max_size=2),
            "env": st.lists(
                st.fixed_dictionaries(
                    {"name": st.sampled_from("AB"), "value": st.sampled_from("12")}
                ),
                min_size=1,
                max_size=2,
                unique_by=lambda e: e["name"],
            ),
        },
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda c: c["name"],
)
DEPLOYMENTS = st.builds(lambda cs, n: deployment(*cs, replicas=n), CONTAINERS, st.integers(0, 3))


@given(DEPLOYMENTS, DEPLOYMENTS)
def test_what_was_applied_is_in_the_result(first, second):
    obj, _ = apply(None, first)
    obj, _ = apply(obj, second, "bob", force=True)

    again, changed = apply(obj, second, "bob")

    assert not changed
    assert again is obj
    assert {} == compare(merge(obj, second, DEPLOYMENT), obj, DEPLOYMENT).modified


@given(DEPLOYMENTS, DEPLOYMENTS)
def test_one_manager_alone_ends_with_its_last_configuration(first, second):
    obj, _ = apply(None, first)
    obj, _ = apply(obj, second)
    fresh, _ = apply(None, second)

    assert names_and_images(fresh) == names_and_images(obj)
    assert owners(fresh) == owners(obj)


def names_and_images(obj):
    containers = obj["spec"]["template"]["spec"]["containers"]
    return {c["name"]: (c.get("image"), c.get("args"), c.get("env")) for c in containers}


@given(DEPLOYMENTS, DEPLOYMENTS)
def test_field_sets_obey_the_laws_of_sets(first, second):
    left, right = field_set(first, DEPLOYMENT), field_set(second, DEPLOYMENT)
    a, b = set(paths(left)), set(paths(right))

    assert a | b == set(paths(union(left, right)))
    assert a & b == set(paths(intersection(left, right)))
    assert a - b == set(paths(difference(left, right)))


def test_a_list_that_is_new_is_owned_to_the_last_field():
    containers = POD.fields["spec"].type.fields["containers"].type
    one = {"name": "a", "image": "x"}

    whole = {".": {}, "f:name": {}, "f:image": {}}
    assert {".": {}, 'k:{"name":"a"}': whole} == everything([one], containers)
    twice = everything([one, one], containers)
    assert {".": {}, 'k:{"name":"a"}': {}} == twice, "of two with one name only the name is owned"


def test_every_field_that_is_not_declared_is_told():
    assert [".odd: field not declared in schema", ".more: field not declared in schema"] == check(
        {"odd": 1, "data": {}, "more": 2}, CONFIG_MAP
    )


def test_of_too_many_updates_the_oldest_become_one():
    """By their times, whatever their managers are called."""
    owners = {
        Identity(f"m{11 - n:02}", UPDATE, "v1", ""): Owner({f"f:{n}": {}}, "v1", f"2026-01-{n:02}")
        for n in range(1, 12)
    }

    kept = cap_updaters(owners)
    merged = [owner.fields for who, owner in kept.items() if who.manager == "ancient-changes"]
    assert [{"f:1": {}, "f:2": {}}] == merged
    assert {f"m{11 - n:02}" for n in range(3, 12)} == {who.manager for who in kept} - {
        "ancient-changes"
    }


def test_what_thousands_of_managers_own_becomes_one_in_time_in_proportion():
    owners = {
        Identity(f"m{n}", UPDATE, "v1", ""): Owner({"f:data": {f"f:{n}": {}}}, "v1", f"{n:05}")
        for n in range(8_000)
    }

    with at_most(10):
        kept = cap_updaters(owners)

    merged = [owner.fields for who, owner in kept.items() if who.manager == "ancient-changes"]
    assert [{"f:data": {f"f:{n}": {} for n in range(7_991)}}] == merged
    assert 10 == len(kept)
