"""The cluster as a table: one row a node, one contiguous array a column.

Rows are dense, in no meaningful order; `order` gives kube-scheduler's list order (zones in turn).
Every change of a row is noted in `changes`, and in `node_changes` too if it is the node's own, so
that whoever keeps something computed per row looks only at what changed. A node that comes gets a
row at the end; when one goes the last row takes its place. Both are changes of rows like any other,
so a reader must only mind that a noted row may lie beyond `count` by now.

Pods lie on their node as in kube-scheduler's cache, since it tells equally important pods apart by
that: who is heard of goes to the end, and the last one takes the place of one that leaves.
Pods on nodes that are not (or no longer) known wait aside and count nowhere, as upstream.
The table does not know assumed from confirmed pods; `bayplan.engine.cache` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from bayplan.api import Node, Pod, Taint
from bayplan.api.requests import node_allocatable
from bayplan.cluster.arrays import IntArray
from bayplan.cluster.counts import PodCounts
from bayplan.cluster.info import NodeInfo, PodInfo, Port, remove_swapping
from bayplan.cluster.journal import Journal
from bayplan.cluster.label_column import LabelColumn
from bayplan.cluster.limits import Limits
from bayplan.cluster.names import RowNames
from bayplan.cluster.nodes import CodeArray, NodeSelection
from bayplan.cluster.order import NodeOrder
from bayplan.cluster.resources import resource_id
from bayplan.cluster.row_kinds import RowKinds
from bayplan.cluster.row_numbers import NO_PODS, RowNumbers


class ImageState:
    """An image: the rows that have it, with the size that each node reports.

    Upstream's cache keeps the size that it saw first for all nodes, which depends on the order of
    events; sizes of one image differ only in made-up clusters.
    """

    __slots__ = ("rows",)

    def __init__(self) -> None:
        self.rows: dict[int, int] = {}


class NodeTable(RowNumbers):
    """All nodes and the pods placed on them."""

    def __init__(self, limits: Limits | None = None) -> None:
        super().__init__()
        self.limits = limits or Limits()
        self.changes = Journal(self.limits.journal)
        """Rows whose node or pods changed."""
        self.node_changes = Journal(self.limits.journal)
        """Rows whose node changed in what scheduling reads, came or went."""
        self.renewals = Journal(self.limits.journal)
        """Rows with a pod that changed in nothing that rows show, which is not in `changes`."""
        self.images_revision = 0
        """Grows when the images of some node change."""
        self.image_names_revision = 0
        """Grows when an image comes to its first node or goes from its last."""
        self.nodes: list[Node] = []
        self.pods: list[list[PodInfo]] = []
        self.taints: list[tuple[Taint, ...]] = []
        self.images: dict[str, ImageState] = {}
        self.claim_users: dict[str, int] = {}
        """Claim key to how many placed pods name it."""
        self.ports_in_use: dict[tuple[str, int], dict[int, dict[str, int]]] = {}
        """(protocol, port) to rows to the addresses in use there, with how many pods use them."""
        self.counts = PodCounts(self, self.limits.queries)
        self.kinds = RowKinds(self)
        self._rows: dict[str, int] = {}
        self._order = NodeOrder()
        self._labels: dict[str, LabelColumn] = {}
        self._taint_ids: dict[tuple[Taint, ...], int] = {}
        self._aside: dict[str, list[PodInfo]] = {}
        self._names: list[str] = []
        self._row_names: RowNames | None = None

    # -- what plugins read (the Nodes protocol) ---------------------------------------------

    @property
    def table(self) -> NodeTable:
        return self

    def pick(self, column: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        return column

    @property
    def nodes_revision(self) -> int:
        """Grows when any node object changes in what scheduling reads, comes or goes."""
        return self.node_changes.generation

    def names(self) -> Sequence[str]:
        """Names by row as they are now; the result does not change later."""
        names = self._row_names
        if names is None:
            names = self._row_names = RowNames(self._names, self.count)
        return names

    def label_codes(self, key: str) -> CodeArray:
        return self.label_column(key).codes[: self.count]

    def label_values(self, key: str) -> Sequence[str]:
        return self.label_column(key).values

    def info(self, place: int) -> NodeInfo:
        numbers = self._numbers[:, place].tolist()
        sums = (
            self._allocatable[:, place].tolist(),
            self._requested[:, place].tolist(),
            numbers[2],
            numbers[0],
            numbers[1],
        )
        return NodeInfo(self, place, self.nodes[place], self.pods[place], sums)

    # -- finding rows -----------------------------------------------------------------------

    @property
    def row_by_name(self) -> Mapping[str, int]:
        """Row by node name; live."""
        return self._rows

    def row_of(self, name: str) -> int | None:
        return self._rows.get(name)

    def name_of(self, row: int) -> str:
        return self.nodes[row].metadata.name

    def info_of(self, name: str) -> NodeInfo | None:
        row = self._rows.get(name)
        return None if row is None else self.info(row)

    def select(self, rows: IntArray) -> NodeSelection:
        """A view of some rows."""
        return NodeSelection(self, rows)

    def what_if(self, node: NodeInfo) -> NodeTable:
        """A table of one row that holds a (changed) copy of a node."""
        table = NodeTable()
        table.add_node(node.node)
        for info in node.pods:
            table.add_pod(PodInfo(info.pod, info.traits, info.signature, node.name))
        return table

    @property
    def order(self) -> IntArray:
        """Rows in kube-scheduler's list order; another array after every change of it."""
        return self._order.rows

    def label_column(self, key: str) -> LabelColumn:
        """The codes of a label, made on first use and kept up to date from then on."""
        column = self._labels.get(key)
        if column is None:
            column = self._labels[key] = LabelColumn(key, self.capacity)
            for row, node in enumerate(self.nodes):
                column.set(row, node.metadata.labels.get(key))
        return column

    # -- nodes come and go ------------------------------------------------------------------

    def add_node(self, node: Node) -> None:
        """Add a node, or replace it if it is known."""
        name = node.metadata.name
        if name in self._rows:
            self.update_node(node)
            return
        allocatable = node_allocatable(node.status.allocatable)
        row = self.count
        self._make_room(row)
        self.count += 1
        self._rows[name] = row
        self._names.append(name)
        self.nodes.append(node)
        self.pods.append([])
        self._fill_row(row, node, allocatable)
        self._order.add(node, row)
        self._note_node(row)
        for info in self._aside.pop(name, ()):
            self._place(info, row)

    def update_node(self, node: Node) -> bool:
        """Replace a node's object; False if nothing that scheduling reads changed."""
        row = self._rows[node.metadata.name]
        old = self.nodes[row]
        if _equal_for_scheduling(old, node):
            self.nodes[row] = node
            return False
        allocatable = node_allocatable(node.status.allocatable)
        if old.status.images != node.status.images:
            self._remove_images(row, old)
            self._add_images(row, node)
        self.nodes[row] = node
        if old.metadata.labels != node.metadata.labels:
            columns = self.counts.columns_at(self.pods[row])
            for column in columns:
                column.shift(row, -column.rows[row])
            self._set_node(row, node, allocatable)
            for column in columns:
                column.shift(row, column.rows[row])
            self._order.move(old, node, row)
        else:
            self._set_node(row, node, allocatable)
        self._note_node(row)
        self._forget_unused_codes()
        return True

    def remove_node(self, name: str) -> Node | None:
        """Remove a node; its pods wait aside until it comes back or they are removed."""
        row = self._rows.get(name)
        if row is None:
            return None
        node = self.nodes[row]
        last = self.count - 1
        leave = list(self.pods[row])
        for info in leave:
            self._unplace(info, row)
        if leave:
            self._aside[name] = leave
        self._remove_images(row, node)
        self._order.remove(node, row)
        self._names = self._names[: self.count]  # others may hold the old list
        if last != row:
            self._move_row(last, row)
        for column in self._labels.values():
            column.set(last, None)
        del self._rows[name]
        self._names.pop()
        self.nodes.pop()
        self.pods.pop()
        self.count = last
        self._note_node(last)
        self._forget_unused_codes()
        return node

    def _move_row(self, source: int, target: int) -> None:
        moved = self.nodes[source]
        pods = list(self.pods[source])
        for info in pods:
            self._unplace(info, source)
        self._remove_images(source, moved)
        self.nodes[target] = moved
        self.pods[target] = []
        name = moved.metadata.name
        self._rows[name], self._names[target] = target, name
        self._fill_row(target, moved, node_allocatable(moved.status.allocatable))
        self._order.renumber(source, target)
        self._note_node(target)
        for info in pods:
            self._place(info, target)

    def _fill_row(self, row: int, node: Node, allocatable: dict[str, int]) -> None:
        """Start a row anew, without pods."""
        self._clear_row(row)
        self._set_node(row, node, allocatable)
        self._add_images(row, node)

    def _note_node(self, row: int) -> None:
        self._row_names = None
        self.changes.note(row)
        self.node_changes.note(row)

    def _set_node(self, row: int, node: Node, allocatable: dict[str, int]) -> None:
        offers = [(resource_id(name), amount) for name, amount in allocatable.items()]
        self._offer(row, offers, allocatable.get("pods", 0))
        self._unschedulable[row] = node.spec.unschedulable
        self._taint_sets[row] = self._taint_set(node.spec.taints)
        labels = node.metadata.labels
        for key, column in self._labels.items():
            column.set(row, labels.get(key))

    def _forget_unused_codes(self) -> None:
        """Number taints and label values anew once most numbers stand for what is gone."""
        limit = 2 * self.count + 1024
        if len(self.taints) > limit:
            self.taints, self._taint_ids = [], {}
            for row, node in enumerate(self.nodes):
                self._taint_sets[row] = self._taint_set(node.spec.taints)
        for key, column in list(self._labels.items()):
            if len(column.values) > limit:
                del self._labels[key]
                self.label_column(key)
                self.counts.forget_domains(key)

    def _taint_set(self, taints: tuple[Taint, ...]) -> int:
        number = self._taint_ids.get(taints, -1)
        if number < 0:
            number = self._taint_ids[taints] = len(self.taints)
            self.taints.append(taints)
        return number

    def _add_images(self, row: int, node: Node) -> None:
        for image in node.status.images:
            for name in image.names:
                state = self.images.get(name)
                if state is None:
                    state = self.images[name] = ImageState()
                    self.image_names_revision += 1
                state.rows[row] = image.size_bytes
        self.images_revision += bool(node.status.images)

    def _remove_images(self, row: int, node: Node) -> None:
        for image in node.status.images:
            for name in image.names:
                state = self.images.get(name)
                if state is not None:
                    state.rows.pop(row, None)
                    if not state.rows:
                        del self.images[name]
                        self.image_names_revision += 1
        self.images_revision += bool(node.status.images)

    # -- pods come and go -------------------------------------------------------------------

    def add_pod(self, info: PodInfo) -> None:
        """Place a pod on `info.node_name`."""
        row = self._rows.get(info.node_name)
        if row is None:
            self._aside.setdefault(info.node_name, []).append(info)
        else:
            self._place(info, row)

    def remove_pod(self, info: PodInfo) -> None:
        """Take a pod off `info.node_name`."""
        row = self._rows.get(info.node_name)
        if row is not None:
            self._unplace(info, row)
            return
        aside = self._aside[info.node_name]
        remove_swapping(aside, info)
        if not aside:
            del self._aside[info.node_name]

    def relabel_pod(self, known: PodInfo, fresh: PodInfo) -> None:
        """Replace a pod by one that differs in labels and owners alone; no sum changes."""
        row = self._rows.get(known.node_name)
        _move_to_end(self.pods_of(known.node_name), known, fresh)
        if row is not None:
            self.counts.relabel(known, fresh, row)
            self.changes.note(row)

    def renew_pod(self, info: PodInfo, pod: Pod) -> None:
        """Take a newer object of a pod that differs in nothing that rows show."""
        info.pod = pod
        _move_to_end(self.pods_of(info.node_name), info, info)
        row = self._rows.get(info.node_name)
        if row is not None:
            self.renewals.note(row)

    def pods_of(self, name: str) -> list[PodInfo]:
        """The pods on a node, known or not."""
        row = self._rows.get(name)
        return self._aside.get(name, []) if row is None else self.pods[row]

    @contextmanager
    def order_kept(self, names: Iterable[str]) -> Iterator[None]:
        """Pods that are taken off these nodes and put back meanwhile lie as before afterwards."""
        orders = {name: list(self.pods_of(name)) for name in names}
        try:
            yield
        finally:
            self.lay_as(orders)

    def lay_as(self, orders: Mapping[str, Sequence[PodInfo]]) -> None:
        """Let the pods of nodes lie as they did once."""
        for name, before in orders.items():
            if self.pods_of(name) != before:
                self.arrange(name, {info.uid: place for place, info in enumerate(before)})

    def places_on(self, name: str) -> dict[str, int]:
        """Where on its node each pod lies, by uid."""
        return {info.uid: place for place, info in enumerate(self.pods_of(name))}

    def arrange(self, name: str, places: Mapping[str, int]) -> None:
        """Let the pods of a node lie as they did once; others come last."""
        self.pods_of(name).sort(key=lambda info: places.get(info.uid, len(places)))

    def all_pods(self) -> Iterator[PodInfo]:
        """The pods on known nodes, in list order."""
        for row in self.order.tolist():
            yield from self.pods[row]

    def pods_aside(self) -> Iterator[PodInfo]:
        """The pods on unknown nodes."""
        for pods in self._aside.values():
            yield from pods

    def _place(self, info: PodInfo, row: int) -> None:
        traits = info.traits
        self.pods[row].append(info)
        self._sum(info, row, 1)
        numbers = self._numbers
        if traits.priority < numbers[4, row]:
            numbers[4, row] = traits.priority
        for port in traits.ports:
            self._use_port(port, row)
        for claim in traits.claims:
            self.claim_users[claim] = self.claim_users.get(claim, 0) + 1
        self.counts.add(info, row)
        self.changes.note(row)

    def _unplace(self, info: PodInfo, row: int) -> None:
        pods, traits = self.pods[row], info.traits
        remove_swapping(pods, info)
        self._sum(info, row, -1)
        if traits.priority == self._numbers[4, row]:
            lowest = min((other.traits.priority for other in pods), default=NO_PODS)
            self._numbers[4, row] = lowest
        for port in traits.ports:
            self._free_port(port, row)
        for claim in traits.claims:
            left = self.claim_users[claim] - 1
            if left:
                self.claim_users[claim] = left
            else:
                del self.claim_users[claim]
        self.counts.remove(info, row)
        self.changes.note(row)

    def _use_port(self, port: Port, row: int) -> None:
        ip, protocol, number = port
        rows = self.ports_in_use.setdefault((protocol, number), {})
        addresses = rows.setdefault(row, {})
        addresses[ip] = addresses.get(ip, 0) + 1

    def _free_port(self, port: Port, row: int) -> None:
        # Upstream keeps a set, so the first of two equal users to go frees the port for both;
        # that depends on the order of events, so users are counted here instead.
        ip, protocol, number = port
        rows = self.ports_in_use[(protocol, number)]
        addresses = rows[row]
        addresses[ip] -= 1
        if not addresses[ip]:
            del addresses[ip]
            if not addresses:
                del rows[row]
                if not rows:
                    del self.ports_in_use[(protocol, number)]

    def _make_room(self, row: int) -> None:
        if row >= self.capacity:
            super()._make_room(row)
            for column in self._labels.values():
                column.grow(self.capacity)


def _move_to_end(pods: list[PodInfo], known: PodInfo, fresh: PodInfo) -> None:
    if pods[-1] is not known:
        remove_swapping(pods, known)
        pods.append(fresh)
    else:
        pods[-1] = fresh


def _equal_for_scheduling(old: Node, new: Node) -> bool:
    a, b = old.status, new.status
    return (
        old.metadata.labels == new.metadata.labels
        and old.metadata.annotations == new.metadata.annotations
        and old.spec == new.spec
        and a.allocatable == b.allocatable
        and a.images == b.images
        and a.declared_features == b.declared_features
        and a.capacity == b.capacity
    )
