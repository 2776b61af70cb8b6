"""Eviction: delete a pod if its disruption budget allows it.

As upstream: pods that are pending, finished or already going are deleted without asking; one
budget may guard a pod; a budget that nobody has observed yet, or that allows nothing, gives 429.
An allowed eviction lowers `disruptionsAllowed` and notes the pod in `disruptedPods` before the pod
gets the condition DisruptionTarget and is deleted.
"""

from __future__ import annotations

import msgspec

from bayplan.api.labels import SelectorError, compile_selector
from bayplan.api.meta import LabelSelector
from bayplan.apiserver import pipeline
from bayplan.apiserver.admission import CREATE
from bayplan.apiserver.aside import aside_of, decoded
from bayplan.apiserver.backend import Backend
from bayplan.apiserver.bodies import read_as
from bayplan.apiserver.codec import Codec, Object
from bayplan.apiserver.errors import ApiError, bad_request, conflict, forbidden
from bayplan.apiserver.request import Request
from bayplan.apiserver.responses import Answer, plain_answer, success
from bayplan.apiserver.subresources.binding import set_condition
from bayplan.apiserver.verbs.delete import (
    DeleteOptions,
    check_preconditions,
    delete_object,
    options_from,
)
from bayplan.store import Conflict

ATTEMPTS = 20
MAX_DISRUPTED_PODS = 2000
VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."


async def evict(backend: Backend, request: Request) -> Answer:
    """Handle POST pods/NAME/eviction."""
    eviction = read_as(request, "policy/v1", "Eviction", older="policy/v1beta1")
    if (eviction.get("metadata") or {}).get("name", "") != request.name:
        raise bad_request("name in URL does not match name in Eviction object")
    options = _options(eviction, request)
    attrs = pipeline.attributes(request, CREATE, eviction, None, request.name)
    await pipeline.admit(backend, request, attrs)
    await pipeline.admit_valid(backend, request, attrs)
    codec = backend.codec(request.kind)
    kv = await backend.must_get(codec, request.namespace, request.name)
    pod = await decoded(request, codec, kv)
    insist = False
    budget = ""
    if not _free_to_go(pod):
        budget, insist = await _ask_budget(backend, request, pod, options)
    if insist and options.version is None:
        options = msgspec.structs.replace(options, version=pod["metadata"]["resourceVersion"])
    try:
        await _mark_and_delete(backend, request, codec, options)
    except ApiError as error:
        if error.reason == "Conflict" and insist:
            raise _still_processing(budget) from error
        raise
    return plain_answer(request, success(code=201), 201)


def _options(eviction: Object, request: Request) -> DeleteOptions:
    options = options_from(eviction.get("deleteOptions") or {})
    options.dry_run = options.dry_run or request.dry_run
    return options


def _free_to_go(pod: Object) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or bool(
        pod["metadata"].get("deletionTimestamp")
    )


async def _ask_budget(
    backend: Backend, request: Request, pod: Object, options: DeleteOptions
) -> tuple[str, bool]:
    """Take one disruption from the pod's budget; return its name and whether to insist.

    To insist means that the pod must still be at this version when it is deleted, because it goes
    without using up the budget only as long as it is not ready.
    """
    found = [
        budget
        for budget in backend.reader.list("policy", "poddisruptionbudgets", request.namespace)
        if _guards(budget, pod)
    ]
    if not found:
        return "", False
    if len(found) > 1:
        text = (
            "This pod has more than one PodDisruptionBudget, "
            "which the eviction subresource does not support."
        )
        raise ApiError(500, "", text)
    budget = found[0]
    name = budget["metadata"]["name"]
    if not _ready(pod) and _may_go_unready(budget):
        return name, True
    await _take_one(backend, request, name, options.dry_run)
    return name, False


def _guards(budget: Object, pod: Object) -> bool:
    selector = (budget.get("spec") or {}).get("selector")
    if selector is None:
        return False
    try:
        compiled = compile_selector(msgspec.convert(selector, LabelSelector))
    except (SelectorError, msgspec.ValidationError):
        return False
    return compiled.matches(pod["metadata"].get("labels") or {})


def _ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def _may_go_unready(budget: Object) -> bool:
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    desired = status.get("desiredHealthy", 0)
    return bool(status.get("currentHealthy", 0) >= desired > 0)


