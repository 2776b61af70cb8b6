"""NodeAffinity and NodeName: the key and value that match nothing, and the nearest that exists."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

import numpy as np
from msgspec.structs import replace

from bayplan.api import NodeSelectorRequirement, NodeSelectorTerm, Pod, plain
from bayplan.api.labels import IN, Requirement, requirement
from bayplan.cluster.arrays import IntArray
from bayplan.cluster.selection import requirement_mask
from bayplan.errors import DecodeError
from bayplan.framework import Status
from bayplan.inspect.amounts import listed
from bayplan.inspect.step import Step, pointer, remove, set_to
from bayplan.inspect.why.case import Case
from bayplan.words import plural

AFFINITY = ("spec", "affinity", "nodeAffinity")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def wanted(pod: Pod) -> list[tuple[str, Requirement]]:
    """What the pod requires of labels, each with the words for it; terms are alternatives."""
    found = [
        (f"{key}={value}", Requirement(key, IN, (value,)))
        for key, value in sorted((pod.spec.node_selector or {}).items())
    ]
    for term in terms_of(pod):
        for item in term.match_expressions:
            try:
                found.append((written(item), requirement(item.key, item.operator, item.values)))
            except DecodeError:
                continue
    return found


def terms_of(pod: Pod) -> Sequence[NodeSelectorTerm]:
    affinity = pod.spec.affinity
    node = None if affinity is None else affinity.node_affinity
    required = None if node is None else node.required
    return () if required is None else required.node_selector_terms


def written(item: NodeSelectorRequirement) -> str:
    """`zone in (a, b)`, `disk exists`."""
    if item.operator in ("Exists", "DoesNotExist"):
        return f"{item.key} {'exists' if item.operator == 'Exists' else 'does not exist'}"
    sign = {"In": "in", "NotIn": "not in", "Gt": ">", "Lt": "<"}.get(item.operator, item.operator)
    values = ", ".join(item.values)
    return f"{item.key} {sign} {values}" if sign in "<>" else f"{item.key} {sign} ({values})"


def facts(case: Case, status: Status, rows: IntArray) -> list[str]:
    found, matched = [], []
    for text, item in wanted(case.pod):
        mask = requirement_mask(case.table, item)
        inside = int(mask[rows].sum())
        if not mask.any():
            found.append(_nothing(case, text, item))
        elif inside < len(rows):
            total = int(mask.sum())
            where = listed(_where(case, mask.nonzero()[0]), 2)
            matched.append(f"{text}: {plural(total, 'node')} of {case.table.count:,} ({where})")
    for term in terms_of(case.pod):
        for field in term.match_fields:
            name = (field.values or ("",))[0]
            known = "" if case.table.row_of(name) is not None else ", which does not exist"
            found.append(f"asks for the node {name} by name{known}")
    if not found and len(matched) > 1 and case.failures.min(initial=1) > 0:
        matched.append("each is met somewhere, but no node of these meets all of them")
    return found + matched


def _where(case: Case, rows: IntArray) -> list[str]:
    return [case.name(row) for row in rows[:3].tolist()] + [""] * max(0, len(rows) - 3)


def _nothing(case: Case, text: str, item: Requirement) -> str:
    values = _values(case, item.key)
    if not values:
        keys = difflib.get_close_matches(item.key, _keys(case), n=1, cutoff=0.6)
        hint = f"; the nearest label is {keys[0]}" if keys else ""
        return f"{text}: no node has the label {item.key}{hint}"
    near = _nearest(item, values)
    counts = f"values there: {listed(sorted(set(values)), 4)}"
    hint = f"; the nearest is {near}" if near else ""
    return f"{text}: no node has that value{hint} ({counts})"


def _nearest(item: Requirement, values: Sequence[str]) -> str:
    for value in item.values:
        near = difflib.get_close_matches(value, list(values), n=1, cutoff=0.5)
        if near:
            return near[0]
    return ""


def _values(case: Case, key: str) -> list[str]:
    """Return the values that nodes have; the table's list also has those that only a trial had."""
    values = case.table.label_values(key)
    used = np.unique(case.table.label_codes(key)).tolist()
    return [values[code] for code in used if code >= 0 and values[code]]


def _keys(case: Case) -> list[str]:
    return sorted({key for node in case.table.nodes[:500] for key in node.labels})


def lacks(case: Case, row: int) -> str:
    labels = case.table.nodes[row].labels
    parts = []
    for text, item in wanted(case.pod):
        if not item.matches(labels):
            has = labels.get(item.key)
            parts.append(f"{text} ({'has ' + has if has is not None else 'has no such label'})")
    if not parts:
        return "its name is not the one asked for"
    joined = " or ".join(parts) if len(terms_of(case.pod)) > 1 else ", ".join(parts)
    return f"does not match {joined}"


def steps(case: Case, row: int) -> list[Step]:
    return [
        *_selector_steps(case, row),
        *_spelt_steps(case, row),
        *_affinity_steps(case, row),
        *_label_steps(case, row),
    ]


