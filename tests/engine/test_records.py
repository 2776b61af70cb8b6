"""A record tells what was decided, however much has changed since."""

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayplan.engine.answers import Column
from bayplan.engine.answers.share import array, moment
from bayplan.engine.cycle.records import AttemptRecord, RecordRing
from bayplan.engine.replay import describe
from bayplan.framework import Outcomes
from bayplan.testing import make_pod
from bayplan.testing.strategies import clusters, pods
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
    pod = make_pod("p").uid(uid).build()
    return AttemptRecord(pod, "default", 0.0, Outcomes(), ("a",), bytes=size)


def test_the_ring_keeps_the_newest_within_its_limits():
    ring = RecordRing(limit=3, limit_bytes=10_000)
    for number in range(5):
        ring.add(record(f"u{number}"))

    assert ["u2", "u3", "u4"] == [item.uid for item in ring]
    ring.add(record("big", size=9_800))
    assert ["big"] == [item.uid for item in ring]
    assert 1 == len(ring.of("big"))


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
