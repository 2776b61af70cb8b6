"""The answer of `bayplan pack` for people."""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.inspect.amounts import listed
from bayplan.inspect.pack.answer import Packing, Plan, Step, Wanted
from bayplan.inspect.pack.pricing import SCALE
from bayplan.words import plural

SHOWN = 40


def render(found: Packing) -> list[str]:
    """The certificate first, then pending pods, then moves."""
    return [
        *_head(found),
        *_stay(found),
        *(line for item in found.pending for line in _wanted(item)),
        *_plan(found.plan),
        *(f"note: {note}" for note in found.notes),
    ]


def _head(found: Packing) -> Iterator[str]:
    in_use = f"{plural(found.in_use, 'node')} in use"
    better = found.cost_best < found.cost_now
    rest = f"{found.would_do:,} would do" if better else "no better placement was found"
    if found.proven:
        yield f"{in_use}, {rest}, proven least" if better else f"{in_use}, which is proven least"
    else:
        yield f"{in_use}, {rest}, {found.proven_least:,} is proven least (gap {found.gap:.1%})"
    if found.priced:
        now, best, bound = (n / SCALE for n in (found.cost_now, found.cost_best, found.cost_bound))
        yield f"cost {now:,.4g} now, {best:,.4g} would do, {bound:,.4g} is proven least"
    if found.moves:
        names = listed(list(found.empties), 6)
        yield f"{plural(found.moves, 'pod')} would move; emptied: {names or 'none'}"


def _stay(found: Packing) -> Iterator[str]:
    for reason, count in found.stay.items():
        verb = reason if count == 1 else _plural_verb(reason)
        yield f"  {plural(count, 'pod')} stay{'s' if count == 1 else ''}: {verb}"


def _plural_verb(reason: str) -> str:
    first, _, rest = reason.partition(" ")
    plurals = {"belongs": "belong", "is": "are", "has": "have", "holds": "hold", "breaks": "break"}
    return f"{plurals.get(first, first)} {rest}"


def _wanted(item: Wanted) -> Iterator[str]:
    yield ""
    yield f"{item.name}: {item.text}"
    for reason in item.because:
        yield f"  - {reason}"
    for step in item.moves:
        yield f"  {_step(step)}"
    for victim in item.victims:
        yield f"  preempt {victim}"
    told = any(step.do == "place" for step in item.moves)
    for pod, node in [] if told else sorted(item.nodes.items())[:SHOWN]:
        yield f"  place {pod} on {node}"


def _plan(plan: Plan | None) -> Iterator[str]:
    if plan is None:
        return
    yield ""
    if not plan.steps:
        yield "Nothing to move."
        return
    yield f"Plan: {plural(plan.moves, 'move')}, {plural(len(plan.empties), 'node')} emptied"
    for number, step in enumerate(plan.steps, 1):
        yield f"  {number:3}. {_step(step)}"
    if not plan.complete:
        yield f"  It ends here: {plan.why_not}"


def _step(step: Step) -> str:
    if step.do in ("cordon", "uncordon"):
        return f"{step.do} {listed(list(step.nodes), 10)}"
    if step.do == "place":
        return f"place {step.pod} on {step.target}"
    over = " (stopover)" if step.stopover else ""
    owner = f" of {step.owner}" if step.owner else ""
    return f"evict {step.pod}{owner}: {step.source} -> {step.target}{over}"
