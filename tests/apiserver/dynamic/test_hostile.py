"""Servers that others run and this one asks: whatever they answer, the caller gets words."""

import base64
import gzip
import json

import pytest

from bayplan.apiserver import dynamic
from tests.apiserver.api import CONFIGMAPS, Api, Stream, configmap
from tests.apiserver.crd import converted
from tests.apiserver.dynamic.hooks import HOOKS, Hooks
from tests.apiserver.test_bombs import DEFINITIONS, THINGS, definition, thing

DEEP = 50_000
CORE = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"]}
THINGS_TOO = [{**CORE, "resources": ["configmaps", "things"]}]


@pytest.fixture
async def hooks(tmp_path):
    async with Hooks(tmp_path) as started:
        yield started


async def ask(api: Api, hooks: Hooks, kind: str, handler) -> None:
    hooks.handlers["/odd"] = handler
    body = hooks.config(f"{kind}WebhookConfiguration", {"path": "/odd", "rules": THINGS_TOO})
    await api.ok("POST", f"{HOOKS}/{kind.lower()}webhookconfigurations", body)


def patch(text: str | bytes):
    data = base64.b64encode(text.encode() if isinstance(text, str) else text).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": data}


def raw(body: bytes | str, **more):
    data = body.encode() if isinstance(body, str) else body
    return {"raw": {"body": data, "content_type": "application/json", **more}}


ANSWERS = {
    "patch is a number": {"allowed": True, "patchType": "JSONPatch", "patch": 5},
    "patch is a list": {"allowed": True, "patchType": "JSONPatch", "patch": [1]},
    "patch is not ASCII": {"allowed": True, "patchType": "JSONPatch", "patch": "é"},
    "patch type is a map": {"allowed": True, "patchType": {}, "patch": "W10="},
    "patch is deep": patch("[" * DEEP + "]" * DEEP),
    "patch is a map": patch('{"op": "add"}'),
    "patch is a word": patch('"add"'),
    "patch is one number": patch("7"),
    "patch of numbers": patch("[1, 2]"),
    "patch of nulls": patch("[null]"),
    "patch without op": patch("[{}]"),
    "op is a list": patch('[{"op": ["add"], "path": "/data/x", "value": "1"}]'),
    "path is a number": patch('[{"op": "add", "path": 5, "value": "1"}]'),
    "removes everything": patch('[{"op": "remove", "path": ""}]'),
    "replaces everything": patch('[{"op": "replace", "path": "", "value": 5}]'),
    "metadata becomes text": patch('[{"op": "replace", "path": "/metadata", "value": "x"}]'),
    "labels become a list": patch('[{"op": "add", "path": "/metadata/labels", "value": [1]}]'),
    "the namespace changes": patch(
        '[{"op": "add", "path": "/metadata/namespace", "value": "kube-system"},'
        ' {"op": "add", "path": "/metadata/name", "value": "kube"}]'
    ),
    "the kind changes": patch('[{"op": "add", "path": "/kind", "value": "Secret"}]'),
    "surrogates": patch('[{"op": "add", "path": "/data/x", "value": "\\ud800"}]'),
    "copies of copies": patch(
        json.dumps(
            [{"op": "add", "path": "/data/k", "value": "x" * 1000}]
            + [{"op": "copy", "from": "/data", "path": f"/data/k{n}"} for n in range(40)]
        )
    ),
    "too many operations": patch(
        json.dumps([{"op": "add", "path": "/data/k", "value": "x"}] * 20_000)
    ),
    "allowed is a word": {"allowed": "yes"},
    "warnings are a number": {"allowed": True, "warnings": 5},
    "warnings are maps": {"allowed": True, "warnings": [{"a": 1}, None]},
    "a warning with line ends": {"allowed": True, "warnings": ["a\r\nX-Evil: 1\r\n\r\n"]},
    "warnings without number": {"allowed": True, "warnings": ["w" * 1000] * 1000},
    "status is a word": {"allowed": False, "status": "no"},
    "code is a word": {"allowed": False, "status": {"code": "403"}},
    "code is odd": {"allowed": False, "status": {"code": 99999999}},
    "code is a list": {"allowed": False, "status": {"code": [1]}},
    "details are a word": {"allowed": False, "status": {"code": 403, "details": "x"}},
    "reason is a map": {"allowed": False, "status": {"code": 403, "reason": {"a": 1}}},
    "message is a map": {"allowed": False, "status": {"code": 403, "message": {"a": 1}}},
    "uid is a map": {"uid": {}},
    "the answer is deep": raw("[" * DEEP),
    "the answer is a list": raw("[]"),
    "the answer is rubbish": raw(b"\xff\xfe\x00"),
    "the answer is empty": raw(b""),
    "the answer has no end": raw(b" " * (8 << 20)),
    "the answer is packed": raw(
        gzip.compress(b" " * (64 << 20)), headers={"Content-Encoding": "gzip"}
    ),
    "the answer is elsewhere": raw(b"", status=302, headers={"Location": "http://127.0.0.1:9/"}),
    "no packing that there is": raw(b"{}", headers={"Content-Encoding": "zstd"}),
}


