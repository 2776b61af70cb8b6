"""What is attached where is kept: a change has just the rows read again that it concerns."""

import pytest

from bayplan.framework import ClusterObjects, Handle, NodeTable
from bayplan.plugins.attached_volumes import AttachedVolumes, VolumeNames
from bayplan.testing import (
    make_attachment,
    make_claim,
    make_csi_node,
    make_node,
    make_pod,
    make_storage_class,
    make_volume,
)

DRIVER = "csi.example.com"
ROWS = {name: row for row, name in enumerate(("n0", "n1", "n2", "n3"))}


class Cluster:
    """Pods with claims c0 and c1 on n0 and n1, both with c3 on n1, and v2 attached to n2."""

    def __init__(self, noise):
        """`noise`: how many other objects of each kind there were; revisions differ by it."""
        self.table, self.objects = NodeTable(), ClusterObjects()
        self.handle = Handle(table=self.table, objects=self.objects)
        for name in ROWS:
            self.table.add_node(make_node(name).build())
        made = (make_claim, make_volume, make_csi_node, attachment)
        for make, count in zip(made, noise, strict=True):
            for number in range(count):
                self.put(make(f"other{number}"))
        for number in range(4):
            self.put(claim(number), volume(number), make_csi_node(f"n{number}", **LIMIT))
        self.put(attachment("a0", "n2", "v2"))
        self.place("p0", "n0", "c0")
        self.place("p1", "n1", "c1")
        self.place("p3", "n1", "c3")
        self.kept = self.fresh()
        self.read = set()
        self.kept._read = self._watch(self.kept._read)

    def _watch(self, read):
        def watched(table, row):
            self.read.add(row)
            return read(table, row)

        return watched

    def put(self, *builders):
        for builder in builders:
            self.objects.put(builder.build())

    def place(self, name, node, *claims):
        pod = make_pod(name).node(node)
        for each in claims:
            pod.claim(each)
        self.table.add_pod(self.handle.info(pod.build()))

    def remove(self, name):
        for info in self.table.all_pods():
            if info.pod.name == name:
                self.table.remove_pod(info)

    def fresh(self):
        made = AttachedVolumes(self.objects, VolumeNames(self.objects))
        made.refresh(self.table)
        return made

    def describe(self, attached):
        drivers = (DRIVER, "ebs.csi.aws.com")
        names = [f"{DRIVER}/h{number}" for number in range(5)]
        return {
            "counts": {driver: attached.count(driver).tolist() for driver in drivers},
            "limits": {driver: attached.limit(driver).tolist() for driver in drivers},
            "rows": {name: sorted(attached.rows(name)) for name in names},
        }


LIMIT = {"csi_example_com": 2}


def claim(number, volume=None):
    made = make_claim(f"c{number}").storage_class("s")
    return made.bound(f"v{number}" if volume is None else volume)


def volume(number, handle=None):
    return make_volume(f"v{number}").csi(DRIVER, handle or f"h{number}")


def attachment(name, node="nowhere", volume="none"):
    return make_attachment(name, attacher=DRIVER, node=node, volume=volume)


CHANGES = {
    "nothing": (lambda c: None, ()),
    "a pod came": (lambda c: c.place("new", "n3", "c0"), ("n3",)),
    "a pod went": (lambda c: c.remove("p1"), ("n1",)),
    "a claim changed": (lambda c: c.put(claim(0, "v1")), ("n0",)),
    "a claim of one of two pods changed": (lambda c: c.put(claim(3, "v2")), ("n1",)),
    "a claim went": (lambda c: c.objects.persistent_volume_claims.delete("default/c1"), ("n1",)),
    "a volume changed": (lambda c: c.put(volume(0, "h4")), ("n0",)),
    "a volume went": (lambda c: c.objects.persistent_volumes.delete("v1"), ("n1",)),
    "an attached volume changed": (lambda c: c.put(volume(2, "h4")), ("n2",)),
    "a volume was attached": (lambda c: c.put(attachment("a1", "n3", "v3")), ("n3",)),
    "a used volume was attached": (lambda c: c.put(attachment("a1", "n0", "v0")), ("n0",)),
    "an attachment moved": (lambda c: c.put(attachment("a0", "n3", "v2")), ("n2", "n3")),
    "an attachment went": (lambda c: c.objects.volume_attachments.delete("a0"), ("n2",)),
    "a limit changed": (lambda c: c.put(make_csi_node("n1", csi_example_com=1)), ("n1",)),
    "a limit went": (lambda c: c.objects.csi_nodes.delete("n1"), ("n1",)),
    "a driver came": (lambda c: c.put(make_csi_node("n2", ebs_csi_aws_com=5)), ("n2",)),
    "what nobody uses changed": (lambda c: c.put(claim(9), volume(9)), ()),
    "a class came": (lambda c: c.put(make_storage_class("s")), ()),
    "several": (
        lambda c: (c.put(claim(0, "v3"), volume(1, "h4")), c.remove("p3")),
        ("n0", "n1"),
    ),
}


@pytest.mark.parametrize("noise", [(0, 5, 10, 15), (15, 10, 5, 0)], ids=["up", "down"])
@pytest.mark.parametrize("what", [name for name in CHANGES if name != "a class came"])
def test_a_change_has_the_rows_read_again_that_it_concerns(what, noise):
    cluster = Cluster(noise)
    change, concerned = CHANGES[what]
    change(cluster)

    cluster.kept.refresh(cluster.table)

    assert {ROWS[name] for name in concerned} == cluster.read
    assert cluster.describe(cluster.fresh()) == cluster.describe(cluster.kept)
    cluster.read.clear()
    cluster.kept.refresh(cluster.table)
    assert set() == cluster.read


def test_one_change_after_the_other():
    """A later change finds what an earlier one left behind."""
    cluster = Cluster((0, 0, 0, 0))
    for change, _ in [*CHANGES.values(), *CHANGES.values()]:
        change(cluster)
        cluster.kept.refresh(cluster.table)

        assert cluster.describe(cluster.fresh()) == cluster.describe(cluster.kept)


def test_nodes_that_come_and_go_are_read_anew():
    cluster = Cluster((0, 0, 0, 0))
    cluster.table.remove_node("n1")
    cluster.kept.refresh(cluster.table)
    assert cluster.describe(cluster.fresh()) == cluster.describe(cluster.kept)

    cluster.table.add_node(make_node("n4").build())
    cluster.put(make_csi_node("n4", **LIMIT))
    cluster.place("late", "n4", "c1", "c2")
    cluster.kept.refresh(cluster.table)
    assert cluster.describe(cluster.fresh()) == cluster.describe(cluster.kept)


def test_another_table_is_read_as_a_whole():
    cluster = Cluster((0, 0, 0, 0))
    other = NodeTable()
    for name in ("n0", "x", "n1", "n2"):
        other.add_node(make_node(name).build())
    other.add_pod(cluster.handle.info(make_pod("q").claim("c2").node("x").build()))
    fresh = AttachedVolumes(cluster.objects, VolumeNames(cluster.objects))
    fresh.refresh(other)

    cluster.kept.refresh(other)

    assert cluster.describe(fresh) == cluster.describe(cluster.kept)
