"""Both verbs in one call: the same answers as two calls, and only between Bayplan's own."""

import asyncio
import json
from contextlib import closing

import httpx
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.errors import DecodeError
from bayplan.extender import Extender, pairs
from bayplan.extender.http import Caller
from bayplan.framework.contract.extender import ExtenderError
from bayplan.testing.builders import make_node, make_pod
from tests.extender.servers import plain_server, serving
from tests.extender.test_client import client_of

POD = make_pod("p").uid("u0").build()
FORMS = pytest.mark.parametrize("names_only", [True, False], ids=["names only", "whole nodes"])


def nodes_named(names, version="1"):
    return [
        msgspec.structs.replace(
            node, metadata=msgspec.structs.replace(node.metadata, resource_version=version)
        )
        for node in (make_node(name).uid(f"n-{name}").build() for name in names)
    ]


class Counting:
    """An extender that keeps what is not below its limit; counts what it was asked."""

    def __init__(self):
        self.asked = []

    def filter(self, names):
        self.asked.append(("filter", len(names)))
        return {name: "too low" for name in names if name < "c"}

    def prioritize(self, names):
        self.asked.append(("prioritize", len(names)))
        return {name: (ord(name[0]) + len(names)) % 11 for name in names}


def both(client, nodes):
    """As the engine asks: scores only where there is something to choose."""
    kept = client.filter(POD, nodes)
    left = [node for node in nodes if node.metadata.name in kept.node_names]
    return kept, client.prioritize(POD, left) if len(left) > 1 else {}


def calls(monkeypatch, caller):
    """The calls that were made, by their path and what they said."""
    made = []
    begin = caller.begin

    def noted(call):
        made.append((call.url.rpartition("/")[2], call.headers.strip(), len(call.body)))
        return begin(call)

    monkeypatch.setattr(caller, "begin", noted)
    return made


@FORMS
def test_after_the_first_answer_one_call_has_both_verbs_and_no_node_twice(
    monkeypatch, caller, names_only
):
    app, nodes = Counting(), nodes_named("abcdef")
    with serving(Extender(app)) as url:
        client = client_of(caller, url, node_cache_capable=names_only)
        made = calls(monkeypatch, caller)
        found = [both(client, nodes) for _ in range(3)]

    assert found[0] == found[1] == found[2]
    assert {"a": "too low", "b": "too low"} == found[0][0].failed
    ways = [(path, says.partition(": ")[2]) for path, says, _ in made]
    assert [("filter", "known"), ("prioritize", ""), ("filter", "call"), ("filter", "call")] == ways
    assert made[3][2] < made[2][2] < made[0][2] + 100
    assert 3 * [("filter", 6), ("prioritize", 4)] == app.asked


class Looking:
    """Looks at whole nodes, and so at their versions."""

    async def filter(self, nodes):
        return [node.metadata.name for node in nodes if _grade(node) > "b2"]

    async def prioritize(self, nodes):
        return {node.metadata.name: int(node.metadata.resource_version) for node in nodes}


def _grade(node):
    return node.metadata.name + node.metadata.resource_version


@FORMS
@settings(max_examples=20, deadline=None)
@given(rounds=st.lists(st.tuples(st.text("abcdefg", min_size=1), st.integers(1, 3)), max_size=8))
def test_whatever_is_asked_pairs_say_what_two_calls_say(rounds, names_only):
    """Any nodes in any order, in versions that change."""
    caller = Caller()
    with serving(Extender(Counting() if names_only else Looking())) as url, closing(caller):
        paired = client_of(caller, url, node_cache_capable=names_only)
        plain = client_of(caller, url, node_cache_capable=names_only)
        plain._pairable = False
        for names, version in rounds:
            nodes = nodes_named(dict.fromkeys(names), str(version))
            assert both(plain, nodes) == both(paired, nodes)
        assert paired._pairs == bool(rounds)


