"""Labels, label selectors and annotations."""

from __future__ import annotations

from bayplan.api.defaults.json_types import Object
from bayplan.api.names import label_value, qualified_name
from bayplan.apiserver.validation.causes import Causes, forbidden, invalid, required, too_long
from bayplan.apiserver.validation.formats import check

_ANNOTATIONS_LIMIT_BYTES = 256 * 1024


def validate_label_name(field: str, name: str) -> Causes:
    return check(field, name, qualified_name)


def validate_labels(field: str, labels: dict[str, str] | None) -> Causes:
    if not labels:
        return []
    causes: Causes = []
    for key, value in labels.items():
        problems = qualified_name(key)
        if problems:
            causes += [invalid(field, key, problem) for problem in problems]
        problems = label_value(value)
        if problems:
            causes += [invalid(field, value, problem) for problem in problems]
    return causes


def validate_annotations(field: str, annotations: dict[str, str] | None) -> Causes:
    if not annotations:
        return []
    causes: Causes = []
    size = 0
    for key, value in annotations.items():
        causes += [invalid(field, key, problem) for problem in qualified_name(key.lower())]
        size += len(key) + len(value)
    if size * 4 > _ANNOTATIONS_LIMIT_BYTES:  # only then can the UTF-8 form be too long
        size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
        if size > _ANNOTATIONS_LIMIT_BYTES:
            causes.append(too_long(field, _ANNOTATIONS_LIMIT_BYTES))
    return causes


def validate_label_selector(field: str, selector: Object | None) -> Causes:
    if not selector:
        return []
    causes = validate_labels(f"{field}.matchLabels", selector.get("matchLabels"))
    for i, expression in enumerate(selector.get("matchExpressions") or ()):
        causes += _validate_expression(f"{field}.matchExpressions[{i}]", expression)
    return causes


def _validate_expression(field: str, expression: Object) -> Causes:
    operator = expression.get("operator", "")
    values = expression.get("values") or []
    causes = validate_values(field, operator, values)
    if causes is None:
        causes = [invalid(f"{field}.operator", operator, "not a valid selector operator")]
    causes += validate_label_name(f"{field}.key", expression.get("key", ""))
    for i, value in enumerate(values):
        causes += check(f"{field}.values[{i}]", value, label_value)
    return causes


def validate_values(field: str, operator: str, values: list[str]) -> Causes | None:
    """Whether an operator has values that needs them; None if it is not one of sets."""
    if operator in ("In", "NotIn"):
        text = "must be specified when `operator` is 'In' or 'NotIn'"
        return [] if values else [required(f"{field}.values", text)]
    if operator in ("Exists", "DoesNotExist"):
        text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        return [forbidden(f"{field}.values", text)] if values else []
    return None


def is_empty_selector(selector: Object | None) -> bool:
    """Say whether a selector has no requirement at all."""
    if not selector:
        return True
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


def selector_matches(selector: Object, labels: dict[str, str]) -> bool:
    """Match a valid label selector against labels."""
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    for expression in selector.get("matchExpressions") or ():
        if not _expression_matches(expression, labels):
            return False
    return True


def _expression_matches(expression: Object, labels: dict[str, str]) -> bool:
    key, operator = expression.get("key", ""), expression.get("operator")
    values = expression.get("values") or ()
    if operator == "In":
        return key in labels and labels[key] in values
    if operator == "NotIn":
        return key not in labels or labels[key] not in values
    return (key in labels) == (operator == "Exists")
