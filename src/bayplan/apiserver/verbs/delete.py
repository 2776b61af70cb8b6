"""DELETE of one object and of a collection: preconditions, grace, finalizers, propagation.

As upstream, a deletion that has to wait (for a kubelet, for finalizers) is first a write: the
object gets a deletionTimestamp, and whoever lifts the last reason to wait removes it. An unbound
pod is marked and removed in one go, so watchers see MODIFIED and then DELETED.
"""

from __future__ import annotations

import asyncio
import calendar
import time

import msgspec

from bayplan.apiserver import pipeline
from bayplan.apiserver.aside import aside_of, beside, decoded
from bayplan.apiserver.backend import Backend, timestamp
from bayplan.apiserver.bodies import parse_body
from bayplan.apiserver.codec import Codec, Object
from bayplan.apiserver.crd.definitions import terminate
from bayplan.apiserver.definition_sync import is_definition
from bayplan.apiserver.errors import ApiError, bad_request, conflict, forbidden, invalid
from bayplan.apiserver.kinds import Kind
from bayplan.apiserver.negotiate import JSON, body_type
from bayplan.apiserver.request import Request, number
from bayplan.apiserver.responses import Answer, Stream, object_answer, plain_answer, success
from bayplan.apiserver.validation.causes import Cause, not_supported
from bayplan.apiserver.validation.causes import invalid as invalid_value
from bayplan.apiserver.verbs.read import Page, is_long, list_object, read_page, whole_list
from bayplan.store import Conflict, KeyValue, NotFound

ATTEMPTS = 64
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
POLICIES = ("Foreground", "Background", "Orphan")
# Kinds whose dependents are orphaned unless the client says otherwise, for old clients' sake.
ORPHANS_BY_DEFAULT = {("", "replicationcontrollers"), ("batch", "jobs")}
# Kinds that answer a deletion with the object instead of a Status.
RETURNS_OBJECT = {
    ("", "namespaces"),
    ("", "persistentvolumeclaims"),
    ("", "persistentvolumes"),
    ("", "pods"),
    ("", "podtemplates"),
    ("", "resourcequotas"),
    ("", "serviceaccounts"),
    ("", "services"),
    ("resource.k8s.io", "deviceclasses"),
    ("resource.k8s.io", "resourceclaims"),
    ("resource.k8s.io", "resourceclaimtemplates"),
    ("resource.k8s.io", "resourceslices"),
    ("storage.k8s.io", "csidrivers"),
    ("storage.k8s.io", "csinodes"),
    ("storage.k8s.io", "storageclasses"),
    ("storage.k8s.io", "volumeattachments"),
    ("storage.k8s.io", "volumeattributesclasses"),
}


class DeleteOptions(msgspec.Struct):
    """What a client says about a deletion."""

    grace: int | None = None
    uid: str | None = None
    version: str | None = None
    policy: str | None = None
    orphan: bool | None = None
    dry_run: bool = False


def read_options(request: Request) -> DeleteOptions:
    """Read DeleteOptions from the body, or from the query where there is no body."""
    query = request.query
    given: Object = {}
    if request.body:
        given = parse_body(request, body_type(request.content_type))
    try:
        options = options_from(given)
    except (msgspec.ValidationError, TypeError, AttributeError) as error:
        raise bad_request(f"DeleteOptions cannot be handled: {error}") from error
    if not request.body:
        options.grace = number(query, "gracePeriodSeconds")
        options.policy = query.get("propagationPolicy") or None
        if "orphanDependents" in query:
            options.orphan = query["orphanDependents"] in ("true", "1", "")
    options.dry_run = options.dry_run or request.dry_run
    _check(options)
    return options


