"""Finds, books and describes the binding of a pod's claims, for one cluster.

Finding reads claims and volumes through assume caches, so that two pods decided one after the other
do not get the same volume. Writing is left to others: `calls` gives the patches as data. They carry
the version that was read, so a change in between is a conflict and not lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import numpy as np

from bayplan.api import (
    CSIStorageCapacity,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
)
from bayplan.framework import ApiCall, ClusterObjects, Nodes, Status, failed
from bayplan.framework.contract.status import Code
from bayplan.framework.contract.verdict import OutcomeArray
from bayplan.plugins.volume_binding.assume import AssumeCache
from bayplan.plugins.volume_binding.index import Candidate, VolumeIndex
from bayplan.plugins.volume_binding.matching import Choices, in_order, unmatched
from bayplan.plugins.volume_binding.provisioning import Provisioning
from bayplan.plugins.volume_claims import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    class_of_claim,
    not_found,
    owner_problem,
    pod_claims,
)

MERGE_PATCH = "application/merge-patch+json"

BOUND_OK, BOUND_CONFLICT, BOUND_MISSING = 0, 1, 2
FREE_OK, FREE_NONE, FREE_NO_ROOM = 0, 1, 2


class Claims(NamedTuple):
    """A pod's claims: those that have a volume, and those that get one where the pod goes."""

    bound: tuple[PersistentVolumeClaim, ...] = ()
    delayed: tuple[PersistentVolumeClaim, ...] = ()
    immediate: tuple[PersistentVolumeClaim, ...] = ()


class Provision(NamedTuple):
    """A claim to provision a volume for, and the capacity it would come from, if known."""

    claim: PersistentVolumeClaim
    capacity: CSIStorageCapacity | None = None


class Found(NamedTuple):
    """What one node means for a pod's claims."""

    bound: int = BOUND_OK
    free: int = FREE_OK
    bindings: tuple[tuple[PersistentVolume, PersistentVolumeClaim], ...] = ()
    provisions: tuple[Provision, ...] = ()


