"""What authors of extenders may return, and what they and others are told of what is wrong."""

import asyncio
import gzip
import json

import pytest

from bayplan.extender import check, wire
from bayplan.extender.answers import AnswerError, bind_answer, preempt_answer, prioritize_answer
from bayplan.extender.body import GZIP_FROM, BodyError, read_body, respond
from bayplan.intake import Intake

ASKED = {"a": wire.Victims(uids=["u1", "u2"], num_pdb_violations=2), "b": wire.Victims(uids=["u3"])}


class Whole:
    """A number that is none of Python's own, as numpy's."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


@pytest.mark.parametrize(
    ("returned", "scores"),
    [
        pytest.param(None, {"a": 0, "b": 0}, id="nothing"),
        pytest.param({}, {"a": 0, "b": 0}, id="no node"),
        pytest.param({"a": 10}, {"a": 10, "b": 0}, id="one node"),
        pytest.param([("b", 3)], {"a": 0, "b": 3}, id="pairs"),
        pytest.param({"a": Whole(10), "b": Whole(0)}, {"a": 10, "b": 0}, id="other numbers"),
    ],
)
def test_scores(returned, scores):
    assert scores == prioritize_answer(returned, ["a", "b"], "mine")


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        pytest.param([1], "not made of (node, score) pairs", id="no pairs"),
        pytest.param("text", "mine returned str; return a dict from node to score", id="text"),
        pytest.param(7, "mine returned int; return a dict from node to score", id="a number"),
        pytest.param({"z": 1}, 'the node "z", which was not asked about', id="a stranger"),
        pytest.param({7: 1}, "returned 7 where a node name belongs", id="no name"),
        pytest.param({"a": 11}, 'the score 11 for node "a"', id="too much"),
        pytest.param({"a": Whole(11)}, 'the score 11 for node "a"', id="too much, another number"),
        pytest.param({"a": -1}, 'the score -1 for node "a"', id="too little"),
        pytest.param({"a": True}, 'the score True for node "a"', id="a truth"),
        pytest.param({"a": 1.0}, 'the score 1.0 for node "a"', id="a fraction"),
    ],
)
def test_what_is_wrong_with_scores_is_told(returned, text):
    with pytest.raises(AnswerError) as problem:
        prioritize_answer(returned, ["a", "b"], "mine")

    assert text in str(problem.value)


@pytest.mark.parametrize(
    ("returned", "left"),
    [
        pytest.param(None, ASKED, id="all as they are"),
        pytest.param(["b"], {"b": ASKED["b"]}, id="one node"),
        pytest.param([], {}, id="no node"),
        pytest.param(
            {"a": ["u2"]}, {"a": wire.Victims(uids=["u2"], num_pdb_violations=2)}, id="one victim"
        ),
        pytest.param({"b": ASKED["b"]}, {"b": ASKED["b"]}, id="victims as they were given"),
    ],
)
def test_victims(returned, left):
    assert left == preempt_answer(returned, ASKED, "mine")


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        pytest.param("a", "mine returned str; preempt returns the node names", id="text"),
        pytest.param(7, "mine returned int; preempt returns the node names", id="a number"),
        pytest.param(["z"], 'the node "z", which was not asked about', id="a stranger"),
        pytest.param({"a": "u1"}, 'str as the victims on node "a"', id="one text"),
        pytest.param({"a": 7}, 'int as the victims on node "a"', id="no victims"),
        pytest.param({"a": []}, 'no victim on node "a"; leave the node out instead', id="none"),
    ],
)
def test_what_is_wrong_with_victims_is_told(returned, text):
    with pytest.raises(AnswerError) as problem:
        preempt_answer(returned, ASKED, "mine")

    assert text in str(problem.value)


def test_what_a_bind_says():
    assert ["", "", "no"] == [bind_answer(said, "mine") for said in (None, True, "no")]
    for said in (False, 7):
        with pytest.raises(AnswerError, match="bind returns nothing, or an error as text"):
            bind_answer(said, "mine")


# -- bayplan extender check


def verdict(judge, answer, status=200):
    body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    try:
        judge(check.Answer(status, body))
    except check.CheckError as problem:
        return str(problem)
    return ""


@pytest.mark.parametrize(
    ("names", "answer", "says"),
    [
        pytest.param(True, {"NodeNames": ["a", "b"]}, "", id="all"),
        pytest.param(True, {"NodeNames": [], "FailedNodes": {"a": "x"}}, "", id="none"),
        pytest.param(True, {"Nodes": {"items": []}}, "", id="none, in the other form"),
        pytest.param(True, {"NodeNames": ["a", "a"]}, "names a node twice", id="twice"),
        pytest.param(False, {"NodeNames": ["a"]}, "Nodes is not set although", id="names only"),
        pytest.param(False, {"Nodes": {"items": [{"metadata": {"name": "a"}}]}}, "", id="nodes"),
        pytest.param(True, {"FailedNodes": {"z": "x"}, "NodeNames": []}, '"z", which', id="who?"),
    ],
)
def test_what_is_said_of_a_filter(names, answer, says):
    found = verdict(check.judge_filter(["a", "b"], names=names), answer)

    assert says in found
    assert bool(says) == bool(found)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        pytest.param([{"Host": "a", "Score": 0}, {"Host": "b", "Score": 10}], "", id="right"),
        pytest.param([], "an empty list: no node is scored", id="empty"),
        pytest.param([{"Host": "z", "Score": 1}], '"z", which was not asked about', id="stranger"),
        pytest.param([{"Host": "a", "Score": 11}], 'score 11 for "a" is not within', id="too much"),
        pytest.param([{"Host": "a", "Score": -1}], 'score -1 for "a" is not within', id="too few"),
    ],
)
def test_what_is_said_of_scores(answer, says):
    found = verdict(check.judge_prioritize(["a", "b"]), answer)

    assert says in found
    assert bool(says) == bool(found)


def test_nobody_has_to_score_no_node():
    assert "" == verdict(check.judge_prioritize([]), [])


@pytest.mark.parametrize(
    ("victims", "says"),
    [
        pytest.param({"a": ["u1"]}, "", id="right"),
        pytest.param({"z": ["u1"]}, 'names the node "z", which was not proposed', id="stranger"),
        pytest.param({"a": []}, 'names no victim on node "a"', id="none"),
        pytest.param({"a": ["u3"]}, 'names the victim u3 on "a", not proposed', id="of another"),
    ],
)
def test_what_is_said_of_victims(victims, says):
    named = {node: {"Pods": [{"UID": uid} for uid in uids]} for node, uids in victims.items()}
    found = verdict(check.judge_preempt(ASKED), {"NodeNameToMetaVictims": named})

    assert says in found
    assert bool(says) == bool(found)


def test_another_code_than_200_is_told_with_the_text():
    assert "answered 500 where 200 was expected: oops" == verdict(
        check.judge_prioritize(["a"]), b"oops", 500
    )


# -- bodies


def read(*events, limit=10, **headers):
    left = list(events)

    async def receive():
        return left.pop(0)

    pairs = [(name.replace("_", "-").encode(), value) for name, value in headers.items()]
    with Intake().share() as share:
        return asyncio.run(read_body({"headers": pairs}, receive, share, limit))


def part(body, more=False):
    return {"type": "http.request", "body": body, "more_body": more}


def test_a_body_in_parts_and_a_packed_one():
    assert b"0123456789" == read(part(b"01234", more=True), part(b"56789"))
    assert b"text" == read(part(gzip.compress(b"text")), limit=100, content_encoding=b"GZIP")
    assert b"text" == read(part(b"text"), content_encoding=b"identity", content_length=b"10")


@pytest.mark.parametrize(
    ("event", "headers", "status", "says"),
    [
        pytest.param(part(b""), {"content_length": b"11"}, 413, "larger than 10", id="announced"),
        pytest.param(part(b""), {"content_length": b"0" * 19}, 413, "larger than", id="endless"),
        pytest.param(part(b"x" * 11), {}, 413, "larger than 10 bytes", id="larger than announced"),
        pytest.param(part(b"x"), {"content_encoding": b"br"}, 415, "'br' is not", id="unknown"),
        pytest.param(part(b"x"), {"content_encoding": b"gzip"}, 400, "is not gzip", id="no gzip"),
        pytest.param(
            part(gzip.compress(b"x" * 200)), {"content_encoding": b"gzip"}, 413, "", id="a bomb"
        ),
        pytest.param({"type": "http.disconnect"}, {}, 400, "went away before", id="gone"),
    ],
)
def test_bodies_that_are_refused(event, headers, status, says):
    limit = 100 if "content_encoding" in headers else 10
    with pytest.raises(BodyError) as problem:
        read(event, limit=limit, **headers)

    assert status == problem.value.status
    assert says in str(problem.value)


@pytest.mark.parametrize(
    ("size", "accepts", "is_packed"),
    [
        (GZIP_FROM, b"gzip, br", True),
        (GZIP_FROM, b"br", False),
        (GZIP_FROM - 1, b"gzip", False),
    ],
    ids=["large", "not understood", "small"],
)
def test_large_answers_are_packed_for_who_understands(size, accepts, is_packed):
    sent = []

    async def send(event):
        sent.append(event)

    scope = {"headers": [(b"accept-encoding", accepts)]}
    asyncio.run(respond(send, 200, b"x" * size, "text/plain", scope=scope))

    headers = dict(sent[0]["headers"])
    body = sent[1]["body"]
    assert is_packed == (headers.get(b"content-encoding") == b"gzip")
    assert str(len(body)).encode() == headers[b"content-length"]
    assert b"x" * size == (gzip.decompress(body) if is_packed else body)