class _Preconditions(msgspec.Struct, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class _WireOptions(msgspec.Struct, rename="camel"):
    grace_period_seconds: int | None = None
    preconditions: _Preconditions | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    dry_run: list[str] | None = None


def options_from(given: Object) -> DeleteOptions:
    """Turn a DeleteOptions object into options."""
    wire = msgspec.convert(given, _WireOptions)
    wanted = wire.preconditions or _Preconditions()
    for value in wire.dry_run or ():
        if value != "All":
            raise _invalid_options([not_supported("dryRun", wire.dry_run, ["All"])])
    return DeleteOptions(
        grace=wire.grace_period_seconds,
        uid=wanted.uid,
        version=wanted.resource_version,
        policy=wire.propagation_policy,
        orphan=wire.orphan_dependents,
        dry_run=bool(wire.dry_run),
    )


def _check(options: DeleteOptions) -> None:
    causes: list[Cause] = []
    if options.orphan is not None and options.policy is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        causes.append(invalid_value("propagationPolicy", options.policy, detail))
    if options.policy is not None and options.policy not in POLICIES:
        causes.append(not_supported("propagationPolicy", options.policy, (*POLICIES, "nil")))
    if causes:
        raise _invalid_options(causes)


def _invalid_options(causes: list[Cause]) -> ApiError:
    return invalid("meta.k8s.io", "DeleteOptions", "", causes)


async def delete(backend: Backend, request: Request) -> Answer:
    """Delete one object."""
    options = read_options(request)
    _check_system_class(request)
    obj, gone = await delete_object(backend, request, request.namespace, request.name, options)
    kind = request.kind
    if kind.storage in RETURNS_OBJECT or not gone:
        return await object_answer(request, obj)
    return plain_answer(request, success(_details(kind, obj)))


SYSTEM_CLASSES = ("system-cluster-critical", "system-node-critical")


def _check_system_class(request: Request) -> None:
    kind = request.kind
    if kind.storage == ("scheduling.k8s.io", "priorityclasses") and request.name in SYSTEM_CLASSES:
        why = "this is a system priority class and cannot be deleted"
        raise forbidden(kind.group, kind.resource, request.name, why)


def _details(kind: Kind, obj: Object) -> Object:
    details: Object = {"name": obj["metadata"]["name"]}
    if kind.group:
        details["group"] = kind.group
    details["kind"] = kind.resource
    details["uid"] = obj["metadata"].get("uid", "")
    return details


async def delete_object(
    backend: Backend, request: Request, namespace: str, name: str, options: DeleteOptions
) -> tuple[Object, bool]:
    """Delete or mark one object; return it as answered and whether it is gone."""
    codec = backend.codec(request.kind)
    for _ in range(ATTEMPTS):
        kv = await backend.must_get(codec, namespace, name)
        obj = await decoded(request, codec, kv)
        await pipeline.before_delete(backend, request, obj)
        check_preconditions(request.kind, obj, options)
        try:
            return await _attempt(backend, codec, kv, obj, options)
        except (Conflict, NotFound):
            continue  # another was faster: it is read and judged again
    raise conflict(request.kind.group, request.kind.resource, name)


def check_preconditions(kind: Kind, obj: Object, options: DeleteOptions) -> None:
    """Refuse to delete another object or another version than the client means."""
    metadata = obj["metadata"]
    if options.uid is not None and options.uid != metadata.get("uid"):
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record "
            f"({metadata.get('uid')}). The object might have been deleted and then recreated"
        )
        raise conflict(kind.group, kind.kind, metadata["name"], why)
    if options.version is not None and options.version != metadata["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({options.version}) does not match the "
            f"ResourceVersion in record ({metadata['resourceVersion']}). "
            "The object might have been modified"
        )
        raise conflict(kind.group, kind.kind, metadata["name"], why)


