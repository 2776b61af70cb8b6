"""Objects as controllers see them: typed metadata, spec and status as plain JSON.

A controller reads what it decides on and writes patches or new objects, never what it read: the
structs leave out fields that no controller needs. `Json` is the one untyped thing; it stays
inside the functions that know its kind.
"""

import time
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec

from bayplan.api.labels import EVERYTHING, Selector, compile_selector
from bayplan.api.meta import LabelSelector
from bayplan.client import Resource

Json = dict[str, Any]


class Owner(msgspec.Struct, frozen=True, rename="camel"):
    """`metadata.ownerReferences[]`."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    """`metadata`, as far as controllers read it."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str = ""
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[Owner] = []
    finalizers: list[str] = []

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def controller(self) -> Owner | None:
        """The one owner that manages this object."""
        if not self.owner_references:
            return None
        return next((owner for owner in self.owner_references if owner.controller), None)


class Object(msgspec.Struct, frozen=True):
    """An object of any kind that has a spec and a status."""

    metadata: Meta
    spec: Json = {}
    status: Json = {}

    @property
    def key(self) -> str:
        return self.metadata.key

    @property
    def deleted(self) -> bool:
        return bool(self.metadata.deletion_timestamp)


class Bare(msgspec.Struct, frozen=True):
    """Only the metadata of an object of any kind."""

    metadata: Meta


class StorageClass(msgspec.Struct, frozen=True, rename="camel"):
    """What the volume controllers read of a storage class."""

    metadata: Meta
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    reclaim_policy: str = "Delete"
    mount_options: list[str] = []
    allowed_topologies: list[Json] = []


def timestamp(seconds: float) -> str:
    """Write a moment as Kubernetes does."""
    return _stamp(int(seconds // 1))


@lru_cache(maxsize=64)
def _stamp(second: int) -> str:
    day, rest = divmod(second, 86400)
    minutes, seconds = divmod(rest, 60)
    return f"{_date(day)}T{minutes // 60:02}:{minutes % 60:02}:{seconds:02}Z"


@lru_cache(maxsize=8)
def _date(day: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(day * 86400))


def micro_timestamp(seconds: float) -> str:
    """Write a moment with microseconds, as leases have it."""
    whole = int(seconds)
    micros = int((seconds - whole) * 1_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{micros:06}Z"


def seconds_of(text: str | None) -> float:
    """Read a moment; 0 when there is none."""
    if not text:
        return 0.0
    return datetime.fromisoformat(text).timestamp()


def selector_of(selector: Json | None) -> Selector:
    """Compile a LabelSelector; a missing one selects nothing, an empty one everything."""
    if selector == {}:
        return EVERYTHING
    return compile_selector(msgspec.convert(selector, LabelSelector | None))


def owner_reference(resource: Resource, owner: Meta) -> Json:
    """Return the reference that makes `owner` the controller of an object."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def condition(status: Json, type_: str) -> Json:
    """Return a condition of a status, {} if it has none of that type."""
    conditions: list[Json] = status.get("conditions") or []
    return next((item for item in conditions if item.get("type") == type_), {})


def with_condition(
    status: Json, type_: str, value: str, reason: str, message: str, now: str
) -> list[Json]:
    """Return the conditions with one set; the time moves only when its value does."""
    old = condition(status, type_)
    new: Json = {"type": type_, "status": value, "reason": reason, "message": message}
    same = old.get("status") == value
    new["lastTransitionTime"] = (old.get("lastTransitionTime") if same else None) or now
    for name in ("lastUpdateTime", "lastProbeTime", "lastHeartbeatTime", "observedGeneration"):
        if name in old:
            new[name] = old[name]
    others = [item for item in status.get("conditions") or [] if item.get("type") != type_]
    return [*others, new]


def is_ready(obj: Object) -> bool:
    """Tell whether a pod or a node says that it is ready."""
    return condition(obj.status, "Ready").get("status") == "True"


def is_finished(pod: Object) -> bool:
    return pod.status.get("phase") in ("Succeeded", "Failed")


def is_active(pod: Object) -> bool:
    """A pod that counts towards its controller's replicas."""
    return not pod.deleted and not is_finished(pod)
