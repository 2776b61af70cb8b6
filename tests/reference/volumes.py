"""The volume plugins: shared disks, attach limits, binding of claims, zones."""

from bayplan import api
from bayplan.api import quantity
from bayplan.api.labels import compile_selector
from bayplan.api.node_selectors import compile_node_selector
from bayplan.plugins.go_sort import go_sorted
from tests.reference.world import SKIP, UU, Plugin, U

BOUND = "pv.kubernetes.io/bind-completed"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"


def not_found(kind: str, name: str) -> str:
    return f'{kind} "{name}" not found'


def class_of(claim) -> str:
    if BETA_CLASS in claim.annotations:
        return claim.annotations[BETA_CLASS]
    return claim.spec.storage_class_name or ""


def inline_conflict(one: api.Volume, other: api.Volume) -> bool:
    """Whether two volumes of different pods may not be on the same node."""
    a, b = one.gce_persistent_disk, other.gce_persistent_disk
    if a and b and a.pd_name == b.pd_name and not (a.read_only and b.read_only):
        return True
    a, b = one.aws_elastic_block_store, other.aws_elastic_block_store
    if a and b and a.volume_id == b.volume_id:
        return True
    a, b = one.iscsi, other.iscsi
    if a and b and a.iqn == b.iqn and not (a.read_only and b.read_only):
        return True
    a, b = one.rbd, other.rbd
    return bool(
        a
        and b
        and set(a.monitors) & set(b.monitors)
        and (a.pool, a.image) == (b.pool, b.image)
        and not (a.read_only and b.read_only)
    )


class VolumeRestrictions(Plugin):
    name = "VolumeRestrictions"

    def prefilter(self):
        self.exclusive = set()
        for volume in self.pod.spec.volumes:
            if not volume.persistent_volume_claim:
                continue
            name = volume.persistent_volume_claim.claim_name
            claim = self.world.get("PersistentVolumeClaim", f"{self.pod.namespace}/{name}")
            if claim is None:
                return self.fail(UU, not_found("persistentvolumeclaim", name))
            if "ReadWriteOncePod" in claim.spec.access_modes:
                self.exclusive.add(name)
        used = {
            volume.persistent_volume_claim.claim_name
            for pod, _ in self.world.placed()
            if pod.namespace == self.pod.namespace
            for volume in pod.spec.volumes
            if volume.persistent_volume_claim
        }
        self.state = {"conflicts": len(self.exclusive & used)}
        inline = any(
            v.gce_persistent_disk or v.aws_elastic_block_store or v.rbd or v.iscsi
            for v in self.pod.spec.volumes
        )
        return None if inline or self.state["conflicts"] else SKIP

    def add(self, pod, node, delta=1):
        for volume in pod.spec.volumes:
            claim = volume.persistent_volume_claim
            if claim and claim.claim_name in self.exclusive:
                self.state["conflicts"] += delta

    def remove(self, pod, node):
        self.add(pod, node, -1)

    def filter(self, node):
        for volume in self.pod.spec.volumes:
            for other in node.pods:
                if any(inline_conflict(volume, item) for item in other.spec.volumes):
                    return self.fail(U, "node(s) had no available disk")
        if self.state["conflicts"] > 0:
            return self.fail(
                U,
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access "
                "mode already in-use by another pod",
            )
        return None


def claim_names(pod: api.Pod, ephemeral: bool = True) -> list[tuple[str, bool]]:
    """Return (claim name, is ephemeral) of the pod's claims."""
    found = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim:
            found.append((volume.persistent_volume_claim.claim_name, False))
        elif volume.ephemeral and ephemeral:
            found.append((f"{pod.name}-{volume.name}", True))
    return found


def made_for(pod: api.Pod, claim: api.PersistentVolumeClaim) -> bool:
    return claim.controller is not None and claim.controller.uid == pod.uid


