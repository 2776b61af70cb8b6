"""The steps every write goes through, in upstream's order, in one place.

    create:  defaults → admit → metadata → prepare → validate → canonicalize → admission.validate
    update:  the same, with the stored object at hand

The parts are the kind's strategy (`.strategies`), `.validation`, `.admission` and `.apply`
(managedFields). This module only calls them and turns refusals into `ApiError`s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

import msgspec

from bayplan.api.defaults.json_types import keep
from bayplan.apiserver import escalation, validation
from bayplan.apiserver.admission import (
    DELETE,
    UPDATE,
    AdmissionError,
    Attributes,
    Reader,
    signers,
)
from bayplan.apiserver.aside import aside, beside
from bayplan.apiserver.backend import Backend
from bayplan.apiserver.bodies import OTHER_NAMESPACE
from bayplan.apiserver.codec import Object
from bayplan.apiserver.dynamic import load
from bayplan.apiserver.dynamic.matching import GROUP
from bayplan.apiserver.errors import ApiError, bad_request, invalid
from bayplan.apiserver.kinds import Kind
from bayplan.apiserver.request import Request
from bayplan.apiserver.strategies import strategy_of
from bayplan.apiserver.validation.causes import Cause

P = ParamSpec("P")
T = TypeVar("T")


def default(kind: Kind, obj: Object) -> None:
    """Write the kind's defaults into the object."""
    strategy_of(kind).default(kind, obj)


async def complete(request: Request, obj: Object) -> None:
    """Write the kind's defaults into an object of a request."""
    await _judged(request, default, request.kind, obj)


def attributes(
    request: Request, operation: str, obj: Object, old: Object | None, name: str
) -> Attributes:
    kind = request.kind
    return Attributes(
        operation,
        kind.group,
        kind.version,
        kind.resource,
        request.subresource,
        request.namespace,
        name,
        obj,
        old,
        request.dry_run,
    )


async def admit(backend: Backend, request: Request, attrs: Attributes) -> None:
    """Run the mutating half of admission: the built-in plugins, then policies and webhooks."""
    if request.verb != "patch" and _owners(attrs.obj):  # what a patch makes is looked at once
        await aside(request, _dedup_owners, request, attrs.obj, "")
    if attrs.writes("services"):
        await _count(backend, attrs)
    _built_in(backend.admission.admit, backend, attrs)
    if attrs.group == GROUP:
        await beside(load)
    if await backend.dynamic.mutates(attrs):
        await backend.dynamic.mutate(
            attrs,
            request,
            lambda obj: default(request.kind, obj),
            lambda attrs: _built_in(backend.admission.admit, backend, attrs),
        )
    if _owners(attrs.obj):
        when = " after mutating admission happens"
        await aside(request, _dedup_owners, request, attrs.obj, when)


def _owners(obj: Object) -> list[Object]:
    """Return the owner references, if there are several."""
    references: list[Object] = (obj.get("metadata") or {}).get("ownerReferences") or []
    return references if len(references) > 1 else []


def _dedup_owners(request: Request, obj: Object, when: str) -> None:
    """Keep one of each owner reference that is given more than once, with a warning."""
    references = _owners(obj)
    seen: set[bytes] = set()
    kept: list[Object] = []
    again: list[str] = []
    for reference in references:
        form = msgspec.json.encode(reference, order="sorted")
        if form in seen:
            again.append(reference.get("uid", ""))
        else:
            seen.add(form)
            kept.append(reference)
    if not again:
        return
    obj["metadata"]["ownerReferences"] = kept
    request.warnings.append(
        f".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner "
        "references in 1.20+, and may reject such requests as early as 1.24; please fix your "
        f"requests; duplicate UID(s) observed: {', '.join(again)}"
    )


async def admit_valid(backend: Backend, request: Request, attrs: Attributes) -> None:
    """Run the validating half of admission; may wait for webhooks, so hold nothing meanwhile."""
    _built_in(backend.admission.validate, backend, attrs)
    try:
        signers.check(attrs, backend.authorizer, request.user)
    except AdmissionError as error:
        raise _refused(error) from error
    request.warnings += attrs.warnings
    if await backend.dynamic.validates(attrs):
        await backend.dynamic.validate(attrs, request)