class Binder:
    """One per cluster."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects
        self.volumes = AssumeCache(objects.persistent_volumes)
        self.claims = AssumeCache(objects.persistent_volume_claims)
        self._index = VolumeIndex(self.volumes)
        self._provisioning = Provisioning(objects)

    # -- before filtering -------------------------------------------------------------------

    def problem(self, pod: Pod) -> str:
        """Why a claim of the pod cannot be used at all; empty if there is none."""
        for wanted in pod_claims(pod):
            name = wanted.name
            claim = self.claims.get(f"{pod.namespace}/{name}")
            if claim is None:
                missing = not_found("persistentvolumeclaim", name)
                waiting = (
                    "waiting for ephemeral volume controller to create the "
                    f'persistentvolumeclaim "{name}"'
                )
                return waiting if wanted.ephemeral else missing
            if claim.status.phase == "Lost":
                volume = claim.spec.volume_name
                return (
                    f'persistentvolumeclaim "{name}" bound to non-existent '
                    f'persistentvolume "{volume}"'
                )
            if claim.terminating:
                return f'persistentvolumeclaim "{name}" is being deleted'
            if wanted.ephemeral and (problem := owner_problem(pod, claim)):
                return problem
        return ""

    def classify(self, pod: Pod) -> Claims:
        """Sort the pod's claims; raises ValueError for a class without a binding mode."""
        bound, delayed, immediate = [], [], []
        for wanted in pod_claims(pod):
            claim = self.claims.get(f"{pod.namespace}/{wanted.name}")
            if claim is None:
                continue
            if is_bound(claim):
                bound.append(claim)
            elif self._waits(claim) and not claim.spec.volume_name:
                delayed.append(claim)
            else:
                immediate.append(claim)
        return Claims(tuple(bound), tuple(delayed), tuple(immediate))

    def _waits(self, claim: PersistentVolumeClaim) -> bool:
        name = class_of_claim(claim)
        storage = self._objects.storage_classes.get(name) if name else None
        if storage is None:
            return False
        if storage.volume_binding_mode is None:
            raise ValueError(f'VolumeBindingMode not set for StorageClass "{name}"')
        return storage.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER

    # -- filtering --------------------------------------------------------------------------

    def check_bound(self, claims: Claims, nodes: Nodes) -> OutcomeArray:
        """For each row whether the bound volumes can be used there."""
        which = np.zeros(nodes.count, dtype=np.uint16)  # (N,)
        self._index.refresh()
        for claim in claims.bound:
            candidate = self._index.get(claim.spec.volume_name)
            if candidate is None:
                which[which == BOUND_OK] = BOUND_MISSING
                break
            rows = candidate.rows(nodes.table)
            if rows is not None:
                reachable = np.zeros(nodes.table.count, dtype=bool)
                reachable[rows] = True
                here = nodes.pick(reachable).astype(bool, copy=False)
                which[~here & (which == BOUND_OK)] = BOUND_CONFLICT
        return which

    def check_delayed(self, claims: Claims, nodes: Nodes) -> OutcomeArray:
        """For each row whether the other claims would get volumes there."""
        which = np.zeros(nodes.count, dtype=np.uint16)  # (N,)
        self._index.refresh()
        fixed, open_claims = [], []
        for claim in claims.delayed:
            selected = claim.metadata.annotations.get(SELECTED_NODE)
            if selected is None:
                open_claims.append(claim)
                continue
            fixed.append(claim)
            row = nodes.table.row_of(selected)
            which[nodes.rows != (-1 if row is None else row)] = FREE_NONE
        for claim in fixed:
            self._provision(claim, which, np.ones(nodes.count, dtype=bool), nodes)
        for claim, missing in unmatched(open_claims, self._index, nodes.table):
            self._provision(claim, which, nodes.pick(missing), nodes)
        return which

    def _provision(
        self,
        claim: PersistentVolumeClaim,
        which: OutcomeArray,
        needed: np.ndarray[tuple[int], np.dtype[np.generic]],
        nodes: Nodes,
    ) -> None:
        """Mark the rows on which a claim cannot be provisioned, unless they are decided."""
        rows = needed.astype(bool, copy=False) & (which == FREE_OK)
        if not rows.any():
            return
        allowed = self._provisioning.allowed_rows(claim, nodes)
        which[rows & ~allowed] = FREE_NONE
        which[rows & allowed & ~self._provisioning.roomy_rows(claim, nodes)] = FREE_NO_ROOM

    def find(self, claims: Claims, name: str, labels: Mapping[str, str]) -> Found:
        """What one node means for the claims, with the volumes they would get."""
        self._index.refresh()
        return self._find_delayed(claims, name, labels)._replace(
            bound=self._find_bound(claims, labels)
        )

    def _find_bound(self, claims: Claims, labels: Mapping[str, str]) -> int:
        for claim in claims.bound:
            candidate = self._index.get(claim.spec.volume_name)
            if candidate is None:
                return BOUND_MISSING
            if not candidate.reachable(labels):
                return BOUND_CONFLICT
        return BOUND_OK

    def _find_delayed(self, claims: Claims, name: str, labels: Mapping[str, str]) -> Found:
        provision: list[PersistentVolumeClaim] = []
        open_claims = []
        for claim in claims.delayed:
            selected = claim.metadata.annotations.get(SELECTED_NODE)
            if selected is None:
                open_claims.append(claim)
            elif selected != name:
                return Found(free=FREE_NONE)
            else:
                provision.append(claim)
        taken: dict[str, Candidate] = {}
        bindings = []
        for claim in in_order(open_claims):
            candidate = Choices(claim, self._index).on_node(labels, taken)
            if candidate is None:
                provision.append(claim)
            else:
                taken[candidate.volume.name] = candidate
                bindings.append((candidate.volume, claim))
        provisions = []
        for claim in provision:
            if not self._provisioning.allows(claim, labels):
                return Found(free=FREE_NONE)
            room = None
            if self._provisioning.checks_capacity(claim):
                room = self._provisioning.room(claim, labels)
                if room is None:
                    return Found(free=FREE_NO_ROOM)
            provisions.append(Provision(claim, room))
        return Found(bindings=tuple(bindings), provisions=tuple(provisions))

    # -- booking ----------------------------------------------------------------------------

    def assume(self, found: Found, node_name: str) -> None:
        """Book volumes and claims; on failure nothing stays booked."""
        try:
            for volume, claim in found.bindings:
                self.volumes.assume(_bound_volume(volume, claim))
            for provision in found.provisions:
                self.claims.assume(_selected_claim(provision.claim, node_name))
        except LookupError:
            self.revert(found)
            raise

    def revert(self, found: Found) -> None:
        """Give back what was booked."""
        for volume, _ in found.bindings:
            self.volumes.restore(volume.key)
        for provision in found.provisions:
            self.claims.restore(provision.claim.key)

    def calls(self, found: Found, node_name: str) -> tuple[ApiCall, ...]:
        """What must be written for the volumes to be bound."""
        patches = [
            ApiCall("patch", "persistentvolumes", "", volume.name, _volume_patch(volume, claim),
                    patch=MERGE_PATCH)
            for volume, claim in found.bindings
        ]  # fmt: skip
        for provision in found.provisions:
            claim = provision.claim
            meta = {"annotations": {SELECTED_NODE: node_name}} | _version(claim)
            body = {"metadata": meta}
            call = ApiCall(
                "patch", "persistentvolumeclaims", claim.namespace, claim.name, body,
                patch=MERGE_PATCH,
            )  # fmt: skip
            patches.append(call)
        return tuple(patches)

    def progress(self, found: Found, node_name: str) -> Status | None:
        """How far the binding is: None while it goes on, success, or why it failed."""
        for volume, claim in found.bindings:
            status = self._binding_progress(volume, claim)
            if status is None or status.code is not Code.SUCCESS:
                return status
        for provision in found.provisions:
            status = self._provision_progress(provision.claim, node_name)
            if status is None or status.code is not Code.SUCCESS:
                return status
        return Status(Code.SUCCESS)

    def _binding_progress(
        self, before: PersistentVolume, claim: PersistentVolumeClaim
    ) -> Status | None:
        volume = self.volumes.lister.get(before.key)
        if volume is None:
            return failed(f"failed to check binding: {not_found('persistentvolume', before.name)}")
        ref = volume.spec.claim_ref
        if ref is None or not ref.uid:
            # What we know may be older than what was written.
            unchanged = volume is before or _version(volume) == _version(before) != {}
            return None if unchanged else failed(f'ClaimRef got reset for pv "{volume.name}"')
        return self._fully_bound(claim)

    def _provision_progress(self, before: PersistentVolumeClaim, node_name: str) -> Status | None:
        claim = self.claims.lister.get(before.key)
        if claim is not None and claim.metadata.annotations.get(SELECTED_NODE) != node_name:
            unchanged = claim is before or _version(claim) == _version(before) != {}
            text = f'provisioning failed for PVC "{claim.name}"'
            return None if unchanged else failed(text)
        return self._fully_bound(before)

    def _fully_bound(self, before: PersistentVolumeClaim) -> Status | None:
        claim = self.claims.lister.get(before.key)
        if claim is None:
            missing = not_found("persistentvolumeclaim", before.name)
            return failed(f"failed to check binding: {missing}")
        return Status(Code.SUCCESS) if is_bound(claim) else None


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Whether a claim is completely bound."""
    return claim.spec.volume_name != "" and BIND_COMPLETED in claim.metadata.annotations


def _bound_volume(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    ref = ObjectReference("PersistentVolumeClaim", claim.namespace, claim.name, claim.uid)
    annotations = volume.metadata.annotations | {BOUND_BY_CONTROLLER: "yes"}
    return msgspec.structs.replace(
        volume,
        metadata=msgspec.structs.replace(volume.metadata, annotations=annotations),
        spec=msgspec.structs.replace(volume.spec, claim_ref=ref),
    )


def _selected_claim(claim: PersistentVolumeClaim, node_name: str) -> PersistentVolumeClaim:
    annotations = claim.metadata.annotations | {SELECTED_NODE: node_name}
    meta = msgspec.structs.replace(claim.metadata, annotations=annotations)
    return msgspec.structs.replace(claim, metadata=meta)


def _volume_patch(volume: PersistentVolume, claim: PersistentVolumeClaim) -> dict[str, object]:
    meta: dict[str, object] = dict(_version(volume))
    if volume.spec.claim_ref is None:
        meta["annotations"] = {BOUND_BY_CONTROLLER: "yes"}
    ref = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": claim.namespace,
        "name": claim.name,
        "uid": claim.uid,
    } | _version(claim)
    return {"metadata": meta, "spec": {"claimRef": ref}}


def _version(item: PersistentVolume | PersistentVolumeClaim) -> dict[str, object]:
    version = item.metadata.resource_version
    return {"resourceVersion": version} if version else {}
