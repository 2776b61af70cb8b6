"""Which volumes are attached to which row, and how many per driver, kept incrementally.

`VolumeNames` tells driver and identity of a pod's volumes from claims, volumes and classes.
`AttachedVolumes` holds the same for every row of the table. A row is read again when the table's
journal names it or when a claim, volume, attachment or CSINode of it changed; a change of a storage
class, which is rare, reads everything again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

from bayplan.api import CSINode, PersistentVolumeClaim, Pod, VolumeAttachment
from bayplan.framework import ClusterObjects, IntArray, NodeTable
from bayplan.plugins.csi_migration import inline_handle, provisioner_driver, volume_handle
from bayplan.plugins.row_keys import RowKeys
from bayplan.plugins.volume_claims import (
    claim_of,
    class_of_claim,
    not_found,
    owner_problem,
    pod_claims,
)

NO_LIMIT = np.iinfo(np.int64).max // 2


def limits_of(node: CSINode | None) -> dict[str, int]:
    """How many volumes each driver can attach; drivers without a limit are left out."""
    if node is None:
        return {}
    return {
        driver.name: driver.allocatable.count
        for driver in node.spec.drivers
        if driver.allocatable is not None and driver.allocatable.count is not None
    }


class VolumeNames:
    """Gives volumes unique names: `driver/handle`."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects

    def of_new_pod(self, pod: Pod) -> dict[str, str]:
        """Unique name to driver of a pod to be placed.

        LookupError if a claim is missing, ValueError if it cannot be this pod's.
        """
        found: dict[str, str] = {}
        for volume in pod.spec.volumes:
            claim_name = claim_of(pod, volume)
            if claim_name is None:
                if (inline := inline_handle(volume)) is not None:
                    found["/".join(inline)] = inline[0]
                continue
            if not claim_name.name:
                raise ValueError("PersistentVolumeClaim had no name")
            key = f"{pod.namespace}/{claim_name.name}"
            claim = self._objects.persistent_volume_claims.get(key)
            if claim is None:
                missing = not_found("persistentvolumeclaim", claim_name.name)
                raise LookupError(f"looking up PVC {key}: {missing}")
            if claim_name.ephemeral and (problem := owner_problem(pod, claim)):
                raise ValueError(problem)
            self._add(claim, found)
        return found

    def of_placed(self, pods: Iterable[Pod]) -> dict[str, str]:
        """Unique name to driver of pods on a node; claims that are missing do not count."""
        found: dict[str, str] = {}
        for pod in pods:
            for volume in pod.spec.volumes:
                claim_name = claim_of(pod, volume)
                if claim_name is None:
                    if (inline := inline_handle(volume)) is not None:
                        found["/".join(inline)] = inline[0]
                    continue
                key = f"{pod.namespace}/{claim_name.name}"
                claim = self._objects.persistent_volume_claims.get(key)
                if claim is not None:
                    self._add(claim, found)
        return found

    def of_attachments(self, node: str) -> dict[str, str]:
        """Unique name to driver of what is attached to a node by VolumeAttachments."""
        found: dict[str, str] = {}
        for item in self._objects.volume_attachments:
            if item.spec.node_name == node:
                volume = item.spec.source.persistent_volume_name
                self.add_attachment(item.spec.attacher, volume, found)
        return found

    def add_attachment(self, attacher: str, volume_name: str, found: dict[str, str]) -> None:
        volume = self._objects.persistent_volumes.get(volume_name) if volume_name else None
        if attacher and volume is not None and volume.spec.csi is not None:
            found[f"{attacher}/{volume.spec.csi.volume_handle}"] = attacher

    def _add(self, claim: PersistentVolumeClaim, found: dict[str, str]) -> None:
        name = claim.spec.volume_name
        volume = self._objects.persistent_volumes.get(name) if name else None
        if volume is not None:
            if (handle := volume_handle(volume)) is not None and all(handle):
                found["/".join(handle)] = handle[0]
            return
        storage = self._objects.storage_classes.get(class_of_claim(claim))
        driver = "" if storage is None else provisioner_driver(storage.provisioner)
        if driver:
            # A name that no real volume has, so that distinct claims are distinct volumes.
            found[f"{driver}/unbound claim {claim.key}"] = driver


