"""What can go wrong between us and an API server.

    BayplanError
    └── ClientError
        ├── KubeconfigError      a kubeconfig or credential is wrong; the text says what to change
        ├── NotLeading           nothing was sent, because the lease was lost
        ├── TransportError       no answer: refused, reset, TLS; a write may have happened
        │   ├── RequestTimeout   the answer did not come in time
        │   ├── NoApiServer      another server answered
        │   └── AnswerTooLong    no API server says so much
        └── ApiError             the server answered with a Status of failure
            ├── BadRequest       400
            ├── Unauthorized     401
            ├── Forbidden        403
            ├── NotFound         404
            ├── AlreadyExists    409, reason AlreadyExists
            ├── Conflict         409, any other reason
            ├── Gone             410: the version asked for is no longer known, list again
            ├── Invalid          422
            ├── TooManyRequests  429
            └── ServerFault      500 and above

`code` and `reason` are those of the Status; where the body is none they follow from the HTTP code.
"""

from __future__ import annotations

import msgspec

from bayplan.errors import BayplanError


class ClientError(BayplanError):
    """Talking to an API server failed."""


class KubeconfigError(ClientError):
    """A kubeconfig or credential is wrong; the text says what to change."""


class NotLeading(ClientError):
    """Nothing was sent: the lease, without which this process must not write, was lost."""


ELSEWHERE = "so this is no API server; check its address in the kubeconfig"


class TransportError(ClientError):
    """No answer came; whether the server carried out a write is unknown."""


class RequestTimeout(TransportError):
    """The answer did not come in time."""


class NoApiServer(TransportError):
    """Something else answered: a proxy that wants a login, say; it may pass."""

    def __init__(self, said: str) -> None:
        super().__init__(f"the server answers with {said}, {ELSEWHERE}")


class AnswerTooLong(TransportError):
    """No API server says so much; asking again would bring no less."""

    def __init__(self, part: str, limit: int, unit: str = "bytes") -> None:
        super().__init__(f"{part} of the answer is longer than {limit} {unit}, {ELSEWHERE}")


class ApiError(ClientError):
    """The API server answered with a failure."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: dict[str, object] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"API server answered {code} {reason}: {message}")
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or {}
        self.retry_after = retry_after


class BadRequest(ApiError):
    """400: the request makes no sense to the server."""


class Unauthorized(ApiError):
    """401: the credential is missing, wrong or expired."""

    remedy = (
        "the token or certificate of the kubeconfig is wrong or has expired: log in again, or "
        "choose another kubeconfig or context"
    )


class Forbidden(ApiError):
    """403: the user may not do this."""

    remedy = "grant it (kubectl create clusterrolebinding), or choose another user's kubeconfig"


class NotFound(ApiError):
    """404: no such object."""


class AlreadyExists(ApiError):
    """409: an object of that name is there already."""


class Conflict(ApiError):
    """409: the object changed meanwhile, or its state forbids the request."""


class Gone(ApiError):
    """410: the version asked for has been compacted away."""


class Invalid(ApiError):
    """422: the object breaks a rule of its kind."""


class TooManyRequests(ApiError):
    """429: the server is busy, or a disruption budget forbids an eviction."""


class ServerFault(ApiError):
    """500 and above: the server failed."""

    remedy = "it is starting, overloaded or broken: try again, or look at its log"


BY_CODE: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Expired",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class _Status(msgspec.Struct, frozen=True):
    """A `Status` object, as far as errors need it."""

    kind: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""
    details: dict[str, object] | None = None


_status_decoder = msgspec.json.Decoder(_Status)


def error_from(code: int, body: bytes, *, retry_after: float | None = None) -> ApiError:
    """Return the error for an answer with HTTP code `code`; `body` need not be a Status."""
    status = _decode_status(body)
    if status.code >= 400:
        code = status.code
    if retry_after is None and status.details:
        seconds = status.details.get("retryAfterSeconds")
        retry_after = float(seconds) if isinstance(seconds, int) and seconds > 0 else None
    reason = status.reason or REASONS.get(code, "Unknown")
    message = status.message or body[:500].decode(errors="replace").strip() or reason
    family = BY_CODE.get(code, ServerFault if code >= 500 else ApiError)
    if reason == "AlreadyExists":
        family = AlreadyExists
    error = family(code, reason, message, details=status.details, retry_after=retry_after)
    if not status.kind and family is NotFound:  # an API server says so of groups it does not have
        error.remedy = "is this a Kubernetes API server? check its address in the kubeconfig"
    return error


def _decode_status(body: bytes) -> _Status:
    try:
        return _status_decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _Status()
