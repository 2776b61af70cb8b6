"""Job and CronJob."""

from __future__ import annotations

import re
import zoneinfo

from bayplan.api.defaults.json_types import Object
from bayplan.api.labels import parse_int64
from bayplan.api.names import dns1123_label, qualified_name
from bayplan.apiserver.validation.causes import (
    Causes,
    allowed,
    duplicate,
    immutable,
    invalid,
    invalid_unshown,
    non_negative,
    not_supported,
    one_of,
    quote,
    repeated,
    required,
    too_long,
    too_many,
)
from bayplan.apiserver.validation.cron import cron_problem
from bayplan.apiserver.validation.formats import check
from bayplan.apiserver.validation.labels import selector_matches, validate_label_selector
from bayplan.apiserver.validation.templates import (
    template_labels,
    validate_counts,
    validate_template,
)

CONTROLLER_LABELS = ("batch.kubernetes.io/controller-uid", "controller-uid")
NAME_LABELS = ("batch.kubernetes.io/job-name", "job-name")
_COUNTS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_TIME_ZONE_PART = re.compile(r"[A-Za-z._0-9+-]{1,14}")
_INDEXED_LIMIT = 100_000
_MOST_SUCCESS_RULES, _MOST_INDEX_TEXT = 20, 64 * 1024
_NOT_INCREASING = "non-increasing order, previous: {}, current: {}"


def validate_job(obj: Object) -> Causes:
    spec, meta = obj["spec"], obj["metadata"]
    causes = _validate_generated_selector(obj)
    causes += _validate_job_spec("spec", spec)
    causes += _validate_job_selector(spec)
    if spec.get("completionMode") == "Indexed" and (spec.get("completions") or 0) > 0:
        hostname = f"{meta.get('name', '')}-{spec['completions'] - 1}"
        if dns1123_label(hostname):
            text = f"will not able to create pod with invalid DNS label: {hostname}"
            causes.append(invalid("metadata.name", meta.get("name", ""), text))
    return causes


def _validate_generated_selector(obj: Object) -> Causes:
    spec, meta = obj["spec"], obj["metadata"]
    if spec.get("manualSelector") or spec.get("selector") is None:
        return []
    labels = template_labels(spec["template"])
    causes: Causes = []
    expected: dict[str, str] = {}
    for keys, value in ((CONTROLLER_LABELS, meta.get("uid", "")), (NAME_LABELS, meta.get("name"))):
        for key in keys:
            expected[key] = value or ""
            path = f"spec.template.metadata.labels[{key}]"
            if key not in labels:
                causes.append(required(path, f"must be '{value}'"))
            elif labels[key] != value:
                causes.append(invalid(path, labels, f"must be '{value}'"))
    usable = not validate_label_selector("", spec["selector"])
    if usable and not selector_matches(spec["selector"], expected):
        text = "`selector` not auto-generated"
        causes.append(invalid("spec.selector", spec["selector"], text))
    return causes


def _validate_job_selector(spec: Object) -> Causes:
    selector, labels = spec.get("selector"), template_labels(spec["template"])
    text = "`selector` does not match template `labels`"
    if selector is None:
        mismatch = invalid("spec.template.metadata.labels", labels, text)
        return [required("spec.selector"), mismatch]
    causes = validate_label_selector("spec.selector", selector)
    if not causes and not selector_matches(selector, labels):
        causes.append(invalid("spec.template.metadata.labels", labels, text))
    return causes


def _validate_job_spec(field: str, spec: Object) -> Causes:
    causes = validate_counts(field, spec, _COUNTS)
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        text = "when maxFailedIndexes is specified"
        causes.append(required(f"{field}.backoffLimitPerIndex", text))
    causes += _validate_managed_by(f"{field}.managedBy", spec.get("managedBy"))
    mode = spec.get("completionMode")
    causes += allowed(f"{field}.completionMode", mode, ("NonIndexed", "Indexed"))
    if mode == "Indexed":
        causes += _validate_indexed(field, spec)
    elif mode in (None, "NonIndexed"):
        for name in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(name) is not None:
                text = "requires indexed completion mode"
                causes.append(invalid(f"{field}.{name}", spec[name], text))
    if spec.get("podFailurePolicy") is not None:
        causes += _validate_failure_policy(f"{field}.podFailurePolicy", spec)
    if spec.get("successPolicy") is not None:
        causes += _validate_success_policy(f"{field}.successPolicy", spec)
    causes += _validate_replacement(f"{field}.podReplacementPolicy", spec)
    causes += validate_template(f"{field}.template", spec.get("template") or {})
    return causes + _validate_restart(f"{field}.template.spec.restartPolicy", spec)


