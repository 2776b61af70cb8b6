"""Hypothesis strategies for objects of any kind, made from the schema table.

`objects(kind)` mostly fits its schema; now and then a value has a wrong type, is null or unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from hypothesis import strategies as st

from bayplan.api.schema import Type, type_for

Json = Any
_WORDS = st.sampled_from(["", "a", "b", "x.example/y", "1"])
_SCALARS: dict[str, st.SearchStrategy[Json]] = {
    "string": _WORDS,
    "int32": st.sampled_from([0, 1, 5, -1, 2**31 - 1]),
    "int64": st.sampled_from([0, 1, 5, -1, 2**63 - 1]),
    "number": st.sampled_from([0, 1.5, -2]),
    "boolean": st.booleans(),
    "bytes": st.sampled_from(["", "YQ=="]),
    "time": st.sampled_from(["2026-01-02T03:04:05Z", "2026-01-02T03:04:05+02:00"]),
    "microtime": st.just("2026-01-02T03:04:05.000006Z"),
    "duration": st.just("1m0s"),
    "quantity": st.sampled_from(["0", "1", "100m", "1.5Gi", 2]),
    "intorstring": st.sampled_from([0, 3, "50%", "http"]),
    "object": st.sampled_from([{}, {"a": 1}]),
    "any": st.sampled_from([{}, 1, "x", None]),
}
GARBAGE = st.sampled_from(
    [None, 0, 1.5, "x", True, [], {}, [None], {"a": None}, [[1]], {"": {}}, -(2**70)]
)


@cache
def values(type_: Type, depth: int, wrong: bool) -> st.SearchStrategy[Json]:
    """Values of a type; deeper than `depth` only scalars and empty containers are made."""
    good = _good(type_, depth, wrong)
    return st.one_of(good, good, good, good, good, good, good, GARBAGE) if wrong else good


def _good(type_: Type, depth: int, wrong: bool) -> st.SearchStrategy[Json]:
    if type_.kind == "struct":
        if depth == 0:
            return st.just({})
        names = sorted(type_.fields)
        if wrong:
            names = [*names, "unheardOf"]
        if not names:
            return st.just({})
        chosen = st.lists(st.sampled_from(names), unique=True, max_size=5)
        return _struct(chosen, lambda name: _field(type_, name, depth, wrong))
    if type_.kind == "list":
        assert type_.elem is not None
        return st.lists(values(type_.elem, depth - 1, wrong), max_size=2) if depth else st.just([])
    if type_.kind == "map":
        assert type_.elem is not None
        inner = values(type_.elem, depth - 1, wrong) if depth else st.nothing()
        return st.dictionaries(_WORDS, inner, max_size=2) if depth else st.just({})
    return _SCALARS[type_.kind]


@st.composite
def _struct(
    draw: st.DrawFn,
    chosen: st.SearchStrategy[list[str]],
    field: Callable[[str], st.SearchStrategy[Json]],
) -> Json:
    return {name: draw(field(name)) for name in draw(chosen)}


def _field(type_: Type, name: str, depth: int, wrong: bool) -> st.SearchStrategy[Json]:
    field = type_.fields.get(name)
    return values(field.type, depth - 1, wrong) if field is not None else GARBAGE


@cache
def objects(api_version: str, kind: str, *, wrong: bool = False) -> st.SearchStrategy[Json]:
    """Whole objects of a kind, with a name."""
    type_ = type_for(api_version, kind)
    assert type_ is not None
    identity = {"apiVersion": api_version, "kind": kind}

    def named(obj: Json) -> Json:
        metadata = obj.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        return {**obj, **identity, "metadata": {**metadata, "name": "x"}}

    return _good(type_, 6, wrong).map(named)
