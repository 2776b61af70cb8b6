"""The same questions over HTTP, as JSON, for pages and programs.

A table of questions serves `bayplan inspect serve`, the API server of `bayplan up` and the
scheduler alike, and the OpenAPI document is made from it. A cluster is read when the first question
comes and again when the picture is older than `max_age`; questions are answered in a thread, one at
a time, so the event loop is never held. Who may ask is decided by the server around this.
"""

from __future__ import annotations

import asyncio
import time
import typing
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from bayplan import __version__
from bayplan.errors import BayplanError
from bayplan.inspect import MAX_BODY, PREFIX
from bayplan.inspect.cluster import Cluster
from bayplan.inspect.errors import UnknownObject
from bayplan.inspect.http_questions import QUESTIONS, Question
from bayplan.supervised import to_its_end

OPENAPI = "openapi.json"
PARTED = ";"
LISTS = ("changes", "templates")
REFERENCE = "#/components/schemas/{name}"

Query = Mapping[str, str]
Load = Callable[[], Awaitable[Cluster]]


class Questions:
    """Answers questions about one cluster, read anew when its picture is old."""

    def __init__(
        self, load: Load, *, max_age: float = 2.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._load = load
        self._max_age = max_age
        self._clock = clock
        self._cluster: Cluster | None = None
        self._read_at = 0.0
        self._lock = asyncio.Lock()

    async def answer(self, path: str, query: Query, body: bytes | None = None) -> tuple[int, bytes]:
        """HTTP status and JSON for a path below the prefix; `body` is that of a POST."""
        if path == OPENAPI:
            return 200, msgspec.json.encode(openapi())
        kind = QUESTIONS.get(path)
        if kind is None:
            known = ", ".join(sorted(QUESTIONS))
            return _error(404, f'no question "{path}"; there are: {known}')
        if body is not None and len(body) > MAX_BODY:
            return _error(413, f"the body is longer than {MAX_BODY} bytes")
        try:
            question = _read(kind, query, body)
        except (msgspec.DecodeError, RecursionError) as problem:
            return _error(400, f'the question "{path}": {problem}')
        async with self._lock:
            try:
                cluster = await self._fresh()
                found = await to_its_end(partial(question.answer, cluster))
            except UnknownObject as problem:
                return _error(404, str(problem))
            except (BayplanError, RecursionError) as problem:  # what is asked may be nested
                return _error(400, str(problem))
        return 200, msgspec.json.encode(found)

    async def _fresh(self) -> Cluster:
        now = self._clock()
        if self._cluster is None or now - self._read_at > self._max_age:
            self._cluster = await self._load()
            self._read_at = self._clock()
        return self._cluster


def _read(kind: type[Question], query: Query, body: bytes | None) -> Question:
    """A question from its query, and from its body; raises DecodeError of msgspec."""
    given: dict[str, Any] = {name: value for name, value in query.items() if name != "token"}
    for name in LISTS:
        if name in given:
            given[name] = [part for part in given[name].split(PARTED) if part.strip()]
    if body:
        inside = msgspec.json.decode(body)
        if not isinstance(inside, dict):
            raise msgspec.ValidationError("the body must be an object")
        given |= inside
    return msgspec.convert(given, kind, strict=body is not None)  # a query has texts only


def _error(status: int, text: str) -> tuple[int, bytes]:
    return status, msgspec.json.encode({"error": text})


def openapi() -> dict[str, Any]:
    """The OpenAPI document of all questions."""
    kinds = list(QUESTIONS.values())
    answers = [_answers(kind) for kind in kinds]
    every = [*kinds, *(answer for some in answers for answer in some)]
    refs, components = msgspec.json.schema_components(every, ref_template=REFERENCE)
    schemas = dict(zip(every, refs, strict=True))
    paths = {}
    for name, kind, some in zip(QUESTIONS, kinds, answers, strict=True):
        about = {
            "summary": (kind.__doc__ or "").strip(),
            "responses": _responses([schemas[answer] for answer in some]),
        }
        content = {"application/json": {"schema": schemas[kind]}}
        parameters = _parameters(components[kind.__name__])
        paths[f"{PREFIX}{name}"] = {
            "get": {**about, "operationId": name, "parameters": parameters},
            "post": {**about, "operationId": f"{name}-of", "requestBody": {"content": content}},
        }
    info = {"title": "Bayplan inspect", "version": __version__}
    return {
        "openapi": "3.1.0",
        "info": info,
        "paths": paths,
        "components": {"schemas": components},
    }


def _answers(kind: type[Question]) -> list[type]:
    """The structs that a question may be answered with."""
    found = typing.get_type_hints(kind.answer)["return"]
    return list(typing.get_args(found) or (found,))


def _parameters(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """What a query can say: what is a text, or a list of texts."""
    found = []
    for name, field in schema.get("properties", {}).items():
        if field.get("type") == "array" and name not in LISTS:
            continue
        found.append(
            {
                "name": name,
                "in": "query",
                "description": field.get("description", ""),
                "required": name in schema.get("required", ()),
                "schema": {"type": "boolean" if field.get("type") == "boolean" else "string"},
            }
        )
    return found


def _responses(schemas: list[dict[str, Any]]) -> dict[str, Any]:
    schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    return {
        "200": {"description": "the answer", "content": {"application/json": {"schema": schema}}},
        "400": {"description": "the question makes no sense"},
        "404": {"description": "no such object"},
        "413": {"description": "the question is too long"},
    }
