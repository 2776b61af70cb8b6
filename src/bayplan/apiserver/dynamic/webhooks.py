"""Mutating and validating webhooks: who is asked, what an answer does.

Mutating ones are asked in turn, each seeing what those before it made; one that changes the object
makes others with `reinvocationPolicy: IfNeeded` be asked once more. Validating ones are asked at
the same time. What cannot be asked is refused or let pass by `failurePolicy`.
"""

from __future__ import annotations

import asyncio
import base64
import uuid
from typing import Any

import msgspec
import structlog

from bayplan.api import json
from bayplan.api.patch import PatchError, apply_json_patch
from bayplan.apiserver.admission import Attributes
from bayplan.apiserver.aside import aside
from bayplan.apiserver.authorization import Authorizer
from bayplan.apiserver.calling import DEFAULT_TIMEOUT, Caller, CallError
from bayplan.apiserver.codec import Object
from bayplan.apiserver.dynamic.expressions import Budget, activation, describe, environment
from bayplan.apiserver.dynamic.matching import Constraints
from bayplan.apiserver.errors import ApiError, bad_request, forbidden, internal
from bayplan.apiserver.request import Request
from bayplan.cel.cost import MATCH_BUDGET, PER_CALL_LIMIT
from bayplan.cel.environment import Program
from bayplan.cel.errors import CelError, EvaluationError
from bayplan.errors import DecodeError

log = structlog.get_logger(__name__)


class Webhook:
    """One webhook of a configuration."""

    def __init__(self, configuration: str, given: Object) -> None:
        self.configuration = configuration
        self.given = given
        self.name: str = given.get("name", "")
        self.constraints = Constraints(given)
        self.ignores_failures = given.get("failurePolicy", "Fail") == "Ignore"
        self.reinvoked = given.get("reinvocationPolicy") == "IfNeeded"
        self.timeout = given.get("timeoutSeconds") or DEFAULT_TIMEOUT
        self.conditions: list[tuple[str, Program | CelError]] = [
            (each.get("name", ""), _compile(each.get("expression", "")))
            for each in given.get("matchConditions") or ()
        ]

    def wanted(self, attrs: Attributes, request: Request, authorizer: Authorizer) -> bool:
        """Whether its conditions hold; raises the refusal if they cannot be evaluated."""
        problems: list[str] = []
        variables = activation(attrs, request, authorizer, None)
        budget = Budget(MATCH_BUDGET)
        for name, program in self.conditions:
            found = _evaluate(program, variables, budget)
            if found is False:
                return False
            if isinstance(found, CelError):
                problems.append(f"expression '{self._expression(name)}' resulted in error: {found}")
        if not problems:
            return True
        if self.ignores_failures:
            return False
        shown = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
        raise forbidden(attrs.group, attrs.resource, attrs.name, shown)

    def _expression(self, name: str) -> str:
        found = (each for each in self.given["matchConditions"] if each.get("name") == name)
        return str(next(found).get("expression", ""))


def _compile(text: str) -> Program | CelError:
    try:
        return environment(params=False).compile(text)
    except CelError as problem:
        return problem


def _evaluate(program: Program | CelError, variables: dict[str, Any], budget: Budget) -> Any:
    if isinstance(program, CelError):
        return program
    try:
        frame = budget.frame(variables, PER_CALL_LIMIT)
        try:
            return program.run(frame)
        finally:
            budget.spent(frame)
    except EvaluationError as problem:
        return problem


class _Status(msgspec.Struct):
    """Why a webhook says no."""

    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: Object | None = None


class Response(msgspec.Struct, rename="camel"):
    """What a webhook answers; anything of another shape is no answer."""

    uid: str | None = None
    allowed: bool | None = None
    warnings: list[str] | None = None
    patch: str | None = None
    patch_type: str | None = None
    status: _Status | None = None


class _Refusal(Exception):
    """A webhook says no."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(str(error))
        self.error = error


async def ask(caller: Caller, hook: Webhook, attrs: Attributes, request: Request) -> Response:
    """Ask a webhook; return its response. Raises CallError, or _Refusal."""
    if attrs.dry_run and hook.given.get("sideEffects") not in ("None", "NoneOnDryRun"):
        raise _Refusal(bad_request(f'admission webhook "{hook.name}" does not support dry run'))
    versions = hook.given.get("admissionReviewVersions") or ()
    version = next((each for each in versions if each in ("v1", "v1beta1")), "")
    if not version:
        raise CallError("webhook does not accept known AdmissionReview versions (v1, v1beta1)")
    uid = str(uuid.uuid4())
    review = {
        "kind": "AdmissionReview",
        "apiVersion": f"admission.k8s.io/{version}",
        "request": {
            "uid": uid,
            **describe(attrs, request),
            "object": _named(attrs.obj, attrs, request),
            "oldObject": _named(attrs.old, attrs, request),
        },
    }
    try:
        config = hook.given.get("clientConfig") or {}
        answer = await caller.post(config, review, hook.timeout, lambda answer: answer)
    except CallError as error:
        raise CallError(f"failed to call webhook: {error}") from error
    response = _verified(answer, uid, version)
    request.warnings.extend(response.warnings or ())
    if not response.allowed:
        raise _Refusal(_denied(hook.name, response.status or _Status()))
    return response


def _named(obj: Object | None, attrs: Attributes, request: Request) -> Object | None:
    """An object with its type; a subresource's body brings its own."""
    if not obj:
        return None
    version = f"{attrs.group}/{attrs.version}" if attrs.group else attrs.version
    return {"kind": request.kind.kind, "apiVersion": version, **obj}


