"""Objects are read as Go writes them, and errors name the object and the field."""

import json

import pytest

from bayplan import api
from bayplan.errors import DecodeError


def test_null_is_the_same_as_absent():
    body = {
        "metadata": {"name": "p", "creationTimestamp": None, "labels": None},
        "spec": {"containers": [{"name": "c", "resources": {"requests": None}}], "volumes": None},
    }

    pod = api.decode(api.Pod, json.dumps(body))

    assert pod.labels == {}
    assert pod.spec.volumes == ()
    assert pod.spec.containers[0].resources.requests == {}


def test_unknown_fields_and_numbers_as_quantities_are_accepted():
    body = b'{"spec":{"future":[1],"overhead":{"cpu":0.5,"memory":128}},"more":{}}'

    assert api.decode(api.Pod, body).spec.overhead == {"cpu": 0.5, "memory": 128}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"metadata": {"name": "p", "namespace": "n", "labels": {"a": 1}}},
         'decoding Pod "n/p", field metadata.labels[...]: expected `str`, got `int`'),
        ({"metadata": {"name": "p"}, "spec": {"containers": [{}, {"ports": [{"hostPort": "x"}]}]}},
         'decoding Pod "p", field spec.containers[1].ports[0].hostPort: expected `int`, got `str`'),
        ({"metadata": 5}, 'decoding Pod "", field metadata: expected `object`, got `int`'),
    ],
)  # fmt: skip
def test_a_wrong_type_names_the_object_and_the_field(body, text):
    with pytest.raises(DecodeError) as problem:
        api.decode(api.Pod, json.dumps(body))

    assert text == str(problem.value)


@pytest.mark.parametrize(
    "data",
    [b"", b"{", pytest.param(b'{"a": \xff}', id="no UTF-8"), b"[]", b"null"],
)
def test_what_is_not_an_object_is_a_decode_error(data):
    with pytest.raises(DecodeError, match="Pod"):
        api.decode(api.Pod, data)


def test_one_bad_item_does_not_spoil_a_list():
    page = api.decode_list(
        api.Node,
        json.dumps(
            {
                "metadata": {"resourceVersion": "7", "continue": "more"},
                "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}, "spec": []}],
            }
        ),
    )

    assert [node.name for node in page.items] == ["a"]
    assert (page.resource_version, page.continue_token) == ("7", "more")
    assert [str(problem) for problem in page.problems] == [
        'decoding Node "b", field spec: expected `object`, got `array`'
    ]


def test_a_list_of_null_is_empty():
    assert api.decode_list(api.Node, b'{"metadata":{},"items":null}').items == []


def test_encoding_keeps_what_was_read():
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n"},
        "spec": {
            "containers": [{"name": "c", "ports": [{"hostPort": 80, "hostIP": "::1"}]}],
            "nodeSelector": {},
        },
    }

    assert body == json.loads(api.encode(api.convert(api.Pod, body)))


def test_short_names():
    pod = api.convert(
        api.Pod,
        {
            "metadata": {
                "name": "p",
                "namespace": "n",
                "uid": "u",
                "deletionTimestamp": "2026-01-01T00:00:00Z",
                "ownerReferences": [{"kind": "A"}, {"kind": "ReplicaSet", "controller": True}],
            },
            "spec": {"nodeName": "x"},
            "status": {"phase": "Failed"},
        },
    )

    assert (pod.key, pod.uid, pod.priority, pod.node_name) == ("n/p", "u", 0, "x")
    assert pod.terminating
    assert pod.finished
    assert pod.controller is not None
    assert pod.controller.kind == "ReplicaSet"


def test_every_kind_is_listed_once_by_its_name():
    assert all(name == kind.KIND and kind.RESOURCE for name, kind in api.KINDS.items())
    assert {"Pod", "Node", "ResourceSlice", "PodGroup", "CSIStorageCapacity"} <= set(api.KINDS)


def test_times():
    assert api.parse_time("1970-01-01T00:00:10Z") == 10
    assert api.parse_time("1970-01-01T00:00:10.500000+00:00") == 10.5


@pytest.mark.parametrize("number", ["9" * 5000, "1e400", "-" + "9" * 400 + ".5"])
def test_a_number_without_end_is_an_error_of_the_object(number):
    body = '{"metadata":{"name":' + number + "}}"

    with pytest.raises(DecodeError, match="decoding "):
        api.decode(api.Pod, body)
    assert 1 == len(api.decode_list(api.Pod, '{"items":[' + body + "]}").problems)
