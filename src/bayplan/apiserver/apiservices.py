"""Writes an APIService for each version of a group that this server answers for.

The real control plane has an aggregator in front that learns from them whom to ask. Here there is
one server for all; the objects are for those who look whether something is served. Those of
definitions come and go with them.
"""

from __future__ import annotations

from bayplan.apiserver import validation
from bayplan.apiserver.backend import Backend
from bayplan.apiserver.codec import Codec, Object
from bayplan.apiserver.kinds import GROUP_PRIORITIES
from bayplan.store import Conflict

GROUP, RESOURCE = "apiregistration.k8s.io", "apiservices"
MANAGED = "kube-aggregator.kubernetes.io/automanaged"
CUSTOM = (1000, 100)  # the priorities of a group and version that a definition adds
VERSION_PRIORITY = 15
_VERSION_PRIORITIES = {
    ("", "v1"): 1,
    ("autoscaling", "v2"): 30,
    ("flowcontrol.apiserver.k8s.io", "v1"): 21,
    ("resource.k8s.io", "v1"): 21,
}


async def write_services(backend: Backend) -> None:
    """Create what is missing and remove what is no longer served."""
    codec = backend.codec_of(GROUP, RESOURCE)
    assert codec is not None
    wanted = {
        f"{version}.{group}": (group, version)
        for group, versions in backend.registry.group_versions().items()
        for version in versions
    }
    found = await backend.store.range(codec.prefix)
    present = {kv.key[len(codec.prefix) :]: kv for kv in found.items}
    for name, (group, version) in wanted.items():
        if name not in present and group != GROUP:
            await _create(backend, codec, _service(name, group, version))
    for name, kv in present.items():
        labels = codec.fields(kv).labels
        if name not in wanted and labels.get(MANAGED) == "true":
            try:
                await backend.store.delete(kv.key, expect=kv.mod_revision)
            except Conflict:
                continue  # somebody else changed or removed it


def _service(name: str, group: str, version: str) -> Object:
    custom = group not in GROUP_PRIORITIES
    of_group = CUSTOM[0] if custom else GROUP_PRIORITIES[group]
    of_version = CUSTOM[1] if custom else _VERSION_PRIORITIES.get((group, version))
    return {
        "metadata": {"name": name, "labels": {MANAGED: "true" if custom else "onstart"}},
        "spec": {
            "group": group,
            "version": version,
            "groupPriorityMinimum": of_group,
            "versionPriority": of_version or VERSION_PRIORITY,
        },
    }


async def _create(backend: Backend, codec: Codec, obj: Object) -> None:
    metadata = obj["metadata"]
    metadata["uid"], metadata["creationTimestamp"] = backend.new_uid(), backend.now()
    validation.prepare_for_create(GROUP, RESOURCE, obj)
    try:
        await backend.store.put(codec.key("", metadata["name"]), codec.encode(obj), expect=0)
    except Conflict:
        return  # another server on the same store was faster