async def settle(backend: Backend, attrs: Attributes) -> None:
    """Run what counts and hands out; the object must be stored right after it."""
    await _count(backend, attrs)
    _built_in(backend.admission.settle, backend, attrs)


async def _count(backend: Backend, attrs: Attributes) -> None:
    """Look into what was written since others counted, with pauses."""
    for namespace, tally in backend.admission.counted(attrs, backend.reader):
        await backend.reader.tallied(attrs.group, attrs.resource, namespace, tally)


def _built_in(
    step: Callable[[Attributes, Reader], None], backend: Backend, attrs: Attributes
) -> None:
    try:
        step(attrs, backend.reader)
    except AdmissionError as error:
        raise _refused(error) from error


def _refused(error: AdmissionError) -> ApiError:
    return ApiError(error.code, error.reason, str(error), details=error.details or None)


async def before_create(backend: Backend, request: Request, obj: Object) -> None:
    """Prepare and validate a new object that has been defaulted and admitted."""
    kind, strategy = request.kind, strategy_of(request.kind)
    await escalation.check(backend.authorizer, request, obj, None)
    fill_metadata(backend, request, obj)
    if kind.resource == "certificatesigningrequests" and not kind.custom:
        _name_requester(request, obj)
    if _unattended(backend, kind):
        request.warnings.append(f"nothing in this cluster acts on {kind.kind} objects")
    request.warnings += await _judged(request, _judge_new, kind, obj)
    strategy.accept(backend, obj, "")


