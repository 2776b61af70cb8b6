"""Pod templates, replica counts and rollout numbers, shared by the kinds that make pods."""

from __future__ import annotations

from bayplan.api.defaults.json_types import Object
from bayplan.apiserver.validation.causes import (
    Causes,
    forbidden,
    invalid,
    known,
    non_negative,
    required,
)
from bayplan.apiserver.validation.formats import percent
from bayplan.apiserver.validation.labels import (
    is_empty_selector,
    selector_matches,
    validate_annotations,
    validate_label_selector,
    validate_labels,
)
from bayplan.apiserver.validation.pod_spec import validate_pod_spec

IntOrString = int | str
_MISMATCH = "`selector` does not match template `labels`"


def template_labels(template: Object) -> dict[str, str]:
    labels: dict[str, str] = (template.get("metadata") or {}).get("labels") or {}
    return labels


def validate_template(field: str, template: Object) -> Causes:
    """Validate metadata and spec of a pod template."""
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    causes = validate_labels(f"{field}.labels", meta.get("labels"))
    causes += validate_annotations(f"{field}.annotations", meta.get("annotations"))
    causes += validate_pod_spec(f"{field}.spec", spec, is_pod=False)
    if spec.get("ephemeralContainers"):
        text = "ephemeral containers not allowed in pod template"
        causes.append(forbidden(f"{field}.spec.ephemeralContainers", text))
    return causes


def validate_running_template(template: Object, kind: str) -> Causes:
    """Demand what pods that are kept running need: restart Always, no deadline."""
    spec = template.get("spec") or {}
    path = "spec.template.spec"
    causes = known(f"{path}.restartPolicy", spec.get("restartPolicy"), ("Always",))
    if spec.get("activeDeadlineSeconds") is not None:
        text = f"activeDeadlineSeconds in {kind} is not Supported"
        causes.append(forbidden(f"{path}.activeDeadlineSeconds", text))
    return causes


def validate_selector(spec: Object, kind: str, note: str = "invalid label selector") -> Causes:
    """Validate `spec.selector` and that the template's labels match it.

    The last cause is for `spec.selector` as a whole if it cannot be used; the template is not
    looked at then (`is_usable`).
    """
    selector = spec.get("selector")
    labels = template_labels(spec.get("template") or {})
    if selector is None:  # a missing selector matches nothing
        mismatch = invalid("spec.template.metadata.labels", labels or None, _MISMATCH)
        return [required("spec.selector"), mismatch]
    causes = validate_label_selector("spec.selector", selector)
    if is_empty_selector(selector):
        text = f"empty selector is invalid for {kind}"
        return [*causes, invalid("spec.selector", selector, text)]
    if causes:
        return [*causes, invalid("spec.selector", selector, note)]
    if not selector_matches(selector, labels):
        causes.append(invalid("spec.template.metadata.labels", labels or None, _MISMATCH))
    return causes


def is_usable(selector: Object | None) -> bool:
    """Say whether a selector can be matched at all (a missing one matches nothing)."""
    return not validate_label_selector("", selector)


def int_or_percent(field: str, value: IntOrString) -> Causes:
    if isinstance(value, str):
        return [invalid(field, value, problem) for problem in percent(value)]
    return non_negative(field, value)


def at_most_100_percent(field: str, value: IntOrString) -> Causes:
    if isinstance(value, str) and not percent(value) and int(value[:-1]) > 100:
        return [invalid(field, value, "must not be greater than 100%")]
    return []


def number_of(value: IntOrString) -> int:
    """Return the number or the percentage; text that is neither counts as zero."""
    if isinstance(value, int):
        return value
    return 0 if percent(value) else int(value[:-1])


def validate_counts(field: str, holder: Object, names: tuple[str, ...]) -> Causes:
    causes: Causes = []
    for name in names:
        causes += non_negative(f"{field}.{name}", holder.get(name))
    return causes


def validate_not_above_replicas(status: Object, names: tuple[str, ...]) -> Causes:
    """Demand that no count of a status is larger than that of all replicas."""
    causes: Causes = []
    limit = status.get("replicas", 0)
    for name in names:
        if status.get(name, 0) > limit:
            text = "cannot be greater than status.replicas"
            causes.append(invalid(f"status.{name}", status.get(name, 0), text))
    return causes
