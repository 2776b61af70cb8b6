import asyncio
import gzip
import json
import urllib.error
import urllib.request

import pytest

from bayplan import stopping
from bayplan.errors import BayplanError
from bayplan.extender import Extender, Rejection, serve, wire
from bayplan.extender.body import BodyError, read_body
from bayplan.intake import Intake
from tests.extender.servers import serving

POD = b'{"metadata":{"name":"p","namespace":"default","uid":"u0"},"spec":{"containers":[]}}'
NODE_A = b'{"metadata":{"name":"a","labels":{"disk":"ssd"}}}'
NODE_B = b'{"metadata":{"name":"b"}}'
OBJECTS = wire.encode_args(POD, nodes=[NODE_A, NODE_B])
NAMES = wire.encode_args(POD, names=["a", "b"])


def ask(app, verb, body):
    return json.loads(asyncio.run(app.answer(verb, body)))


def test_filter_keeps_the_names_returned_and_sends_objects_back():
    app = Extender()

    @app.filter
    def has_ssd(pod, nodes):
        return [node.metadata.name for node in nodes if "disk" in node.metadata.labels]

    answer = ask(app, "filter", OBJECTS)

    assert [json.loads(NODE_A)] == answer["Nodes"]["items"]
    assert answer["NodeNames"] is None
    assert list(answer["FailedNodes"]) == ["b"]


@pytest.mark.parametrize(
    ("returned", "kept", "failed", "unresolvable"),
    [
        pytest.param(["b"], ["b"], ["a"], [], id="names to keep"),
        pytest.param({"b"}, ["b"], ["a"], [], id="a set"),
        pytest.param({"a": "too hot"}, ["b"], ["a"], [], id="reasons by rejected node"),
        pytest.param(Rejection(unresolvable={"a": "never"}), ["b"], [], ["a"], id="unresolvable"),
        pytest.param(None, ["a", "b"], [], [], id="nothing: all fit"),
    ],
)
def test_filter_takes_plain_answers(returned, kept, failed, unresolvable):
    app = Extender()
    app.filter(lambda names: returned)

    answer = ask(app, "filter", NAMES)

    assert kept == answer["NodeNames"]
    assert failed == list(answer["FailedNodes"])
    assert unresolvable == list(answer["FailedAndUnresolvableNodes"])


@pytest.mark.parametrize(
    ("returned", "says"),
    [
        pytest.param(["zz"], 'the node "zz", which was not asked about', id="unknown node"),
        pytest.param([1], "where a node name belongs", id="a number as name"),
        pytest.param({"a": 5}, "a reason is text", id="a number as reason"),
        pytest.param(7, "a filter returns the names to keep", id="a number"),
    ],
)
def test_filter_explains_a_wrong_answer_in_the_error_field(returned, says):
    app = Extender()
    app.filter(lambda names: returned)

    assert says in ask(app, "filter", NAMES)["Error"]


def test_filter_that_raises_names_the_function_and_the_error():
    app = Extender()

    @app.filter
    def broken(names):
        raise ValueError("no such rack")

    assert "broken raised ValueError: no such rack" in ask(app, "filter", NAMES)["Error"]


def test_filter_that_ends_the_program_fails_the_call_alone():
    app = Extender()

    @app.filter
    def ending(names):
        raise SystemExit("had enough")

    assert "ending raised SystemExit: had enough" in ask(app, "filter", NAMES)["Error"]


def test_prioritize_scores_missing_nodes_zero():
    app = Extender()
    app.prioritize(lambda names: {"b": 7})

    assert ask(app, "prioritize", NAMES) == [{"Host": "a", "Score": 0}, {"Host": "b", "Score": 7}]


@pytest.mark.parametrize(
    "returned", [{"a": 11}, {"a": -1}, {"a": 1.5}, {"a": True}, {"zz": 1}, "text", [1]]
)
def test_prioritize_refuses_scores_that_the_protocol_does_not_know(returned):
    app = Extender()
    app.prioritize(lambda names: returned)

    with pytest.raises(BayplanError):
        asyncio.run(app.answer("prioritize", NAMES))


def test_preempt_keeps_nodes_or_chooses_victims():
    app = Extender()
    app.preempt(lambda victims: {"a": victims["a"].uids[:1]})
    body = wire.encode_preemption_args(
        POD, {"a": wire.Victims(uids=["u1", "u2"]), "b": wire.Victims(uids=["u3"])}, by_uid=True
    )

    assert ask(app, "preempt", body)["NodeNameToMetaVictims"] == {
        "a": {"Pods": [{"UID": "u1"}], "NumPDBViolations": 0}
    }


def test_preempt_reads_uids_of_whole_pods():
    app = Extender()
    app.preempt(lambda victims: list(victims))
    body = wire.encode_preemption_args(POD, {"a": wire.Victims(pods=[POD])}, by_uid=False)

    assert ask(app, "preempt", body)["NodeNameToMetaVictims"]["a"]["Pods"] == [{"UID": "u0"}]


