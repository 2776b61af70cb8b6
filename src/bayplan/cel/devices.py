"""Selectors of devices: the expressions of `bayplan.cel` over one variable, `device`.

An expression is compiled once and kept. Its cost is bounded twice, as upstream does it: by an
estimate when it is written, and while it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

from bayplan.cel import types as t
from bayplan.cel.cost import PER_CALL_LIMIT
from bayplan.cel.environment import Environment, Program, base_library
from bayplan.cel.errors import CelError, CompileError, EvaluationError, compile_words
from bayplan.cel.overloads import KNOWN, join
from bayplan.cel.schema import Declared
from bayplan.cel.values import kind_name

__all__ = ["CelError", "CompileError", "compile_selector", "matches"]

MAX_LENGTH = 10 * 1024
MAX_COST = PER_CALL_LIMIT


def _map(value: Declared) -> Declared:
    return Declared(t.map_of(t.STRING, value.type), most=32, item=value)


@cache
def _device() -> Declared:
    return Declared(
        t.struct("kubernetes.DRADevice"),
        fields={
            "driver": Declared(t.STRING, most=63),
            "attributes": _map(_map(Declared(t.ANY, most=64))),
            "capacity": _map(_map(Declared(KNOWN["quantity"]))),
            "allowMultipleAllocations": Declared(t.BOOL),
        },
    )


@cache
def _environment() -> Environment:
    device = _device()
    return Environment(
        {"device": device.type},
        structs=device.structs(),
        library=join([base_library()]),
        bindings=True,
    )


@lru_cache(maxsize=1024)
def compile_selector(text: str) -> Program:
    """Compile a selector; raises CompileError."""
    try:
        program = _environment().compile(text)
    except CompileError as problem:
        raise CompileError(compile_words(problem)) from problem
    if program.type not in (t.BOOL, t.ANY):
        raise CompileError(f"must evaluate to bool or the unknown type, not {program.type}")
    return program


def selector_cost(program: Program) -> int:
    """What a selector may cost at most."""
    return program.estimate(_device().size_of)


def matches(text: str, device: Mapping[str, Any]) -> bool:
    """Evaluate a selector on a device; raises CelError."""
    result = compile_selector(text).evaluate({"device": device}, MAX_COST)
    if not isinstance(result, bool):
        kind = kind_name(result)
        raise EvaluationError(f"CEL result of type {kind} could not be converted to bool")
    return result
