"""Runs the `x-kubernetes-validations` of a schema on its objects.

Rules that mention `oldSelf` are judged only where there is an old value to compare with, all of
them within the budget of one request. `rule_checks.py` decides which rules may be written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any

from bayplan.api.patch import identity
from bayplan.api.place import Place, below
from bayplan.apiserver.crd.structural import RULES, has_rules
from bayplan.apiserver.validation.causes import Cause, invalid, quote
from bayplan.cel import types as t
from bayplan.cel.cost import BUDGET, PER_CALL_LIMIT
from bayplan.cel.environment import Environment, Program
from bayplan.cel.errors import CompileError, CostExceeded, EvaluationError
from bayplan.cel.program import Frame
from bayplan.cel.schema import Declared, declare, unescape
from bayplan.cel.values import NONE, Optional

Schema = Mapping[str, Any]
MESSAGE_LIMIT = 5 * 1024
_ABSENT = object()


class Rule:
    """One compiled rule."""

    def __init__(self, given: Mapping[str, Any], declared: Declared) -> None:
        self.given = given
        self.optional_old = bool(given.get("optionalOldSelf"))
        old = t.optional_of(declared.type) if self.optional_old else declared.type
        self.environment = Environment(
            {"self": declared.type, "oldSelf": old}, structs=declared.structs(), unescape=unescape
        )
        self.program: Program = self.environment.compile(given["rule"])
        self.uses_old = "oldSelf" in self.program.names

    def message_program(self) -> Program | None:
        text = self.given.get("messageExpression")
        return self.environment.compile(text) if text else None

    @property
    def shown(self) -> str:
        """How messages name the rule."""
        text = self.given.get("message") or self.given["rule"]
        return str(text).strip() if not self.given.get("message") else str(text)


class Node:
    """The rules of a part of a schema, and of what is in it."""

    def __init__(self, schema: Schema, declared: Declared, name: str) -> None:
        self.schema = schema
        self.declared = declared
        self.rules = [_compile(rule, declared) for rule in schema.get(RULES) or ()]
        self.messages = [_message_program(rule) for rule in self.rules]
        self.properties: dict[str, Node] = {}
        for key, inner in (schema.get("properties") or {}).items():
            found = _node(inner, f"{name}.{key}")
            if found is not None:
                self.properties[key] = found
        self.items = _node(schema.get("items"), f"{name}.@idx")
        self.others = _node(schema.get("additionalProperties"), f"{name}.@elem")


def _compile(given: Mapping[str, Any], declared: Declared) -> Rule | CompileError:
    try:
        return Rule(given, declared)
    except CompileError as problem:
        return problem  # stored by an older server; upstream answers with it as well


def _message_program(rule: Rule | CompileError) -> Program | None:
    if isinstance(rule, CompileError):
        return None
    try:
        return rule.message_program()
    except CompileError:
        return None  # refused when it was written; upstream falls back to the message as well


def _node(schema: Any, name: str, *, root: bool = False) -> Node | None:
    if not isinstance(schema, Mapping) or not has_rules(schema):
        return None
    declared = declare(schema, name, root=root)
    return None if declared is None else Node(schema, declared, name)


class _Run:
    """One object checked against the rules: what was found, and what may still be spent."""

    def __init__(self) -> None:
        self.causes: list[Cause] = []
        self.left = BUDGET


class _Enough(Exception):
    """No further rules are run."""


class Rules:
    """The rules of a custom kind."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    @cached_property
    def _root(self) -> Node | None:
        return _node(self._schema, "selfType", root=True)

    def validate(self, value: Any, old: Any) -> list[Cause]:
        """All rules of a value and of everything in it that do not hold; `old` None on create."""
        if self._root is None:
            return []
        run = _Run()
        with suppress(_Enough):
            _walk(run, self._root, value, _ABSENT if old is None else old, "")
        return run.causes


