"""All rows of a cluster in numbered slots, the changes since the last frame, and the history.

A slot keeps its number while its object exists and is used again afterwards, so the browser can
hold the same columns and a change is `(table, slot, row)`; `row` is None when the object went.
Changes are gathered into frames. Frames are kept as history up to a number of changes; older ones
are folded into the rows that the history starts from, so memory is bounded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import msgspec

from bayplan.api import Node, Object, Pod
from bayplan.page.rows import (
    BOUND,
    DISRUPTED,
    FINISHED,
    GHOST,
    NODE,
    NODE_FIELDS,
    NODE_FLAGS,
    PLACE,
    POD_FIELDS,
    Row,
    Texts,
    disrupted,
    ghost_row,
    node_row,
    pod_row,
)

NODES, PODS = 0, 1
MOST_CHANGES = 200_000
MOST_TEXTS = 200_000
NAMESPACE = POD_FIELDS.index("namespace")
NOMINATED = POD_FIELDS.index("nominated")
POD_FLAGS = POD_FIELDS.index("flags")

Change = tuple[int, int, Row | None]


class Frame(msgspec.Struct, frozen=True):
    """What changed between two moments."""

    number: int
    time: float
    texts: tuple[int, list[str]]
    """New texts, and the number of the first of them."""
    changes: list[Change]


class Table:
    """Rows in slots."""

    def __init__(self) -> None:
        self.rows: list[Row | None] = []
        self.slots: dict[str, int] = {}
        self._free: list[int] = []

    def slot(self, key: str) -> tuple[int, bool]:
        """Return the slot of a key, and whether it is new."""
        found = self.slots.get(key)
        if found is not None:
            return found, False
        if self._free:
            found = self._free.pop()
        else:
            found = len(self.rows)
            self.rows.append(None)
        self.slots[key] = found
        return found, True

    def remove(self, key: str) -> None:
        slot = self.slots.pop(key)
        self.rows[slot] = None
        self._free.append(slot)


class Board:
    """The rows of one cluster; feed it with `put` and `delete`, call `frame` now and then."""

    def __init__(self, clock: Callable[[], float], *, most_changes: int = MOST_CHANGES) -> None:
        self._clock = clock
        self._most = most_changes
        self.texts = Texts()
        self.nodes, self.pods = Table(), Table()
        self._tables = (self.nodes, self.pods)
        self._on_node: dict[int, int] = {}
        """How many pods speak of a node, by its slot: such a node must stay known."""
        self._changed: dict[tuple[int, int], Row | None] = {}
        self._evicted: list[Change] = []
        """Pods that were evicted and gone before a frame could tell the first."""
        self._told = 1
        self.number = 0
        self.epoch = 0
        self.frames: deque[Frame] = deque()
        self._kept = 0
        self.start: tuple[list[Row | None], list[Row | None]] = ([], [])
        self.start_time = clock()
        self.waiting: set[int] = set()
        """Slots of pods that have no node."""

    @property
    def now(self) -> float:
        return self._clock()

    # -- input

    def put(self, item: Object) -> None:
        """Take over a node or pod as it is now; other kinds do not matter here."""
        if isinstance(item, Pod):
            self._put_pod(item)
        elif isinstance(item, Node):
            slot, _ = self.nodes.slot(item.name)
            self._set(NODES, slot, node_row(item, self.texts))

    def delete(self, item: Object) -> None:
        """Take over that a node or pod is gone."""
        if isinstance(item, Pod):
            slot = self.pods.slots.get(item.key)
            if slot is not None:
                self._note_eviction(slot, item)
                self._release(self.pods.rows[slot])
                self.waiting.discard(slot)
                self.pods.remove(item.key)
                self._changed[PODS, slot] = None
        elif isinstance(item, Node) and item.name in self.nodes.slots:
            slot = self.nodes.slots[item.name]
            if self._on_node.get(slot):
                self._set(NODES, slot, ghost_row(item.name))
            else:
                self._remove_node(item.name, slot)

    def _note_eviction(self, slot: int, pod: Pod) -> None:
        row = self.pods.rows[slot]
        known = (PODS, slot) not in self._changed and row and int(row[POD_FLAGS]) & DISRUPTED
        if row is not None and disrupted(pod) and not known:
            flags = int(row[POD_FLAGS]) | DISRUPTED
            told = (*row[:POD_FLAGS], flags, *row[POD_FLAGS + 1 :])
            self._evicted.append((PODS, slot, told))

    def key_of(self, slot: int) -> str:
        """Return the namespace and name of the pod in a slot, "" if there is none."""
        row = self.pods.rows[slot]
        return "" if row is None else f"{self.texts.all[int(row[NAMESPACE])]}/{row[0]}"

    def place(self, slot: int, place: int) -> None:
        """Set where a pod waits, by whoever knows better than the object."""
        row = self.pods.rows[slot]
        if row is not None and row[PLACE] != place and row[PLACE] not in (BOUND, FINISHED):
            self._set(PODS, slot, (*row[:PLACE], place, *row[PLACE + 1 :]))

    def _put_pod(self, pod: Pod) -> None:
        slot, _ = self.pods.slot(pod.key)
        node = self._refer(pod.spec.node_name)
        nominated = 0 if node else self._refer(pod.status.nominated_node_name)
        row = pod_row(pod, node, nominated, self.texts)
        self._release(self.pods.rows[slot])
        if row[PLACE] in (BOUND, FINISHED):
            self.waiting.discard(slot)
        else:
            self.waiting.add(slot)
        self._set(PODS, slot, row)

    def _refer(self, name: str) -> int:
        """Return the slot of a node plus one and count the reference; 0 for no name."""
        if not name:
            return 0
        slot, new = self.nodes.slot(name)
        if new:
            self._set(NODES, slot, ghost_row(name))
        self._on_node[slot] = self._on_node.get(slot, 0) + 1
        return slot + 1

    def _release(self, row: Row | None) -> None:
        if row is None:
            return
        for number in (row[NODE], row[NOMINATED]):
            if not number:
                continue
            slot = int(number) - 1
            self._on_node[slot] -= 1
            node = self.nodes.rows[slot]
            if not self._on_node[slot]:
                del self._on_node[slot]
                if node is not None and int(node[NODE_FLAGS]) & GHOST:
                    self._remove_node(str(node[0]), slot)

    def _remove_node(self, name: str, slot: int) -> None:
        self.nodes.remove(name)
        self._changed[NODES, slot] = None

    def _set(self, table: int, slot: int, row: Row) -> None:
        rows = self._tables[table].rows
        if rows[slot] != row:
            rows[slot] = row
            self._changed[table, slot] = row

    # -- output

    def begin(self) -> None:
        """Let the history start here: what is there now was there before."""
        self._changed.clear()
        self._evicted.clear()
        self.frames.clear()
        self._kept = 0
        self._told = len(self.texts.all)
        self.start = (list(self.nodes.rows), list(self.pods.rows))
        self.start_time = self._clock()

    def frame(self) -> Frame | None:
        """Return what changed since the last frame, or None; the history keeps it."""
        if len(self.texts.all) > MOST_TEXTS:
            self._renumber()
        if not self._changed:
            return None
        self.number += 1
        fresh = self.texts.all[self._told :]
        changes = self._evicted
        changes += [(table, slot, row) for (table, slot), row in self._changed.items()]
        changes.sort(key=lambda item: item[0])  # nodes before the pods that name them
        frame = Frame(self.number, self._clock(), (self._told, fresh), changes)
        self._told = len(self.texts.all)
        self._changed.clear()
        self._evicted = []
        self.frames.append(frame)
        self._kept += len(changes)
        while self._kept > self._most and len(self.frames) > 1:
            self._fold(self.frames.popleft())
        return frame

    def _fold(self, frame: Frame) -> None:
        for table, slot, row in frame.changes:
            rows = self.start[table]
            rows.extend([None] * (slot + 1 - len(rows)))
            rows[slot] = row
        self.start_time = frame.time
        self._kept -= len(frame.changes)

    def _renumber(self) -> None:
        """Forget texts that nobody uses any more; whoever follows has to begin anew."""
        old, self.texts = self.texts.all, Texts()
        for rows, columns in ((self.nodes.rows, _NODE_TEXTS), (self.pods.rows, _POD_TEXTS)):
            for slot, row in enumerate(rows):
                if row is not None:
                    rows[slot] = self._renumbered(row, columns, old)
        self.epoch += 1
        self.begin()

    def _renumbered(self, row: Row, columns: frozenset[int], old: list[str]) -> Row:
        return tuple(
            self.texts.number(old[int(value)]) if at in columns else value
            for at, value in enumerate(row)
        )


_NODE_TEXTS = frozenset(NODE_FIELDS.index(f) for f in ("labels", "taints", "conditions", "more"))
_POD_TEXTS = frozenset(POD_FIELDS.index(f) for f in ("namespace", "owner", "labels"))
