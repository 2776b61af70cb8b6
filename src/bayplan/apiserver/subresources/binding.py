"""Binding: a scheduler's decision, written into the pod.

The hottest write of a scheduler, so it does not go through validation again: upstream, too, changes
the stored pod directly. It sets the node, copies labels and annotations of the Binding onto the
pod, and marks it PodScheduled. Whether the node exists is not looked at; by option it is checked
that the pod fits into what the node has left, so that two schedulers cannot overcommit it.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext

from bayplan.api.meta import with_condition
from bayplan.apiserver import pipeline
from bayplan.apiserver.admission import CREATE
from bayplan.apiserver.aside import aside_of, decoded
from bayplan.apiserver.backend import Backend
from bayplan.apiserver.bodies import read_as
from bayplan.apiserver.codec import Codec, Object
from bayplan.apiserver.errors import (
    ApiError,
    bad_request,
    conflict,
    precondition_failed,
)
from bayplan.apiserver.request import Request
from bayplan.apiserver.responses import Answer, plain_answer, success
from bayplan.store import Conflict, KeyValue, Op

ATTEMPTS = 64
BINDING = "pods/binding"


async def bind(backend: Backend, request: Request) -> Answer:
    """Handle POST pods/NAME/binding and POST bindings."""
    binding = read_as(request, "v1", "Binding")
    metadata = binding.get("metadata") or {}
    name = metadata.get("name", "")
    if request.name and name != request.name:
        raise bad_request("name in URL does not match name in Binding object")
    _validate(binding)
    attrs = pipeline.attributes(request, CREATE, binding, None, name)
    await pipeline.admit(backend, request, attrs)
    await pipeline.admit_valid(backend, request, attrs)
    codec = backend.codec_of("", "pods")
    assert codec is not None
    for _ in range(ATTEMPTS):
        kv = await backend.must_get(codec, request.namespace, name)
        try:
            await _assign(backend, request, codec, kv, binding)
        except Conflict:
            continue
        return plain_answer(request, success(code=201), 201)
    raise conflict("", "pods", name)


def _validate(binding: Object) -> None:
    """Check the target; upstream answers these with a bare 500, which clients depend on."""
    target = binding.get("target") or {}
    problems = []
    if target.get("kind") not in (None, "", "Node"):
        given = f'Unsupported value: "{target["kind"]}"'
        problems.append(f'target.kind: {given}: supported values: "Node", "<empty>"')
    if not target.get("name"):
        problems.append("target.name: Required value")
    if problems:
        text = problems[0] if len(problems) == 1 else "[" + ", ".join(problems) + "]"
        raise ApiError(500, "", text)


async def _assign(
    backend: Backend, request: Request, codec: Codec, kv: KeyValue, binding: Object
) -> None:
    pod = await decoded(request, codec, kv)
    metadata = binding["metadata"]
    _check_preconditions(pod, metadata)
    _check_pod(pod)
    node = binding["target"]["name"]
    _write(pod, node, metadata, backend.now())
    async with _turn(backend, codec, node) as also:
        if backend.check_capacity:
            from bayplan.apiserver import capacity

            await capacity.check(backend, codec, pod, node)
        if not request.dry_run:
            value = await aside_of(len(kv.value), codec.encode, pod)
            await backend.versions.put(codec, kv.key, value, expect=kv.mod_revision, also=also)


def _turn(backend: Backend, codec: Codec, node: str) -> AbstractAsyncContextManager[tuple[Op, ...]]:
    """Bindings to one node wait for each other where each must find the one before stored."""
    return backend.turns.of_node(codec, node) if backend.check_capacity else nullcontext(())


def _check_preconditions(pod: Object, wanted: Object) -> None:
    found = pod["metadata"]
    for key, label in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if wanted.get(key) and wanted[key] != found[key]:
            raise precondition_failed("", "pods", found, label, wanted[key])


def _check_pod(pod: Object) -> None:
    """Refuse a pod that cannot be bound."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    if pod["metadata"].get("deletionTimestamp"):
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        why = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    elif spec.get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    else:
        return
    raise conflict("", BINDING, name, why)


def _write(pod: Object, node: str, metadata: Object, now: str) -> None:
    pod["spec"]["nodeName"] = node
    for key in ("annotations", "labels"):
        if metadata.get(key):
            pod["metadata"].setdefault(key, {}).update(metadata[key])
    status = pod.setdefault("status", {})
    status.pop("nominatedNodeName", None)
    set_condition(pod, {"type": "PodScheduled", "status": "True", "lastProbeTime": None}, now)


def set_condition(obj: Object, condition: Object, now: str) -> None:
    """Add a condition to an object's status or replace the one of its type."""
    status = obj.setdefault("status", {})
    status["conditions"] = with_condition(status.get("conditions"), condition, now)
