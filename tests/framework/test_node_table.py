"""The table follows its nodes and pods, and tells what changed."""

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from bayplan.api.labels import parse_selector, requirement
from bayplan.cluster.limits import Limits
from bayplan.cluster.order import zone_key
from bayplan.cluster.selection import requirement_mask
from bayplan.engine.cache import Cache
from bayplan.errors import DecodeError
from bayplan.framework import NodeTable, PodInfos, PodQuery, QueryPart
from bayplan.testing import ZONE, make_node, make_pod
from bayplan.testing.strategies import APPS, nodes, pods

QUERIES = [
    PodQuery((QueryPart(frozenset({"default"}), parse_selector("app=web")),)),
    PodQuery((QueryPart(None, parse_selector("app")),), skip_terminating=True),
    PodQuery(
        (QueryPart(None, parse_selector("app")), QueryPart(None, parse_selector("ver=1"))),
    ),
]


def placed(table, infos, pod, node):
    info = infos.make(pod, node)
    table.add_pod(info)
    return info


def test_nodes_are_listed_zone_by_zone_in_turn():
    table = NodeTable()
    for name, zone in (
        ("a1", "a"),
        ("a2", "a"),
        ("b1", "b"),
        ("c1", "c"),
        ("b2", "b"),
        ("a3", "a"),
    ):
        table.add_node(make_node(name).zone(zone).build())

    names = [table.name_of(row) for row in table.order.tolist()]
    assert ["a1", "b1", "c1", "a2", "b2", "a3"] == names


def test_a_node_that_changes_its_zone_arrives_anew():
    table = NodeTable()
    for name, zone in (("a1", "a"), ("a2", "a"), ("b1", "b")):
        table.add_node(make_node(name).zone(zone).build())
    table.update_node(make_node("a1").zone("b").build())

    assert ["a2", "b1", "a1"] == [table.name_of(row) for row in table.order.tolist()]
    assert "" == zone_key(make_node("x").build())


def test_the_journal_tells_which_rows_changed():
    table, infos = NodeTable(), PodInfos()
    for name in ("a", "b"):
        table.add_node(make_node(name).build())
    start, nodes = table.changes.generation, table.node_changes.generation
    info = placed(table, infos, make_pod("p").build(), "b")
    table.remove_pod(info)
    table.update_node(make_node("a").label({"x": "y"}).build())

    assert [1, 1, 0] == table.changes.since(start)
    assert [0] == table.node_changes.since(nodes)
    assert [] == table.changes.since(table.changes.generation)


def test_a_journal_that_is_full_says_so():
    table = NodeTable(Limits(journal=2))
    start = table.changes.generation
    for name in "abc":
        table.add_node(make_node(name).build())

    assert table.changes.since(start) is None
    assert [2] == table.changes.since(table.changes.generation - 1)


def test_when_a_node_goes_the_last_row_takes_its_place():
    table, names = NodeTable(), []
    for name in "abcd":
        table.add_node(make_node(name).zone((name in "ac" and "z1") or "z2").build())
        names.append(table.names())
    start = table.node_changes.generation
    table.remove_node("b")

    assert [1, 3] == table.node_changes.since(start)
    assert ["a", "d", "c"] == list(table.names())
    assert ["a", "d", "c"] == [table.name_of(row) for row in table.order.tolist()]
    assert [list("abcd")[: n + 1] for n in range(4)] == [list(item) for item in names]


def test_a_heartbeat_changes_nothing():
    table = NodeTable()
    table.add_node(make_node("a").build())
    before = table.changes.generation, table.nodes_revision

    assert not table.update_node(make_node("a").build())
    assert before == (table.changes.generation, table.nodes_revision)


def test_pods_of_a_node_that_left_wait_for_it():
    cache = Cache()
    for name in ("a", "b"):
        cache.add_node(make_node(name).build())
    cache.put(make_pod("p").req({"cpu": "1"}).node("a").build())
    cache.remove_node("a")

    assert ["b"] == list(cache.table.names())
    assert 1 == len(list(cache.table.pods_aside()))
    cache.validate()
    cache.add_node(make_node("a").build())
    row = cache.table.row_of("a")
    assert 1000 == cache.table.requested(0)[row]
    cache.validate()


