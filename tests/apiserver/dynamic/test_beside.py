"""Users' expressions hold nobody up: they run beside the loop, and decisions on it."""

import threading

import pytest

from bayplan.api.user import User
from bayplan.apiserver.authorization import Rbac
from tests.apiserver.api import CONFIGMAPS, Api, configmap
from tests.apiserver.dynamic.hooks import HOOKS, Hooks, allow
from tests.apiserver.dynamic.test_policies import policy
from tests.apiserver.test_watchdog import spy

APPLIED = {"expression": "Object{metadata: Object.metadata{labels: {'a': 'b'}}}"}
MUTATION = {"patchType": "ApplyConfiguration", "applyConfiguration": APPLIED}


def elsewhere(threads: list[int]) -> list[bool]:
    return [thread != threading.get_ident() for thread in threads]


@pytest.mark.parametrize(
    ("kind", "spec", "work"),
    [
        ("Validating", {"validations": [{"expression": "true"}]}, "validate"),
        ("Mutating", {"mutations": [MUTATION], "reinvocationPolicy": "Never"}, "mutate"),
    ],
)
async def test_policies_run_beside_the_loop(api, monkeypatch, kind, spec, work):
    await policy(api, kind, **spec)
    threads = spy(monkeypatch, f"bayplan.apiserver.dynamic.policies.{work}")

    await api.ok("POST", CONFIGMAPS, configmap("a"))
    await api.ok("DELETE", f"{CONFIGMAPS}/a")

    assert [True] == elsewhere(threads), "and a deletion, which is not meant, costs no thread"


async def test_match_conditions_run_beside_the_loop(api, monkeypatch, tmp_path):
    async with Hooks(tmp_path) as hooks:
        hooks.handlers["/v"] = allow
        condition = {"name": "c", "expression": "request.name != 'b'"}
        hook = {"path": "/v", "matchConditions": [condition]}
        body = hooks.config("ValidatingWebhookConfiguration", hook)
        await api.ok("POST", f"{HOOKS}/validatingwebhookconfigurations", body)
        threads = spy(monkeypatch, "bayplan.apiserver.dynamic.webhooks.Webhook.wanted")

        for name in ("a", "b"):
            await api.ok("POST", CONFIGMAPS, configmap(name))

        assert [True, True] == elsewhere(threads)
        assert ["a"] == [asked["name"] for asked in hooks.asked]


async def test_what_a_policy_asks_about_permission_is_decided_on_the_loop(monkeypatch):
    api = await Api.start(rbac=True)
    api.server.authenticator.add("bob-token", User("bob", ("system:masters",)))
    check = "authorizer.serviceAccount('default', 'default').group('').resource('pods')"
    await policy(api, validations=[{"expression": f"!{check}.check('get').allowed()"}])
    threads = spy(monkeypatch, "bayplan.apiserver.authorization.Rbac.allows")

    await api.ok("POST", CONFIGMAPS, configmap("a"), headers={"authorization": "Bearer bob-token"})

    assert isinstance(api.server.backend.authorizer, Rbac)
    assert len(threads) >= 2
    assert not any(elsewhere(threads))
    await api.close()
