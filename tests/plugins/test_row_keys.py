"""Indexes that follow the table and the listers by what changed."""

from hypothesis import given
from hypothesis import strategies as st

from bayplan.framework import ClusterObjects, NodeTable, PodInfos
from bayplan.plugins.attached_volumes import AttachedVolumes, VolumeNames
from bayplan.plugins.row_keys import RowKeys
from bayplan.testing import make_claim, make_node, make_pod

STEPS = st.lists(
    st.tuples(
        st.sampled_from(("add", "remove", "node", "gone")), st.integers(0, 3), st.integers(0, 3)
    ),
    max_size=25,
)


@given(STEPS)
def test_row_keys_equal_a_fresh_index(steps):
    table, infos = NodeTable(), PodInfos()
    names = {f"n{i}" for i in range(2)}
    for name in sorted(names):
        table.add_node(make_node(name).build())
    kept = RowKeys(lambda info: info.traits.claims)
    for number, (what, node, claim) in enumerate(steps):
        name = f"n{node}"
        if what == "add":
            pod = make_pod(f"p{number}").claim(f"c{claim}").node(name).build()
            table.add_pod(infos.make(pod))
        elif what == "remove":
            placed = list(table.all_pods())
            if placed:
                table.remove_pod(placed[claim % len(placed)])
        elif what == "node":
            table.add_node(make_node(name).label(step=str(number)).build())
        else:
            table.remove_node(name)
        kept.refresh(table)
        fresh = RowKeys(lambda info: info.traits.claims)
        fresh.refresh(table)
        for key in (f"default/c{i}" for i in range(4)):
            assert set(fresh.rows(key)) == set(kept.rows(key))
        for row in range(table.count):
            assert fresh.keys(row) == kept.keys(row)


def test_a_lister_tells_what_changed_since_a_revision():
    claims = ClusterObjects().persistent_volume_claims
    assert [] == claims.changes_since(0)
    claims.put(make_claim("a").build())
    before = claims.revision
    claims.put(make_claim("b").build())
    claims.delete("default/a")
    claims.delete("default/unknown")

    assert ["default/b", "default/a"] == claims.changes_since(before)
    assert [] == claims.changes_since(claims.revision)


def test_a_lister_says_when_it_has_forgotten():
    claims = ClusterObjects().persistent_volume_claims
    for number in range(5000):
        claims.put(make_claim(f"c{number % 7}").build())

    assert claims.changes_since(0) is None
    assert 10 == len(claims.changes_since(claims.revision - 10))


def test_a_node_that_came_and_went_leaves_no_row_of_attached_volumes():
    table, objects = NodeTable(), ClusterObjects()
    table.add_node(make_node("stays").build())
    attached = AttachedVolumes(objects, VolumeNames(objects))
    attached.refresh(table)

    table.add_node(make_node("passes").build())
    table.remove_node("passes")
    attached.refresh(table)

    assert 1 == len(attached.count("any"))
