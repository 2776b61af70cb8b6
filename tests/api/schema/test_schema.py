"""The table of API types: what it knows and what decoding with it does."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.api.schema import (
    FieldTypeError,
    canonical_micro_time,
    canonical_quantity,
    canonical_time,
    catalog,
    custom_resource,
    decode,
    decode_fields,
    duplicate_fields,
    problems,
    strict_message,
    struct,
    type_for,
    unknown_fields,
)

POD = type_for("v1", "Pod")


def pod(**spec):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}


def test_every_type_can_be_built():
    for name in catalog().types:
        assert isinstance(struct(name).fields, dict)


def test_lists_know_their_kind_and_keys():
    spec = POD.fields["spec"].type
    containers, ports = (
        spec.fields["containers"],
        spec.fields["containers"].type.elem.fields["ports"],
    )

    assert ("map", ("name",), "name") == (
        containers.type.list_type,
        containers.type.keys,
        containers.merge_key,
    )
    assert ("containerPort", "protocol") == ports.type.keys
    assert "TCP" == ports.type.elem.fields["protocol"].default
    assert "atomic" == spec.fields["tolerations"].type.list_type


def test_a_field_may_make_an_atomic_struct_granular():
    assert struct("core.v1.ObjectReference").atomic
    assert not struct("core.v1.PersistentVolumeSpec").fields["claimRef"].type.atomic


def test_options_are_known_in_every_group():
    assert type_for("policy/v1", "DeleteOptions") is type_for("v1", "DeleteOptions")
    assert type_for("apps/v1", "Pod") is None


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        pytest.param({"nodeSelector": {}}, {}, id="empty maps vanish"),
        pytest.param({"priority": 0}, {"priority": 0}, id="pointers keep their zero"),
        pytest.param({"hostNetwork": False}, {}, id="false vanishes"),
        pytest.param({"nodeName": None}, {}, id="null vanishes"),
        pytest.param({"unheard": {"of": 1}}, {}, id="unknown fields vanish"),
        pytest.param({"securityContext": {}}, {"securityContext": {}}, id="empty pointers stay"),
        pytest.param(
            {"containers": [{"name": "c"}]},
            {"containers": [{"name": "c", "resources": {}}]},
            id="value structs appear",
        ),
        pytest.param({"overhead": {"cpu": 0.5}}, {"overhead": {"cpu": "500m"}}, id="quantities"),
    ],
)
def test_decoding_gives_what_go_would_print(given, kept):
    out, _ = decode(pod(**given), POD)

    assert kept == out["spec"]
    assert {} == out["status"]


def test_decoding_says_whether_it_dropped_something():
    assert not decode(pod(nodeName="n"), POD)[1]
    assert decode(pod(nodeNam="n"), POD)[1]


@pytest.mark.parametrize(
    ("spec", "got", "field", "wanted"),
    [
        ({"containers": "none"}, "string", "PodSpec.spec.containers", "[]v1.Container"),
        ({"priority": 1.5}, "number 1.5", "PodSpec.spec.priority", "int32"),
        ({"containers": [{"name": True}]}, "bool", "Container.spec.containers.name", "string"),
        ({"volumes": [1]}, "number", "PodSpec.spec.volumes", "v1.Volume"),
    ],
)
def test_wrong_types_are_told_in_gos_words(spec, got, field, wanted):
    with pytest.raises(FieldTypeError) as caught:
        decode(pod(**spec), POD)

    prefix = 'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal'
    assert f"{prefix} {got} into Go struct field {field} of type {wanted}" == str(caught.value)


def test_a_bad_quantity_is_a_wrong_type_too():
    with pytest.raises(FieldTypeError, match="quantities must match the regular expression"):
        decode(pod(overhead={"cpu": "lots"}), POD)


@pytest.mark.parametrize(
    ("overhead", "named"),
    [({"cpu": "lots"}, "quantities must match"), ({"cpu": []}, "cannot unmarshal array into")],
    ids=["text", "list"],
)
def test_of_several_wrong_values_that_is_named_which_ends_the_reading(overhead, named):
    """Go keeps the first misfit and reads on, until a type that reads its own text gives up."""
    with pytest.raises(FieldTypeError, match=named):
        decode(pod(containers=[[]], overhead=overhead), POD)


def test_strict_problems_name_unknown_and_duplicate_fields():
    body = b'{"apiVersion":"v1","kind":"Pod","spec":{"nodeName":"a","nodeName":"b","x":[{"y":1}]}}'
    obj = json.loads(body)

    found = problems(POD, obj, body)

    assert ['unknown field "spec.x"', 'duplicate field "spec.nodeName"'] == found
    assert strict_message(obj, found).endswith(
        'strict decoding error: unknown field "spec.x", duplicate field "spec.nodeName"'
    )


def test_unknown_fields_have_paths_with_indexes():
    obj = pod(containers=[{"name": "c", "comand": ["x"]}], volumes=[{"name": "v"}, {"nam": "w"}])

    assert ["spec.containers[0].comand", "spec.volumes[1].nam"] == unknown_fields(POD, obj)


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=8), max_size=4))
def test_no_body_without_duplicates_is_said_to_have_some(data):
    body = {"data": data, "list": [data, {"inner": data}]}

    assert [] == duplicate_fields(json.dumps(body, ensure_ascii=False).encode(), body)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1.5Gi", "1536Mi"), ("0.001", "1m"), ("1000m", "1"), ("1e3", "1e3"), ("1024Ki", "1Mi"),
        ("1000Ki", "1000Ki"), ("0.5Ki", "512"), ("1000000k", "1G"), ("0.1n", "1n"), ("-0", "0"),
        ("+5", "+5"), (".5", "500m"), ("12E", "12E"), ("5e-3", "5e-3"), ("0", "0"),
        ("1.", "1."), ("1.234", "1.234"),
    ],
)  # fmt: skip
def test_quantities_become_canonical(text, canonical):
    assert canonical == canonical_quantity(text)


@pytest.mark.parametrize("text", ["", "1Kii", "1 Gi", "--1", "1e", "lots", "1.2.3"])
def test_bad_quantities_are_refused(text):
    with pytest.raises(ValueError, match="quantit"):
        canonical_quantity(text)


@given(
    st.decimals(min_value=-(10**15), max_value=10**15, places=3),
    st.sampled_from(["", "k", "Mi", "e3"]),
)
def test_canonical_quantities_stay_as_they_are(number, suffix):
    once = canonical_quantity(f"{number}{suffix}")

    assert once == canonical_quantity(once)


def test_times_are_told_in_utc():
    assert "2026-01-02T01:04:05Z" == canonical_time("2026-01-02T03:04:05.9+02:00")
    for time in ("03:04:05.123456Z", "03:04:05,123456Z", "05:04:05.123456+02:00"):
        assert "2026-01-02T03:04:05.123456Z" == canonical_micro_time(f"2026-01-02T{time}")
    for bad in (
        "2026-01-02",
        "2026-13-02T03:04:05Z",
        "yesterday",
        "2026-01-02T24:00:00Z",
        "2026-01-02T03:04:60Z",
        "2026-01-02T03:04:05+25:00",
        "2026-01-02T03:04:0\N{ARABIC-INDIC DIGIT FIVE}Z",
    ):
        with pytest.raises(ValueError, match="parsing time"):
            canonical_time(bad)
    with pytest.raises(ValueError, match="parsing time"):
        canonical_micro_time("2026-01-02T03:04:05Z")
    with pytest.raises(ValueError, match="parsing time"):
        canonical_micro_time("2026-01-02T24:00:00.000000Z")


def test_custom_resources_get_their_types_from_a_schema():
    type_ = custom_resource(
        {
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {
                        "holds": {
                            "type": "array",
                            "x-kubernetes-list-type": "map",
                            "x-kubernetes-list-map-keys": ["name"],
                            "items": {"type": "object", "properties": {"name": {"type": "string"}}},
                        },
                        "size": {"x-kubernetes-int-or-string": True},
                    },
                }
            },
        },
        "Ship",
    )

    spec = type_.fields["spec"].type
    assert ("map", ("name",)) == (
        spec.fields["holds"].type.list_type,
        spec.fields["holds"].type.keys,
    )
    assert "intorstring" == spec.fields["size"].type.kind
    assert "struct" == type_.fields["metadata"].type.kind


@pytest.mark.parametrize("names", [["spec"], ["status"], ["spec", "status"], ["metadata"], ["odd"]])
def test_fields_alone_are_decoded_as_with_all_others(names):
    changed = {
        "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1000m"}}}]},
        "status": {"conditions": [{"type": "Ready", "odd": 1}], "podIP": None},
        "metadata": {"name": "p", "labels": {}},
        "odd": 1,
    }
    stored, _ = decode({"metadata": {"name": "p", "labels": {"a": "b"}}}, type_for("v1", "Pod"))
    obj = {**stored, **{name: changed[name] for name in names}}

    assert decode_fields(obj, type_for("v1", "Pod"), names) == decode(obj, type_for("v1", "Pod"))


def test_a_field_that_is_taken_away_is_as_if_it_never_was():
    stored, _ = decode({"status": {"phase": "Running"}}, type_for("v1", "Pod"))
    del stored["status"]

    assert decode_fields(stored, type_for("v1", "Pod"), ["status"])[0]["status"] == {}


def test_one_field_alone_of_a_wrong_type_is_told_as_elsewhere():
    with pytest.raises(FieldTypeError, match=r"Pod\.spec of type v1\.PodSpec"):
        decode_fields({"spec": []}, type_for("v1", "Pod"), ["spec"])