def _validate_managed_by(field: str, name: str | None) -> Causes:
    if name is None:
        return []
    if not name:
        return [required(field)]
    domain, _, path = name.partition("/")
    causes: Causes = []
    if not domain or not path:
        text = 'must be a domain-prefixed path (such as "acme.io/foo")'
        causes.append(invalid(field, name, text))
    if len(name) > 63:
        causes.append(too_long(field, 63))
    return causes


def _validate_indexed(field: str, spec: Object) -> Causes:
    causes: Causes = []
    completions, parallelism = spec.get("completions"), spec.get("parallelism") or 0
    failed = spec.get("maxFailedIndexes")
    if completions is None:
        causes.append(required(f"{field}.completions", "when completion mode is Indexed"))
    if parallelism > _INDEXED_LIMIT:
        text = f"must be less than or equal to {_INDEXED_LIMIT} when completion mode is Indexed"
        causes.append(invalid(f"{field}.parallelism", parallelism, text))
    if failed is not None:
        path = f"{field}.maxFailedIndexes"
        if completions is not None and failed > completions:
            causes.append(invalid(path, failed, "must be less than or equal to completions"))
        if failed > _INDEXED_LIMIT:
            text = f"must be less than or equal to {_INDEXED_LIMIT}"
            causes.append(invalid(path, failed, text))
    return causes


def _validate_replacement(field: str, spec: Object) -> Causes:
    policy = spec.get("podReplacementPolicy")
    if policy is None:
        return []
    failure = spec.get("podFailurePolicy") is not None
    supported = ("Failed",) if failure else ("Failed", "TerminatingOrFailed")
    return [] if policy in supported else [not_supported(field, policy, supported)]


def _validate_restart(field: str, spec: Object) -> Causes:
    policy = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy")
    if policy in (None, "", "Always"):
        return [required(field, 'valid values: "OnFailure", "Never"')]
    if policy not in ("OnFailure", "Never"):
        return [not_supported(field, policy, ("OnFailure", "Never"))]
    if spec.get("podFailurePolicy") is not None and policy != "Never":
        text = 'only "Never" is supported when podFailurePolicy is specified'
        return [invalid(field, policy, text)]
    return []


def _validate_failure_policy(field: str, spec: Object) -> Causes:
    rules = spec["podFailurePolicy"].get("rules") or []
    causes: Causes = [too_many(f"{field}.rules", len(rules), 20)] if len(rules) > 20 else []
    pod = (spec.get("template") or {}).get("spec") or {}
    names = {c.get("name") for k in ("containers", "initContainers") for c in pod.get(k) or ()}
    actions = ("Count", "FailIndex", "FailJob", "Ignore")
    for i, rule in enumerate(rules):
        path, action = f"{field}.rules[{i}]", rule.get("action")
        if action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
            text = "requires the backoffLimitPerIndex to be set"
            causes.append(invalid(f"{path}.action", action, text))
        causes += _word(f"{path}.action", action, actions)
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or []
        if codes is not None:
            causes += _validate_exit_codes(f"{path}.onExitCodes", codes, names)
        for j, pattern in enumerate(conditions):
            where = f"{path}.onPodConditions[{j}]"
            causes += check(f"{where}.type", pattern.get("type", ""), qualified_name)
            states = ("False", "True", "Unknown")
            causes += _word(f"{where}.status", pattern.get("status"), states)
        if codes is not None and conditions:
            text = "specifying both OnExitCodes and OnPodConditions is not supported"
            causes.append(invalid_unshown(path, text))
        elif codes is None and not conditions:
            text = "specifying one of OnExitCodes and OnPodConditions is required"
            causes.append(invalid_unshown(path, text))
    return causes


def _word(field: str, value: object, supported: tuple[str, ...]) -> Causes:
    """As `one_of`, but a missing value is told what there is."""
    if not value:
        return [required(field, "valid values: [" + " ".join(f'"{w}"' for w in supported) + "]")]
    return one_of(field, value, supported)


