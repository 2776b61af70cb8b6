"""API errors as Kubernetes `Status` objects, with upstream's codes, reasons and wording.

    BayplanError
    └── ApiError           one Status: raised anywhere below a verb, encoded once by the server

A verb, a validator or an admission step raises `ApiError` (through the constructors below, which
carry upstream's texts) and never builds a response itself. This module does not encode or send.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bayplan.apiserver.validation.causes import Cause, invalid_message
from bayplan.errors import BayplanError

if TYPE_CHECKING:
    from bayplan.apiserver.kinds import Kind


class ApiError(BayplanError):
    """A request that is answered with a failure Status."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: dict[str, Any] | None = None,
        headers: tuple[tuple[bytes, bytes], ...] = (),
        continue_: str = "",
    ) -> None:
        super().__init__(message)
        self.continue_ = continue_
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.headers = headers

    def status(self) -> dict[str, Any]:
        """Return the Status object as clients see it."""
        out: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": self.continue_} if self.continue_ else {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            out["reason"] = self.reason
        if self.details is not None:
            out["details"] = self.details
        out["code"] = self.code
        return out


def _named(name: str, group: str, kind: str) -> dict[str, Any]:
    details: dict[str, Any] = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    if kind:
        details["kind"] = kind
    return details


def qualified(group: str, resource: str) -> str:
    """Return `deployments.apps`, or `pods` for the core group."""
    return f"{resource}.{group}" if group else resource


def not_found(group: str, resource: str, name: str) -> ApiError:
    text = f'{qualified(group, resource)} "{name}" not found'
    return ApiError(404, "NotFound", text, details=_named(name, group, resource))


def path_not_found() -> ApiError:
    """The path is served by nothing: the answer of a group version without that resource."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", details={})


def already_exists(group: str, resource: str, name: str) -> ApiError:
    text = f'{qualified(group, resource)} "{name}" already exists'
    return ApiError(409, "AlreadyExists", text, details=_named(name, group, resource))


def not_unique(group: str, resource: str, name: str) -> ApiError:
    """A name exists though the server was to make one: try again."""
    text = (
        f'{qualified(group, resource)} "{name}" already exists, '
        "the server was not able to generate a unique name for the object"
    )
    details = {**_named(name, group, resource), "retryAfterSeconds": 1}
    headers = ((b"retry-after", b"1"),)
    return ApiError(409, "AlreadyExists", text, details=details, headers=headers)


MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def conflict(group: str, resource: str, name: str, why: str = MODIFIED) -> ApiError:
    text = f'Operation cannot be fulfilled on {qualified(group, resource)} "{name}": {why}'
    return ApiError(409, "Conflict", text, details=_named(name, group, resource))


# Where the real server keeps kinds whose place in etcd is not called like their resource.
_PLACES = {
    "endpoints": "services/endpoints",
    "ingresses": "ingress",
    "nodes": "minions",
    "replicationcontrollers": "controllers",
    "services": "services/specs",
}


def precondition_failed(
    group: str, resource: str, metadata: dict[str, Any], label: str, wanted: str
) -> ApiError:
    """The object is another one, or another version, than the `wanted`; UID or ResourceVersion."""
    found = metadata.get("uid" if label == "UID" else "resourceVersion", "")
    inner = [_PLACES.get(resource, resource), metadata.get("namespace", ""), metadata["name"]]
    why = (
        f"StorageError: invalid object, Code: 4, Key: /registry/{'/'.join(filter(None, inner))}, "
        f"ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {label} in precondition: "
        f"{wanted}, {label} in object meta: {found}"
    )
    return conflict(group, resource, metadata["name"], why)


def invalid(group: str, kind: str, name: str, causes: list[Cause]) -> ApiError:
    """422 with every problem of the object; `kind` is the Kind, not the resource."""
    details = _named(name, group, kind)
    details["causes"] = [
        {"reason": c.reason, "message": c.message, "field": c.field} for c in causes
    ]
    return ApiError(422, "Invalid", invalid_message(kind, group, name, causes), details=details)


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def forbidden(group: str, resource: str, name: str, why: str) -> ApiError:
    quoted = f' "{name}"' if name else ""
    text = f"{qualified(group, resource)}{quoted} is forbidden: {why}"
    return ApiError(403, "Forbidden", text, details=_named(name, group, resource))


def method_not_allowed() -> ApiError:
    text = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", text, details={})


def unauthorized() -> ApiError:
    return ApiError(
        401,
        "Unauthorized",
        "Unauthorized",
        headers=((b"www-authenticate", b'Bearer realm="bayplan"'),),
    )


def timed_out() -> ApiError:
    text = (
        "Timeout: request did not complete within the allotted timeout; the server was unable to "
        "return a response in time, but may still be processing the request"
    )
    return ApiError(504, "Timeout", text, details={})


def too_large_version(asked: int, current: int) -> ApiError:
    """504: the client asks for a version that the server has not seen yet."""
    details = {
        "causes": [
            {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"},
        ],
        "retryAfterSeconds": 1,
    }
    text = f"Timeout: Too large resource version: {asked}, current: {current}"
    return ApiError(504, "Timeout", text, details=details)


def too_many_requests(message: str) -> ApiError:
    return ApiError(
        429,
        "TooManyRequests",
        message,
        details={"retryAfterSeconds": 1},
        headers=((b"retry-after", b"1"),),
    )


def too_large(limit: int) -> ApiError:
    text = f"Request entity too large: limit is {limit}"
    return ApiError(413, "RequestEntityTooLarge", text)


def unsupported_media(accepted: list[str]) -> ApiError:
    text = (
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted)
    )
    return ApiError(415, "UnsupportedMediaType", text)


def unrouted_media() -> ApiError:
    """What the real server's routes of built-in kinds answer, before a handler is asked."""
    return ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type")


def unrouted_accept(accepted: Sequence[str]) -> ApiError:
    text = "406: Not Acceptable\n\nAvailable representations: " + ", ".join(accepted)
    return ApiError(406, "NotAcceptable", text)


def not_acceptable(accepted: Sequence[str]) -> ApiError:
    text = "only the following media types are accepted: " + ", ".join(accepted)
    return ApiError(406, "NotAcceptable", text)


def not_in_this_form(form: str, what: str, kind: Kind, suffix: str = "") -> ApiError:
    """Say that there is no such form of an object, whose type in the real server is named."""
    package = kind.group.partition(".")[0]
    if kind.custom:
        go_type = f"unstructured.Unstructured{suffix}"
    else:
        go_type = f"{'core' if package in ('', 'events') else package}.{kind.kind}{suffix}"
    text = f"you requested {form}, but the requested object is {what} (*{go_type})"
    return ApiError(406, "NotAcceptable", text)


def internal(message: str) -> ApiError:
    details = {"causes": [{"message": message}]}
    return ApiError(500, "InternalError", f"Internal error occurred: {message}", details=details)