def _walk(run: _Run, node: Node, value: Any, old: Any, path: Place | str) -> None:
    if value is None:
        return
    if node.rules:
        _judge_all(run, node, value, _ABSENT if old is None else old, path)
    if isinstance(value, dict):
        for key, item in value.items():
            inner = node.properties.get(key, node.others)
            if inner is not None:
                before = old.get(key, _ABSENT) if isinstance(old, dict) else _ABSENT
                named = key in node.properties
                where = below(path, key) if named else Place(path, f"[{key}]")
                _walk(run, inner, item, before, where)
    elif isinstance(value, list) and node.items is not None:
        old_of = _old_items(old, node.schema)
        for index, item in enumerate(value):
            _walk(run, node.items, item, old_of(item), Place(path, index))


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


def _judge_all(run: _Run, node: Node, value: Any, old: Any, path: Place | str) -> None:
    kind = node.schema.get("type", "")
    try:
        self_value = node.declared.value(value)
        old_value = _ABSENT if old is _ABSENT else node.declared.value(old)
    except EvaluationError as problem:
        run.causes.append(invalid(path, kind, str(problem)))
        return
    for rule, message in zip(node.rules, node.messages, strict=True):
        if isinstance(rule, CompileError):
            run.causes.append(invalid(path, kind, f"rule compile error: {rule}"))
            continue
        if rule.uses_old and old is _ABSENT and not rule.optional_old:
            continue
        variables = {"self": self_value}
        if rule.optional_old:
            variables["oldSelf"] = NONE if old is _ABSENT else Optional(old_value)
        elif old is not _ABSENT:
            variables["oldSelf"] = old_value
        if not _holds(run, rule, variables, path, kind):
            text = _message(run, rule, message, variables)
            where = f"{path}{rule.given.get('fieldPath', '')}".removeprefix(".")
            run.causes.append(_cause(rule.given.get("reason"), where, value, text))


def _holds(run: _Run, rule: Rule, variables: dict[str, Any], path: Place | str, kind: str) -> bool:
    """Whether a rule holds; what cannot be evaluated is noted and counts as holding."""
    frame = Frame(variables, PER_CALL_LIMIT)
    problem: EvaluationError | None = None
    result: Any = False
    try:
        result = rule.program.run(frame)
    except EvaluationError as error:
        problem = error
    if frame.cost > run.left:
        text = (
            "validation failed due to running out of cost budget, no further validation rules will "
            "be run"
        )
        run.causes.append(invalid(path, kind, text))
        raise _Enough
    run.left -= frame.cost
    if problem is None:
        return result is True
    if isinstance(problem, CostExceeded):
        words = "no further validation rules will be run due to call cost exceeds limit for rule"
        run.causes.append(invalid(path, kind, f"'{problem}': {words}: {rule.shown}"))
        raise _Enough
    if str(problem).startswith("no such overload"):
        words = (
            "call arguments did not match a supported operator, function or macro signature for "
            "rule"
        )
        run.causes.append(invalid(path, kind, f"'{problem}': {words}: {rule.shown}"))
    else:
        run.causes.append(invalid(path, kind, f"{problem} evaluating rule: {rule.shown}"))
    return True


def _message(run: _Run, rule: Rule, program: Program | None, variables: dict[str, Any]) -> str:
    if program is not None:
        frame = Frame(variables, min(PER_CALL_LIMIT, run.left))
        try:
            text = str(program.run(frame)).strip()
            if text and "\n" not in text and len(text.encode()) <= MESSAGE_LIMIT:
                return text
        except EvaluationError:
            pass  # upstream falls back to the plain message as well
        finally:
            run.left -= min(frame.cost, run.left)
    return str(rule.given.get("message") or f"failed rule: {rule.given['rule'].strip()}")


def _cause(reason: str | None, path: str, value: Any, message: str) -> Cause:
    shown = "" if isinstance(value, dict | list) else f"{quote(value)}: "
    reason = reason or "FieldValueInvalid"
    text = {
        "FieldValueRequired": f"Required value: {message}",
        "FieldValueForbidden": f"Forbidden: {message}",
        "FieldValueDuplicate": f"Duplicate value: {quote(value)}",
    }.get(reason, f"Invalid value: {shown}{message}")
    return Cause(reason, path, text)