class NodeVolumeLimits(Plugin):
    """Attach limits; the reference does not know inline volumes of migrated drivers."""

    name = "NodeVolumeLimits"

    def prefilter(self):
        inline = any(
            v.aws_elastic_block_store or v.gce_persistent_disk or v.azure_disk or v.cinder
            for v in self.pod.spec.volumes
        )
        return None if inline or claim_names(self.pod) else SKIP

    def _volumes(self, pod, new):
        found = {}
        for name, ephemeral in claim_names(pod):
            claim = self.world.get("PersistentVolumeClaim", f"{pod.namespace}/{name}")
            if claim is not None and ephemeral and not made_for(pod, claim):
                raise ValueError(
                    f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"
                )
            if claim is None:
                if new:
                    raise LookupError(
                        f"looking up PVC {pod.namespace}/{name}: "
                        + not_found("persistentvolumeclaim", name)
                    )
                continue
            volume = self.world.get("PersistentVolume", claim.spec.volume_name)
            if volume is not None:
                if volume.spec.csi:
                    source = volume.spec.csi
                    found[f"{source.driver}/{source.volume_handle}"] = source.driver
                continue
            storage = self.world.get("StorageClass", class_of(claim))
            if storage is not None:
                found[f"{storage.provisioner}/unbound-{claim.key}"] = storage.provisioner
        return found

    def filter(self, node):
        try:
            new = self._volumes(self.pod, True)
        except LookupError as problem:
            return self.fail(UU, str(problem))
        except ValueError as problem:
            return self.fail("Error", str(problem))
        csi_node = self.world.get("CSINode", node.name)
        if not new or csi_node is None:
            return None
        limits = {
            driver.name: driver.allocatable.count
            for driver in csi_node.spec.drivers
            if driver.allocatable and driver.allocatable.count is not None
        }
        attached = {}
        for pod in node.pods:
            attached |= self._volumes(pod, False)
        new = {name: driver for name, driver in new.items() if name not in attached}
        counted = attached | self._attachments(node)
        for driver, limit in limits.items():
            wanted = sum(d == driver for d in new.values())
            current = sum(d == driver for d in counted.values())
            if wanted and current + wanted > limit:
                return self.fail(U, "node(s) exceed max volume count")
        return None

    def _attachments(self, node):
        found = {}
        for item in self.world.all("VolumeAttachment"):
            volume = self.world.get("PersistentVolume", item.spec.source.persistent_volume_name)
            csi = volume.spec.csi if volume else None
            if csi and item.spec.node_name == node.name and item.spec.attacher:
                found[f"{item.spec.attacher}/{csi.volume_handle}"] = item.spec.attacher
        return found


def reachable(volume: api.PersistentVolume, node) -> bool:
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return True
    return compile_node_selector(affinity.required).matches(node.labels, "")


class VolumeBinding(Plugin):
    name = "VolumeBinding"

    def prefilter(self):
        names = claim_names(self.pod)
        if not names:
            return SKIP
        claims = []
        for name, ephemeral in names:
            claim = self.world.get("PersistentVolumeClaim", f"{self.pod.namespace}/{name}")
            problem = self._problem(name, ephemeral, claim)
            if problem:
                return self.fail(UU, problem)
            claims.append(claim)
        self.bound, self.delayed = [], []
        for claim in claims:
            storage = self.world.get("StorageClass", class_of(claim))
            if claim.spec.volume_name and BOUND in claim.annotations:
                self.bound.append(claim)
            elif (
                storage is not None
                and storage.volume_binding_mode == "WaitForFirstConsumer"
                and not claim.spec.volume_name
            ):
                self.delayed.append(claim)
            else:
                return self.fail(UU, "pod has unbound immediate PersistentVolumeClaims")
        return None

    def _problem(self, name, ephemeral, claim):
        if claim is None:
            text = not_found("persistentvolumeclaim", name)
            if ephemeral:
                text = (
                    "waiting for ephemeral volume controller to create the "
                    f'persistentvolumeclaim "{name}"'
                )
            return text
        if claim.status.phase == "Lost":
            return (
                f'persistentvolumeclaim "{name}" bound to non-existent '
                f'persistentvolume "{claim.spec.volume_name}"'
            )
        if claim.terminating:
            return f'persistentvolumeclaim "{name}" is being deleted'
        if ephemeral and not made_for(self.pod, claim):
            return f"PVC {claim.key} was not created for pod {self.pod.key} (pod is not owner)"
        return ""

    def filter(self, node):
        reasons = []
        reached, exist = self._check_bound(node)
        found, room = self._check_delayed(node)
        if not reached:
            reasons.append("node(s) didn't match PersistentVolume's node affinity")
        if not found:
            reasons.append("node(s) didn't find available persistent volumes to bind")
        if not room:
            reasons.append("node(s) did not have enough free storage")
        if not exist:
            reasons.append(
                "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
            )
        return self.fail(UU, *reasons) if reasons else None

    def _check_bound(self, node):
        for claim in self.bound:
            volume = self.world.get("PersistentVolume", claim.spec.volume_name)
            if volume is None:
                return True, False
            if not reachable(volume, node):
                return False, True
        return True, True

    def _check_delayed(self, node):
        provision, match = [], []
        for claim in self.delayed:
            selected = claim.annotations.get(SELECTED_NODE)
            if selected is None:
                match.append(claim)
            elif selected != node.name:
                return False, True
            else:
                provision.append(claim)
        chosen = set()
        sizes = [quantity.nanos(c.spec.resources.requests.get("storage", 0)) for c in match]
        match = go_sorted(match, sizes)
        missing = []
        for claim in match:
            volume = self._match(claim, node, chosen)
            if volume is None:
                missing.append(claim)
            else:
                chosen.add(volume.name)
        provision += missing
        if provision:
            return self._provision(provision, node)
        return True, True

    def _match(self, claim, node, chosen):
        smallest = None
        selector = compile_selector(claim.spec.selector or api.LabelSelector())
        wanted = quantity.nanos(claim.spec.resources.requests.get("storage", 0))
        for volume in self.world.all("PersistentVolume"):
            spec, ref = volume.spec, volume.spec.claim_ref
            mine = (
                ref is not None
                and (ref.namespace, ref.name) == (claim.namespace, claim.name)
                and ref.uid in ("", claim.uid)
            )
            size = quantity.nanos(spec.capacity.get("storage", 0))
            if (
                volume.name in chosen
                or class_of_volume(volume) != class_of(claim)
                or (ref is not None and not mine)
                or size < wanted
                or (spec.volume_mode or "Filesystem") != (claim.spec.volume_mode or "Filesystem")
                or spec.volume_attributes_class_name != claim.spec.volume_attributes_class_name
                or volume.terminating
            ):
                continue
            if mine:
                return volume if reachable(volume, node) else None
            if (
                volume.status.phase != "Available"
                or not selector.matches(volume.labels)
                or not reachable(volume, node)
                or not set(claim.spec.access_modes) <= set(spec.access_modes)
            ):
                continue
            if smallest is None or size < smallest[0]:
                smallest = (size, volume)
        return smallest[1] if smallest else None

    def _provision(self, claims, node):
        for claim in claims:
            storage = self.world.get("StorageClass", class_of(claim))
            if storage.provisioner in ("", "kubernetes.io/no-provisioner"):
                return False, True
            if storage.allowed_topologies and not any(
                term.match_label_expressions
                and all(node.labels.get(e.key) in e.values for e in term.match_label_expressions)
                for term in storage.allowed_topologies
            ):
                return False, True
            if not self._room(claim, storage, node):
                return True, False
        return True, True

    def _room(self, claim, storage, node):
        driver = self.world.get("CSIDriver", storage.provisioner)
        if "storage" not in claim.spec.resources.requests or driver is None:
            return True
        if not driver.spec.storage_capacity:
            return True
        wanted = quantity.value(claim.spec.resources.requests["storage"])
        for item in self.world.all("CSIStorageCapacity"):
            limit = item.capacity if item.maximum_volume_size is None else item.maximum_volume_size
            if (
                item.storage_class_name == storage.name
                and item.node_topology is not None
                and compile_selector(item.node_topology).matches(node.labels)
                and limit is not None
                and quantity.value(limit) >= wanted
            ):
                return True
        return False