async def _judged(request: Request, work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """Judge or complete an object, beside the loop if the kind makes much of a small one."""
    if strategy_of(request.kind).is_costly(request.kind):
        return await beside(work, *given, **named)
    return await aside(request, work, *given, **named)


def _judge_new(kind: Kind, obj: Object) -> list[str]:
    """Prepare and validate a new object; return warnings. Raises a 422."""
    strategy = strategy_of(kind)
    strategy.prepare_for_create(kind, obj)

    def problems() -> Iterator[Cause]:
        yield from validation.validate_create(kind.group, kind.resource, obj)
        yield from strategy.validate_create(kind, obj)

    _refuse(kind, obj, problems())
    warnings = validation.warnings_on_create(kind.group, kind.resource, obj)
    validation.canonicalize(kind.group, kind.resource, obj)
    return warnings


def _refuse(kind: Kind, obj: Object, problems: Iterator[Cause]) -> None:
    """Raise a 422 with what is wrong; of very many problems only that."""
    try:
        with validation.quoting():
            causes = list(problems)
    except validation.TooManyProblems as many:
        causes = [Cause("FieldValueInvalid", "", f"Invalid value: {many}")]
    if causes:
        raise invalid(kind.storage[0], kind.kind, obj["metadata"].get("name", ""), causes)


# Kinds that are stored so that manifests with them can be applied, and that is all: others would
# have to act on them, who may run beside a lone server.
LEFT_TO_OTHERS = {
    ("networking.k8s.io", "ingressclasses"),
    ("networking.k8s.io", "ingresses"),
    ("networking.k8s.io", "networkpolicies"),
    ("storage.k8s.io", "volumeattachments"),
}


def _unattended(backend: Backend, kind: Kind) -> bool:
    return backend.whole_cluster and (kind.group, kind.resource) in LEFT_TO_OTHERS


def _name_requester(request: Request, obj: Object) -> None:
    """A certificate request says who made it, whatever its author writes there."""
    spec = obj.setdefault("spec", {})
    spec.pop("uid", None)
    spec.pop("extra", None)
    user = request.user
    spec["username"], spec["groups"] = user.name, list(user.groups)
    if user.uid:
        spec["uid"] = user.uid
    if user.extra:
        spec["extra"] = {name: list(values) for name, values in user.extra}


def fill_metadata(backend: Backend, request: Request, obj: Object) -> None:
    """Set what the server decides about a new object: uid, times, namespace, generated name."""
    metadata = obj["metadata"]
    for key in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
        metadata.pop(key, None)
    metadata["uid"] = backend.new_uid()
    metadata["creationTimestamp"] = backend.now()
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = generated_name(metadata["generateName"], backend.new_suffix())
    if request.kind.namespaced:
        metadata["namespace"] = request.namespace


def generated_name(prefix: str, suffix: str) -> str:
    """Upstream cuts the prefix so that the name fits a DNS label."""
    return prefix[: 63 - len(suffix)] + suffix


# Metadata that is the stored object's, whatever the client says; and what is so if it says
# nothing. Other attempts to change system metadata are refused by validation.
_ALWAYS_KEPT = ("creationTimestamp", "generation", "selfLink")
_KEPT_IF_MISSING = ("uid", "deletionGracePeriodSeconds")


def keep_system_metadata(obj: Object, old: Object) -> None:
    """Take what clients may not change from the stored object."""
    metadata, before = obj["metadata"], old["metadata"]
    keep(metadata, before, *_ALWAYS_KEPT)
    for key in _KEPT_IF_MISSING:
        if metadata.get(key) is None and key in before:
            metadata[key] = before[key]
    if "deletionTimestamp" in before:
        metadata["deletionTimestamp"] = before["deletionTimestamp"]


async def before_update(backend: Backend, request: Request, obj: Object, old: Object) -> Attributes:
    """Default, admit, prepare and validate a changed object, which is still to be settled."""
    kind, subresource = request.kind, request.subresource
    strategy = strategy_of(kind)
    await complete(request, obj)
    attrs = attributes(request, UPDATE, obj, old, request.name)
    await admit(backend, request, attrs)
    keep_system_metadata(obj, old)
    await escalation.check(backend.authorizer, request, obj, old)
    now = backend.now()
    request.warnings += await _judged(request, _judge_change, kind, obj, old, subresource, now)
    strategy.accept(backend, obj, subresource)
    await admit_valid(backend, request, attrs)
    return attrs


def _judge_change(kind: Kind, obj: Object, old: Object, subresource: str, now: str) -> list[str]:
    """Prepare and validate a changed object; return warnings. Raises a 422."""
    strategy = strategy_of(kind)
    strategy.prepare_for_update(kind, obj, old, subresource, now)

    def problems() -> Iterator[Cause]:
        yield from validation.validate_update(kind.group, kind.resource, obj, old, subresource)
        yield from strategy.validate_update(kind, obj, old, subresource)

    _refuse(kind, obj, problems())
    warnings = validation.warnings_on_update(kind.group, kind.resource, obj, old)
    validation.canonicalize(kind.group, kind.resource, obj)
    return warnings


async def before_delete(backend: Backend, request: Request, old: Object) -> None:
    """Ask admission whether the object may be deleted."""
    attrs = attributes(request, DELETE, {}, old, request.name)
    await admit(backend, request, attrs)
    await admit_valid(backend, request, attrs)


def check_name(request: Request, obj: Object) -> None:
    """Refuse a body whose name is not that of the path."""
    name = obj["metadata"].get("name", "")
    if not name:
        raise nameless(request)
    if name != request.name:
        raise bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({request.name})"
        )


def nameless(request: Request) -> ApiError:
    return bad_request(
        f"the name of the object ({request.name} based on URL) was undeterminable: "
        "name must be provided"
    )


def check_identity(request: Request, obj: Object) -> None:
    """Refuse a body whose namespace or name is not that of the path."""
    metadata = obj["metadata"]
    namespace = metadata.get("namespace", "")
    if request.kind.namespaced:
        if namespace and namespace != request.namespace:
            raise bad_request(OTHER_NAMESPACE)
        metadata["namespace"] = request.namespace
    elif namespace:
        raise bad_request("namespace is not allowed on this type")