@FORMS
def test_an_extender_that_was_started_again_is_told_everything_anew(caller, names_only):
    nodes = nodes_named("abcdef")
    app = Counting()
    with serving(Extender(app)) as url:
        client = client_of(caller, url, node_cache_capable=names_only)
        first = [both(client, nodes) for _ in range(2)][1]
    with serving(Extender(app)) as another:
        client._base = another
        again = [both(client, nodes) for _ in range(2)]

    assert [first, first] == again
    assert client._pairs


def test_strangers_get_ordinary_calls_and_so_does_one_that_takes_the_place(caller):
    seen = []

    def answer(path, body):
        seen.append((path, sorted(body)))
        if path == "/prioritize":
            return 200, json.dumps([{"Host": "d", "Score": 3}]).encode()
        return 200, json.dumps({"NodeNames": body["NodeNames"][-2:]}).encode()

    nodes = nodes_named("abcd")
    with serving(Extender(Counting())) as url:
        client = client_of(caller, url, node_cache_capable=True)
        both(client, nodes)
        assert client._pairs
    with plain_server(answer) as other:
        client._base = other
        with pytest.raises(ExtenderError):  # it does not even answer what it cannot read
            client.filter(POD, nodes)
        kept, scores = both(client, nodes)
        both(client, nodes)

    assert (("c", "d"), {"d": 3}) == (kept.node_names, scores)
    ordinary = ["NodeNames", "Nodes", "Pod"]
    assert 2 * [("/filter", ordinary), ("/prioritize", ordinary)] == [
        entry for entry in seen if entry[1]
    ]


def test_scores_are_not_used_for_other_nodes_and_pairs_end_when_they_are_in_vain(
    monkeypatch, caller
):
    app, nodes = Counting(), nodes_named("abcdef")
    with serving(Extender(app)) as url:
        client = client_of(caller, url, node_cache_capable=True)
        both(client, nodes)
        made = calls(monkeypatch, caller)
        for _ in range(5):
            client.filter(POD, nodes)
            some = client.prioritize(POD, nodes[3:5])

    assert {"d", "e"} == set(some)
    assert [("prioritize", 2)] == app.asked[-1:]
    ways = [(path, says.partition(": ")[2]) for path, says, _ in made]
    assert (
        3 * [("filter", "call"), ("prioritize", "")] + 2 * [("filter", ""), ("prioritize", "")]
        == ways
    )


def test_another_pod_is_not_given_the_scores_of_the_last(caller):
    app, nodes = Counting(), nodes_named("cd")
    with serving(Extender(app)) as url:
        client = client_of(caller, url, node_cache_capable=True)
        both(client, nodes)
        client.filter(POD, nodes)
        client.prioritize(make_pod("q").uid("u1").build(), nodes)

    assert [("filter", 2), ("prioritize", 2), ("prioritize", 2)] == app.asked[-3:]


def test_what_goes_wrong_is_said_as_in_two_calls(caller):
    app = Extender()
    broken = []

    @app.filter
    def filter_(names):
        if "filter" in broken:
            raise RuntimeError("no filter today")
        return names

    @app.prioritize
    def prioritize(names):
        if "scores" in broken:
            raise RuntimeError("no scores today")
        return dict.fromkeys(names, 1)

    nodes = nodes_named("ab")
    with serving(app) as url:
        client = client_of(caller, url, node_cache_capable=True)
        both(client, nodes)
        broken.append("scores")
        assert ("a", "b") == client.filter(POD, nodes).node_names
        with pytest.raises(ExtenderError, match="no scores today"):
            client.prioritize(POD, nodes)
        broken.append("filter")
        with pytest.raises(ExtenderError, match="no filter today"):
            client.filter(POD, nodes)


def test_of_sets_the_one_used_longest_ago_goes_first():
    known = pairs.KnownNodes(sets=2, entries=3)

    def call(name, have):
        add = [] if have else [b"a"]
        return known.args_of(pairs.PairCall(b"{}", name, have, add, [(0, 1)], False))

    for name, have in (("one", 0), ("two", 0), ("one", 1), ("three", 0)):
        assert ["a"] == call(name, have).names

    assert ["a"] == call("one", 1).names
    assert call("two", 1) is None