class AttachedVolumes:
    """Volumes by row as columns of counts and limits."""

    def __init__(self, objects: ClusterObjects, names: VolumeNames) -> None:
        self._objects = objects
        self._names = names
        self._claims: RowKeys[str] = RowKeys(
            lambda info: (
                [f"{info.pod.namespace}/{claim.name}" for claim in pod_claims(info.pod)] or [""]
            )
        )
        self._attachments: dict[str, VolumeAttachment] = {}
        self._attached_to: dict[str, set[str]] = {}
        """Node to the keys of its attachments."""
        self._attached_as: dict[str, set[str]] = {}
        """Volume to the nodes it is, or once was, attached to."""
        self._claims_of: dict[str, set[str]] = {}
        """Volume to the claims that name it, or once named it."""
        self._by_row: dict[int, dict[str, str]] = {}
        self._extra: dict[int, dict[str, str]] = {}
        self._rows: dict[str, set[int]] = {}
        self._counts: dict[str, IntArray] = {}
        self._limits: dict[str, IntArray] = {}
        self._seen: tuple[int, ...] = ()
        self._count = 0

    def rows(self, name: str) -> Collection[int]:
        """Rows with a pod that uses the volume."""
        return self._rows.get(name, ())

    def count(self, driver: str) -> IntArray:
        """How many volumes of a driver each row has."""
        return self._column(self._counts, driver, 0)

    def limit(self, driver: str) -> IntArray:
        """How many volumes of a driver each row can have."""
        return self._column(self._limits, driver, NO_LIMIT)

    def refresh(self, table: NodeTable) -> None:
        """Catch up with the table and the objects."""
        changed = self._claims.refresh(table)
        objects = self._objects
        listers = (
            objects.persistent_volume_claims,
            objects.persistent_volumes,
            objects.volume_attachments,
            objects.csi_nodes,
            objects.storage_classes,
        )
        seen, self._seen = self._seen, tuple(lister.revision for lister in listers)
        rows: set[int] | None = changed
        if not seen or seen[4] != self._seen[4] or self._count != table.count:
            rows = None
        if rows is not None:
            rows = self._touched(table, seen, rows)
        if rows is None:
            self._rebuild(table)
            return
        for row in rows:
            if row < table.count:  # a node that came and went since leaves a row that is gone
                self._read(table, row)

    def _touched(self, table: NodeTable, seen: tuple[int, ...], rows: set[int]) -> set[int] | None:
        """The rows to read again, None for all."""
        objects, rows = self._objects, set(rows)
        claims = objects.persistent_volume_claims.changes_since(seen[0])
        volumes = objects.persistent_volumes.changes_since(seen[1])
        attachments = objects.volume_attachments.changes_since(seen[2])
        nodes = objects.csi_nodes.changes_since(seen[3])
        if claims is None or volumes is None or attachments is None or nodes is None:
            return None
        for key in claims:
            rows.update(self._claims.rows(key))
        for name in volumes:
            for key in self._claims_of.get(name, ()):
                rows.update(self._claims.rows(key))
            nodes.extend(self._attached_as.get(name, ()))
        for key in attachments:
            nodes.extend(self._index_attachment(key))
        rows.update(row for name in nodes if (row := table.row_of(name)) is not None)
        return rows

    def _rebuild(self, table: NodeTable) -> None:
        self._by_row.clear()
        self._extra.clear()
        self._rows.clear()
        self._counts.clear()
        self._limits.clear()
        self._count = table.count
        self._attachments.clear()
        self._attached_to.clear()
        self._attached_as.clear()
        self._claims_of.clear()
        for item in self._objects.volume_attachments:
            self._index_attachment(item.key)
        for row in range(table.count):
            self._read(table, row)

    def _index_attachment(self, key: str) -> list[str]:
        """Take over the present state of one attachment; return the nodes concerned."""
        touched: list[str] = []
        old = self._attachments.pop(key, None)
        if old is not None:
            self._attached_to[old.spec.node_name].discard(key)
            touched.append(old.spec.node_name)
        new = self._objects.volume_attachments.get(key)
        if new is not None:
            node, volume = new.spec.node_name, new.spec.source.persistent_volume_name
            self._attachments[key] = new
            self._attached_to.setdefault(node, set()).add(key)
            self._attached_as.setdefault(volume, set()).add(node)
            touched.append(node)
        return touched

    def _read(self, table: NodeTable, row: int) -> None:
        name = table.name_of(row)
        used: dict[str, str] = {}
        keys = self._claims.keys(row)
        if keys:
            self._note_volumes(keys)
            used = self._names.of_placed(info.pod for info in table.pods[row])
        extra: dict[str, str] = {}
        for key in self._attached_to.get(name, ()):
            spec = self._attachments[key].spec
            self._names.add_attachment(spec.attacher, spec.source.persistent_volume_name, extra)
        self._set(row, used, extra)
        limits = limits_of(self._objects.csi_nodes.get(name))
        for driver in {*self._limits, *limits}:
            self.limit(driver)[row] = limits.get(driver, NO_LIMIT)

    def _note_volumes(self, keys: Iterable[str]) -> None:
        for key in keys:
            claim = self._objects.persistent_volume_claims.get(key)
            if claim is not None and claim.spec.volume_name:
                self._claims_of.setdefault(claim.spec.volume_name, set()).add(key)

    def _set(self, row: int, used: dict[str, str], extra: dict[str, str]) -> None:
        old_used, old_extra = self._by_row.get(row, {}), self._extra.get(row, {})
        if old_used == used and old_extra == extra:
            return
        for volume in old_used.keys() - used.keys():
            rows = self._rows[volume]
            rows.discard(row)
            if not rows:
                del self._rows[volume]
        for volume in used.keys() - old_used.keys():
            self._rows.setdefault(volume, set()).add(row)
        for driver in (old_extra | old_used).values():
            self.count(driver)[row] -= 1
        for driver in (extra | used).values():
            self.count(driver)[row] += 1
        self._by_row[row], self._extra[row] = used, extra

    def _column(self, columns: dict[str, IntArray], driver: str, empty: int) -> IntArray:
        column = columns.get(driver)
        if column is None:
            column = columns[driver] = np.full(self._count, empty, dtype=np.int64)
        return column
