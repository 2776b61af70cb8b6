"""A record tells what was decided, however much has changed since."""

import msgspec
import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayplan.engine.answers import Column
from bayplan.engine.answers.share import array, moment
from bayplan.engine.cycle.records import RecordRing
from bayplan.engine.replay import describe
from bayplan.testing import make_node, make_pod
from bayplan.testing.strategies import clusters, pods
from tests.engine.clusters import make_engine
from tests.engine.test_agrees import NOW, engine_for, named


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(cluster=clusters(), templates=st.lists(pods(), min_size=1, max_size=2), data=st.data())
def test_records_outlive_later_changes(cluster, templates, data):
    engine = engine_for(cluster)
    told = []
    for number in range(6):
        pod = named(data.draw(st.sampled_from(templates)), f"new-{number}")
        decision = engine.schedule(pod, NOW)
        told.append((decision.record, describe(engine, decision)))
        engine.place(pod, NOW)

    for record, described in told:
        if record is None or described["preFilter"]["code"] != "Success":
            continue
        for name, status in described["nodes"].items():
            found = record.status_of(name)
            code = "Success" if found is None else found.code.text
            if status.get("plugin") != "PreFilterResult":
                assert status["code"] == code
        if record.columns:
            for name, total in described["totals"].items():
                assert total == record.total_of(name)


def record(uid="u", size=512):
    engine = make_engine([make_node("a").build()])
    found = engine.schedule(make_pod("p").uid(uid).build(), NOW).record
    return msgspec.structs.replace(found, bytes=size)


def test_the_ring_keeps_the_newest_within_its_limits():
    ring = RecordRing(limit=3, limit_bytes=10_000)
    for number in range(5):
        ring.add(record(f"u{number}"))

    assert ["u2", "u3", "u4"] == [item.uid for item in ring]
    ring.add(record("big", size=9_800))
    assert ["big"] == [item.uid for item in ring]
    assert 1 == len(ring.of("big"))


def test_bytes_of_records_that_have_left_the_ring_do_not_count():
    ring = RecordRing(limit=2, limit_bytes=10_000)
    for number in range(50):
        ring.add(record(f"u{number}", size=4_000))
        assert min(number + 1, 2) == len(ring)


def test_a_full_ring_drops_some_records_at_once():
    ring = RecordRing(limit=100, limit_bytes=16_000)
    sizes = []
    for number in range(60):
        ring.add(record(f"u{number}", size=1_000))
        sizes.append(len(ring))

    assert 16 == max(sizes)
    assert 14 == min(sizes[16:])
    assert ["u58", "u59"] == [item.uid for item in ring][-2:]


def test_a_record_that_is_larger_than_the_ring_may_be_stands_alone():
    ring = RecordRing(limit_bytes=1_000)
    ring.add(record("one", size=2_000))
    ring.add(record("two", size=2_000))

    assert ["two"] == [item.uid for item in ring]


def test_attempts_between_which_only_kinds_changed_share_their_layout():
    nodes = [make_node(f"n{number}").capacity(cpu=1, pods=9).build() for number in range(3)]
    engine = make_engine(nodes)
    records = []
    for number in range(6):
        pod = make_pod(f"p{number}").uid(f"u{number}").req(cpu="500m").build()
        records.append(engine.place(pod, NOW).record)

    layouts = [found.layout for found in records]
    assert layouts[1] is layouts[2]  # no node is full yet
    assert [3, 3, 3] == [found.feasible_count for found in records[:3]]
    told = [[found.status_of(node.metadata.name) for node in nodes] for found in records]
    assert [0, 0, 0, 0, 1, 2] == [sum(status is not None for status in row) for row in told]


def test_a_column_gives_each_moment_its_own_array():
    column = Column(limit=2, values=np.zeros(3, dtype=np.uint8))
    moments = [moment(column)]
    column.set_row(1, 7)
    moments.append(moment(column))
    column.set_rows(np.array([0, 1]), np.array([5, 6], dtype=np.uint8))
    moments.append(moment(column))
    column.set_row(2, 9)  # one change more than a history may have
    moments.append(moment(column))
    column.resize(4)
    moments.append(moment(column))

    expected = [[0, 0, 0], [0, 7, 0], [5, 6, 0], [5, 6, 9], [5, 6, 9, 0]]
    assert expected == [array(item).tolist() for item in moments]


def test_a_column_tells_which_rows_changed_or_that_it_cannot_tell():
    column = Column(limit=2, values=np.zeros(9, dtype=np.uint8))
    start = column.version
    column.set_row(1, 0)
    assert start == column.version
    column.set_row(1, 1)
    column.replace(np.array([0, 1, 1, 0, 0, 0, 0, 0, 0], dtype=np.uint8))
    assert [1, 2] == column.since(start)
    column.set_row(0, 1)
    assert column.since(start) is None
    assert column.version != start
