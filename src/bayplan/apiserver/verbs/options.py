"""What GET and watch of a collection ask for: versions, selectors, continue tokens.

Parameters become values here, or a 400 or 422 in upstream's words; `read` and `watch` obey them.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from bayplan.api import json
from bayplan.api.labels import IN, Selector
from bayplan.apiserver.aside import aside_of
from bayplan.apiserver.backend import Backend
from bayplan.apiserver.codec import Codec, Fields
from bayplan.apiserver.errors import ApiError, bad_request, invalid, too_large_version
from bayplan.apiserver.request import Request
from bayplan.apiserver.selectors import FieldSelector, check_fields, parse_fields, parse_labels
from bayplan.apiserver.validation.causes import Cause, forbidden, not_supported, quote
from bayplan.errors import DecodeError
from bayplan.store import KeyValue

FUTURE_WAIT_SECONDS = 3.0
NEWEST = -1  # in a token: go on with what there is now
SELECTOR_FACTOR = 16  # how much longer it takes to read a selector than an object
OBJECT_COST, TERM_COST = 1000, 50
MAX_VERSION = 2**64 - 1
FIELD, LABEL = "field", "label"
NAME = "metadata.name"
TOKEN_VERSION = "meta.k8s.io/v1"


def parse_version(text: str | None) -> int:
    """Read a resourceVersion; none and an empty one are 0. Raises a 400."""
    if not text:
        return 0
    problem = ""
    if not (text.isascii() and text.isdigit()):
        problem = "invalid syntax"
    elif len(text.lstrip("0")) > 20 or int(text) > MAX_VERSION:
        problem = "value out of range"
    if problem:
        raise bad_request(
            f"invalid resource version: resourceVersion: Invalid value: {quote(text)}: "
            f"strconv.ParseUint: parsing {quote(text)}: {problem}"
        )
    return int(text)


async def wait_for_version(backend: Backend, version: int) -> None:
    """Wait a short while until the store has reached a version. Raises a 504."""
    if version <= backend.store.revision:
        return
    try:
        await asyncio.wait_for(backend.store.wait_for(version), FUTURE_WAIT_SECONDS)
    except TimeoutError:
        raise too_large_version(version, backend.store.revision) from None


class Selection(NamedTuple):
    """Which objects of a collection are wanted; `name` when only one can match."""

    labels: Selector | None
    fields: FieldSelector | None
    name: str | None

    def __bool__(self) -> bool:
        return self.labels is not None or self.fields is not None

    @property
    def cost(self) -> int:
        """What it takes to look at one object, in about the time that a byte of it takes."""
        wanted = self.labels.requirements if self.labels else ()
        terms = len(self.fields.terms) if self.fields else 0
        return OBJECT_COST + TERM_COST * (terms + sum(1 + len(each.values) for each in wanted))

    def matches(self, codec: Codec, kv: KeyValue) -> bool:
        return self.selects(codec.fields(kv))

    def selects(self, found: Fields) -> bool:
        if self.labels is not None and not self.labels.matches(found.labels):
            return False
        return self.fields is None or self.fields.matches(found.value_of)

    @property
    def decisive(self) -> tuple[str, str, str] | None:
        """Return a field or label with the one value that everything wanted has, if there is."""
        for path, equal, value in self.fields.terms if self.fields else ():
            if equal and path != "metadata.namespace":  # which the collection has already
                return FIELD, path, value
        for required in self.labels.requirements if self.labels else ():
            if required.operator == IN and len(required.values) == 1:
                return LABEL, required.key, required.values[0]
        return None


async def selection(request: Request) -> Selection:
    """Read the selectors of a request, long ones beside the event loop. Raises a 400."""
    query = request.query
    size = len(query.get("labelSelector", "")) + len(query.get("fieldSelector", ""))
    return await aside_of(size * SELECTOR_FACTOR, _selection, request)


def _selection(request: Request) -> Selection:
    query = request.query
    labels = parse_labels(query["labelSelector"]) if query.get("labelSelector") else None
    fields = parse_fields(query["fieldSelector"]) if query.get("fieldSelector") else None
    if fields is not None:
        check_fields(request.kind, fields)
    name = fields.exact(NAME) if fields else None
    if request.name:  # of a watch below the old prefix: who may watch one object sees no other
        if fields is None:
            name, fields = request.name, FieldSelector(((NAME, True, request.name),))
        elif name != request.name:
            raise bad_request("fieldSelector metadata.name doesn't match requested name")
    return Selection(labels, fields, name)


class Token(msgspec.Struct, rename={"version": "v", "revision": "rv"}):
    """What a continue token says, in upstream's form."""

    version: str
    revision: int
    start: str


def encode_token(revision: int, start: str) -> str:
    data = msgspec.json.encode(Token(TOKEN_VERSION, revision, start))
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def decode_token(text: str) -> Token:
    try:
        data = base64.urlsafe_b64decode(text + "==")  # more than it needs does no harm
        token = msgspec.convert(json.load(data), Token)
    except (ValueError, DecodeError, msgspec.ValidationError) as error:
        raise bad_token(str(error)) from error
    if token.version != TOKEN_VERSION:
        raise bad_token(f"server does not recognize this encoded version {token.version}")
    if not token.revision:
        raise bad_token(f"incorrect encoded start resourceVersion (version {TOKEN_VERSION})")
    if not token.start:
        raise bad_token(f"encoded start key empty (version {TOKEN_VERSION})")
    if any(part in ("", ".", "..") for part in token.start.split("/")):
        raise bad_token(token.start)  # a path that leads elsewhere
    return token


def bad_token(why: str) -> ApiError:
    return bad_request(f"invalid continue token: continue key is not valid: {why}")


def check_match(query: dict[str, str], continued: bool, *, watching: bool = False) -> None:
    """Check resourceVersionMatch and sendInitialEvents of a list or watch. Raises a 422."""
    match = query.get("resourceVersionMatch", "")
    version = query.get("resourceVersion", "")
    initial = query.get("sendInitialEvents")
    causes: list[Cause] = []
    if not watching and initial is not None:
        causes.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if watching:
        if begins_with_all(query):
            match, initial = "NotOlderThan", "true"
        causes += _watch_match(match, initial, continued)
    elif match:
        causes += _list_match(match, version, continued)
    if causes:
        raise invalid("meta.k8s.io", "ListOptions", "", causes)


def begins_with_all(query: dict[str, str]) -> bool:
    """Say whether a watch begins with all objects because it does not say from where."""
    said = query.get("resourceVersionMatch") or "sendInitialEvents" in query
    return not said and query.get("resourceVersion", "") in ("", "0")


def _list_match(match: str, version: str, continued: bool) -> Iterable[Cause]:
    field = "resourceVersionMatch"
    if not version:
        yield forbidden(
            field, "resourceVersionMatch is forbidden unless resourceVersion is provided"
        )
    if continued:
        yield forbidden(field, "resourceVersionMatch is forbidden when continue is provided")
    if match not in ("Exact", "NotOlderThan"):
        yield not_supported(field, match, ["Exact", "NotOlderThan", ""])
    if match == "Exact" and version == "0":
        yield forbidden(field, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"')


def _watch_match(match: str, initial: str | None, continued: bool) -> Iterable[Cause]:
    field = "resourceVersionMatch"
    if initial is not None and match != "NotOlderThan":
        yield forbidden(
            field, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        )
    if match and initial is None:
        yield forbidden(
            field,
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        )
    if match not in ("", "NotOlderThan"):
        yield not_supported(field, match, ["NotOlderThan"])
    if match and continued:
        yield forbidden(field, "resourceVersionMatch is forbidden when continue is provided")