def _selector_steps(case: Case, row: int) -> list[Step]:
    labels = case.table.nodes[row].labels
    selector = case.pod.spec.node_selector or {}
    wrong = {key: value for key, value in selector.items() if labels.get(key) != value}
    if not wrong:
        return []
    found = _renamed(labels, wrong)
    if all(key in labels for key in wrong):
        texts = [f"{key}={value} to {key}={labels[key]}" for key, value in wrong.items()]
        ops = [set_to(labels[key], "spec", "nodeSelector", key) for key in wrong]
        near = len(wrong) == 1 and all(
            _nearest(Requirement(key, IN, (value,)), _values(case, key)) == labels[key]
            for key, value in wrong.items()
        )
        text = f"change the node selector {' and '.join(texts)}"
        found.append(Step(text, 20 if near else 32, "select other", tuple(ops)))
    shown = " and ".join(f"{key}={value}" for key, value in wrong.items())
    ops = [remove("spec", "nodeSelector", key) for key in wrong]
    text = f"remove {shown} from the node selector"
    found.append(Step(text, 30, "select less", tuple(ops)))
    return found


def _renamed(labels: dict[str, str], wrong: dict[str, str]) -> list[Step]:
    """Where a key looks misspelt: the nearest label that the node has."""
    if len(wrong) != 1:
        return []
    ((key, value),) = wrong.items()
    near = _near_key(key, labels)
    if not near:
        return []
    ops = (remove("spec", "nodeSelector", key), set_to(labels[near], "spec", "nodeSelector", near))
    text = f"change the node selector {key}={value} to {near}={labels[near]}"
    return [Step(text, 20 if labels[near] == value else 33, "select other", ops)]


def _near_key(key: str, labels: Iterable[str]) -> str:
    """The label that a key which no node has may mean."""
    near = difflib.get_close_matches(key, list(labels), n=1, cutoff=0.6)
    return near[0] if near and near[0] != key else ""


def _spelt_steps(case: Case, row: int) -> list[Step]:
    """Where one expression of the only term is in the way: the nearest label, or value, instead."""
    labels, terms = case.table.nodes[row].labels, terms_of(case.pod)
    if len(terms) != 1:
        return []
    wrong = [
        (number, item)
        for number, item in enumerate(terms[0].match_expressions)
        if not requirement(item.key, item.operator, item.values).matches(labels)
    ]
    if len(wrong) != 1 or wrong[0][1].operator != "In":
        return []
    ((number, item),) = wrong
    key = item.key if item.key in labels else _near_key(item.key, labels)
    if not key:
        return []
    same = labels[key] in item.values
    near = same or difflib.get_close_matches(labels[key], item.values, n=1, cutoff=0.5)
    path = (*AFFINITY, REQUIRED, "nodeSelectorTerms", 0, "matchExpressions", number)
    changed = replace(item, key=key, values=item.values if same else (labels[key],))
    text = f"change the node affinity {written(item)} to {written(changed)}"
    op = {"op": "replace", "path": pointer(*path), "value": plain(changed)}
    return [Step(text, 20 if near else 33, "affinity to other", (op,))]


def _affinity_steps(case: Case, row: int) -> list[Step]:
    terms = terms_of(case.pod)
    node = case.table.nodes[row]
    if not terms or any(_met(term, node.labels, node.name) for term in terms):
        return []
    preferred = [
        {"weight": 100, "preference": plain(term)} for term in terms if term.match_expressions
    ]
    ops = [remove(*AFFINITY, REQUIRED)]
    if preferred:
        affinity = case.pod.spec.affinity
        before = affinity.node_affinity.preferred if affinity and affinity.node_affinity else None
        ops.append(set_to(preferred + [plain(item) for item in before or ()], *AFFINITY, PREFERRED))
    shown = " or ".join(
        " and ".join(written(item) for item in (*term.match_expressions, *term.match_fields))
        for term in terms
    )
    text = f"make the node affinity {shown} preferred, not required"
    return [Step(text, 28, "soft node affinity", tuple(ops))]


def _met(term: NodeSelectorTerm, labels: dict[str, str], name: str) -> bool:
    fields = all(name in item.values for item in term.match_fields if item.operator == "In")
    return fields and all(
        requirement(item.key, item.operator, item.values).matches(labels)
        for item in term.match_expressions
    )


def _label_steps(case: Case, row: int) -> list[Step]:
    """Give the node the labels that the selector and the first term ask for."""
    node = case.table.nodes[row]
    labels = dict(node.labels)
    labels.update(case.pod.spec.node_selector or {})
    for term in terms_of(case.pod)[:1]:
        for item in term.match_expressions:
            if requirement(item.key, item.operator, item.values).matches(labels):
                continue
            if item.operator not in ("In", "Exists"):
                return []
            labels[item.key] = item.values[0] if item.values else "true"
    added = {key: value for key, value in labels.items() if node.labels.get(key) != value}
    fixed = ("kubernetes.io/", "k8s.io/")
    if not added or any(part in key for key in added for part in fixed):
        return []  # topology, names and architecture are facts about a node, not choices
    shown = " ".join(f"{key}={value}" for key, value in added.items())
    command = f"kubectl label node {node.name} {shown} --overwrite"
    changed = replace(node, metadata=replace(node.metadata, labels=labels))
    cost = 40 if any(key in node.labels for key in added) else 35
    text = f"label {node.name} with {shown}"
    return [Step(text, cost, "label", put=(changed,), commands=(command,))]


def name_facts(case: Case, status: Status, rows: IntArray) -> list[str]:
    name = case.pod.spec.node_name
    return [f"asks for the node {name} by name"] if name else []


def name_lacks(case: Case, row: int) -> str:
    return f"the pod asks for node {case.pod.spec.node_name}"
