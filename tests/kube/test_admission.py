"""Webhooks and policies refuse, warn and change as on the real kube-apiserver.

Both servers ask the same webhook; each case is one configuration and the writes after it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import threading
import time

import pytest

from bayplan.testing.servers import start_embedded, start_kube
from tests.apiserver.dynamic.hooks import HOOKS, Hooks, allow, patching
from tests.kube.twins import Connection, without_managers

pytestmark = pytest.mark.kube
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
MUTATING, VALIDATING = "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"
RULES = {
    "resourceRules": [
        {
            "operations": ["CREATE", "UPDATE"],
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "resources": ["configmaps"],
        }
    ]
}


def refuse(**status):
    return lambda request: {"allowed": False, "status": status}


HANDLERS = {
    "/allow": allow,
    "/no": refuse(message="because", code=403, reason="Forbidden"),
    "/silent": refuse(),
    "/reason": refuse(reason="Conflict", code=409),
    "/low": refuse(message="low", code=200),
    "/label": patching({"op": "add", "path": "/metadata/labels", "value": {"made": "here"}}),
    "/bad-patch": patching({"op": "remove", "path": "/data/nothing"}),
    "/untyped": lambda request: {"allowed": True, "patch": "W10="},
    "/garbage": lambda request: {"raw": {"text": "no json"}},
    "/broken": lambda request: {"raw": {"status": 500, "text": "broken"}},
    "/wrong-uid": lambda request: {"allowed": True, "uid": "x"},
    "/warn": lambda request: {"allowed": True, "warnings": ["careful"]},
}
# What a webhook must not change, or must not make of an object.
STRANGE = {
    "the name": ("replace", "/metadata/name", "other"),
    "the namespace": ("add", "/metadata/namespace", "kube-system"),
    "no name": ("replace", "/metadata/name", ""),
    "a name that is none": ("replace", "/metadata/name", "../x"),
    "the version": ("replace", "/apiVersion", "v2"),
    "another group": ("replace", "/apiVersion", "apps/v1"),
    "the kind": ("replace", "/kind", "ServiceAccount"),
    "an unknown kind": ("replace", "/kind", "Nothing"),
    "no kind": ("remove", "/kind", None),
    "the uid": ("add", "/metadata/uid", "11111111-1111-1111-1111-111111111111"),
    "the metadata": ("remove", "/metadata", None),
    "all to a list": ("replace", "", []),
    "a field to another type": ("replace", "/data", "text"),
    "an unknown field": ("add", "/nothing", 1),
    "the generation": ("add", "/metadata/generation", 7),
    "a finalizer that is none": ("add", "/metadata/finalizers", ["no slash"]),
}
HANDLERS |= {
    f"/strange-{number}": patching(
        {"op": op, "path": path, **({} if op == "remove" else {"value": value})}
    )
    for number, (op, path, value) in enumerate(STRANGE.values())
}
WEBHOOKS = {
    f"changes {name}": (MUTATING, [{"path": f"/strange-{number}"}])
    for number, name in enumerate(STRANGE)
} | {
    "denied with words": (VALIDATING, [{"path": "/no"}]),
    "denied in silence": (VALIDATING, [{"path": "/silent"}]),
    "denied with a reason": (VALIDATING, [{"path": "/reason"}]),
    "denied with a code that is none": (VALIDATING, [{"path": "/low"}]),
    "denied while mutating": (MUTATING, [{"path": "/no"}]),
    "patched": (MUTATING, [{"path": "/label"}]),
    "a patch that does not apply": (MUTATING, [{"path": "/bad-patch"}]),
    "a patch without its type": (MUTATING, [{"path": "/untyped"}]),
    "a patch by a validating one": (VALIDATING, [{"path": "/label"}]),
    "broken": (VALIDATING, [{"path": "/broken"}]),
    "broken, ignored": (VALIDATING, [{"path": "/broken", "failurePolicy": "Ignore"}]),
    "another uid": (VALIDATING, [{"path": "/wrong-uid"}]),
    "a warning": (VALIDATING, [{"path": "/warn"}]),
    "a condition that is false": (
        VALIDATING,
        [{"path": "/no", "matchConditions": [{"name": "c", "expression": "false"}]}],
    ),
    "a condition that fails": (
        VALIDATING,
        [{"path": "/no", "matchConditions": [{"name": "c", "expression": "object.x.y == 1"}]}],
    ),
    "a condition that does not compile": (
        VALIDATING,
        [{"path": "/no", "matchConditions": [{"name": "c", "expression": "object.x +"}]}],
    ),
    "a condition of another type": (
        VALIDATING,
        [{"path": "/no", "matchConditions": [{"name": "c", "expression": "request.nam == ''"}]}],
    ),
}
POLICIES = {
    "holds": {"validations": [{"expression": "object.data.a == '1'"}]},
    "fails": {"validations": [{"expression": "object.data.a == '2'"}]},
    "message": {"validations": [{"expression": "false", "message": "no"}]},
    "message expression": {
        "validations": [{"expression": "false", "messageExpression": "'no ' + object.data.a"}]
    },
    "reason": {"validations": [{"expression": "false", "reason": "Forbidden"}]},
    "an error": {"validations": [{"expression": "object.nothing == 1"}]},
    "an ignored error": {
        "failurePolicy": "Ignore",
        "validations": [{"expression": "object.nothing == 1"}],
    },
    "variables": {
        "variables": [{"name": "v", "expression": "object.data.a + 'x'"}],
        "validations": [{"expression": "variables.v == 'y'", "messageExpression": "variables.v"}],
    },
    "does not compile": {"validations": [{"expression": "object.data.a ="}]},
    "wrong type": {"validations": [{"expression": "'text'"}]},
    "unknown variable": {"validations": [{"expression": "variables.none == 1"}]},
    "unknown field of the request": {"validations": [{"expression": "request.verb == 'x'"}]},
    "authorizer": {
        "validations": [{"expression": "!authorizer.requestResource.check('create').allowed()"}]
    },
    "namespace": {"validations": [{"expression": "namespaceObject.metadata.name == 'x'"}]},
}


@contextlib.contextmanager
def hooks_beside(folder):
    """Webhooks in a thread of their own, since the tests ask in plain calls."""
    started, loop = threading.Event(), asyncio.new_event_loop()
    hooks = Hooks(folder)
    hooks.handlers = HANDLERS
    stop = asyncio.Event()

    async def serve():
        async with hooks:
            started.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert started.wait(60)
    try:
        yield hooks
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


@pytest.fixture(scope="module")
def twins(tmp_path_factory):
    with contextlib.ExitStack() as stack:
        hooks = stack.enter_context(hooks_beside(tmp_path_factory.mktemp("hooks")))
        kube = stack.enter_context(start_kube(tmp_path_factory.mktemp("kube")))
        ours = stack.enter_context(start_embedded(tmp_path_factory.mktemp("ours")))
        pair = (Connection(kube), Connection(ours))
        yield hooks, pair
        for each in pair:
            each.close()


def shown(answer):
    status, body = answer
    body = json.loads(UID.sub("uid", json.dumps(body)))
    if body.get("kind") == "Status":
        keys = ("message", "reason", "code", "details")
        return status, {key: body.get(key) for key in keys}
    return status, without_managers(body)


def when_counted(connection, changed, ask):
    """Ask until a configuration counts: the real server's takes a moment."""
    until = time.monotonic() + 60
    while True:
        answer = shown(ask(connection))
        if changed(answer) or time.monotonic() > until:
            return answer
        time.sleep(0.2)


