"""Priority and fairness: who belongs where, what that does, and that it follows the objects."""

import asyncio
import json

import pytest

from bayplan.api.user import User
from bayplan.apiserver.authorization import Action
from bayplan.apiserver.fairness import seats as seats_module
from bayplan.apiserver.fairness.schemas import Schema, ordered
from bayplan.apiserver.fairness.seats import Pool, Seats
from bayplan.apiserver.fairness.suggested import levels, schemas
from bayplan.apiserver.server import ApiServer
from bayplan.client import AsgiTransport
from bayplan.clock import run_virtual
from bayplan.store import MemoryStore
from tests.apiserver.api import CONFIGMAPS, Api, configmap

FLOWS = "/apis/flowcontrol.apiserver.k8s.io/v1"
ACCOUNT = "system:serviceaccount"
PLAIN = ("system:authenticated",)


def user(name, *groups):
    return User(name, (*groups, *PLAIN))


@pytest.mark.parametrize(
    ("who", "action", "schema"),
    [
        (user("admin", "system:masters"), Action("list", "", "pods"), "exempt"),
        (user("system:anonymous"), Action("get", path="/healthz"), "probes"),
        (user("system:anonymous"), Action("get", path="/apis"), "global-default"),
        (
            user("system:kube-scheduler"),
            Action("update", "coordination.k8s.io", "leases", "", "kube-system"),
            "system-leader-election",
        ),
        (
            user("system:kube-scheduler"),
            Action("create", "", "pods", "binding", "a"),
            "kube-scheduler",
        ),
        (
            user(f"{ACCOUNT}:kube-system:x", f"{ACCOUNT}s"),
            Action("list", "", "pods", "", "a"),
            "kube-system-service-accounts",
        ),
        (
            user(f"{ACCOUNT}:other:x", f"{ACCOUNT}s"),
            Action("list", "", "pods", "", "a"),
            "service-accounts",
        ),
        (
            user("system:node:n", "system:nodes"),
            Action("patch", "", "nodes", "status"),
            "system-node-high",
        ),
        (
            user("system:node:n", "system:nodes"),
            Action("list", "", "pods", "", "a"),
            "system-nodes",
        ),
        (user("eve"), Action("create", "x.example", "things", "", "a"), "global-default"),
    ],
)
def test_the_suggested_schemas_tell_requests_apart(who, action, schema):
    found = ordered(map(Schema, schemas()))

    assert schema == next(each.name for each in found if each.matches(who, action))


def test_every_schema_names_a_level():
    known = {each["metadata"]["name"] for each in levels()}

    assert {Schema(each).level for each in schemas()} == known


async def test_the_objects_are_there_and_answers_name_them():
    server = ApiServer(MemoryStore())
    server.complete = True
    await server.start()
    api = Api(server)
    try:
        found = {}
        for resource in ("flowschemas", "prioritylevelconfigurations"):
            listed = await api.ok("GET", f"{FLOWS}/{resource}")
            found[resource] = {
                item["metadata"]["name"]: item["metadata"]["uid"] for item in listed["items"]
            }
        answer = await api.call("GET", CONFIGMAPS)
        other = await api.call("GET", CONFIGMAPS, headers={"impersonate-user": "eve"})

        names = ("x-kubernetes-pf-flowschema-uid", "x-kubernetes-pf-prioritylevel-uid")
        assert (13 - 2, 8) == (
            len(found["flowschemas"]),
            len(found["prioritylevelconfigurations"]),
        )
        for shown, name in ((answer, "exempt"), (other, "global-default")):
            assert [each[name] for each in found.values()] == [shown.headers[n] for n in names]
    finally:
        await api.close()


class SlowStore(MemoryStore):
    """Reads take a while."""

    now = most = 0

    async def get(self, key):
        if "configmaps" in key:
            self.now += 1
            self.most = max(self.most, self.now)
            await asyncio.sleep(0.01)
            self.now -= 1
        return await super().get(key)


def level(name, shares, **response):
    limited = {"nominalConcurrencyShares": shares, "borrowingLimitPercent": 0}
    spec = {"type": "Limited", "limited": {**limited, "limitResponse": response}}
    return {"metadata": {"name": name}, "spec": spec}


def schema(name, level, *users, precedence=50):
    rule = {
        "subjects": [{"kind": "User", "user": {"name": each}} for each in users],
        "resourceRules": [
            {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}
        ],
    }
    spec = {
        "priorityLevelConfiguration": {"name": level},
        "matchingPrecedence": precedence,
        "distinguisherMethod": {"type": "ByUser"},
        "rules": [rule],
    }
    return {"metadata": {"name": name}, "spec": spec}


