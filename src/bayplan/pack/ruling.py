"""Rules between pods: host ports, required pod affinity both ways, hard topology spread.

Terms and constraints are compared once for every pair of signatures, never for pairs of pods. Pods
that stay close domains to others; pods that may move make rules between classes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bayplan.cluster.arrays import BoolArray, IntArray
from bayplan.cluster.info import ANY_IP, AffinityTerm, PodInfo, ports_conflict
from bayplan.cluster.table import NodeTable
from bayplan.pack.check import by_signature
from bayplan.pack.model import AtMostOne, Disjoint, Near, Problem, Rule, Spread
from bayplan.plugins.inter_pod_affinity.terms import Matcher
from bayplan.plugins.pod_topology_spread.constraints import Constraint
from bayplan.plugins.pod_topology_spread.hard import HardState

if TYPE_CHECKING:
    from bayplan.pack.reading import Kind

APART = "InterPodAffinity"
PORTS = "NodePorts"
SPREAD = "PodTopologySpread"


class Ruling:
    """All rules between the kinds of one problem."""

    def __init__(self, table: NodeTable, kinds: Sequence[Kind], fixed: Sequence[PodInfo]) -> None:
        self._table, self._kinds = table, kinds
        self._fixed: list[tuple[PodInfo, Counter[int]]] = []
        """One pod of each signature that stays, and how many on which rows."""
        for group in by_signature(i for i in fixed if i.terminating).values():
            self._add_fixed(group)
        for group in by_signature(i for i in fixed if not i.terminating).values():
            self._add_fixed(group)
        self._matchers = [_matcher(kind) for kind in kinds]
        self._closed: list[dict[str, BoolArray]] = [{} for _ in kinds]
        """For each kind, by plugin, the rows that pods which stay leave open."""
        self._anti: list[tuple[AffinityTerm, frozenset[int], frozenset[int]]] = []
        self._near: list[tuple[int, frozenset[int], list[tuple[AffinityTerm, dict[int, int]]]]] = []
        self._spread: list[tuple[Spread, frozenset[int], frozenset[int]]] = []
        self._ports: list[tuple[tuple[str, str, int], frozenset[int]]] = []
        self._read_anti()
        self._read_near()
        self._read_spread()
        self._read_ports()

    def _add_fixed(self, group: list[PodInfo]) -> None:
        rows: Counter[int] = Counter()
        for info in group:
            row = self._table.row_of(info.node_name)
            if row is not None:
                rows[row] += 1
        self._fixed.append((group[0], rows))

    # -- what is told -------------------------------------------------------------------------

    def features(self, number: int) -> Hashable:
        """All that rules say about a kind; kinds that agree here are one class."""
        return (
            tuple((number in owners, number in meant) for _, owners, meant in self._anti),
            tuple((number == owner, number in meant) for owner, meant, _ in self._near),
            tuple((number in owners, number in meant) for _, owners, meant in self._spread),
            tuple(number in users for _, users in self._ports),
            tuple((name, mask.tobytes()) for name, mask in sorted(self._closed[number].items())),
        )

    def rules(self, class_of: Sequence[int], problem: Problem) -> list[Rule]:
        """The rules in numbers of classes; pods that stay narrow the masks of classes."""
        for number, closed in enumerate(self._closed):
            masks = problem.classes[class_of[number]].masks
            for name, mask in closed.items():
                masks[name] = mask & masks[name] if name in masks else mask
        found: list[Rule] = []
        for term, owners, meant in self._anti:
            domain = self._domain(term.topology_key)
            why = f"required anti-affinity by {term.topology_key}"
            found += _apart(_classes(class_of, owners), _classes(class_of, meant), domain, why)
        for rule, owners, meant in self._spread:
            mine, counted = _classes(class_of, owners), _classes(class_of, meant)
            found.append(Spread(mine, counted, rule.domain, rule.included, rule.present,
                                rule.fixed, rule.skew, rule.from_zero, rule.why))  # fmt: skip
        for (_, protocol, port), users in self._ports:
            rows = np.arange(self._table.count, dtype=np.int64)
            why = f"host port {port}/{protocol}"
            found.append(AtMostOne(_classes(class_of, users), rows, why))
        for owner, meant, parts in self._near:
            inside = _classes(class_of, meant)
            size = sum(len(self._kinds[number].pods) for number in meant)
            for term, fixed in parts:
                why = f"required affinity by {term.topology_key}"
                everywhere = size + sum(fixed.values())
                domain = self._domain(term.topology_key)
                found.append(Near(class_of[owner], inside, domain, fixed, everywhere, why))
        return found

    def _domain(self, key: str) -> IntArray:
        return self._table.label_codes(key).copy()

    # -- anti-affinity ------------------------------------------------------------------------

    def _read_anti(self) -> None:
        terms: dict[AffinityTerm, set[int]] = {}
        for number, kind in enumerate(self._kinds):
            if self._matchers[number] is not None:
                for term in kind.asked.traits.required_anti_affinity:
                    terms.setdefault(term, set()).add(number)
        for term, owners in terms.items():
            matcher = self._matchers[min(owners)]
            assert matcher is not None
            meant = frozenset(
                number
                for number, kind in enumerate(self._kinds)
                if matcher.means(term, kind.asked.pod)
            )
            self._anti.append((term, frozenset(owners), meant))
            for info, rows in self._fixed:
                if matcher.means(term, info.pod):
                    for number in owners:
                        self._close(number, APART, term.topology_key, rows)
        for info, rows in self._fixed:
            for term in info.traits.required_anti_affinity:
                for number, kind in enumerate(self._kinds):
                    own = self._matchers[number]
                    if own is not None and own.means_by_labels(term, kind.asked.pod):
                        self._close(number, APART, term.topology_key, rows)

    def _close(self, number: int, plugin: str, key: str, rows: Counter[int]) -> None:
        """Pods that stay on these rows keep a kind out of their domains."""
        codes = self._table.label_codes(key)
        taken = np.unique(codes[list(rows)]) if rows else codes[:0]
        inside = np.isin(codes, taken[taken >= 0])
        before = self._closed[number].get(plugin)
        self._closed[number][plugin] = ~inside if before is None else before & ~inside

    # -- affinity -----------------------------------------------------------------------------

    def _read_near(self) -> None:
        for number, kind in enumerate(self._kinds):
            matcher, terms = self._matchers[number], kind.asked.traits.required_affinity
            if matcher is None or not terms:
                continue
            meant = frozenset(
                other
                for other, item in enumerate(self._kinds)
                if all(matcher.means(term, item.asked.pod) for term in terms)
            )
            parts: list[tuple[AffinityTerm, dict[int, int]]] = []
            labelled = np.ones(self._table.count, dtype=bool)
            for term in terms:
                codes = self._table.label_codes(term.topology_key)
                labelled &= codes >= 0
                fixed: Counter[int] = Counter()
                for info, rows in self._fixed:
                    if all(matcher.means(one, info.pod) for one in terms):
                        for row, count in rows.items():
                            if codes[row] >= 0:
                                fixed[int(codes[row])] += count
                parts.append((term, dict(fixed)))
            self._near.append((number, meant, parts))
            before = self._closed[number].get(APART)
            self._closed[number][APART] = labelled if before is None else before & labelled

    # -- spread -------------------------------------------------------------------------------

    def _read_spread(self) -> None:
        rules: dict[Hashable, tuple[Constraint, BoolArray, HardState, set[int]]] = {}
        for number, kind in enumerate(self._kinds):
            plugin = _filter(kind, SPREAD)
            state = None if plugin is None else plugin.hard(kind.asked.pod)
            if state is None:
                continue
            labelled = np.ones(self._table.count, dtype=bool)
            for item, mask in zip(state.constraints, state.included, strict=True):
                labelled &= self._table.label_codes(item.key) >= 0
                included = np.ones(self._table.count, dtype=bool) if mask is None else mask
                key = (item, included.tobytes())
                rules.setdefault(key, (item, included, state, set()))[3].add(number)
            before = self._closed[number].get(SPREAD)
            self._closed[number][SPREAD] = labelled if before is None else before & labelled
        for item, included, _, owners in rules.values():
            self._spread.append(self._spread_rule(item, included, frozenset(owners)))

    def _spread_rule(
        self, item: Constraint, included: BoolArray, owners: frozenset[int]
    ) -> tuple[Spread, frozenset[int], frozenset[int]]:
        codes = self._domain(item.key)
        meant: frozenset[int] = frozenset()
        fixed: Counter[int] = Counter()
        if item.query is not None:
            query = item.query.parts[0]
            meant = frozenset(
                number
                for number, kind in enumerate(self._kinds)
                if query.matches(kind.asked.pod.namespace, kind.asked.pod.labels)
            )
            for info, rows in self._fixed:
                if not info.terminating and query.matches(info.pod.namespace, info.pod.labels):
                    for row, count in rows.items():
                        if included[row] and codes[row] >= 0:
                            fixed[int(codes[row])] += count
        present = np.unique(codes[included & (codes >= 0)]).tolist()
        rule = Spread(
            (), (), codes, included, tuple(present), dict(fixed), item.max_skew,
            len(present) < item.min_domains, f"topology spread by {item.key}",
        )  # fmt: skip
        return rule, owners, meant

    # -- ports --------------------------------------------------------------------------------

    def _read_ports(self) -> None:
        users: dict[tuple[str, str, int], set[int]] = {}
        for number, kind in enumerate(self._kinds):
            ports = kind.asked.traits.ports if _filter(kind, PORTS) is not None else ()
            for port in ports:
                users.setdefault(port, set()).add(number)
            if not ports:
                continue
            closed = np.zeros(self._table.count, dtype=bool)
            for info, rows in self._fixed:
                taken = info.traits.ports
                if any(ports_conflict(mine, other) for mine in ports for other in taken):
                    closed[list(rows)] = True
            if closed.any():
                self._closed[number][PORTS] = ~closed
        for port, mine in users.items():
            ip, protocol, number = port
            every = users.get((ANY_IP, protocol, number), set())
            alone = not any(o[1:] == port[1:] and o[0] != ANY_IP for o in users)
            if ip != ANY_IP or alone:  # whoever takes every address clashes with each of them
                self._ports.append((port, frozenset(mine | every)))


def _apart(
    owners: tuple[int, ...], meant: tuple[int, ...], domain: IntArray, why: str
) -> list[Rule]:
    """A term in rules: those that own it and are meant by it exclude each other and themselves."""
    both = tuple(number for number in owners if number in meant)
    found: list[Rule] = [AtMostOne(both, domain, why)] if both else []
    only_owners = tuple(number for number in owners if number not in meant)
    only_meant = tuple(number for number in meant if number not in owners)
    if both and only_meant:
        found.append(Disjoint(both, only_meant, domain, why))
    if only_owners and meant:
        found.append(Disjoint(only_owners, meant, domain, why))
    return found


def _classes(class_of: Sequence[int], numbers: frozenset[int]) -> tuple[int, ...]:
    return tuple(sorted({class_of[number] for number in numbers}))


def _filter(kind: Kind, name: str) -> Any:
    return next((plugin for plugin in kind.profile.filter if plugin.name == name), None)


def _matcher(kind: Kind) -> Matcher | None:
    plugin = _filter(kind, APART)
    return None if plugin is None else plugin.matcher
