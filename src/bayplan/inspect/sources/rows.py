"""Pods of a snapshot as rows over what they share, so that 100,000 of them are read in a second.

Pods of one template differ in name, uid, node and times. So the rest is written once: a `PodParts`
for everything of a template, a `PodState` for a status; a row names both by number. What is read
shares them too, as `bayplan.api.sharing` does for other sources.
"""

from __future__ import annotations

from collections.abc import Iterator
from sys import intern
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from bayplan.api import ObjectMeta, Pod, PodSpec, PodStatus
from bayplan.api.meta import OwnerReference

_ENCODER = msgspec.msgpack.Encoder()
T = TypeVar("T")


class PodParts(msgspec.Struct, array_like=True, frozen=True):
    """What pods of one template have in common."""

    namespace: str
    labels: dict[str, str]
    annotations: dict[str, str]
    owner_references: tuple[OwnerReference, ...]
    spec: PodSpec


class PodState(msgspec.Struct, array_like=True, frozen=True):
    """A status that many pods have, without its time."""

    status: PodStatus


class PodRow(msgspec.Struct, array_like=True, frozen=True):
    """One pod."""

    meta: ObjectMeta
    node: str
    started: str
    parts: int
    state: int


class PodTables:
    """The parts and states by number, while a snapshot is written or read."""

    def __init__(self) -> None:
        self.parts: list[PodParts] = []
        self.states: list[PodState] = []
        self._numbers: dict[bytes, int] = {}

    def row(self, pod: Pod) -> PodRow:
        """A pod as a row; new parts are added to the tables."""
        meta, spec, status = pod.metadata, pod.spec, pod.status
        parts = PodParts(
            meta.namespace,
            meta.labels,
            meta.annotations,
            meta.owner_references,
            replace(spec, node_name=""),
        )
        own = replace(meta, namespace="", labels={}, annotations={}, owner_references=())
        return PodRow(
            own,
            spec.node_name,
            status.start_time,
            self._number(parts, self.parts),
            self._number(PodState(replace(status, start_time="")), self.states),
        )

    def pods(self, rows: list[PodRow]) -> Iterator[Pod]:
        """The pods of rows; raises IndexError for a number that no table has."""
        parts_of, states = self.parts, self.states
        for row in rows:
            parts, status = parts_of[row.parts], states[row.state].status
            yield Pod(
                metadata=replace(
                    row.meta,
                    namespace=parts.namespace,
                    labels=parts.labels,
                    annotations=parts.annotations,
                    owner_references=parts.owner_references,
                ),
                spec=replace(parts.spec, node_name=intern(row.node)) if row.node else parts.spec,
                status=replace(status, start_time=row.started) if row.started else status,
            )

    def _number(self, item: T, table: list[T]) -> int:
        key = _ENCODER.encode(item)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(table)
            table.append(item)
        return number