def test_an_impossible_quantity_names_itself_and_leaves_the_table_alone():
    table = NodeTable()
    table.add_node(make_node("a").build())

    with pytest.raises(DecodeError, match="12Qx"):
        table.add_node(make_node("b").capacity(cpu="12Qx").build())
    assert ["a"] == list(table.names())
    assert table.row_of("b") is None


@pytest.mark.parametrize(
    ("key", "operator", "values", "rows"),
    [
        ("gen", "Gt", ("2",), [False, True, False, False]),
        ("gen", "Lt", ("2",), [True, False, False, False]),
        ("gen", "In", ("1", "x"), [True, False, True, False]),
        ("gen", "NotIn", ("1",), [False, True, True, True]),
        ("gen", "Exists", (), [True, True, True, False]),
        ("gen", "DoesNotExist", (), [False, False, False, True]),
    ],
)
def test_requirements_on_label_codes(key, operator, values, rows):
    table = NodeTable()
    for name, value in (("a", "1"), ("b", "3"), ("c", "x"), ("d", "")):
        labels = {key: value} if value else {}
        table.add_node(make_node(name).label(labels).build())

    assert rows == requirement_mask(table, requirement(key, operator, values)).tolist()


def test_a_selection_shows_its_rows_only():
    table = NodeTable()
    for name in ("a", "b", "c"):
        table.add_node(make_node(name).zone(f"z{name}").build())
    view = table.select(np.array([2, 0]))

    assert ["c", "a"] == list(view.names())
    values = view.label_values(ZONE)
    assert ["zc", "za"] == [values[code] for code in view.label_codes(ZONE).tolist()]
    assert "c" == view.info(0).name


class TableMachine(RuleBasedStateMachine):
    """Whatever comes and goes, what is kept equals what is counted anew."""

    def __init__(self):
        super().__init__()
        self.cache = Cache()
        self.number = 0
        for query in QUERIES:
            self.cache.table.counts.matching(query)

    @rule(data=st.data(), name=st.sampled_from("abcd"))
    def put_node(self, data, name):
        self.cache.put(data.draw(nodes(name)))

    @rule(name=st.sampled_from("abcd"))
    def remove_node(self, name):
        self.cache.remove_node(name)

    @rule(data=st.data(), name=st.sampled_from("abcd"))
    def add_pod(self, data, name):
        self.number += 1
        self.cache.put(data.draw(pods(f"p{self.number}", name)))

    @rule(data=st.data(), number=st.integers(1, 8))
    def update_pod(self, data, number):
        found = self.cache.pod(f"uid-default-p{number}")
        if found is not None:
            self.cache.put(data.draw(pods(f"p{number}", found.node_name, "default")))

    @rule(number=st.integers(1, 8), namespace=st.sampled_from(("default", "team-a", "team-b")))
    def remove_pod(self, number, namespace):
        found = self.cache.pod(f"uid-{namespace}-p{number}")
        if found is not None:
            self.cache.remove_pod(found.pod)

    @rule(data=st.data(), name=st.sampled_from("abcd"))
    def assume_and_forget(self, data, name):
        self.number += 1
        pod = data.draw(pods(f"p{self.number}"))
        self.cache.assume(self.cache.infos.make(pod), name)
        self.cache.validate()
        if data.draw(st.booleans()):
            self.cache.forget(pod)

    @rule(app=st.sampled_from(APPS), key=st.sampled_from((ZONE, "rack")))
    def ask(self, app, key):
        query = PodQuery((QueryPart(None, parse_selector(f"app={app}")),))
        self.cache.table.counts.matching(query).per_domain(key)

    @invariant()
    def consistent(self):
        self.cache.validate()
        table = self.cache.table
        for query, column in table.counts.queries().items():
            for key in (ZONE, "rack"):
                codes, per_node = table.label_codes(key), column.per_node()
                size = len(table.label_values(key))
                wanted = np.bincount(codes[codes >= 0], per_node[codes >= 0], size)
                assert wanted.tolist() == column.per_domain(key).tolist(), query


TestTable = TableMachine.TestCase
TestTable.settings = settings(
    max_examples=40, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
