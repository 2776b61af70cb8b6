"""Runs the `x-kubernetes-validations` of a schema.

Rules that mention `oldSelf` are judged only where there is an old value to compare with. Rules in
words that `cel.py` does not know are skipped: a definition with them is accepted, its objects are
not checked by those rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from bayplan.api.patch import identity
from bayplan.apiserver.crd.cel import (
    Budget,
    CostExceeded,
    EvaluationError,
    Scope,
    Unsupported,
    compile_expression,
)
from bayplan.apiserver.validation.errors import Cause, quote

Schema = Mapping[str, Any]
RULES = "x-kubernetes-validations"
_OLD = re.compile(r"\boldSelf\b")
_ABSENT = object()


def validate_rules(value: Any, old: Any, schema: Schema, path: str = "") -> list[Cause]:
    """All rules of a value and of everything in it that do not hold; `old` is None on create."""
    budget = Budget()
    try:
        return _walk(value, _ABSENT if old is None else old, schema, path, budget)
    except CostExceeded as error:
        return [_cause("FieldValueInvalid", path, value, str(error))]


def _walk(value: Any, old: Any, schema: Schema, path: str, budget: Budget) -> list[Cause]:
    causes = []
    for rule in schema.get(RULES) or ():
        causes += _judge(rule, value, old, path, budget)
    if isinstance(value, dict):
        properties, other = schema.get("properties") or {}, schema.get("additionalProperties")
        for key, item in value.items():
            inner = properties.get(key, other)
            if isinstance(inner, Mapping):
                before = old.get(key, _ABSENT) if isinstance(old, dict) else _ABSENT
                where = f"{path}.{key}" if path else key
                causes += _walk(item, before, inner, where, budget)
    elif isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        old_of = _old_items(old, schema)
        for index, item in enumerate(value):
            where = f"{path}[{index}]"
            causes += _walk(item, old_of(item), schema["items"], where, budget)
    return causes


def _old_items(old: Any, schema: Schema) -> Callable[[Any], Any]:
    """Items are only compared with old ones where the list says which is which."""
    if schema.get("x-kubernetes-list-type") != "map" or not isinstance(old, list):
        return lambda item: _ABSENT
    keys = schema.get("x-kubernetes-list-map-keys") or ()

    def key_of(item: Any) -> object:
        return identity([item.get(name) for name in keys]) if isinstance(item, dict) else None

    known: dict[object, Any] = {}
    for item in old:
        known.setdefault(key_of(item), item)
    return lambda item: known.get(key_of(item), _ABSENT)


def _judge(rule: Mapping[str, Any], value: Any, old: Any, path: str, budget: Budget) -> list[Cause]:
    text = rule.get("rule", "")
    if _OLD.search(text) and old is _ABSENT:
        return []
    variables = {"self": value} if old is _ABSENT else {"self": value, "oldSelf": old}
    scope = Scope(variables, budget)
    try:
        if compile_expression(text)(scope) is not False:
            return []
        message = _message(rule, scope)
    except Unsupported:
        return []
    except CostExceeded:
        raise
    except RecursionError:
        message = f"nested too deeply evaluating rule: {rule.get('message') or text}"
    except EvaluationError as error:
        message = f"{error} evaluating rule: {rule.get('message') or text}"
    where = path + rule.get("fieldPath", "")
    reason = rule.get("reason", "FieldValueInvalid")
    return [_cause(reason, where.removeprefix("."), value, message)]


def _message(rule: Mapping[str, Any], scope: Scope) -> str:
    if rule.get("messageExpression"):
        try:
            return str(compile_expression(rule["messageExpression"])(scope))
        except (Unsupported, EvaluationError):
            pass  # upstream falls back to the plain message as well
    return str(rule.get("message") or f"failed rule: {rule.get('rule', '').strip()}")


def _cause(reason: str, path: str, value: Any, message: str) -> Cause:
    shown = "" if isinstance(value, dict | list) else f"{quote(value)}: "
    text = {
        "FieldValueRequired": f"Required value: {message}",
        "FieldValueForbidden": f"Forbidden: {message}",
        "FieldValueDuplicate": f"Duplicate value: {quote(value)}",
    }.get(reason, f"Invalid value: {shown}{message}")
    return Cause(reason, path, text)