def create(connection):
    body = {"metadata": {"name": "a"}, "data": {"a": "1"}}
    return connection.ask("POST", f"{CONFIGMAPS}?dryRun=All", body)


@pytest.mark.parametrize("name", WEBHOOKS)
def test_webhooks_answer_alike(twins, name):
    hooks, pair = twins
    kind, given = WEBHOOKS[name]
    resource = f"{HOOKS}/{kind.lower()}s"
    answers = []
    for connection in pair:
        body = hooks.config(kind, *[dict(each) for each in given])
        made = connection.ask("POST", resource, body)
        if made[0] != 201:
            answers.append(shown(made))
            continue
        asked = len(hooks.asked)
        if "false" in name:
            answers.append(shown(create(connection)))
        else:
            answers.append(
                when_counted(
                    connection,
                    lambda answer, asked=asked: answer[0] != 201 or len(hooks.asked) > asked,
                    create,
                )
            )
        connection.ask("DELETE", f"{resource}/test")
        when_counted(connection, lambda answer: answer[0] == 201, create)

    assert answers[0] == answers[1]


@pytest.mark.parametrize("name", POLICIES)
def test_policies_answer_alike(twins, name):
    _, pair = twins
    stem = f"{HOOKS}/validatingadmissionpolic"
    answers = []
    for connection in pair:
        policy = {
            "metadata": {"name": "p"},
            "spec": {"matchConstraints": RULES, **POLICIES[name]},
        }
        made = connection.ask("POST", f"{stem}ies", policy)
        if made[0] != 201:
            answers.append(shown(made))
            continue
        spec = {"policyName": "p", "validationActions": ["Deny"]}
        connection.ask("POST", f"{stem}ybindings", {"metadata": {"name": "b"}, "spec": spec})
        passes = name in ("holds", "an ignored error")
        answers.append(when_counted(connection, lambda a, p=passes: p or a[0] != 201, create))
        connection.ask("DELETE", f"{stem}ybindings/b")
        connection.ask("DELETE", f"{stem}ies/p")
        when_counted(connection, lambda answer: answer[0] == 201, create)

    assert answers[0] == answers[1]