def class_of_volume(volume) -> str:
    return volume.annotations.get(BETA_CLASS, volume.spec.storage_class_name)


ZONE_KEYS = (
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
)


class VolumeZone(Plugin):
    name = "VolumeZone"

    def prefilter(self):
        self.wanted = []
        for name, _ in claim_names(self.pod, ephemeral=False):
            if not name:
                return self.fail(UU, "PersistentVolumeClaim had no name")
            claim = self.world.get("PersistentVolumeClaim", f"{self.pod.namespace}/{name}")
            if claim is None:
                return self.fail(UU, not_found("persistentvolumeclaim", name))
            if not claim.spec.volume_name:
                problem = self._unbound(claim)
                if problem:
                    return self.fail(UU, problem)
                continue
            volume = self.world.get("PersistentVolume", claim.spec.volume_name)
            if volume is None:
                return self.fail(UU, not_found("persistentvolume", claim.spec.volume_name))
            for key in ZONE_KEYS:
                if key in volume.labels:
                    parts = [part.strip() for part in volume.labels[key].split("__")]
                    if all(parts):
                        self.wanted.append((key, set(parts)))
        return None if self.wanted else SKIP

    def _unbound(self, claim):
        name = class_of(claim)
        if not name:
            return "PersistentVolumeClaim had no pv name and storageClass name"
        storage = self.world.get("StorageClass", name)
        if storage is None:
            return not_found("storageclass.storage.k8s.io", name)
        if storage.volume_binding_mode is None:
            return f'VolumeBindingMode not set for StorageClass "{name}"'
        if storage.volume_binding_mode == "WaitForFirstConsumer":
            return ""
        return "PersistentVolume had no name"

    def filter(self, node):
        if not any(key in node.labels for key in ZONE_KEYS):
            return None
        for key, values in self.wanted:
            found = node.labels.get(key)
            if found is None and key.startswith("failure-domain.beta"):
                found = node.labels.get(key.replace("failure-domain.beta", "topology"))
            if found is None or found not in values:
                return self.fail(UU, "node(s) had no available volume zone")
        return None
