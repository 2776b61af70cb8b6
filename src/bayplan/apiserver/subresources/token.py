"""POST serviceaccounts/NAME/token: a new token, perhaps bound to a pod, secret or node."""

from __future__ import annotations

from bayplan.apiserver.backend import Backend, timestamp
from bayplan.apiserver.bodies import OTHER_NAMESPACE, read_as
from bayplan.apiserver.codec import Object
from bayplan.apiserver.errors import bad_request, conflict, invalid, not_found
from bayplan.apiserver.request import Request
from bayplan.apiserver.responses import Answer, plain_answer
from bayplan.apiserver.tokens import Bound, Claims, Reference, Tokens
from bayplan.apiserver.validation.causes import Cause
from bayplan.apiserver.validation.causes import invalid as invalid_value

GROUP, KIND = "authentication.k8s.io", "TokenRequest"
DEFAULT_SECONDS = 3600
SHORTEST, LONGEST = 600, 1 << 32
_FIELD = "spec.expirationSeconds"


async def issue_token(backend: Backend, request: Request, tokens: Tokens) -> Answer:
    """Answer a TokenRequest with a token for the service account."""
    asked = read_as(request, f"{GROUP}/v1", KIND)
    codec = backend.codec(request.kind)
    account = codec.decode(await backend.must_get(codec, request.namespace, request.name))
    _check_metadata(request, asked, account)
    spec = asked.setdefault("spec", {})
    spec["audiences"] = spec.get("audiences") or list(tokens.audiences)
    seconds = spec.setdefault("expirationSeconds", DEFAULT_SECONDS)
    _check_seconds(seconds)
    bound = Bound(request.namespace, _reference(account))
    if spec.get("boundObjectRef") is not None:  # also an empty one: it must not bind to nothing
        _bind(backend, request, spec["boundObjectRef"], bound)
    now = int(backend.clock())
    claims = Claims(
        aud=spec["audiences"],
        exp=now + seconds,
        iat=now,
        nbf=now,
        jti=backend.new_uid(),
        sub=f"system:serviceaccount:{request.namespace}:{request.name}",
        bound=bound,
    )
    asked["metadata"] = {
        "name": request.name,
        "namespace": request.namespace,
        "uid": account["metadata"].get("uid", ""),
        "creationTimestamp": backend.now(),
    }
    token = "" if request.dry_run else tokens.issue(claims)
    asked["status"] = {"token": token, "expirationTimestamp": timestamp(now + seconds)}
    return plain_answer(request, asked, 201)


def _reference(obj: Object) -> Reference:
    return Reference(obj["metadata"]["name"], obj["metadata"].get("uid", ""))


def _check_metadata(request: Request, asked: Object, account: Object) -> None:
    metadata = asked.get("metadata") or {}
    if (metadata.get("namespace") or request.namespace) != request.namespace:
        raise bad_request(OTHER_NAMESPACE)
    given = metadata.get("name")
    if given and given != request.name:
        text = "must match the service account name if specified"
        raise invalid(GROUP, KIND, request.name, [invalid_value("metadata.name", given, text)])
    uid, given = account["metadata"].get("uid"), metadata.get("uid")
    if given and given != uid:
        why = (
            f"the UID in the token request ({given}) does not match the UID of the service "
            f"account ({uid})"
        )
        raise conflict(GROUP, KIND, request.name, why)


def _check_seconds(seconds: int) -> None:
    causes: list[Cause] = []
    if seconds < SHORTEST:
        text = "may not specify a duration less than 10 minutes"
        causes.append(invalid_value(_FIELD, seconds, text))
    if seconds > LONGEST:
        text = "may not specify a duration larger than 2^32 seconds"
        causes.append(invalid_value(_FIELD, seconds, text))
    if causes:
        raise invalid(GROUP, KIND, "", causes)


def _bind(backend: Backend, request: Request, wanted: Object, bound: Bound) -> None:
    """Tie a token to an object, which must exist."""
    kind, name = wanted.get("kind", ""), wanted.get("name", "")
    resource = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}.get(kind)
    group, _, short = wanted.get("apiVersion", "").rpartition("/")
    if resource is None or group:
        raise bad_request(f"cannot bind token to object of type {group}/{short}, Kind={kind}")
    found = backend.reader.get("", resource, "" if kind == "Node" else request.namespace, name)
    if found is None:
        raise not_found("", resource, name)
    if kind == "Pod":
        _bind_pod(backend, request, found, bound)
    elif kind == "Secret":
        bound.secret = _reference(found)
    else:
        bound.node = _reference(found)
    uid = wanted.get("uid")
    if uid and uid != found["metadata"].get("uid"):
        why = (
            f"the UID in the bound object reference ({uid}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
        raise conflict("", kind, name, why)


def _bind_pod(backend: Backend, request: Request, pod: Object, bound: Bound) -> None:
    spec = pod.get("spec") or {}
    if spec.get("serviceAccountName") != request.name:
        raise bad_request(
            f'cannot bind token for serviceaccount "{request.name}" to pod running with '
            "different serviceaccount name."
        )
    bound.pod = _reference(pod)
    if spec.get("nodeName"):
        node = backend.reader.get("", "nodes", "", spec["nodeName"])
        bound.node = _reference(node) if node else Reference(spec["nodeName"])
