"""Node selectors: terms over a node's labels and name, compiled once.

Terms are ORed, requirements within a term ANDed. A term that cannot be understood never matches,
while the others still can; the problem is kept on the compiled selector. A term without any
requirement matches nothing. This module does not weigh preferred terms; it only compiles them.
"""

from collections.abc import Iterable, Mapping

import msgspec

from bayplan.api.labels import IN, NOT_IN, Requirement, SelectorError, requirement
from bayplan.api.meta import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from bayplan.api.pod import PreferredSchedulingTerm

NAME_FIELD = "metadata.name"


class FieldRequirement(msgspec.Struct, frozen=True, gc=False, order=True):
    """A condition on a field of the node; fields other than the name read as empty."""

    key: str
    operator: str
    value: str

    def matches(self, name: str) -> bool:
        found = name if self.key == NAME_FIELD else ""
        return (found == self.value) == (self.operator == IN)


class Term(msgspec.Struct, frozen=True, gc=False):
    """Requirements that must all hold; without any the term matches nothing."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[FieldRequirement, ...] = ()

    @property
    def empty(self) -> bool:
        return not self.labels and not self.fields

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Match a node; without a name (as for volumes) fields count as satisfied."""
        if self.empty:
            return False
        for item in self.labels:
            if not item.matches(labels):
                return False
        return not name or all(item.matches(name) for item in self.fields)


class CompiledNodeSelector(msgspec.Struct, frozen=True, gc=False):
    """Terms of which one must match, and the first problem found in the terms left out."""

    terms: tuple[Term, ...] = ()
    problem: str = ""

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        return any(term.matches(labels, name) for term in self.terms)


def compile_node_selector(selector: NodeSelector) -> CompiledNodeSelector:
    """Compile a node selector; terms that are wrong or empty are left out, as they never match."""
    terms: list[Term] = []
    problem = ""
    for item in selector.node_selector_terms:
        try:
            term = compile_term(item)
        except SelectorError as found:
            problem = problem or str(found)
            continue
        if not term.empty:
            terms.append(term)
    return CompiledNodeSelector(tuple(terms), problem)


def compile_term(term: NodeSelectorTerm) -> Term:
    """Compile one term; raises SelectorError."""
    labels = {requirement(r.key, r.operator, r.values) for r in term.match_expressions}
    fields = {_field(r) for r in term.match_fields}
    return Term(tuple(sorted(labels)), tuple(sorted(fields)))


def compile_preferred(terms: Iterable[PreferredSchedulingTerm]) -> tuple[tuple[int, Term], ...]:
    """Compile weighted terms; those of no weight or no requirement are left out."""
    compiled = ((item.weight, compile_term(item.preference)) for item in terms if item.weight)
    return tuple((weight, term) for weight, term in compiled if not term.empty)


def _field(item: NodeSelectorRequirement) -> FieldRequirement:
    if item.operator not in (IN, NOT_IN):
        raise SelectorError(f'field "{item.key}": "{item.operator}" is not a valid field operator')
    if len(item.values) != 1:
        raise SelectorError(f'field "{item.key}": exactly one value is required')
    return FieldRequirement(item.key, item.operator, item.values[0])
