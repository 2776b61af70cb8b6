"""Custom objects between versions, by the webhook that a definition names.

An object is stored in the version that was the storage version when it was written. `Converter`
brings it into another one: objects that are read together go in one ConversionReview, and what
comes back is checked as upstream checks it. Only labels and annotations of the metadata may change
on the way.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

import msgspec

from bayplan.apiserver.crd.defaults import fill, has_defaults
from bayplan.apiserver.crd.pruning import prune_root
from bayplan.apiserver.errors import ApiError
from bayplan.apiserver.validation.causes import Cause
from bayplan.apiserver.validation.labels import validate_annotations, validate_labels
from bayplan.errors import BayplanError

TIMEOUT = 30.0  # seconds, as upstream
GROUP = "apiextensions.k8s.io"
Object = dict[str, Any]
T = TypeVar("T")


class Poster(Protocol):
    """Sends JSON to a webhook and returns what `read` makes of the JSON of its answer."""

    async def post(
        self, config: Mapping[str, Any], body: Any, timeout: float, read: Callable[[Any], T]
    ) -> T: ...


class ConversionError(BayplanError):
    """A webhook's answer cannot be used."""


class _Result(msgspec.Struct):
    status: str | None = None
    message: str | None = None


class _Response(msgspec.Struct, rename="camel"):
    """What a webhook answers; anything of another shape is no answer."""

    uid: str | None = None
    result: _Result | None = None
    converted_objects: list[Object] | None = None


class Converter:
    """The webhook of one definition, and the schemas of its versions."""

    def __init__(self, definition: Mapping[str, Any]) -> None:
        spec = definition["spec"]
        hook = spec["conversion"].get("webhook") or {}
        self._config = hook.get("clientConfig") or {}
        accepted = hook.get("conversionReviewVersions") or ()
        self._review = next((each for each in accepted if each in ("v1", "v1beta1")), "v1")
        self.group, self.kind = spec["group"], spec["names"]["kind"]
        self._schemas: dict[str, Any] = {
            each["name"]: (each.get("schema") or {}).get("openAPIV3Schema")
            for each in spec["versions"]
        }
        stored = (definition.get("status") or {}).get("storedVersions") or ()
        self.oldest = stored[0] if stored else spec["versions"][0]["name"]
        """The version of objects that do not say theirs: they were written when it was the only."""

    def complete(self, obj: Object, version: str) -> None:
        """Fill in what the version of a stored object gives to fields that it does not have."""
        schema = self._schemas.get(version)
        if schema is not None and has_defaults(schema):
            fill(obj, schema)

    async def convert(
        self, poster: Poster, objects: Sequence[Object], version: str
    ) -> list[Object]:
        """Return the objects in another version, asked for once."""
        uid, wanted = str(uuid.uuid4()), f"{self.group}/{version}"
        review = {
            "kind": "ConversionReview",
            "apiVersion": f"{GROUP}/{self._review}",
            "request": {"uid": uid, "desiredAPIVersion": wanted, "objects": list(objects)},
        }
        failed = f"conversion webhook for {objects[0]['apiVersion']}, Kind={self.kind}"

        def read(answer: Any) -> list[Object]:
            found = self._converted(answer, uid)
            if len(found) != len(objects):
                text = f"{failed} returned {len(found)} objects, expected {len(objects)}"
                raise ApiError(500, "", text)
            try:
                for original, made in zip(objects, found, strict=True):
                    _check(original, made, wanted)
            except ConversionError as error:
                raise ApiError(500, "", f"{failed} returned invalid {error}") from error
            schema = self._schemas.get(version)
            return found if schema is None else [prune_root(each, schema, "", []) for each in found]

        try:
            return await poster.post(self._config, review, TIMEOUT, read)
        except ApiError:
            raise
        except BayplanError as error:
            raise ApiError(500, "", f"{failed} failed: {error}") from error

    def _converted(self, answer: Any, uid: str) -> list[Object]:
        if self._review == "v1":
            wanted = f"{GROUP}/v1, Kind=ConversionReview"
            given = f"{answer.get('apiVersion', '')}, Kind={answer.get('kind', '')}"
            if given != wanted:
                raise ConversionError(f"expected webhook response of {wanted}, got {given}")
        try:
            response = msgspec.convert(answer.get("response"), _Response | None)
        except msgspec.ValidationError as error:
            raise ConversionError(f"json parse error: {error}") from error
        if response is None:
            raise ConversionError("no response provided")
        if self._review == "v1" and response.uid != uid:
            raise ConversionError(f'expected response.uid="{uid}", got "{response.uid or ""}"')
        result = response.result or _Result()
        if result.status != "Success":
            text = f"response.result.status was '{result.status or ''}', not 'Success'"
            raise ConversionError(result.message or text)
        return response.converted_objects or []


def _check(original: Object, made: Object, wanted: str) -> None:
    """Refuse another object in the place of one, and give it the metadata that it had."""
    for field, expected in (("apiVersion", wanted), ("kind", original["kind"])):
        if made.get(field) != expected:
            what = "groupVersion" if field == "apiVersion" else "kind"
            detail = f"(expected {expected}, received {made.get(field, '')})"
            raise ConversionError(f"object at index 0: invalid {what} {detail}")
    if "metadata" not in made:
        raise ConversionError("metadata: missing metadata in converted object")
    before, after = original["metadata"], made["metadata"]
    if not isinstance(after, dict):
        raise ConversionError("metadata: invalid metadata in converted object")
    for field, shown in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        given, got = before.get(field, ""), after.get(field, "")
        if given != got:
            raise ConversionError(f"object: must have the same {shown}: {given} != {got}")
    made["metadata"] = _restored(before, after)


def _restored(before: Object, after: Object) -> Object:
    """Return the metadata of the original with the converted labels and annotations."""
    metadata = {key: value for key, value in before.items() if key not in _FREE}
    for field, judge in _FREE.items():
        found = after.get(field)
        if found is None:
            continue
        if not isinstance(found, dict):
            raise ConversionError(f"metadata: invalid metadata.{field} in converted object")
        for key, value in found.items():
            if not isinstance(value, str):
                text = f"metadata.{field}[{key}] must be a string in converted object"
                raise ConversionError(f"metadata: {text}")
        if found != before.get(field) and (causes := judge(found)):
            raise ConversionError(f"metadata: {_worded(causes)}")
        metadata[field] = found
    return metadata


def _worded(causes: Sequence[Cause]) -> str:
    texts = [f"{cause.field}: {cause.message}" for cause in causes]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


_FREE: dict[str, Callable[[dict[str, str]], list[Cause]]] = {
    "labels": partial(validate_labels, "metadata.labels"),
    "annotations": partial(validate_annotations, "metadata.annotation"),
}
