"""Expressions of webhooks and policies, compiled when they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayplan.api.defaults.json_types import Object
from bayplan.apiserver.validation.causes import Causes, invalid, required, too_many

if TYPE_CHECKING:
    from bayplan.cel.environment import Environment
    from bayplan.cel.types import Type


MAX_CONDITIONS = 64


def validate_conditions(path: str, conditions: list[Object], *, params: bool = False) -> Causes:
    """The `matchConditions` of a webhook or policy."""
    if not conditions:
        return []
    if len(conditions) > MAX_CONDITIONS:
        return [too_many(path, len(conditions), MAX_CONDITIONS)]
    from bayplan.apiserver.dynamic.expressions import environment
    from bayplan.cel.types import BOOL

    made = environment(params=params)
    causes: Causes = []
    for i, each in enumerate(conditions):
        text = (each.get("expression") or "").strip()
        causes += _compiled(made, f"{path}[{i}].expression", text, BOOL, "")
        if not each.get("name"):
            causes.append(required(f"{path}[{i}].name"))
    return causes


def validate_policy_expressions(spec: Object, *, mutating: bool) -> Causes:
    """Variables, conditions and rules of a policy; each variable sees those before it."""
    from bayplan.apiserver.dynamic.expressions import environment
    from bayplan.apiserver.dynamic.policies import mutation_environment
    from bayplan.cel.types import BOOL, STRING

    params = spec.get("paramKind") is not None
    causes = validate_conditions(
        "spec.matchConditions", spec.get("matchConditions") or [], params=params
    )
    known: dict[str, Type] = {}
    for i, each in enumerate(spec.get("variables") or ()):
        made = environment(params=params, variables=known or None)
        text, path = each.get("expression") or "", f"spec.variables[{i}].expression"
        found = _compiled(made, path, text, None, "expression is not specified")
        causes += found
        if not found:
            known[each.get("name", "")] = made.compile(text).type
    made = environment(params=params, variables=known or None)
    words = "expression is not specified"
    for i, each in enumerate(spec.get("validations") or ()):
        path = f"spec.validations[{i}]"
        text = (each.get("expression") or "").strip()
        causes += _compiled(made, f"{path}.expression", text, BOOL, words)
        if each.get("messageExpression"):
            told = each["messageExpression"].strip()
            causes += _compiled(made, f"{path}.messageExpression", told, STRING, "")
    if mutating:
        made = mutation_environment(made)
        for i, each in enumerate(spec.get("mutations") or ()):
            field = "jsonPatch" if each.get("patchType") == "JSONPatch" else "applyConfiguration"
            text = (each.get(field) or {}).get("expression") or ""
            path = f"spec.mutations[{i}].{field}.expression"
            causes += _compiled(made, path, text, None, "")
    return causes


def _compiled(made: Environment, path: str, text: str, wanted: Type | None, missing: str) -> Causes:
    from bayplan.cel.errors import CompileError, compile_words

    if not text.strip():
        return [required(path, missing)]
    try:
        program = made.compile(text)
    except CompileError as problem:
        return [invalid(path, text, compile_words(problem))]
    if wanted is not None and program.type != wanted:
        return [invalid(path, text, f"must evaluate to {wanted} but got {program.type}")]
    return []