async def _attempt(
    backend: Backend, codec: Codec, kv: KeyValue, obj: Object, options: DeleteOptions
) -> tuple[Object, bool]:
    if codec.kind.storage == ("", "namespaces"):
        return await _delete_namespace(backend, codec, kv, obj, options)
    if is_definition(codec.kind):
        return await _delete_definition(backend, codec, kv, obj, options)
    marked, pending = _mark_graceful(backend, codec.kind, obj, options)
    if pending:
        return obj, False
    changed = _set_propagation(codec.kind, obj, options)
    metadata = obj["metadata"]
    if not marked and metadata.get("finalizers"):
        if not _mark_now(backend, metadata) and not changed:
            return obj, False  # it waits for its finalizers, as before
        changed = True
    if not marked and not changed:
        return await _remove(backend, kv, obj, options)
    waits = bool(metadata.get("finalizers")) or bool(metadata.get("deletionGracePeriodSeconds"))
    if options.dry_run:
        return obj, not waits
    value = await aside_of(len(kv.value), codec.encode, obj)
    written = await backend.versions.put(codec, kv.key, value, expect=kv.mod_revision)
    if waits:
        return await aside_of(len(written.value), codec.decode, written), False
    return await _remove(backend, written, obj, options)


async def _remove(
    backend: Backend, kv: KeyValue, obj: Object, options: DeleteOptions
) -> tuple[Object, bool]:
    if not options.dry_run:
        gone = await backend.store.delete(kv.key, expect=kv.mod_revision)
        obj["metadata"]["resourceVersion"] = str(gone.mod_revision)
    return obj, True


def _mark_graceful(
    backend: Backend, kind: Kind, obj: Object, options: DeleteOptions
) -> tuple[bool, bool]:
    """Mark an object of a kind with grace periods; return (marked, waits already)."""
    if options.grace is not None and options.grace < 0:
        options.grace = 1
    if kind.storage != ("", "pods"):
        return False, False
    metadata = obj["metadata"]
    if metadata.get("deletionTimestamp"):
        return _shorten(backend, metadata, options)
    grace = _pod_grace(obj, options)
    metadata["deletionTimestamp"] = timestamp(backend.clock() + _duration(grace))
    metadata["deletionGracePeriodSeconds"] = grace
    metadata["generation"] = metadata.get("generation", 0) + 1
    return True, False


def _pod_grace(obj: Object, options: DeleteOptions) -> int:
    """Return the seconds that a pod is given; none if no kubelet has to do anything."""
    spec, status = obj.get("spec", {}), obj.get("status", {})
    if not spec.get("nodeName") or status.get("phase") in ("Failed", "Succeeded"):
        return 0
    if options.grace is not None:
        return options.grace
    period = int(spec.get("terminationGracePeriodSeconds", 0))
    return 1 if period < 0 else period


def _duration(seconds: int) -> int:
    """Return seconds as Go counts them: 64 bits of nanoseconds, 292 years, that begin anew."""
    return ((seconds * 10**9 + 2**63) % 2**64 - 2**63) // 10**9


def _shorten(backend: Backend, metadata: Object, options: DeleteOptions) -> tuple[bool, bool]:
    """Handle a second deletion: it can only bring the end nearer."""
    period = metadata.get("deletionGracePeriodSeconds")
    if not period:
        return False, False
    if options.grace is None or options.grace >= period:
        return False, True
    moment = calendar.timegm(time.strptime(metadata["deletionTimestamp"], "%Y-%m-%dT%H:%M:%SZ"))
    grace = options.grace
    end = moment - _duration(period) + _duration(grace)
    if end < backend.clock():
        end = int(backend.clock())
        grace = 1 if grace else 0
    metadata["deletionTimestamp"] = timestamp(end)
    metadata["deletionGracePeriodSeconds"] = grace
    return True, False


def _mark_now(backend: Backend, metadata: Object) -> bool:
    """Mark an object as deleted with no more time to wait; return whether that is new."""
    if metadata.get("deletionTimestamp"):
        return False
    if metadata.get("generation"):
        metadata["generation"] += 1
    metadata["deletionTimestamp"] = backend.now()
    metadata["deletionGracePeriodSeconds"] = 0
    return True