@pytest.mark.parametrize("name", sorted(ANSWERS))
@pytest.mark.parametrize("kind", ["Mutating", "Validating"])
async def test_whatever_a_webhook_answers_is_told_in_words(api, hooks, kind, name):
    await ask(api, hooks, kind, lambda request: ANSWERS[name])

    answer = await api.call("POST", CONFIGMAPS, configmap("a"))

    assert 0 == api.server.failures, answer.body
    assert 200 <= answer.status < 600
    assert isinstance(answer.body, dict), "an object or a Status"
    assert "x-evil" not in answer.headers
    elsewhere = await api.call("GET", CONFIGMAPS.replace("default", "kube-system") + "/kube")
    assert 404 == elsewhere.status


NUMBERS = ["NaN", "Infinity", "-Infinity", "1e400", "1" + "0" * 4000, "1" + "0" * 20]


@pytest.mark.parametrize("number", NUMBERS, ids=[each[:8] for each in NUMBERS])
async def test_a_number_that_json_has_not_does_not_come_in_through_a_patch(api, hooks, number):
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    await api.ok("POST", DEFINITIONS, definition({"any": anything}))
    text = f'[{{"op": "add", "path": "/spec/any/n", "value": {number}}}]'
    await ask(api, hooks, "Mutating", lambda request: patch(text))

    made = await api.call("POST", THINGS, thing(any={}))

    stored = (await api.ok("GET", THINGS))["items"]
    assert ("1" + "0" * 20 == number) == (made.status == 201), made.body
    assert [1e20] * len(stored) == [each["spec"]["any"]["n"] for each in stored]
    assert 0 == api.server.failures


LIES = {
    "objects are a number": {"convertedObjects": 5},
    "objects are a map": {"convertedObjects": {"a": 1}},
    "objects are words": {"convertedObjects": "ab"},
    "result is a word": {"result": "Success"},
    "message is a map": {"result": {"status": "Failed", "message": {"a": 1}}},
    "no object": {"convertedObjects": [None]},
    "too many": {"convertedObjects": [{}] * 50},
    "kind is a list": {"convertedObjects": [{"kind": [], "apiVersion": "conv.example.com/v2"}]},
}


@pytest.mark.parametrize("name", sorted(LIES))
async def test_whatever_a_conversion_answers_is_told_in_words(api, hooks, name):
    await api.ok("POST", DEFINITIONS, converted.definition(hooks))
    await api.ok("POST", converted.path("v1"), converted.gate("v1", "g", hostPort="a:1"))
    hooks.handlers["/convert"] = lambda request: {"result": {"status": "Success"}, **LIES[name]}

    for path in (converted.path("v2"), converted.path("v2", "g")):
        answer = await api.call("GET", path)
        assert 500 == answer.status
        assert "conversion webhook for conv.example.com/v1" in answer.body["message"]
    assert 0 == api.server.failures


