"""What an attempt asks and works out: what changed since the last one, and nothing else.

Work is counted, not timed: whom the plugins are asked about, and how often the engine does what
costs more with more nodes. A fault that throws away what is kept shows here alone: no decision
changes by it.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from bayplan.cluster.limits import Limits
from bayplan.engine.cache import Cache
from bayplan.framework import Code, Depends, PreFilterResult, Status, Verdict, unschedulable
from bayplan.framework.contract.domains import DomainScores
from bayplan.plugins import in_tree_registry
from bayplan.testing import make_node, make_pod
from tests.engine.clusters import make_engine, plugin_config

LEDGER = Path(__file__).with_name("work.txt")
WORK = {
    "Plan.__init__": "plan",
    "RowSet.__init__": "row set",
    "Candidates.__init__": "candidates",
    "Part.__init__": "part",
    "Totals.__init__": "totals",
    "Candidates._sync_row": "fits one",
    "Candidates._sync_rows": "fits some",
    "Totals._sum_all": "sum all",
    "Totals._sum_row": "sum one",
    "Totals._sum_rows": "sum some",
    "add_up": "add up",
    "sums_by_kind": "sum kinds",
    "Part._normalized": "normalize",
    "ListOrder.listed": "list",
    "ListOrder.heap_keys": "keys",
    "ListOrder.walk": "walk",
    "ListOrder.first": "first",
    "ListOrder.leading": "leading",
    "Leaders.__init__": "leaders",
    "Leaders.among": "among",
    "Leaders._reaching": "reaching",
    "Leaders._reach": "reach",
    "DomainShare.__init__": "share",
    "DomainLeaders.__init__": "domain leaders",
    "DomainLeaders._list": "domain list",
    "DomainLeaders._first_but": "domain but",
    "Layout.__init__": "layout",
    "RowAnswer.refresh": "refresh",
    "KindAnswer.refresh": "refresh",
    "ClusterAnswer.refresh": "refresh",
    "RowAnswer.refresh_scores": "refresh scores",
    "KindAnswer.refresh_scores": "refresh scores",
    "PreFilterMerge.add": "merge",
    "Plan.rejecting": "rejecting",
    "Column._restart": "restart",
    "Column._write": "write",
    "Column.since": "since",
    "Journal.since": "journal",
    "KindColumn._begin": "begin kinds",
    "KindColumn.learn": "learn",
    "NodeTable.info": "node",
    "NodeTable.select": "select",
    "distinct": "distinct",
}
"""Functions of which it is told how often they run."""


CLOSED, THREE = (Code.UNSCHEDULABLE, "closed"), (Code.UNSCHEDULABLE, "three pods")


def labels_of(nodes):
    return [nodes.table.nodes[row].metadata.labels for row in nodes.rows.tolist()]


class Made:
    """A plugin that tells about how many rows it was asked."""

    def __init__(self, asked):
        self._asked = asked

    @property
    def name(self):
        return type(self).__name__

    def facet(self, state, pod):
        return pod.metadata.labels.get("app")

    def tell(self, point, rows=0):
        self._asked[f"{self.name} {point}"] += rows or 1


class Labels(Made):
    """Hangs on the node alone: rejects closed ones, and gives the rank as a score."""

    def depends_on(self, pod):
        return Depends.NODE

    def filter_node(self, state, pod, node):
        self.tell("filters one")
        return Status(*CLOSED) if "closed" in node.labels else None

    def filter(self, state, pod, nodes):
        self.tell("filters", nodes.count)
        return Verdict(np.array(["closed" not in labels for labels in labels_of(nodes)]), *CLOSED)

    def score_node(self, state, pod, node):
        self.tell("scores one")
        return int(node.labels.get("rank", 0))

    def score(self, state, pod, nodes):
        self.tell("scores", nodes.count)
        return np.array([int(labels.get("rank", 0)) for labels in labels_of(nodes)])


class Pods(Made):
    """Hangs on the pods of a node: rejects those with three, and likes empty ones."""

    def depends_on(self, pod):
        return Depends.USAGE

    def pre_filter(self, state, pod, nodes):
        self.tell("pre-filters")
        return None, None

    def filter_node(self, state, pod, node):
        self.tell("filters one")
        return Status(*THREE) if len(node.pods) >= 3 else None

    def filter(self, state, pod, nodes):
        self.tell("filters", nodes.count)
        return Verdict(np.asarray(nodes.pod_count) < 3, *THREE)

    def pre_score(self, state, pod, nodes, feasible):
        self.tell("pre-scores")

    def score_node(self, state, pod, node):
        self.tell("scores one")
        return 10 * len(node.pods)

    def score(self, state, pod, nodes):
        self.tell("scores", nodes.count)
        return 10 * np.asarray(nodes.pod_count, dtype=np.int64)

    def normalize(self, state, pod, scores, feasible):
        self.tell("normalizes")
        return 100 - scores


class Sums(Made):
    """Hangs on what pods add up to: rejects full nodes, and likes those with little."""

    def depends_on(self, pod):
        return Depends.SUMS

    def filter_node(self, state, pod, node):
        self.tell("filters one")
        return unschedulable("full") if node.requested_of("cpu") >= 4000 else None

    def score_node(self, state, pod, node):
        self.tell("scores one")
        return 100 - node.requested_of("cpu") // 100


class World(Made):
    """May hang on anything, and says when it changed: rejects what is beside an alarm."""

    def __init__(self, asked):
        super().__init__(asked)
        self.alarm, self.version = "", 1

    def revision(self, state, pod):
        return self.version

    def pre_filter(self, state, pod, nodes):
        self.tell("pre-filters")
        return None, None

    def filter(self, state, pod, nodes):
        self.tell("filters", nodes.count)
        return Verdict(np.array([name != self.alarm for name in nodes.names()]))

    def pre_score(self, state, pod, nodes, feasible):
        self.tell("pre-scores")

    def score(self, state, pod, nodes):
        self.tell("scores", nodes.count)
        return np.arange(nodes.count)

    def normalize(self, state, pod, scores, feasible):
        self.tell("normalizes")
        return scores % 7


class Zones(Made):
    """Scores zones as a whole: the one with the fewest pods is liked most."""

    def __init__(self, asked):
        super().__init__(asked)
        self.counts, self.own, self.version = {"a": 0, "b": 1}, {}, 1

    def revision(self, state, pod):
        return self.version

    def pre_score(self, state, pod, nodes, feasible):
        self.tell("pre-scores")

    def score(self, state, pod, nodes):
        self.tell("scores", nodes.count)
        found = [self.counts[labels["zone"]] for labels in labels_of(nodes)]
        for row, score in self.own.items():
            found[row] = score
        return np.array(found)

    def normalize(self, state, pod, scores, feasible):
        self.tell("normalizes")
        return 100 - scores

    def score_domains(self, state, pod, nodes):
        self.tell("scores domains")
        values = nodes.label_values("zone")
        return DomainScores("zone", [self.counts.get(v, 0) for v in (*values, "")], self.own)

    def normalize_domains(self, state, pod, scores):
        self.tell("normalizes domains")
        return [100 - score for score in scores]


class Pick(Made):
    """Leaves only some nodes in the search, if it is told to."""

    def __init__(self, asked):
        super().__init__(asked)
        self.names, self.version = None, 1

    def revision(self, state, pod):
        return self.version

    def pre_filter(self, state, pod, nodes):
        self.tell("pre-filters")
        return None if self.names is None else PreFilterResult(frozenset(self.names)), None


class Story:
    """One engine with some of these plugins, and what each step of its life took."""

    def __init__(self, *kinds, limits=None, count=12, **more):
        self.asked, self.plugins = Counter(), {}
        registry = dict(in_tree_registry())
        for kind in kinds:
            plugin = self.plugins[kind.__name__] = kind(self.asked)
            registry[kind.__name__] = lambda args, handle, plugin=plugin: plugin
        names = ["PrioritySort", "DefaultBinder", *self.plugins]
        enabled = [{"name": name} for name in names]
        config = plugin_config(multiPoint={"enabled": enabled, "disabled": [{"name": "*"}]})
        nodes = [node(number).build() for number in range(count)]
        cache = Cache(limits)
        self.engine = make_engine(nodes, config=config | more, registry=registry, cache=cache)
        self.lines: list[str] = []
        self.numbers, self.placed = 0, []

    def pod(self, app="web", cpu="500m", **more):
        self.numbers += 1
        return make_pod(f"p{self.numbers}").label(app=app).req(cpu=cpu)

    def put(self, *items):
        for item in items:
            self.engine.cache.put(item.build())

    def leave(self):
        """The pod that was placed first goes."""
        self.engine.cache.remove_pod(self.placed.pop(0))

    def change(self, name, **fields):
        """A plugin that tells its revision says something else from now on."""
        plugin = self.plugins[name]
        plugin.version += 1
        for field, value in fields.items():
            setattr(plugin, field, value)

    def look(self, what, pod=None):
        """Decide on a pod, and change nothing."""
        made = (pod or self.pod()).build()
        self._note(what, lambda: self.engine.schedule(made, 0.0))

    def place(self, what, pod=None):
        made = (pod or self.pod()).build()
        self._note(what, lambda: self.engine.place(made, 0.0))
        self.placed.append(made)

    def _note(self, what, decide):
        self.asked.clear()
        done = Counter()

        def see(frame, event, argument):
            if event == "call" and (name := WORK.get(frame.f_code.co_qualname)):
                done[name] += 1

        sys.setprofile(see)
        try:
            found = decide()
        finally:
            sys.setprofile(None)
        where = f"{found.node_name or 'nowhere'}, {found.feasible_nodes} of {found.evaluated_nodes}"
        size = 0 if found.record is None else found.record.bytes
        self.lines.append(f"{what}: {where} fit, next from {found.next_start}, {size} bytes")
        for counts in (self.asked, done):
            told = [f"{name} {count}" for name, count in counts.items()]
            self.lines += [f"    {', '.join(told)}"] if told else []


def node(number, **labels):
    made = make_node(f"n{number:02}").label({"zone": "ab"[number % 2], **labels})
    return made.capacity(cpu="4", memory="16Gi", pods=20)


def life(story):
    """Pods come and go, nodes change, come and go, one or many at a time."""
    story.place("the first pod")
    story.place("one like it")
    story.place("and another")
    story.look("a look")
    story.look("another look, nothing having changed")
    story.place("a pod of another kind", story.pod("db"))
    story.place("one of the first kind again")
    story.put(node(3, rank="9"))
    story.place("a node has another label")
    story.put(node(4, closed=""))
    story.place("a node is closed")
    story.leave()
    story.place("a pod has left")
    story.put(*(story.pod().node(f"n{number:02}") for number in range(5, 11)))
    story.place("six nodes have got a pod")
    story.put(node(12))
    story.place("a node has come")
    story.put(node(13), node(14))
    story.place("two nodes have come")
    story.engine.cache.remove_node("n14")
    story.place("a node has gone")
    story.put(story.pod(cpu="4").node("n00"))
    story.place("a node is full")
    story.look("pods that need much fit nowhere", story.pod(cpu="64"))
    return story


def life_with_world(story):
    life(story)
    story.change("World", alarm="n02")
    story.place("an alarm")
    story.place("nothing new")
    return story


def life_with_zones(story):
    life(story)
    story.change("Zones", counts={"a": 5, "b": 1})
    story.place("one zone is liked less")
    story.change("Zones", own={1: 0, 3: 5})
    story.place("two nodes have scores of their own")
    story.place("nothing new")
    story.change("Zones", own={})
    story.place("they have none any more")
    return story


def life_with_choice(story):
    story.place("the first pod")
    story.change("Pick", names=["n03", "n05", "n04", "none"])
    story.place("three nodes are left in the search")
    story.place("nothing new")
    story.change("Pick", names=["n03"])
    story.place("one node is left")
    story.change("Pick", names=None)
    cache = story.engine.cache
    promised = make_pod("promised").req(cpu="4").priority(9).build()
    cache.nominator.add(cache.infos.make(promised), "n07")
    story.place("all nodes again, and one is promised")
    story.place("nothing new")
    story.put(story.pod().node("n07"))
    story.place("a pod on the promised node")
    story.place("a pod that is more important", story.pod().priority(10))
    cache.nominator.delete(promised.metadata.uid)
    story.place("the promise is gone")
    return story


FEW = Limits(changes=2, journal=2, alike=1, plans=1, domains=2, own_scores=1)
STORIES = {
    "three plugins": lambda: life(Story(Labels, Pods, Sums)),
    "what pods add up to alone": lambda: life(Story(Sums)),
    "nodes alone": lambda: life(Story(Labels)),
    "the world": lambda: life_with_world(Story(Labels, Pods, Sums, World)),
    "zones": lambda: life_with_zones(Story(Labels, Sums, Zones)),
    "little memory": lambda: life_with_zones(Story(Labels, Pods, Sums, Zones, limits=FEW)),
    "half of the nodes": lambda: life(
        Story(Labels, Pods, Sums, count=110, percentageOfNodesToScore=50)
    ),
    "choice and promises": lambda: life_with_choice(Story(Pods, Sums, Pick)),
}


def told(name):
    story = STORIES[name]()
    story.engine.validate()
    return f"== {name} ==\n" + "".join(f"{line}\n" for line in story.lines)


@pytest.mark.parametrize("name", STORIES)
def test_an_attempt_takes_what_the_ledger_says(name):
    ledger = LEDGER.read_text("utf-8").split("\n\n")
    assert told(name).strip().splitlines() == ledger[list(STORIES).index(name)].splitlines()


if __name__ == "__main__":
    LEDGER.write_text("\n".join(told(name) for name in STORIES), "utf-8")
