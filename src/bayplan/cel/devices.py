"""Selectors of devices: the expressions of `bayplan.cel` over one variable, `device`.

An expression is compiled once and kept. Its cost is bounded twice, as upstream does it: by an
estimate when it is written, and while it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from bayplan.cel import types as t
from bayplan.cel.cost import PER_CALL_LIMIT
from bayplan.cel.environment import Environment, Program, base_library
from bayplan.cel.errors import CelError, CompileError, EvaluationError, compile_words
from bayplan.cel.overloads import KNOWN, Declaring, join
from bayplan.cel.schema import Declared
from bayplan.cel.values import equal, kind_name

__all__ = ["CelError", "CompileError", "compile_selector", "matches"]

MAX_LENGTH = 10 * 1024
MAX_COST = PER_CALL_LIMIT
MAX_VALUES = 48  # of one attribute


def _includes(target: Any, wanted: Any) -> bool:
    if not isinstance(target, list):
        return equal(target, wanted)
    for at, item in enumerate(target):
        if at >= MAX_VALUES:
            raise EvaluationError(
                f"'includes' function cannot be applied to lists longer than {MAX_VALUES} values"
            )
        if equal(item, wanted):
            return True
    return False


def _map(key: int, value: Declared) -> Declared:
    del key  # upstream bounds keys too, but no estimate reads them
    return Declared(t.map_of(t.STRING, value.type), most=32, item=value)


@lru_cache(maxsize=2)
def _device(lists: bool) -> Declared:
    attribute = Declared(t.DYN if lists else t.ANY, most=64)
    return Declared(
        t.struct("kubernetes.DRADevice"),
        fields={
            "driver": Declared(t.STRING, most=63),
            "attributes": _map(63, _map(32, attribute)),
            "capacity": _map(63, _map(32, Declared(KNOWN["quantity"]))),
            "allowMultipleAllocations": Declared(t.BOOL),
        },
    )


@lru_cache(maxsize=2)
def _environment(lists: bool) -> Environment:
    libraries = [base_library()]
    if lists:
        more = Declaring()
        more.add("includes", "dra_includes_dyn_dyn", "dyn.(dyn) bool", _includes)
        libraries.append(more.library)
    device = _device(lists)
    return Environment(
        {"device": device.type},
        structs=device.structs(),
        library=join(libraries),
        bindings=True,
    )


@lru_cache(maxsize=1024)
def compile_selector(text: str, lists: bool = False) -> Program:
    """Compile a selector; `lists` if attributes may be lists. Raises CompileError."""
    try:
        program = _environment(lists).compile(text)
    except CompileError as problem:
        raise CompileError(compile_words(problem)) from problem
    if program.type not in (t.BOOL, t.ANY) and not (lists and program.type == t.DYN):
        raise CompileError(f"must evaluate to bool or the unknown type, not {program.type}")
    return program


def selector_cost(program: Program, lists: bool = False) -> int:
    """What a selector may cost at most."""
    return program.estimate(_device(lists).size_of)


def matches(text: str, device: Mapping[str, Any]) -> bool:
    """Evaluate a selector on a device; raises CelError."""
    result = compile_selector(text).evaluate({"device": device}, MAX_COST)
    if not isinstance(result, bool):
        kind = kind_name(result)
        raise EvaluationError(f"CEL result of type {kind} could not be converted to bool")
    return result