def test_sets_are_bounded_and_places_outside_are_refused():
    known = pairs.KnownNodes(sets=2, entries=3)

    def call(name, have=0, add=(b"a",), runs=((0, 1),)):
        return known.args_of(pairs.PairCall(b"{}", name, have, list(add), list(runs), False))

    for name in ("one", "two", "three"):
        assert ["a"] == call(name).names
    assert call("one", have=1, add=()) is None
    assert ["b", "a"] == call("three", have=1, add=(b"b",), runs=((1, 2), (0, 1))).names
    for wrong in (
        {"runs": ((0, 9),)},
        {"runs": ((1, 0),)},
        {"runs": ((-1, 0),)},
        {"runs": ((0, 2),)},
        {"add": [b"x"] * 4},
        {"add": [b"a", b"\xff"]},
    ):
        with pytest.raises(DecodeError):
            call("two", **wrong)
    assert list("cba") == call("one", add=(b"a", b"b", b"c"), runs=((2, 3), (1, 2), (0, 1))).names
    with pytest.raises(DecodeError):
        pairs.decode_call(b"nonsense")


def test_stale_versions_of_nodes_do_not_pile_up():
    told = pairs.ToldNodes(lambda node: b"{}")
    sizes = []
    for version in range(3000):
        call = told.call(b"{}", nodes_named("a", str(version)))
        told.was_told(call)
        sizes.append(call.have + len(call.add))

    assert 1003 == max(sizes)  # a thousand and two of each that is there, when one more comes


def test_objects_of_nodes_that_are_no_more_do_not_pile_up():
    """The same node may come as another object in every call."""
    told, sizes = pairs.ToldNodes(None), []
    for version in range(2500):
        told.was_told(told.call(b"{}", nodes_named("a", str(version))))
        sizes.append(len(told._objects))

    assert 1003 == max(sizes)
    assert 1 == len(told._entries)


odd = st.one_of(
    st.binary(max_size=40),
    st.builds(
        pairs.PairCall,
        st.sampled_from([b"{}", b"x", b'{"metadata":{"name":"p"}}']),
        st.sampled_from(["a", "b"]),
        st.integers(-2, 4),
        st.lists(st.sampled_from([b"n", b"\xff", b'{"metadata":{"name":"n"}}', b"[]"]), max_size=3),
        st.lists(st.tuples(st.integers(-1, 5), st.integers(-1, 5)), max_size=3),
        st.booleans(),
    ).map(pairs.encode),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(odd, min_size=1, max_size=6))
def test_no_pair_however_odd_is_answered_with_500(bodies):
    app = Extender(Looking())
    asyncio.run(_post_all(app, bodies))


async def _post_all(app, bodies):
    transport = httpx.ASGITransport(app, raise_app_exceptions=True)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        for body in bodies:
            headers = {pairs.HEADER: pairs.CALL}
            answer = await client.post("/filter", content=body, headers=headers)
            assert answer.status_code in (200, 400)
            if answer.status_code == 200:
                pairs.decode_answer(answer.content)


@pytest.mark.parametrize(
    ("refused", "kept", "scored"),
    [("", None, 3), ("b", [0, 2], 2), ("bc", [0], 0), ("abc", [], 0)],
    ids=["all", "some", "one, which needs no score", "none"],
)
async def test_a_pair_tells_who_is_kept_only_where_not_all_are(refused, kept, scored):
    app = Extender()
    app.filter(lambda names: dict.fromkeys(refused, "no"))
    app.prioritize(lambda names: dict.fromkeys(names, 3))
    call = pairs.PairCall(b"{}", "set", 0, [b"a", b"b", b"c"], [(0, 3)], False)

    answer = pairs.decode_answer(await app._pair(pairs.encode(call)))

    assert (kept, scored * [3]) == (answer.kept, answer.scores)
    assert set(refused) == answer.failed.keys()