def _set_propagation(kind: Kind, obj: Object, options: DeleteOptions) -> bool:
    """Add or remove the garbage collector's finalizers; return whether they changed."""
    if kind.storage == ("", "events"):
        return False
    before = obj["metadata"].get("finalizers") or []
    after = [name for name in before if name not in (ORPHAN, FOREGROUND)]
    if _wants(kind, options, before, ORPHAN):
        after.append(ORPHAN)
    if _wants(kind, options, before, FOREGROUND):
        after.append(FOREGROUND)
    if set(after) == set(before):
        return False
    if after:
        obj["metadata"]["finalizers"] = after
    else:
        obj["metadata"].pop("finalizers", None)
    return True


def _wants(kind: Kind, options: DeleteOptions, before: list[str], finalizer: str) -> bool:
    if options.orphan is not None:
        return options.orphan and finalizer == ORPHAN
    if options.policy is not None:
        wanted = {"Orphan": ORPHAN, "Foreground": FOREGROUND}.get(options.policy)
        return wanted == finalizer
    present = next((name for name in before if name in (ORPHAN, FOREGROUND)), None)
    if present is not None:
        return present == finalizer
    return finalizer == ORPHAN and kind.storage in ORPHANS_BY_DEFAULT


async def _delete_namespace(
    backend: Backend, codec: Codec, kv: KeyValue, obj: Object, options: DeleteOptions
) -> tuple[Object, bool]:
    """A namespace becomes Terminating and goes when its spec has no finalizers left."""
    metadata = obj["metadata"]
    held = bool((obj.get("spec") or {}).get("finalizers"))
    if not metadata.get("deletionTimestamp"):
        metadata["deletionTimestamp"] = backend.now()
        obj.setdefault("status", {})["phase"] = "Terminating"
        _set_propagation(codec.kind, obj, options)
        if options.dry_run:
            return obj, False
        kv = await backend.store.put(kv.key, codec.encode(obj), expect=kv.mod_revision)
        obj = codec.decode(kv)
    if held or obj["metadata"].get("finalizers"):
        return obj, False
    return await _remove(backend, kv, obj, options)


async def _delete_definition(
    backend: Backend, codec: Codec, kv: KeyValue, obj: Object, options: DeleteOptions
) -> tuple[Object, bool]:
    """Mark a definition; its objects go first, and it goes when none of them is left."""
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp"):
        metadata["deletionTimestamp"] = backend.now()
        metadata["finalizers"] = [*(metadata.get("finalizers") or ()), CLEANUP]
        terminate(obj, backend.now())
        if options.dry_run:
            return obj, False
        kv = await backend.store.put(kv.key, codec.encode(obj), expect=kv.mod_revision)
        return codec.decode(kv), False
    if metadata.get("finalizers"):
        return obj, False
    return await _remove(backend, kv, obj, options)


async def delete_collection(backend: Backend, request: Request) -> Answer | Stream:
    """Delete everything that a list with the same selectors would show."""
    options = read_options(request)
    codec = backend.codec(request.kind)
    page = await read_page(backend, request, codec)
    deleted: list[KeyValue] = []
    for kv in page.items:
        await asyncio.sleep(0)  # others have their turn
        obj = await decoded(request, codec, kv)
        found = obj["metadata"]
        one = msgspec.structs.replace(options)
        try:
            await delete_object(backend, request, found.get("namespace", ""), found["name"], one)
        except ApiError as error:
            if error.code != 404:
                raise
            continue
        deleted.append(kv)  # as it was listed, not as it went
    gone = Page(deleted, backend.store.revision, "", None)
    if request.output.media == JSON and not request.pretty:
        return await whole_list(codec, gone)
    if is_long(request, page):
        return await beside(_shown, request, codec, gone)
    return _shown(request, codec, gone)


def _shown(request: Request, codec: Codec, gone: Page) -> Answer:
    objects = map(codec.decode, gone.items)
    return plain_answer(request, list_object(codec, gone.metadata(), objects))