def test_bind_reports_what_the_function_says():
    app = Extender()
    app.bind(lambda node: None if node == "a" else "no such node")
    good = wire.encode_binding_args(wire.BindingArgs("p", "ns", "u", "a"))
    bad = wire.encode_binding_args(wire.BindingArgs("p", "ns", "u", "x"))

    assert ask(app, "bind", good) == {"Error": ""}
    assert ask(app, "bind", bad) == {"Error": "no such node"}


def test_a_class_is_an_extender_too():
    class Mine:
        async def filter(self, names):
            return names[:1]

        def prioritize(self, names):
            return dict.fromkeys(names, 10)

    app = Extender(Mine())

    assert ask(app, "filter", NAMES)["NodeNames"] == ["a"]
    assert ask(app, "prioritize", NAMES)[0]["Score"] == 10


def test_asking_for_an_unknown_argument_fails_at_start():
    with pytest.raises(BayplanError, match="asks for node_list; it may ask for pod, nodes, names"):
        Extender().filter(lambda node_list: node_list)


def test_names_only_without_a_node_cache_says_the_remedy():
    app = Extender()
    app.filter(lambda nodes: [])

    assert "--kubeconfig" in ask(app, "filter", NAMES)["Error"]


def test_nodes_come_from_the_cache_when_only_names_were_sent():
    class Cache:
        def node_json(self, name):
            return {"a": NODE_A, "b": NODE_B}.get(name)

    app = Extender(nodes=Cache())
    app.filter(lambda nodes: [n.metadata.name for n in nodes if n.metadata.labels])

    assert ask(app, "filter", NAMES)["NodeNames"] == ["a"]


def post(url, body, **headers):
    request = urllib.request.Request(url, data=body, headers=headers, method="POST")
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.status, answer.read()


def test_serves_the_paths_of_the_protocol_and_health():
    app = Extender(token="secret")
    app.prioritize(lambda names: dict.fromkeys(names, 1))
    with serving(app) as url:
        auth = {"Authorization": "Bearer secret"}

        assert urllib.request.urlopen(f"{url}/healthz", timeout=60).status == 200
        assert post(f"{url}/priority", NAMES, **auth) == post(f"{url}/prioritize", NAMES, **auth)
        packed = gzip.compress(NAMES)
        assert post(f"{url}/prioritize", packed, **auth, **{"Content-Encoding": "gzip"})[0] == 200
        for path, body, headers, status in [
            ("/prioritize", NAMES, {}, 401),
            ("/filter", NAMES, auth, 404),
            ("/nothing", NAMES, auth, 404),
            ("/prioritize", b"{", auth, 400),
            ("/prioritize", b"x", auth | {"Content-Encoding": "br"}, 415),
        ]:
            with pytest.raises(urllib.error.HTTPError) as caught:
                post(url + path, body, **headers)
            with caught.value:
                assert status == caught.value.code, path
        request = urllib.request.Request(f"{url}/metrics", headers=auth)
        text = urllib.request.urlopen(request, timeout=60).read().decode()
        assert 'extender_calls_total{result="answered",verb="prioritize"} 3.0' in text


def test_a_verb_given_twice_is_refused_by_name():
    app = Extender()
    app.filter(lambda names: names)

    with pytest.raises(BayplanError, match="filter is given twice"):
        app.filter(lambda names: names)


async def test_a_client_that_leaves_within_its_body_gets_no_answer_made_of_half_of_it():
    events = iter([{"type": "http.request", "body": b"{", "more_body": True}])

    async def receive():
        return next(events, {"type": "http.disconnect"})

    with pytest.raises(BodyError, match="went away") as problem:
        await read_body({"headers": []}, receive, Intake().share())

    assert 400 == problem.value.status


@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt", "bind"])
def test_a_function_that_is_registered_keeps_its_name(verb):
    def mine():
        raise AssertionError("is not called")

    assert getattr(Extender(), verb)(mine) is mine


def test_of_many_nodes_that_the_cache_lacks_five_are_named():
    class Empty:
        def node_json(self, name):
            return None

    app = Extender(nodes=Empty())
    app.filter(lambda nodes: [])
    body = wire.encode_args(POD, names=list("abcdefg"))

    assert ask(app, "filter", body)["Error"].endswith("does not know a, b, c, d, e yet")


async def test_a_server_tells_its_port_answers_and_ends_when_it_is_told(monkeypatch):
    app, stops = Extender(), []
    app.filter(lambda names: names)
    monkeypatch.setattr(stopping, "stop_on_signals", stops.append)
    told = asyncio.get_running_loop().create_future()
    listen = serve.Listen(port=0)
    served = serve._serve(serve.uvicorn_config(app, listen), listen, told.set_result)
    task = asyncio.ensure_future(served)
    await asyncio.wait([task, told], return_when=asyncio.FIRST_COMPLETED)
    url = f"http://127.0.0.1:{told.result()}/filter"
    status, _ = await asyncio.to_thread(post, url, NAMES)
    [stopped] = stops
    stopped.set()
    await task

    assert 200 == status
