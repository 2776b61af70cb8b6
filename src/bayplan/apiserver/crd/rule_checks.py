"""Whether the rules of a schema may be written: they must compile and not cost too much.

Problems are worded as upstream words them. Costs are estimated with the sizes that the schema
allows, times how often a part can occur in one object.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bayplan.api.place import Place
from bayplan.apiserver.crd.rules import Rule
from bayplan.apiserver.crd.structural import RULES, has_rules
from bayplan.apiserver.validation.causes import Cause, forbidden, invalid, required
from bayplan.cel import types as t
from bayplan.cel.errors import CompileError, compile_words
from bayplan.cel.schema import Declared, declare

Schema = Mapping[str, Any]
RULE_LIMIT, TOTAL_LIMIT = 10_000_000, 100_000_000
_UNBOUNDED = 2**64 - 1


class _Costs:
    """What all rules of a schema may cost together, and the dearest of them."""

    def __init__(self) -> None:
        self.total = 0
        self.dear: list[tuple[int, Place | str]] = []

    def add(self, path: Place | str, cost: int) -> None:
        self.total = min(self.total + cost, _UNBOUNDED)
        if cost >= TOTAL_LIMIT // 100:
            self.dear = sorted([*self.dear, (cost, path)], key=lambda each: -each[0])[:4]


def validate_rules_of(schema: Schema, path: Place | str) -> list[Cause]:
    """Every problem of the rules in the root schema of a version."""
    costs = _Costs()
    causes = list(_check(schema, path, 1, costs, "", root=True))
    if costs.total > TOTAL_LIMIT:
        words = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3"
        causes += [forbidden(where, f"{words} schema") for _, where in costs.dear]
        what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        causes.append(forbidden(path, _too_dear(what, costs.total, TOTAL_LIMIT)))
    return causes


def _check(
    schema: Schema,
    path: Place | str,
    count: int | None,
    costs: _Costs,
    unrelated: Place | str,
    *,
    root: bool = False,
) -> Iterator[Cause]:
    """`count` is how often the part can occur; `unrelated` where old and new lose each other."""
    if not has_rules(schema):
        return
    inner_count = _inner_count(schema, count)
    for key, inner in (schema.get("properties") or {}).items():
        yield from _check(inner, Place(path, f".properties[{key}]"), inner_count, costs, unrelated)
    other, items = schema.get("additionalProperties"), schema.get("items")
    if isinstance(other, Mapping):
        lost = path if schema.get("x-kubernetes-map-type") == "atomic" else ""
        where = Place(path, ".additionalProperties")
        yield from _check(other, where, inner_count, costs, unrelated or lost)
    if isinstance(items, Mapping):
        lost = "" if schema.get("x-kubernetes-list-type") == "map" else path
        yield from _check(items, Place(path, ".items"), inner_count, costs, unrelated or lost)
    if schema.get(RULES):
        problems = list(_check_words(schema, path))
        yield from problems
        declared = None if problems else declare(schema, "selfType", root=root)
        if declared is not None:
            for index in range(len(schema[RULES])):
                yield from _check_rule(schema, index, path, declared, count, costs, unrelated)


def _inner_count(schema: Schema, count: int | None) -> int | None:
    if count is None:
        return None
    if schema.get("type") == "array":
        most = schema.get("maxItems")
    elif schema.get("additionalProperties"):
        most = schema.get("maxProperties")
    else:
        return count
    return None if most is None else count * max(most, 0)


def _check_words(schema: Schema, path: Place | str) -> Iterator[Cause]:
    """What can be said of a rule without reading the expression."""
    for index, rule in enumerate(schema[RULES]):
        where = Place(path, f".{RULES}[{index}]")
        text, message = rule.get("rule") or "", rule.get("message") or ""
        if not text.strip():
            yield required(Place(where, ".rule"), "rule is not specified")
        elif message and not message.strip():
            yield invalid(Place(where, ".message"), message, "must be non-empty if specified")
        elif "\n" in message.strip() or "\r" in message.strip():
            yield invalid(Place(where, ".message"), message, "must not contain line breaks")
        elif ("\n" in text.strip() or "\r" in text.strip()) and not message.strip():
            words = "message must be specified if rule contains line breaks"
            yield required(Place(where, ".message"), words)
        expression = rule.get("messageExpression") or ""
        if expression and not expression.strip():
            words = "messageExpression must be non-empty if specified"
            yield required(Place(where, ".messageExpression"), words)


def _check_rule(
    schema: Schema,
    index: int,
    path: Place | str,
    declared: Declared,
    count: int | None,
    costs: _Costs,
    unrelated: Place | str,
) -> Iterator[Cause]:
    given = schema[RULES][index]
    where = Place(path, f".{RULES}[{index}]")
    shown = _shown_rule(given)
    try:
        rule = Rule(given, declared)
    except CompileError as problem:
        yield invalid(Place(where, ".rule"), shown, compile_words(problem))
        return
    if rule.program.type != t.BOOL:
        yield invalid(Place(where, ".rule"), shown, "cel expression must evaluate to a bool")
        return
    times = declared.cardinality if count is None else count
    cost = min(rule.program.estimate(declared.size_of) * times, _UNBOUNDED)
    if cost > RULE_LIMIT:
        yield forbidden(Place(where, ".rule"), _too_dear("estimated rule cost", cost, RULE_LIMIT))
    costs.add(Place(where, ".rule"), cost)
    yield from _check_message(rule, Place(where, ".messageExpression"), shown, declared, costs)
    if rule.uses_old and unrelated:
        words = "oldSelf cannot be used on the uncorrelatable portion of the schema within"
        yield invalid(Place(where, ".rule"), given["rule"], f"{words} {unrelated}")
    elif not rule.uses_old and given.get("optionalOldSelf") is not None:
        words = "may not be set if oldSelf is not used in rule"
        yield invalid(Place(where, ".optionalOldSelf"), given["optionalOldSelf"], words)


def _check_message(
    rule: Rule, where: Place | str, shown: object, declared: Declared, costs: _Costs
) -> Iterator[Cause]:
    try:
        program = rule.message_program()
    except CompileError as problem:
        yield invalid(where, shown, f"messageExpression compilation failed: {problem}")
        return
    if program is None:
        return
    if program.type != t.STRING:
        yield invalid(where, shown, "messageExpression must evaluate to a string")
        return
    cost = program.estimate(declared.size_of)
    if cost > RULE_LIMIT:
        yield forbidden(where, _too_dear("estimated messageExpression cost", cost, RULE_LIMIT))
    costs.add(where, cost)


def _shown_rule(given: Mapping[str, Any]) -> object:
    """A rule as upstream's messages show it: its internal form."""
    return {
        "Rule": given.get("rule", ""),
        "Message": given.get("message", ""),
        "MessageExpression": given.get("messageExpression", ""),
        "Reason": given.get("reason"),
        "FieldPath": given.get("fieldPath", ""),
        "OptionalOldSelf": given.get("optionalOldSelf"),
    }


def _too_dear(what: str, cost: int, limit: int) -> str:
    ratio = cost / limit
    if ratio > 100:
        shown = "more than 100x"
    else:
        shown = f"{ratio:f}x" if ratio < 1.5 else f"{ratio:.1f}x"
    return (
        f"{what} exceeds budget by factor of {shown} (try simplifying the rule, or adding "
        "maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
