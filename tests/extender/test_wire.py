import json

import pytest

from bayplan.errors import DecodeError
from bayplan.extender import wire

POD = b'{"metadata":{"name":"p","namespace":"default","uid":"u0"},"spec":{"containers":[]}}'


def test_args_with_names_are_written_in_gos_spelling():
    assert {"Pod": json.loads(POD), "Nodes": None, "NodeNames": ["a", "b"]} == json.loads(
        wire.encode_args(POD, names=["a", "b"])
    )


def test_args_with_objects_are_written_as_a_node_list():
    node = b'{"metadata":{"name":"a"}}'

    body = wire.encode_args(POD, nodes=[node])

    assert {
        "Pod": json.loads(POD),
        "Nodes": {"metadata": {}, "items": [{"metadata": {"name": "a"}}]},
        "NodeNames": None,
    } == json.loads(body)
    read = wire.decode_args(body)
    assert ([node], ["a"]) == ([bytes(raw) for raw in read.nodes], read.names)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"NodeNames": ["a"], "FailedNodes": {"b": "full"}, "Error": ""}, id="Go"),
        pytest.param({"nodenames": ["a"], "failednodes": {"b": "full"}}, id="lower case"),
        pytest.param({"nodeNames": ["a"], "failedNodes": {"b": "full"}, "error": None}, id="camel"),
    ],
)
def test_filter_results_are_read_in_any_case(body):
    result = wire.decode_filter_result(json.dumps(body).encode())

    assert (result.node_names, result.failed_nodes, result.error) == (["a"], {"b": "full"}, "")


def test_unresolvable_nodes_are_read_in_another_case():
    result = wire.decode_filter_result(b'{"failedAndUnresolvableNodes":{"b":"never"}}')

    assert result.unresolvable_nodes == {"b": "never"}


def test_gos_spelling_wins_over_another_case():
    result = wire.decode_filter_result(b'{"nodenames":["x"],"NodeNames":["a"]}')

    assert result.node_names == ["a"]


@pytest.mark.parametrize(
    ("body", "scores"),
    [
        pytest.param(b'[{"Host":"a","Score":3}]', {"a": 3}, id="Go"),
        pytest.param(b'[{"host":"a","score":3},{"host":"b"}]', {"a": 3, "b": 0}, id="lower case"),
        pytest.param(b"null", {}, id="null"),
    ],
)
def test_priorities_are_read_in_any_case(body, scores):
    assert scores == {entry.host: entry.score for entry in wire.decode_priorities(body)}


@pytest.mark.parametrize(
    ("read", "body", "says"),
    [
        pytest.param(wire.decode_args, b"{}", "field Pod is missing", id="no pod"),
        pytest.param(wire.decode_args, b"[1]", "reading ExtenderArgs", id="not an object"),
        pytest.param(wire.decode_filter_result, b'{"NodeNames":5}', "NodeNames", id="number"),
        pytest.param(wire.decode_priorities, b'[{"Host":"a","Score":"x"}]', "Score", id="text"),
        pytest.param(wire.decode_priorities, b"{", "HostPriorityList", id="cut off"),
    ],
)
def test_malformed_messages_say_what_is_wrong(read, body, says):
    with pytest.raises(DecodeError, match=says):
        read(body)


def test_preemption_args_carry_uids_for_node_cache_capable_extenders():
    victims = {"a": wire.Victims(uids=["u1"], num_pdb_violations=1)}

    body = wire.encode_preemption_args(POD, victims, by_uid=True)

    assert {
        "Pod": json.loads(POD),
        "NodeNameToVictims": None,
        "NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "u1"}], "NumPDBViolations": 1}},
    } == json.loads(body)


def test_preemption_args_carry_whole_pods_otherwise():
    victims = {"a": wire.Victims(pods=[POD], uids=["u0"])}

    read = wire.decode_preemption_args(wire.encode_preemption_args(POD, victims, by_uid=False))

    assert (read.by_uid, read.victims["a"].pods) == (False, [POD])


def test_preemption_result_is_read_back():
    victims = {"a": wire.Victims(uids=["u1", "u2"], num_pdb_violations=2)}

    assert victims == wire.decode_preemption_result(wire.encode_preemption_result(victims))


def test_binding_args_are_read_back():
    args = wire.BindingArgs(pod_name="p", pod_namespace="ns", pod_uid="u", node="n")

    assert args == wire.decode_binding_args(wire.encode_binding_args(args))
    assert {"PodName", "PodNamespace", "PodUID", "Node"} == set(
        json.loads(wire.encode_binding_args(args))
    )


def test_nodes_may_come_as_a_bare_list():
    """As some extenders send them."""
    nodes = '[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]'

    assert ["a", "b"] == wire.decode_args(f'{{"Pod":{{}},"Nodes":{nodes}}}'.encode()).names
    assert ["a", "b"] == wire.decode_filter_result(f'{{"Nodes":{nodes}}}'.encode()).nodes