async def _take_one(backend: Backend, request: Request, name: str, dry_run: bool) -> None:
    codec = backend.codec_of("policy", "poddisruptionbudgets")
    assert codec is not None
    for _ in range(ATTEMPTS):
        kv = await backend.must_get(codec, request.namespace, name)
        budget = codec.decode(kv)
        _check(budget)
        status = budget["status"]
        status["disruptionsAllowed"] -= 1
        status.setdefault("disruptedPods", {})[request.name] = backend.now()
        if status["disruptionsAllowed"] == 0:
            _note_exhausted(budget, backend.now())
        if dry_run:
            return
        try:
            await backend.store.put(kv.key, codec.encode(budget), expect=kv.mod_revision)
        except Conflict:
            continue
        return
    raise ApiError(
        504, "Timeout", f'Timeout: couldn\'t update PodDisruptionBudget "{name}" due to conflicts'
    )


def _note_exhausted(budget: Object, now: str) -> None:
    condition = {
        "type": "DisruptionAllowed",
        "status": "False",
        "reason": "InsufficientPods",
        "message": "",
        "observedGeneration": budget["status"].get("observedGeneration", 0),
    }
    set_condition(budget, condition, now)


def _check(budget: Object) -> None:
    """Raise what upstream answers when the budget does not allow an eviction now."""
    metadata, status = budget["metadata"], budget.get("status") or {}
    name = metadata["name"]
    if status.get("observedGeneration", 0) < metadata.get("generation", 0):
        raise _still_processing(name)
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise forbidden(
            "policy", "poddisruptionbudget", name, "pdb disruptions allowed is negative"
        )
    if len(status.get("disruptedPods") or ()) > MAX_DISRUPTED_PODS:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise forbidden("policy", "poddisruptionbudget", name, why)
    if allowed == 0:
        raise _refusal(_why_not(name, status), 0)


def _why_not(name: str, status: Object) -> str:
    desired, current = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
    conditions = status.get("conditions") or ()
    found: Object = next((c for c in conditions if c.get("type") == "DisruptionAllowed"), {})
    refused = found.get("status") == "False" and found.get("message")
    if refused and found.get("reason") == "SyncFailed":
        return (
            f"The disruption budget {name} does not allow evicting pods currently because "
            f"it failed sync: {found['message']}"
        )
    if current <= desired:
        return (
            f"The disruption budget {name} needs {desired} healthy pods and has {current} currently"
        )
    tail = f" ({found.get('reason')}): {found['message']}" if refused else ""
    return f"The disruption budget {name} does not allow evicting pods currently{tail}"


def _still_processing(name: str) -> ApiError:
    return _refusal(f"The disruption budget {name} is still being processed by the server.", 10)


def _refusal(message: str, seconds: int) -> ApiError:
    details: Object = {"causes": [{"reason": "DisruptionBudget", "message": message}]}
    headers: tuple[tuple[bytes, bytes], ...] = ()
    if seconds:
        details["retryAfterSeconds"] = seconds
        headers = ((b"retry-after", str(seconds).encode()),)
    return ApiError(429, "TooManyRequests", VIOLATES, details=details, headers=headers)


async def _mark_and_delete(
    backend: Backend, request: Request, codec: Codec, options: DeleteOptions
) -> None:
    if not options.dry_run:
        options = await _mark(backend, request, codec, options)
    await delete_object(backend, request, request.namespace, request.name, options)


async def _mark(
    backend: Backend, request: Request, codec: Codec, options: DeleteOptions
) -> DeleteOptions:
    """Write the condition DisruptionTarget; return options for the pod as it is then."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    for _ in range(ATTEMPTS):
        kv = await backend.must_get(codec, request.namespace, request.name)
        pod = await decoded(request, codec, kv)
        check_preconditions(request.kind, pod, options)
        set_condition(pod, condition, backend.now())
        value = await aside_of(len(kv.value), codec.encode, pod)
        if value == kv.value:
            return options
        try:
            written = await backend.store.put(kv.key, value, expect=kv.mod_revision)
        except Conflict:
            continue
        if options.version is None:
            return options
        return msgspec.structs.replace(options, version=str(written.mod_revision))
    raise conflict("", "pods", request.name)