def _verified(answer: Object, uid: str, version: str) -> Response:
    words = "received invalid webhook response"
    try:
        response = msgspec.convert(answer.get("response"), Response | None)
    except msgspec.ValidationError as error:
        raise CallError(f"failed to call webhook: json parse error: {error}") from error
    if response is None:
        raise CallError(f"{words}: webhook response was absent")
    if version == "v1":
        if response.uid != uid:
            raise CallError(f'{words}: expected response.uid="{uid}", got "{response.uid or ""}"')
        given = f"{answer.get('apiVersion', '')}, Kind={answer.get('kind', '')}"
        if given != "admission.k8s.io/v1, Kind=AdmissionReview":
            wanted = "admission.k8s.io/v1, Kind=AdmissionReview"
            raise CallError(f"{words}: expected webhook response of {wanted}, got {given}")
    return response


def _denied(name: str, status: _Status) -> ApiError:
    """What the client gets when a webhook says no; no code of HTTP is above 599."""
    by = f'admission webhook "{name}" denied the request'
    reason = status.reason or ""
    if status.message:
        text = f"{by}: {status.message}"
    else:
        text = f"{by}: {reason}" if reason else f"{by} without explanation"
    code = min(max(status.code or 0, 400), 599)
    return ApiError(code, reason, text, details=status.details)


async def mutate(
    caller: Caller, hook: Webhook, attrs: Attributes, request: Request
) -> Object | None:
    """Ask a mutating webhook that is wanted; return the object as it wants it, if it says so."""
    try:
        response = await ask(caller, hook, attrs, request)
        return await _patch(hook, attrs, request, response)
    except _Refusal as refusal:
        raise refusal.error from refusal
    except CallError as error:
        _failed(hook, error)
    return None


async def _patch(
    hook: Webhook, attrs: Attributes, request: Request, response: Response
) -> Object | None:
    words = "received invalid webhook response"
    patch, kind = response.patch, response.patch_type
    if patch and kind is None:
        raise CallError(f"{words}: webhook returned response.patch but not response.patchType")
    if kind is not None and not patch:
        raise CallError(f"{words}: webhook returned response.patchType but not response.patch")
    if not patch:
        return None
    if kind != "JSONPatch":
        raise CallError(f'unsupported patch type "{kind}"')
    try:
        text = base64.b64decode(patch)
    except ValueError as error:
        raise CallError(f"received undecodable patch in webhook response: {error}") from error
    request.stored = max(request.stored, len(text))
    return await aside(request, _patched, hook.name, _named(attrs.obj, attrs, request), text)


def _patched(name: str, obj: Object | None, text: bytes) -> Object | None:
    """Return the object as a patch makes it; None if there is nothing to do."""
    try:
        operations = json.load(text)
    except DecodeError as error:
        raise CallError(f"received undecodable patch in webhook response: {error}") from error
    if not operations:
        return None
    if not obj:
        raise internal(
            f'admission webhook "{name}" attempted to modify the object, which is not '
            "supported for this operation"
        )
    try:
        made: Object = apply_json_patch(obj, operations)
    except PatchError as error:
        raise internal(str(error)) from error
    return made


def _failed(hook: Webhook, error: CallError) -> None:
    text = f'failed calling webhook "{hook.name}": {error}'
    if not hook.ignores_failures:
        raise internal(text) from error
    log.warning("webhook failed, its policy lets writes pass", webhook=hook.name, error=str(error))


async def validate(
    caller: Caller, asked: list[tuple[Webhook, Attributes]], request: Request
) -> None:
    """Ask validating webhooks that are wanted, all at once; raises the first refusal."""

    async def one(hook: Webhook, attrs: Attributes) -> ApiError | None:
        try:
            response = await ask(caller, hook, attrs, request)
            if response.patch or response.patch_type:
                what = "patch" if response.patch else "patchType"
                words = "received invalid webhook response"
                raise CallError(f"{words}: validating webhook may not return response.{what}")
        except _Refusal as refusal:
            return refusal.error
        except CallError as error:
            try:
                _failed(hook, error)
            except ApiError as refused:
                return refused
        return None

    for refused in await asyncio.gather(*(one(*each) for each in asked)):
        if refused is not None:
            raise refused
