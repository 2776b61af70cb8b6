"""Carries out one `ApiCall`, the request-as-data that plugins and the engine return.

The binding of a pod takes the lean way; everything else goes by resource, verb and patch type. A
status patch that met a conflict, an overloaded server or a broken connection is sent again a few
times within a second, as upstream does; a binding is not, because it may have happened.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from bayplan.client import (
    Client,
    ClientError,
    Conflict,
    NotFound,
    Resource,
    is_retriable,
    resources,
)
from bayplan.client.rest import PATCH_CONTENT_TYPES, PatchType
from bayplan.framework import ApiCall

RETRY_STEPS = (0.01, 0.05, 0.25)

_ALL = [item for item in vars(resources).values() if isinstance(item, Resource)]
_KNOWN: dict[str, Resource] = {
    **{f"{item.plural}.{item.version}.{item.group}": item for item in _ALL},
    **{
        (f"{item.plural}.{item.group}" if item.group else item.plural): item
        for item in reversed(_ALL)
    },
}
"""By plural and group, with the version between them where there are several."""
_PATCHES: dict[str, PatchType] = {text: kind for kind, text in PATCH_CONTENT_TYPES.items()}


def resource_of(name: str) -> Resource:
    """Return the resource of a plural with its group, such as `resourceclaims.resource.k8s.io`.

    A version may stand between them: `podgroups.v1beta1.scheduling.k8s.io`.
    """
    return _KNOWN[name]


async def carry_out(
    client: Client, call: ApiCall, pace: Callable[[], Awaitable[None]] | None = None
) -> bytes:
    """Make a call; raise ClientError when it fails for good. `pace` is awaited to retry."""
    if call.subresource == "binding":
        return await _bind(client, call)
    steps = RETRY_STEPS if call.verb == "patch" else ()
    for pause in (*steps, None):
        try:
            return await _send(client, call)
        except NotFound:
            if call.ignore_not_found:
                return b""
            raise
        except ClientError as problem:
            if pause is None or not (is_retriable(problem) or isinstance(problem, Conflict)):
                raise
            await asyncio.sleep(pause)
            if pace is not None:
                await pace()
    raise AssertionError("the last step returns or raises")


async def _bind(client: Client, call: ApiCall) -> bytes:
    body = call.body or {}
    target, meta = body.get("target"), body.get("metadata")
    assert isinstance(target, dict)
    assert isinstance(meta, dict)
    await client.bind(call.namespace, call.name, str(meta.get("uid", "")), str(target["name"]))
    return b""


async def _send(client: Client, call: ApiCall) -> bytes:
    resource, body = resource_of(call.resource), call.body or {}
    match call.verb:
        case "patch":
            return await client.patch(
                resource,
                call.name,
                body,
                call.namespace,
                kind=_PATCHES[call.patch],
                subresource=call.subresource,
            )
        case "update":
            return await client.update(
                resource, call.name, body, call.namespace, subresource=call.subresource
            )
        case "create":
            path = resource.path(call.namespace, call.name if call.subresource else "")
            path = f"{path}/{call.subresource}" if call.subresource else path
            return await client.request("POST", path, body=body)
        case "delete":
            path = resource.path(call.namespace, call.name)
            return await client.request("DELETE", path, body=body or None)
    raise AssertionError(f"unknown verb {call.verb}")
