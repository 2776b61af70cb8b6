"""Which rows of a table do compiled node selectors match, worked out on label codes.

A requirement is decided once per distinct value of its label; the rest is one gather. The scalar
counterparts are the `matches` methods of `bayplan.api.node_selectors` and `bayplan.api.labels`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bayplan.api import Pod, Toleration
from bayplan.api.labels import DOES_NOT_EXIST, EXISTS, IN, NOT_IN, Requirement
from bayplan.api.node_selectors import (
    NAME_FIELD,
    CompiledNodeSelector,
    FieldRequirement,
    Term,
    compile_node_selector,
)
from bayplan.api.taints import first_untolerated
from bayplan.cluster.arrays import BoolArray
from bayplan.cluster.info import NodeInfo
from bayplan.cluster.nodes import Nodes


def requirement_mask(nodes: Nodes, requirement: Requirement) -> BoolArray:
    """Rows whose label satisfies a requirement."""
    codes = nodes.label_codes(requirement.key)
    column = nodes.table.label_column(requirement.key)
    size = len(column.values)
    operator = requirement.operator
    accepted = np.zeros(size + 1, dtype=bool)  # (values + 1,): the last stands for "no label"
    if operator in (IN, NOT_IN):
        negated = operator == NOT_IN
        accepted[:] = negated
        for value in requirement.values:
            code = column.code_of(value)
            if code >= 0:
                accepted[code] = not negated
    elif operator in (EXISTS, DOES_NOT_EXIST):
        accepted[:size] = operator == EXISTS
        accepted[size] = operator == DOES_NOT_EXIST
    else:
        key = requirement.key
        accepted[:size] = [requirement.matches({key: value}) for value in column.values]
    return accepted[codes]


def field_mask(nodes: Nodes, field: FieldRequirement) -> BoolArray:
    """Rows whose field satisfies a requirement; only the name has a value."""
    wanted = field.operator == IN
    if field.key != NAME_FIELD:
        return np.full(nodes.count, (field.value == "") == wanted)
    row = nodes.table.row_of(field.value)
    if row is None:
        return np.full(nodes.count, not wanted)
    same: BoolArray = nodes.rows == row
    return same if wanted else ~same


def term_mask(nodes: Nodes, term: Term) -> BoolArray:
    """Rows that satisfy every requirement of a term; none if it has no requirement."""
    if term.empty:
        return np.zeros(nodes.count, dtype=bool)
    mask = np.ones(nodes.count, dtype=bool)
    for requirement in term.labels:
        mask &= requirement_mask(nodes, requirement)
    for field in term.fields:
        mask &= field_mask(nodes, field)
    return mask


def selector_mask(nodes: Nodes, selector: CompiledNodeSelector) -> BoolArray:
    """Rows that satisfy one of the terms."""
    mask = np.zeros(nodes.count, dtype=bool)
    for term in selector.terms:
        mask |= term_mask(nodes, term)
    return mask


def map_mask(nodes: Nodes, labels: Mapping[str, str]) -> BoolArray:
    """Rows that have all these labels."""
    mask = np.ones(nodes.count, dtype=bool)
    for key, value in labels.items():
        mask &= requirement_mask(nodes, Requirement(key, IN, (value,)))
    return mask


class RequiredNodes:
    """What a pod requires of its node: `nodeSelector` and required node affinity, compiled."""

    __slots__ = ("labels", "selector", "unrestricted")

    def __init__(self, pod: Pod) -> None:
        spec = pod.spec
        affinity = spec.affinity.node_affinity if spec.affinity is not None else None
        required = affinity.required if affinity is not None else None
        self.labels = spec.node_selector or {}
        self.selector = None if required is None else compile_node_selector(required)
        self.unrestricted = not self.labels and self.selector is None

    def mask(self, nodes: Nodes) -> BoolArray:
        mask = map_mask(nodes, self.labels)
        if self.selector is not None:
            mask &= selector_mask(nodes, self.selector)
        return mask

    def matches(self, node: NodeInfo) -> bool:
        found = node.labels
        for key, value in self.labels.items():
            if found.get(key) != value:
                return False
        return self.selector is None or self.selector.matches(found, node.name)


def taint_lookup(nodes: Nodes, tolerations: Sequence[Toleration], comparisons: bool) -> BoolArray:
    """True for every list of taints (by its number) that keeps these tolerations out."""
    tolerated = tuple(tolerations)
    return np.array(
        [
            first_untolerated(taints, tolerated, comparisons=comparisons) is not None
            for taints in nodes.table.taints
        ],
        dtype=bool,
    )
