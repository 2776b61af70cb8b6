"""InterPodAffinity: which term, which pods it means and where they are, in both directions."""

from __future__ import annotations

import difflib
from collections import Counter
from typing import Any

from bayplan.api import Namespace, Pod, PodAffinityTerm, plain
from bayplan.api.labels import Requirement, Selector
from bayplan.cluster.arrays import IntArray
from bayplan.cluster.info import AffinityTerm
from bayplan.framework import Status
from bayplan.inspect.amounts import listed
from bayplan.inspect.step import Step, remove, set_to
from bayplan.inspect.why.case import Case
from bayplan.plugins.inter_pod_affinity.required import (
    REASON_AFFINITY,
    REASON_ANTI,
    REASON_EXISTING,
)
from bayplan.words import plural

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def facts(case: Case, status: Status, rows: IntArray) -> list[str]:
    if REASON_AFFINITY in status.all_reasons:
        return [_near_fact(case, term, rows) for term in case.info.traits.required_affinity]
    if REASON_ANTI in status.all_reasons:
        return [_far_fact(case, term) for term in case.info.traits.required_anti_affinity]
    return _existing_facts(case, rows)


def _near_fact(case: Case, term: AffinityTerm, rows: IntArray) -> str:
    pods = case.index.meant(term)
    text = f"must share {term.topology_key} with a pod {selector_text(term.selector)}"
    unlabelled = sum(1 for row in rows.tolist()
                     if term.topology_key not in case.table.nodes[row].labels)  # fmt: skip
    missing = f"; {plural(unlabelled, 'node')} of these lack that label" if unlabelled else ""
    if not pods:
        return f"{text}: no placed pod matches{_nearest(case, term.selector)}{missing}"
    domains = _domains(case, pods, term.topology_key)
    shown = listed([f"{value} ({count})" for value, count in domains.most_common()], 3)
    return f"{text}: {_match(pods)}, in {shown}{missing}"


def _far_fact(case: Case, term: AffinityTerm) -> str:
    pods = case.index.meant(term)
    domains = _domains(case, pods, term.topology_key)
    text = f"must not share {term.topology_key} with a pod {selector_text(term.selector)}"
    all_values = {node.labels.get(term.topology_key) for node in case.table.nodes} - {None}
    everywhere = len(domains) == len(all_values)
    where = "everywhere" if everywhere else f"in {len(domains)} of {len(all_values)} values"
    example = f", such as {pods[0].key} on {pods[0].spec.node_name}" if pods else ""
    return f"{text}: {_match(pods)}, {where}{example}"


def _existing_facts(case: Case, rows: IntArray) -> list[str]:
    blocking = [pod for row in rows[:2000].tolist() for pod in _against(case, row)]
    seen = list({pod.key: pod for pod in blocking}.values())
    if not seen:
        return []
    first = seen[0]
    term = _terms_about(case, first)[0]
    return [
        f"{plural(len(seen), 'pod')} placed there {'refuses' if len(seen) == 1 else 'refuse'} "
        f"to share {term.topology_key} with it, "
        f"such as {first.key} on {first.spec.node_name} "
        f"(its anti-affinity means pods {selector_text(term.selector)})"
    ]


def _match(pods: list[Pod]) -> str:
    return f"{plural(len(pods), 'pod')} {'matches' if len(pods) == 1 else 'match'}"


def _against(case: Case, row: int) -> list[Pod]:
    """Placed pods whose own anti-affinity keeps the pod off this node."""
    labels = case.table.nodes[row].labels
    found = []
    for key, others in _with_terms(case).items():
        if key not in labels:
            continue
        found += [pod for pod, value in others if value == labels[key]]
    return found


def _with_terms(case: Case) -> dict[str, list[tuple[Pod, str]]]:
    """By topology key: placed pods with a term that means this pod, and their domain."""
    kept: dict[str, list[tuple[Pod, str]]] | None = case.notes.get("affinity")
    if kept is not None:
        return kept
    found: dict[str, list[tuple[Pod, str]]] = {}
    for pod in case.cluster.pods.values():
        if pod.spec.affinity is None or not pod.spec.node_name or pod.finished:
            continue
        for term in _terms_about(case, pod):
            row = case.table.row_of(pod.spec.node_name)
            value = None if row is None else case.table.nodes[row].labels.get(term.topology_key)
            if value is not None:
                found.setdefault(term.topology_key, []).append((pod, value))
    case.notes["affinity"] = found
    return found


