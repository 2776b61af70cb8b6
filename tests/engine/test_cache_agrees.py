"""The cache knows of pods and nodes what a dictionary of what it was told says."""

import random

import msgspec
import pytest

from bayplan.engine.cache import Cache, CacheError
from bayplan.testing import make_node, make_pod

NODES = ("a", "b", "c")
WORDS = {
    "add_pod": "adding pod {uid}({key}): it was already added",
    "update_pod": "updating pod {uid}({key}): it was not added before",
    "assume": "pod {uid}({key}) is in the cache, so can't be assumed",
    "forget": "pod {uid}({key}) wasn't assumed so cannot be forgotten",
}


class Both:
    """The cache, and what was told it: by uid the newest object, its node, whether assumed."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.cache = Cache()
        self.nodes, self.pods, self.infos = {}, {}, {}

    def pod(self):
        rng = self.rng
        made = make_pod(f"p{rng.randrange(5)}").req(cpu=rng.choice(["1", "2"]))
        made = made.label(v=rng.choice("xy")).node(rng.choice([*NODES, ""]))
        if rng.random() < 0.15:
            made = made.with_status(phase=rng.choice(["Succeeded", "Failed"]))
        if rng.random() < 0.1:
            made = made.terminating()
        pod = made.build()
        known = self.pods.get(pod.uid)
        if known is not None and rng.random() < 0.4:  # only a kubelet's report is new
            spec, meta = known[0].spec, known[0].metadata
            pod = msgspec.structs.replace(known[0], status=pod.status, spec=spec, metadata=meta)
        return pod

    def node(self):
        rng = self.rng
        made = make_node(rng.choice(NODES)).label(v=rng.choice("xy")).capacity(cpu="9")
        return (made.ready() if rng.random() < 0.5 else made).build()

    # -- the same twice: what the dictionary says, and whether something is refused --

    def place(self, pod):
        known = self.pods.get(pod.uid)
        self.pods[pod.uid] = pod, pod.spec.node_name, False
        return known is None or self.differs(*known, pod)

    @staticmethod
    def differs(old, node, assumed, new):
        """Whether more than a report is new; parts that are no report are shared in a report."""
        shared = new.spec is old.spec and new.metadata.labels is old.metadata.labels
        return not shared or new.spec.node_name != node

    def put_pod(self, pod):
        known = self.pods.get(pod.uid)
        if not pod.finished and pod.spec.node_name:
            self.place(pod)
        elif known is not None and (pod.finished or not known[2]):
            del self.pods[pod.uid]
        return None

    def add_pod(self, pod):
        known = self.pods.get(pod.uid)
        if known is not None and not known[2]:
            raise CacheError
        self.place(pod)

    def update_pod(self, pod):
        known = self.pods.get(pod.uid)
        if known is None or known[2]:
            raise CacheError
        return self.place(pod)

    def remove_pod(self, pod):
        self.pods.pop(pod.uid, None)

    def assume(self, pod, node):
        if pod.uid in self.pods:
            raise CacheError
        self.pods[pod.uid] = pod, node, True

    def forget(self, pod):
        known = self.pods.get(pod.uid)
        if known is not None and not known[2]:
            raise CacheError
        self.pods.pop(pod.uid, None)

    # -- steps --

    def step(self):
        rng = self.rng
        if rng.random() < 0.3:
            self.change_node()
            return
        what = rng.choice(["put_pod", "put_pod", "add_pod", "update_pod", "remove_pod", "assume",
                           "assume", "forget"])  # fmt: skip
        pod = self.pod()
        if what in ("add_pod", "update_pod") and (pod.finished or not pod.spec.node_name):
            return
        before, was = self.cache.revision, dict(self.pods)
        node = rng.choice(NODES)
        more = (node,) if what == "assume" else ()
        given = self.cache.infos.make(pod) if what == "assume" else pod
        try:
            expected = getattr(self, what)(pod, *more)
        except CacheError:
            text = WORDS[what].format(uid=pod.uid, key=pod.key)
            with pytest.raises(CacheError) as refused:
                getattr(self.cache, what)(given, *more)
            assert text == str(refused.value)
            assert before == self.cache.revision
            return
        found = getattr(self.cache, what)(given, *more)
        if what == "update_pod":
            assert expected == found
        assert (was != self.pods) <= (before != self.cache.revision)
        if what == "assume":
            assert (given, node) == (found, given.node_name)
            self.infos[pod.uid] = given
        elif what == "forget" and pod.uid in was:
            info = self.infos[pod.uid]
            assert info.pod.spec.node_name == info.node_name, "it is as it was before"

    def change_node(self):
        node = self.node()
        old, before = self.nodes.get(node.metadata.name), self.cache.revision
        what = self.rng.choice(["put", "add_node", "update_node", "delete", "remove_node"])
        found = getattr(self.cache, what)(node.metadata.name if what == "remove_node" else node)
        assert before != self.cache.revision
        if what in ("delete", "remove_node"):
            self.nodes.pop(node.metadata.name, None)
            return
        self.nodes[node.metadata.name] = node
        if what == "update_node":
            same = old is not None and old.metadata.labels == node.metadata.labels
            assert found is not same

    def compare(self):
        cache, table = self.cache, self.cache.table
        cache.validate()
        assert set(self.nodes) == set(table.names())
        for uid in [f"uid-default-p{number}" for number in range(5)]:
            pod, node, assumed = self.pods.get(uid, (None, "", False))
            info = cache.pod(uid)
            assert assumed == cache.is_assumed(uid)
            assert pod is (None if info is None else info.pod)
            assert node == ("" if info is None else info.node_name)
        assert len(self.pods) == cache.pod_count
        assert sum(assumed for *_, assumed in self.pods.values()) == cache.assumed_count
        for name in NODES:
            there = {uid for uid, (_, node, _) in self.pods.items() if node == name}
            assert there == {info.uid for info in table.pods_of(name)}
        assert {node: table.nodes[table.row_of(node)] for node in self.nodes} == self.nodes


def test_the_cache_knows_what_it_was_told():
    for seed in range(30):
        both = Both(seed)
        for step in range(40):
            both.step()
            try:
                both.compare()
            except AssertionError as problem:
                raise AssertionError(f"seed {seed}, step {step}") from problem
