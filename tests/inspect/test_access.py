"""A running cluster that refuses: one clear line with the remedy, and what is missing is named."""

import json

import pytest

from bayplan.api import yaml
from bayplan.client import Client, KubeconfigError, Response, TransportError, load_kubeconfig
from bayplan.inspect import AccessError, Cluster, SourceError
from bayplan.inspect.kinds import KINDS
from bayplan.inspect.role import cluster_role
from bayplan.inspect.sources.live import read_client
from bayplan.testing.builders import make_node, make_pod
from tests.docs.pages import ROOT


class Server:
    """Answers lists from a table; `refused` plurals get that status."""

    def __init__(self, refused=(), status=403):
        self._refused, self._status = refused, status
        self.paths = []

    async def request(self, method, target, headers, body, timeout):
        path = target.split("?")[0]
        self.paths.append((method, target))
        if path == "/version":
            if self._status == 401:
                return self._failure(path)
            return Response(200, {}, b'{"gitVersion": "v1.36.4"}')
        plural = path.rsplit("/", 1)[-1]
        if plural in self._refused:
            return self._failure(plural)
        items = {"nodes": [make_node("a").body()], "pods": [make_pod("p").body()]}
        found = {"kind": "List", "items": items.get(plural, [])}
        return Response(200, {}, json.dumps(found).encode())

    def _failure(self, what):
        reason = {403: "Forbidden", 401: "Unauthorized", 404: "NotFound"}[self._status]
        body = {"kind": "Status", "code": self._status, "reason": reason, "message": f"no {what}"}
        return Response(self._status, {}, json.dumps(body).encode())

    async def refresh_credentials(self):
        return False

    async def close(self):
        return None


async def read(server):
    return await read_client(Client(server), "https://cluster")


async def test_only_gets_are_sent_and_lists_come_in_pages():
    server = Server()
    objects, origin = await read(server)

    assert {"GET"} == {method for method, _ in server.paths}
    assert all("limit=500" in target for _, target in server.paths if target != "/version")
    assert "v1.36.4" == origin.version
    assert ["default/p"] == [pod.key for pod in Cluster(objects, origin=origin).pending()]


async def test_half_of_the_kinds_forbidden_is_told_in_the_answer():
    refused = {"persistentvolumes", "services", "events"}
    objects, origin = await read(Server(refused))

    answer = Cluster(objects, origin=origin).why("p")

    assert refused == {item.what for item in answer.unread}
    assert all(item.without for item in answer.unread)


async def test_without_nodes_there_is_no_answer_but_a_remedy():
    with pytest.raises(AccessError, match="bayplan snapshot role"):
        await read(Server({"nodes"}))


async def test_an_expired_token_is_told():
    with pytest.raises(AccessError, match="has expired; log in again"):
        await read(Server(status=401))


async def test_kinds_that_an_older_cluster_does_not_serve_are_no_news():
    _, origin = await read(Server({"resourceslices", "podgroups"}, 404))

    assert () == origin.unread


async def test_a_server_that_is_something_else_is_told():
    server = Server()
    server.request = lambda *_: _answer(Response(200, {}, b"<html>"))

    with pytest.raises(SourceError, match="does not answer as a Kubernetes API server"):
        await read(server)


async def test_a_server_that_does_not_answer_is_told():
    server = Server()
    server.request = lambda *_: _answer(TransportError("connecting to cluster: refused"))

    with pytest.raises(SourceError, match=r"refused; is the API server running\? check"):
        await read(server)


async def _answer(what):
    if isinstance(what, Exception):
        raise what
    return what


def test_a_context_that_is_not_there_names_those_that_are(tmp_path):
    file = tmp_path / "kubeconfig"
    context = {"name": "prod", "context": {"cluster": "c", "user": "u"}}
    file.write_text(yaml.dump({"contexts": [context], "current-context": "prod"}))

    with pytest.raises(KubeconfigError, match='context "prd" does not exist; contexts there: prod'):
        load_kubeconfig(file, context="prd")


def test_the_role_in_deploy_is_what_is_read():
    shipped = (ROOT / "deploy" / "inspect" / "cluster-role.yaml").read_text()

    assert cluster_role() == shipped
    rules = [rule for rule in yaml.load(shipped)["rules"] if "resources" in rule]
    assert {"get", "list"} == {verb for rule in rules for verb in rule["verbs"]}
    named = {(rule["apiGroups"][0], name) for rule in rules for name in rule["resources"]}
    assert {(kind.resource.group, kind.resource.plural) for kind in KINDS} == named


ODD = {
    "a list": b"[]",
    "null": b"null",
    "nothing": b"",
    "deep": b'{"a":' * 100_000,
    "lists of lists": b'{"kind":"List","items":[' * 2000 + b"]}" * 2000,
    "items are a number": b'{"items":5}',
    "the next page is a number": b'{"metadata":{"continue":5},"items":[]}',
    "the metadata is a number": b'{"metadata":5,"items":[]}',
}


class Odd(Server):
    def __init__(self, answer):
        super().__init__()
        self._answer = answer

    async def request(self, method, target, headers, body, timeout):
        if target == "/version":
            return await super().request(method, target, headers, body, timeout)
        return Response(200, {}, self._answer)


@pytest.mark.parametrize("name", ODD)
async def test_an_answer_that_is_no_list_is_told_in_one_line(name):
    with pytest.raises(SourceError, match="https://cluster does not answer as a Kubernetes API"):
        await read(Odd(ODD[name]))


async def test_a_list_may_say_null_where_it_says_nothing():
    objects, _ = await read(Odd(b'{"metadata":{"continue":null},"items":null}'))

    assert {} == objects