def _terms_about(case: Case, other: Pod) -> list[AffinityTerm]:
    """The required anti-affinity terms of a placed pod that mean this one."""
    traits = case.cluster.engine.cache.infos.make(other).traits
    namespace = case.cluster.of(Namespace).get(case.pod.namespace)
    labels = {} if namespace is None else namespace.labels
    return [
        term
        for term in traits.required_anti_affinity
        if term.matches(case.pod.namespace, case.pod.labels, labels)
    ]


def lacks(case: Case, row: int) -> str:
    status = case.status("InterPodAffinity", row)
    labels = case.table.nodes[row].labels
    reasons = () if status is None else status.all_reasons
    if REASON_EXISTING in reasons:
        pods = _against(case, row)
        who = pods[0].key if pods else "a pod there"
        return f"{who} refuses to be near it (its own anti-affinity)"
    if REASON_ANTI in reasons:
        for term in case.info.traits.required_anti_affinity:
            near = [p for p in case.index.meant(term) if _same(case, p, term.topology_key, labels)]
            if near:
                where = f"{term.topology_key}={labels.get(term.topology_key)}"
                return f"{near[0].key} is in {where} and it must not be near"
        return "a pod that it must not be near is there"
    term = case.info.traits.required_affinity[0]
    where = f"{term.topology_key}={labels.get(term.topology_key, '(no such label)')}"
    return f"no pod {selector_text(term.selector)} in {where}"


def _same(case: Case, pod: Pod, key: str, labels: dict[str, str]) -> bool:
    row = case.table.row_of(pod.spec.node_name)
    return row is not None and key in labels and (
        case.table.nodes[row].labels.get(key) == labels[key]
    )  # fmt: skip


def steps(case: Case, row: int) -> list[Step]:
    """Make the pod's own required terms preferred."""
    status = case.status("InterPodAffinity", row)
    reasons = () if status is None else status.all_reasons
    affinity = case.pod.spec.affinity
    if affinity is None or REASON_EXISTING in reasons:
        return []
    field, own = "podAffinity", affinity.pod_affinity
    if REASON_ANTI in reasons:
        field, own = "podAntiAffinity", affinity.pod_anti_affinity
    if own is None:
        return []
    soft: list[dict[str, Any]] = [plain(item) for item in own.preferred]
    soft += [{"weight": 100, "podAffinityTerm": plain(term)} for term in own.required]
    ops = (
        set_to(soft, "spec", "affinity", field, PREFERRED),
        remove("spec", "affinity", field, REQUIRED),
    )
    name = "anti-affinity" if field == "podAntiAffinity" else "affinity"
    what = " and ".join(_term_text(term) for term in own.required)
    text = f"make the pod {name} {what} preferred, not required"
    return [Step(text, 28, f"soft {name}", ops)]


def _term_text(term: PodAffinityTerm) -> str:
    labels = term.label_selector.match_labels if term.label_selector is not None else {}
    shown = ", ".join(f"{key}={value}" for key, value in labels.items())
    return f"({shown} by {term.topology_key})" if shown else f"(by {term.topology_key})"


def selector_text(selector: Selector) -> str:
    """What a selector asks, as kubectl's `-l` would."""
    if selector.empty:
        return "of any label"
    return f"with {', '.join(_requirement_text(item) for item in selector.requirements)}"


def _requirement_text(item: Requirement) -> str:
    if item.operator == "In" and len(item.values) == 1:
        return f"{item.key}={item.values[0]}"
    if item.operator in ("Exists", "DoesNotExist"):
        return item.key if item.operator == "Exists" else f"!{item.key}"
    return f"{item.key} {item.operator.lower()} ({', '.join(item.values)})"


def _nearest(case: Case, selector: Selector) -> str:
    for item in selector.requirements:
        values = case.index.label_values(item.key, case.pod.namespace)
        if not values:
            keys = sorted(case.index.label_keys(case.pod.namespace))
            near = difflib.get_close_matches(item.key, keys, n=1, cutoff=0.6)
            return f"; the nearest label there is {near[0]}" if near else ""
        for value in item.values:
            near = difflib.get_close_matches(value, list(values), n=1, cutoff=0.5)
            if near and value not in values:
                return f"; the nearest is {item.key}={near[0]}"
    return ""


def _domains(case: Case, pods: list[Pod], key: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for pod in pods:
        row = case.table.row_of(pod.spec.node_name)
        value = None if row is None else case.table.nodes[row].labels.get(key)
        if value is not None:
            found[value] += 1
    return found