def _validate_exit_codes(field: str, codes: Object, names: set[str | None]) -> Causes:
    causes = _word(f"{field}.operator", codes.get("operator"), ("In", "NotIn"))
    name, values = codes.get("containerName"), codes.get("values") or []
    if name is not None and name not in names:
        text = "must be one of the container or initContainer names in the pod template"
        causes.append(invalid(f"{field}.containerName", name, text))
    path = f"{field}.values"
    if not values:
        causes.append(invalid(path, values, "at least one value is required"))
    elif len(values) > 255:
        causes.append(too_many(path, len(values), 255))
    again = repeated(values)
    for i, value in enumerate(values):
        if codes.get("operator") == "In" and value == 0:
            causes.append(invalid(f"{path}[{i}]", value, "must not be 0 for the In operator"))
        if i in again:
            causes.append(duplicate(f"{path}[{i}]", value))
    if values != sorted(values):
        causes.append(invalid(path, values, "must be ordered"))
    return causes


def _validate_success_policy(field: str, spec: Object) -> Causes:
    policy = spec["successPolicy"]
    if spec.get("completionMode") != "Indexed":
        return [invalid(field, policy, "requires indexed completion mode")]
    rules = policy.get("rules") or []
    if not rules:
        text = "at least one rules must be specified when the successPolicy is specified"
        return [required(f"{field}.rules", text)]
    causes: Causes = []
    if len(rules) > _MOST_SUCCESS_RULES:
        causes.append(too_many(f"{field}.rules", len(rules), _MOST_SUCCESS_RULES))
    for i, rule in enumerate(rules):
        path, count = f"{field}.rules[{i}]", rule.get("succeededCount")
        if count is None and rule.get("succeededIndexes") is None:
            text = "at least one of succeededCount or succeededIndexes must be specified"
            causes.append(required(path, text))
        causes += non_negative(f"{path}.succeededCount", count)
        completions = spec.get("completions") or 0
        if count is not None and count > completions:
            text = f"must be less than or equal to {completions} "
            text += "(the number of specified completions)"
            causes.append(invalid(f"{path}.succeededCount", count, text))
        if (text := rule.get("succeededIndexes")) is not None:
            causes += _validate_succeeded_indexes(path, text, count, completions)
    return causes


def _validate_succeeded_indexes(
    path: str, text: str, count: int | None, completions: int
) -> Causes:
    field, causes, total = f"{path}.succeededIndexes", Causes(), 0
    if len(text.encode()) > _MOST_INDEX_TEXT:
        causes.append(too_long(field, _MOST_INDEX_TEXT))
    try:
        total = _total_of_indexes(text, completions)
    except ValueError as error:
        causes.append(invalid(field, text, f"error parsing succeededIndexes: {error}"))
    if count is not None and count > total:
        text = f"must be less than or equal to {total} "
        text += "(the number of indexes in the specified succeededIndexes field)"
        causes.append(invalid(f"{path}.succeededCount", count, text))
    return causes


def _total_of_indexes(text: str, completions: int) -> int:
    """Return how many indexes `0-2,5` names. Raises ValueError in upstream's words."""
    total, before = 0, -1
    for part in text.split(",") if text else ():
        first, last = _interval(part, completions)
        if before >= first:
            raise ValueError(_NOT_INCREASING.format(before, first))
        total, before = total + last - first + 1, last
    return total


def _interval(part: str, completions: int) -> tuple[int, int]:
    ends = part.split("-")
    if len(ends) > 2:
        text = "violates the requirement that an index interval can have at most two parts"
        raise ValueError(f"the fragment {quote(part)} {text} separated by '-'")
    numbers = []
    for end in ends:
        number = parse_int64(end)
        if number is None:
            raise ValueError(f"cannot convert string to integer for index: {quote(end)}")
        if number >= completions:
            raise ValueError(f"too large index: {quote(end)}")
        numbers.append(number)
    if len(numbers) == 2 and numbers[0] >= numbers[1]:
        raise ValueError(_NOT_INCREASING.format(*numbers))
    return numbers[0], numbers[-1]


def validate_job_update(obj: Object, old: Object) -> Causes:
    spec, before = obj["spec"], old["spec"]
    causes = _validate_job_spec("spec", spec) + _validate_job_selector(spec)
    completions = spec.get("completions")
    if spec.get("completionMode") != "Indexed":
        causes += immutable("spec.completions", completions, before.get("completions"))
    elif completions not in (None, before.get("completions"), spec.get("parallelism")):
        text = "can only be modified in tandem with spec.parallelism"
        causes.append(invalid("spec.completions", completions, text))
    causes += immutable("spec.selector", spec.get("selector"), before.get("selector"))
    causes += _validate_template_update(spec, old)
    for name in (
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ):
        causes += immutable(f"spec.{name}", spec.get(name), before.get(name))
    return causes