async def crowded(response, users):
    """Let `users` send forty requests each to a level of few seats; return store and answers."""
    store = SlowStore()
    server = ApiServer(store, admin_token="t", max_reads=20, max_writes=20)
    await server.start()
    api = Api(server)
    await api.ok("POST", CONFIGMAPS, configmap("a"))
    await api.ok("POST", f"{FLOWS}/prioritylevelconfigurations", level("few", 5, **response))
    await api.ok("POST", f"{FLOWS}/flowschemas", schema("few", "few", *users))
    store.most = 0
    transport = AsgiTransport(server, token="t")
    done = []

    async def ask(name):
        headers = {"impersonate-user": name}
        answer = await transport.request("GET", f"{CONFIGMAPS}/a", headers, None, None)
        done.append((name, answer.status))
        return answer

    answers = await asyncio.gather(*(ask(name) for name in users for _ in range(40)))
    await api.close()
    return store, answers, done


def test_a_level_that_queues_serves_its_flows_in_turn():
    queuing = {"queues": 4, "handSize": 1, "queueLengthLimit": 50}
    response = {"type": "Queue", "queuing": queuing}
    store, _, done = run_virtual(crowded(response, ("greedy", "modest")))

    first = [name for name, _ in done[40:60]]
    assert {200} == {status for _, status in done}
    assert store.most <= 40
    assert {"greedy", "modest"} == set(first)  # who came last does not wait for all before


def test_a_level_that_refuses_says_when_to_come_back():
    store, answers, _ = run_virtual(crowded({"type": "Reject"}, ("greedy",)))

    refused = [answer for answer in answers if answer.status == 429]
    assert refused
    assert {"1"} == {answer.headers["retry-after"] for answer in refused}
    assert "TooManyRequests" == json.loads(refused[0].body)["reason"]
    assert store.most < 40


def test_who_is_exempt_does_not_wait_for_the_others():
    async def main():
        store = SlowStore()
        server = ApiServer(store, admin_token="t", max_reads=20, max_writes=20)
        await server.start()
        api = Api(server)
        await api.ok("POST", CONFIGMAPS, configmap("a"))
        queuing = {"queues": 64, "handSize": 1, "queueLengthLimit": 500}
        body = level("few", 1, type="Queue", queuing=queuing)
        await api.ok("POST", f"{FLOWS}/prioritylevelconfigurations", body)
        await api.ok("POST", f"{FLOWS}/flowschemas", schema("few", "few", "eve"))
        eve = {"impersonate-user": "eve"}
        flood = [
            asyncio.create_task(api.call("GET", f"{CONFIGMAPS}/a", headers=eve)) for _ in range(200)
        ]
        await asyncio.sleep(0.001)
        began = asyncio.get_running_loop().time()
        await api.ok("GET", f"{CONFIGMAPS}/a")
        took = asyncio.get_running_loop().time() - began
        for task in flood:
            task.cancel()
        await asyncio.gather(*flood, return_exceptions=True)
        await api.close()
        return took

    assert run_virtual(main()) < 0.02


async def test_levels_lend_what_they_do_not_use():
    pool = Pool()
    lender, borrower = Seats(4, lends=3, queue=9, room=9), Seats(1, borrows=None, queue=9, room=9)
    for each in (lender, borrower):
        each.join(pool)
    for _ in range(4):
        await borrower.take(("a", ""))
    late = asyncio.create_task(borrower.take(("a", "")))
    await asyncio.sleep(0)

    assert (4, 1) == (borrower.taken, borrower.waiting)  # one seat of the lender's stays its own
    await lender.take(("b", ""))
    borrower.give()
    await asyncio.sleep(0)
    borrower.give()
    await late

    assert (3, 1) == (borrower.taken, lender.taken)


def test_nobody_waits_for_ever(monkeypatch):
    monkeypatch.setattr(seats_module, "LONGEST_WAIT", 2.0)

    async def main():
        seats = Seats(1)
        await seats.take(("a", ""))
        began = asyncio.get_running_loop().time()
        with pytest.raises(Exception, match="too many requests"):
            await seats.take(("b", ""))
        return asyncio.get_running_loop().time() - began, seats.waiting

    assert (2.0, 0) == run_virtual(main())
