"""Tests of the extender: run them with `pytest`."""

import asyncio
import json

from extender import app

from bayplan.extender import wire

POD = json.dumps(
    {"metadata": {"name": "p", "labels": {"data": "maps"}}, "spec": {"containers": []}}
).encode()


def node(name, **labels):
    return json.dumps({"metadata": {"name": name, "labels": labels}}).encode()


def ask(verb, nodes):
    return json.loads(asyncio.run(app.answer(verb, wire.encode_args(POD, nodes=nodes))))


def test_nodes_in_maintenance_are_rejected():
    answer = ask("filter", [node("a"), node("b", maintenance="true")])

    assert ["a"] == [item["metadata"]["name"] for item in answer["Nodes"]["items"]]
    assert {"b": "node(s) were in maintenance"} == answer["FailedNodes"]


def test_the_node_with_the_data_wins():
    answer = ask("prioritize", [node("a"), node("b", data="maps")])

    assert [{"Host": "a", "Score": 0}, {"Host": "b", "Score": 10}] == answer