def _validate_template_update(spec: Object, old: Object) -> Causes:
    """A suspended job that never started may still be steered to other nodes."""
    before = old["spec"]
    template, old_template = spec.get("template") or {}, before.get("template") or {}
    if template == old_template:
        return []
    started = (old.get("status") or {}).get("startTime") is not None
    if not before.get("suspend") or started:
        return [invalid("spec.template", template, "field is immutable")]
    pod, old_pod = dict(template.get("spec") or {}), dict(old_template.get("spec") or {})
    for name in ("nodeSelector", "tolerations", "schedulingGates"):
        pod.pop(name, None)
        old_pod.pop(name, None)
    for holder in (pod, old_pod):
        affinity = dict(holder.pop("affinity", None) or {})
        affinity.pop("nodeAffinity", None)
        if affinity:
            holder["affinity"] = affinity
        for kind in ("containers", "initContainers"):
            if kind in holder:
                holder[kind] = [
                    {k: v for k, v in c.items() if k != "resources"} for c in holder[kind]
                ]
    return immutable("spec.template.spec", pod, old_pod)


def validate_job_status(obj: Object, old: Object) -> Causes:
    status, before = obj.get("status") or {}, old.get("status") or {}
    causes = validate_counts(
        "status", status, ("active", "succeeded", "failed", "ready", "terminating")
    )
    ready = status.get("ready")
    if ready is not None and ready > status.get("active", 0):
        text = "cannot set more ready pods than active"
        causes.append(invalid("status.ready", ready, text))
    for name in ("failed", "succeeded"):
        if status.get(name, 0) < before.get(name, 0):
            text = f"cannot decrease the {name} counter"
            causes.append(invalid(f"status.{name}", status.get(name, 0), text))
    return causes


def validate_cron_job(obj: Object) -> Causes:
    causes = _validate_cron_spec(obj["spec"], None)
    name = obj["metadata"].get("name", "")
    if len(name) > 52:
        causes.append(invalid("metadata.name", name, "must be no more than 52 characters"))
    return causes


def validate_cron_job_update(obj: Object, old: Object) -> Causes:
    return _validate_cron_spec(obj["spec"], old["spec"])


def _validate_cron_spec(spec: Object, old: Object | None) -> Causes:
    causes: Causes = []
    schedule, zone = spec.get("schedule"), spec.get("timeZone")
    if not schedule:
        causes.append(required("spec.schedule"))
    else:
        problem = cron_problem(schedule)
        if problem:
            causes.append(invalid("spec.schedule", schedule, problem))
        if "TZ" in schedule and (old is None or "TZ" not in old.get("schedule", "")):
            text = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
            causes.append(invalid("spec.schedule", schedule, text))
    limits = (
        "startingDeadlineSeconds",
        "successfulJobsHistoryLimit",
        "failedJobsHistoryLimit",
    )
    causes += validate_counts("spec", spec, limits)
    if zone is not None and (old is None or old.get("timeZone") != zone):
        causes += _validate_time_zone(zone)
    policies = ("Allow", "Forbid", "Replace")
    causes += one_of("spec.concurrencyPolicy", spec.get("concurrencyPolicy"), policies)
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    causes += _validate_job_spec("spec.jobTemplate.spec", job)
    if job.get("selector") is not None:
        text = "`selector` will be auto-generated"
        causes.append(invalid("spec.jobTemplate.spec.selector", job["selector"], text))
    if job.get("manualSelector"):
        path = "spec.jobTemplate.spec.manualSelector"
        causes.append(not_supported(path, True, ("nil", "false")))
    return causes


def _validate_time_zone(zone: str) -> Causes:
    field = "spec.timeZone"
    if not zone:
        return [invalid(field, zone, "timeZone must be nil or non-empty string")]
    parts = zone.split("/")
    if any(p in (".", "..") or p[:1] == "-" or not _TIME_ZONE_PART.fullmatch(p) for p in parts):
        return [invalid(field, zone, f"unknown time zone {zone}")]
    if zone.lower() == "local":
        text = "timeZone must be an explicit time zone as defined in "
        return [invalid(field, zone, f"{text}https://www.iana.org/time-zones")]
    try:
        zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return [invalid(field, zone, f"unknown time zone {zone}")]
    return []