@pytest.mark.parametrize("number", NUMBERS[:5], ids=[each[:8] for each in NUMBERS[:5]])
async def test_a_number_that_json_has_not_does_not_come_in_through_a_conversion(api, hooks, number):
    await api.ok("POST", DEFINITIONS, converted.definition(hooks))
    hooks.handlers["/convert"] = lambda request: raw(
        json.dumps(
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "ConversionReview",
                "response": {
                    "uid": request["uid"],
                    "result": {"status": "Success"},
                    "convertedObjects": [
                        {
                            **request["objects"][0],
                            "apiVersion": request["desiredAPIVersion"],
                            "spec": {"size": "SIZE"},
                        }
                    ],
                },
            }
        ).replace('"SIZE"', number)
    )

    answer = await api.call("POST", converted.path("v2"), converted.gate("v2", "g", host="a"))

    assert answer.status in (422, 500), answer.body
    assert [] == (await api.ok("GET", converted.path("v1")))["items"]
    assert 0 == api.server.failures


async def test_warnings_fit_into_a_head(api, hooks):
    many = [f"{n} " + "w" * 1000 for n in range(1000)]
    await ask(api, hooks, "Validating", lambda request: {"allowed": True, "warnings": many})

    scope = api._scope("POST", CONFIGMAPS, {"content-type": "application/json"})
    sent, stream = [], Stream()
    stream.body = json.dumps(configmap("a")).encode()

    async def send(message):
        sent.append(message)

    await api.server(scope, stream.receive, send)

    warnings = [value for name, value in sent[0]["headers"] if name == b"warning"]
    assert 16 == len(warnings)
    assert {256 + len('299 - ""')} == {len(each) for each in warnings}


async def test_cookies_of_a_webhook_are_not_kept(api, hooks):
    seen = []

    def baking(request):
        seen.append(1)
        return raw(b"{}", headers={"Set-Cookie": "a=b; Path=/"})

    hooks.url = hooks.url.replace("127.0.0.1", "localhost")
    await ask(api, hooks, "Validating", baking)
    await api.call("POST", CONFIGMAPS, configmap("a"))

    assert seen
    assert [] == list(api.server.backend.caller.session.cookie_jar)


async def test_a_write_does_not_wait_for_all_webhooks_for_ever(api, hooks, monkeypatch):
    monkeypatch.setattr(dynamic, "SECONDS", 0.0)  # over before any answer can come
    await ask(api, hooks, "Mutating", lambda request: {"allowed": True})

    answer = await api.call("POST", CONFIGMAPS, configmap("a"))

    assert (504, "Timeout") == (answer.status, answer.body["reason"])
    assert 404 == (await api.call("GET", f"{CONFIGMAPS}/a")).status


NOT_ITSELF = {
    "namespace": (
        "add",
        "/metadata/namespace",
        "kube-system",
        400,
        "the namespace of the provided",
    ),
    "version": ("replace", "/apiVersion", "v2", 500, 'no kind "ConfigMap" is registered'),
    "kind": ("replace", "/kind", "Secret", 500, "converting (v1.Secret) to (core.ConfigMap)"),
    "whole": ("replace", "", [], 500, "cannot unmarshal array"),
    "type": ("replace", "/data", "x", 500, "Go struct field ConfigMap.data"),
}


@pytest.mark.parametrize("what", NOT_ITSELF)
async def test_a_webhook_makes_no_object_another(api, hooks, what):
    """As upstream answers, word for word: `tests/kube/test_admission.py`."""
    op, path, value, code, words = NOT_ITSELF[what]
    change = json.dumps([{"op": op, "path": path, "value": value}])
    await ask(api, hooks, "Mutating", lambda request: patch(change))

    answer = await api.call("POST", CONFIGMAPS, configmap("a") | {"data": {"a": "1"}})

    assert code == answer.status
    assert words in answer.body["message"]
    assert 404 == (await api.call("GET", f"{CONFIGMAPS}/a")).status


async def test_a_webhook_that_takes_the_kind_away_changes_nothing(api, hooks):
    removed = json.dumps([{"op": "remove", "path": "/kind"}])
    await ask(api, hooks, "Mutating", lambda request: patch(removed))

    made = await api.ok("POST", CONFIGMAPS, configmap("a"))

    assert ("v1", "ConfigMap") == (made["apiVersion"], made["kind"])
