"""Whether a placement in counts keeps every rule; a quick look before the filters judge it."""

from __future__ import annotations

import numpy as np

from bayplan.cluster.arrays import IntArray
from bayplan.pack.model import AtMostOne, Disjoint, Near, Problem, Rule, Spread


def holds(problem: Problem, placed: IntArray) -> bool:
    """Whether all pods are placed, nothing is overfull and every rule is kept."""
    if (placed.sum(axis=1) != problem.count).any() or (placed[~problem.allowed] > 0).any():
        return False
    used = problem.need.T @ placed
    if (used > problem.capacity).any():
        return False
    return all(kept(rule, placed) for rule in problem.rules)


def kept(rule: Rule, placed: IntArray) -> bool:
    """Whether a placement keeps one rule."""
    if isinstance(rule, AtMostOne):
        return bool((_per_domain(rule.classes, rule.domain, placed) <= 1).all())
    if isinstance(rule, Disjoint):
        left = _per_domain(rule.left, rule.domain, placed)
        right = _per_domain(rule.right, rule.domain, placed)
        return not bool(((left > 0) & (right > 0)).any())
    if isinstance(rule, Spread):
        return _even(rule, placed)
    return _near(rule, placed)


def _per_domain(classes: tuple[int, ...], domain: IntArray, placed: IntArray) -> IntArray:
    size = int(domain.max(initial=-1)) + 1
    found: IntArray = np.zeros(size, dtype=np.int64)
    inside = domain >= 0
    if classes and size:
        np.add.at(found, domain[inside], placed[list(classes)].sum(axis=0)[inside])
    return found


def _even(rule: Spread, placed: IntArray) -> bool:
    counted = np.where(rule.included, rule.domain, -1)
    counts = _per_domain(rule.matching, counted, placed)
    size = int(rule.domain.max(initial=-1)) + 1
    counts = np.concatenate([counts, np.zeros(size - len(counts), dtype=np.int64)])
    for code, number in rule.fixed.items():
        counts[code] += number
    owners = _per_domain(rule.owners, rule.domain, placed)
    least = 0 if rule.from_zero else min((int(counts[d]) for d in rule.present), default=0)
    return bool((counts[owners > 0] - least <= rule.skew).all())


def _near(rule: Near, placed: IntArray) -> bool:
    owners = _per_domain((rule.owner,), rule.domain, placed)
    counts = _per_domain(rule.matching, rule.domain, placed)
    for code, number in rule.fixed.items():
        counts[code] += number
    return bool((counts[owners > 0] >= rule.least).all())
