"""Verbs on a kind that is only another form of a stored one (autoscaling/v1).

What is written is brought into the form whose rules hold, and the answer back. A patch changes the
older form, as its author sees it; a lost race is tried again unless the patch names a version.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from bayplan.apiserver.aside import decoded
from bayplan.apiserver.backend import Backend
from bayplan.apiserver.bodies import identify_applied, parse, read_object
from bayplan.apiserver.codec import Object
from bayplan.apiserver.errors import ApiError, bad_request
from bayplan.apiserver.kinds import Kind
from bayplan.apiserver.negotiate import APPLY_PATCH, JSON, TABLE, Output, patch_type
from bayplan.apiserver.request import Request
from bayplan.apiserver.responses import Answer, Stream, object_answer
from bayplan.apiserver.verbs.patch import read_patch
from bayplan.apiserver.verbs.update import update

Run = Callable[[Backend, Request], Awaitable[Answer | Stream]]
ATTEMPTS = 8


async def in_another_form(backend: Backend, request: Request, run: Run) -> Answer | Stream:
    """Answer a request to a kind by the kind that it is a form of."""
    kind = request.kind
    hub = backend.registry.get(kind.group, kind.hub, kind.resource)
    assert hub is not None
    if request.verb in ("get", "list", "watch"):
        if request.output.form == TABLE:
            request.kind = hub
        return await run(backend, request)
    if request.verb not in ("create", "update", "patch"):
        request.kind = hub
        return await run(backend, request)
    if request.verb != "patch":
        return await _as_hub(backend, request, hub, run, read_object(request, kind))
    if patch_type(request.content_type, strategic=True) == APPLY_PATCH:
        applied = identify_applied(parse(APPLY_PATCH, request.body), kind)
        return await _as_hub(backend, request, hub, run, applied)
    return await _patch(backend, request, hub)


async def _patch(backend: Backend, request: Request, hub: Kind) -> Answer | Stream:
    codec, body = backend.codec(request.kind), request.body
    change = read_patch(request)
    kind, content_type, output = request.kind, request.content_type, request.output
    for attempt in range(ATTEMPTS):
        request.kind, request.content_type, request.body = kind, content_type, body
        request.verb, request.output = "patch", output
        kv = await backend.must_get(codec, request.namespace, request.name)
        obj = change(await decoded(request, codec, kv))
        insists = obj["metadata"].get("resourceVersion") != str(kv.mod_revision)
        request.verb = "update"
        try:
            return await _as_hub(backend, request, hub, update, obj)
        except ApiError as error:
            if error.code != 409 or insists or attempt == ATTEMPTS - 1:
                raise
    raise AssertionError("the last attempt returns or raises")


async def _as_hub(
    backend: Backend, request: Request, hub: Kind, run: Run, obj: Object
) -> Answer | Stream:
    kind, output = request.kind, request.output
    assert kind.unview is not None
    assert kind.view is not None
    obj.setdefault("metadata", {})
    try:
        request.body = msgspec.json.encode(kind.unview(obj))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        what = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
        raise bad_request(f"{what}: a field has another type") from error
    if request.verb != "patch":
        request.content_type = JSON
    request.kind = hub
    if output.form == TABLE:
        return await run(backend, request)
    request.output = Output()
    answer = await run(backend, request)
    assert isinstance(answer, Answer)
    request.output, request.kind = output, kind
    shown = kind.view(msgspec.json.decode(answer.body))
    return await object_answer(request, shown, answer.status)
