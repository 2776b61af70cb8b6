"""Values at the edges: numbers that Python reads and Go does not, and nesting without end."""

import json

import pytest

from bayplan.api import json as go_json
from bayplan.api import yaml
from bayplan.api.labels import parse_int64
from bayplan.cel.values import Semver
from bayplan.errors import DecodeError
from tests.apiserver.api import CONFIGMAPS, PODS, configmap, pod
from tests.apiserver.test_bombs import (
    APPLY,
    DEFINITIONS,
    JSON_PATCH,
    STRATEGIC,
    THINGS,
    YAML,
    definition,
    thing,
)

ODD = {
    "superscript": "²",
    "Arabic": "٣",
    "long": "1" * 5000,
    "sign": "1-",
    "underscore": "1_0",
    "space": " 1",
}
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@pytest.mark.parametrize("name", ODD)
def test_only_what_go_reads_is_a_number(name):
    assert parse_int64(ODD[name]) is None


def test_a_version_has_no_number_beyond_64_bits():
    for text in ("1.0.0-" + "1" * 5000, "1" * 5000 + ".0.0"):
        assert Semver.parse(text) is None


@pytest.mark.parametrize("name", ODD)
async def test_odd_numbers_are_told_in_words(api, name):
    text = ODD[name]
    await api.ok("POST", PODS, pod("p"))
    minutes = {"schedule": f"{text} * * * *", "jobTemplate": {"spec": {"template": {"spec": {}}}}}
    term = {"key": "a", "operator": "Gt", "values": [text]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [term]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    jobs = "/apis/batch/v1/namespaces/default/cronjobs"
    for method, path, body in (
        ("GET", f"{PODS}/p/log?tailLines={text}", None),
        ("GET", f"{PODS}/p/log?sinceSeconds={text}", None),
        ("GET", f"{PODS}?limit={text}", None),
        ("GET", f"{PODS}?resourceVersion={text}", None),
        ("POST", jobs, {"metadata": {"name": "c"}, "spec": minutes}),
        ("POST", PODS, pod("q", affinity=affinity)),
        (
            "POST",
            PODS,
            pod(
                "r",
                containers=[{"name": "c", "image": "i", "resources": {"requests": {"cpu": text}}}],
            ),
        ),
    ):
        answer = await api.call(method, path, body)
        assert answer.status < 500, (path, answer.body)
        assert answer.status >= 400 or body, path
    assert 0 == api.server.failures


def nested(levels: int, kind: str) -> str:
    return '{"a":' * levels + "1" + "}" * levels if kind == "map" else "[" * levels + "]" * levels


@pytest.mark.parametrize("kind", ["map", "list"])
@pytest.mark.parametrize("levels", [150, 250, 400, 900, 990, 50_000])
async def test_what_is_taken_can_be_read_and_changed_ever_after(api, kind, levels):
    await api.ok("POST", DEFINITIONS, definition({"any": ANYTHING}))
    await api.ok("POST", THINGS, {**thing(any={"z": 1}), "metadata": {"name": "small"}})
    await api.ok("POST", CONFIGMAPS, configmap("c"))
    deep = nested(levels, kind)
    body = json.dumps(thing(any=0)).replace('"any": 0', f'"any": {{"d": {deep}}}').encode()

    made = await api.call("POST", THINGS, body)

    assert (201 if levels < 190 else 400) == made.status
    one, small = f"{THINGS}/x", f"{THINGS}/small"
    test = f'[{{"op":"test","path":"/spec/any/d","value":{deep}}}]'.encode()
    annotated = f'{{"metadata":{{"annotations":{deep}}}}}'.encode()
    for method, path, sent, headers in (
        ("GET", one, None, {"accept": "application/yaml"}),
        ("PUT", one, body, {}),
        ("PATCH", one, {"spec": {"any": {"e": 1}}}, {}),
        ("PATCH", f"{one}?fieldManager=m&force=true", body, APPLY),
        ("PATCH", one, test, JSON_PATCH),
        ("PATCH", small, test.replace(b"test", b"add"), JSON_PATCH),
        ("PATCH", small, f'{{"spec":{{"any":{{"d":{deep}}}}}}}'.encode(), {}),
        ("PATCH", f"{CONFIGMAPS}/c", annotated, STRATEGIC),
        ("POST", THINGS, body.replace(b'"name": "x"', b'"name": "y"'), YAML),
        ("POST", DEFINITIONS, body, {}),
        ("DELETE", one, None, {}),
    ):  # fmt: skip
        answer = await api.call(method, path, sent, headers=headers)
        assert answer.status < 500, (method, path, answer.body)
    assert 0 == api.server.failures
    await api.ok("GET", THINGS, headers={"accept": "application/json"})


async def test_copies_into_themselves_do_not_nest_without_end(api):
    await api.ok("POST", DEFINITIONS, definition({"any": ANYTHING}))
    await api.ok("POST", THINGS, thing(any={"a": {}}))
    bomb = [
        {"op": "copy", "from": "/spec/any/a", "path": "/spec/any/a" + "/a" * 2**n} for n in range(9)
    ]

    for _ in range(3):
        answer = await api.call("PATCH", f"{THINGS}/x", bomb, headers=JSON_PATCH)
        assert answer.status < 500

    assert 0 == api.server.failures
    await api.ok("PATCH", f"{THINGS}/x", {"metadata": {"labels": {"a": "b"}}})


def test_the_limit_is_exact():
    go_json.load(nested(go_json.DEEPEST, "list").encode())
    with pytest.raises(DecodeError, match="exceeded max depth"):
        go_json.load(nested(go_json.DEEPEST + 1, "list").encode())


DEEP_YAML = {
    "dashes": "- " * 60_000 + "a",
    "questions": "? " * 60_000 + "a",
    "brackets": "[" * 60_000,
    "braces": "{a: " * 60_000,
    "lines": "\n".join(" " * n + "a:" for n in range(1500)),
    "other line ends": "\r".join(" " * n + "a:" for n in range(1500)),
}


@pytest.mark.parametrize("name", DEEP_YAML)
async def test_yaml_without_bottom_does_not_end_the_process(api, name):
    with pytest.raises(DecodeError, match="exceeded max depth"):
        yaml.load(DEEP_YAML[name])
    with pytest.raises(DecodeError, match="exceeded max depth"):
        yaml.load(DEEP_YAML[name].encode("utf-16"))

    answer = await api.call("POST", CONFIGMAPS, DEEP_YAML[name].encode(), headers=YAML)

    assert 400 == answer.status


def test_brackets_in_words_are_words():
    assert {"a": "[" * 500, "b": "1" * 5000} == yaml.load(f"a: '{'[' * 500}'\nb: {'1' * 5000}")


@pytest.mark.parametrize(
    "path",
    [
        *("/apisx", "/apis'", "/apiserver", "/api'", "/apiv1", "/apis" + "a" * 5000, "/apis//x"),
        *(
            "/apis//v1/pods",
            "/apis/apps/v1//deployments",
            "/apis/apps/v1//namespaces/x/deployments",
        ),
    ],
)
async def test_a_path_that_only_begins_like_the_api_is_not_found(api, path):
    assert 404 == (await api.call("GET", path)).status
