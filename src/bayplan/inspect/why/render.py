"""Answers for people: plain lines, the most important first."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from bayplan.inspect.amounts import decided_as, listed
from bayplan.inspect.cluster import Unread
from bayplan.inspect.why.answer import Answer, Fix, Group, Near, Pending, Score
from bayplan.inspect.why.owner import OwnerAnswer
from bayplan.inspect.why.pod import span
from bayplan.words import plural, table, wrapped


def render(answer: Answer, *, wide: bool = False) -> list[str]:
    """One pod."""
    return [line.rstrip() for line in _lines(answer, wide)]


def _lines(answer: Answer, wide: bool) -> Iterator[str]:
    age = f", {span(answer.age_seconds)} old" if answer.age_seconds else ""
    owner = f", of {answer.owner}" if answer.owner else ""
    title = f"{answer.pod}: {answer.summary}"
    yield from wrapped(title, rest="  ", most=len(title))
    yield f"  {answer.state}{age}{owner}, scheduler {answer.scheduler}"
    if answer.message:
        yield ""
        yield from wrapped(answer.message, "  ")
    yield from _proof(answer)
    for note in answer.notes:
        yield from wrapped(note, "  ", "    ")
    if answer.funnel and not answer.asked_node and not _said(answer):
        yield ""
        yield f"Why, over {plural(answer.nodes, 'node')}:"
        for row in answer.funnel:
            by = f"  [{row.plugin}]" if row.plugin else ""
            yield f"  {row.nodes:6,}  {', '.join(row.reasons)}{by}"
            for fact in row.facts:
                yield from wrapped(fact, "          ", "            ")
            if wide and row.examples:
                yield from wrapped(f"nodes: {', '.join(row.examples)}", "          ")
    if answer.preemption:
        yield ""
        yield from wrapped(f"Preemption: {'; '.join(answer.preemption)}", "", "  ")
    yield from _nearest(answer.nearest, wide)
    yield from _fixes(answer, wide)
    yield from _scores(answer, wide)
    if answer.history:
        yield ""
        yield "What the scheduler there remembers:"
        for item in answer.history:
            yield from wrapped(item, "  ", "    ")
    yield from unread(answer.unread)
    if answer.version_note:
        yield ""
        yield decided_as(answer.version, answer.version_note)


def _said(answer: Answer) -> bool:
    """Whether the funnel only repeats what was said above it."""
    first = answer.funnel[0]
    whole = len(answer.funnel) == 1 and not first.facts and bool(answer.message)
    return first.reasons == ("fits",) or (whole and first.reasons == (answer.message,))


def _proof(answer: Answer) -> Iterator[str]:
    if answer.identical:
        yield "  = identical to what your scheduler says"
    elif answer.identical is False:
        yield "  ! your scheduler said something else:"
        yield from wrapped(answer.observed or answer.event or "", "      ")
        yield from wrapped(f"likely because {answer.difference}", "    ")


def _nearest(rows: tuple[Near, ...], wide: bool) -> Iterator[str]:
    if not rows:
        return
    yield ""
    yield "Nearest nodes:"
    width = max(len(row.node) for row in rows)
    for row in rows if wide else rows[:3]:
        missing = "; ".join(row.missing) or "nothing"
        yield from wrapped(f"{row.node:<{width}}  {missing}", "  ", " " * (width + 4))


def _fixes(answer: Answer, wide: bool) -> Iterator[str]:
    if answer.state not in ("pending", "gated", "notMade", "otherScheduler") or not answer.nodes:
        return
    if answer.state == "otherScheduler" and not answer.fixes:
        return
    yield ""
    if not answer.fixes:
        yield "No single change or pair of changes that was tried makes it fit."
        return
    yield "What makes it fit (each decided again), the least disturbing first:"
    for number, fix in enumerate(answer.fixes, 1):
        yield from fix_lines(fix, f"  {number}. ", wide or number == 1)


def fix_lines(fix: Fix, head: str, commands: bool) -> Iterator[str]:
    """A change, where the pod lands, and how to make it."""
    or_else = f" (or {listed(list(fix.equals), 1)}, equally good)" if fix.equals else ""
    yield from wrapped(f"{fix.change}  ->  {fix.node}{or_else}", head, " " * len(head))
    if commands:
        for command in fix.commands:
            yield f"{' ' * len(head)}$ {command}"


def _scores(answer: Answer, wide: bool) -> Iterator[str]:
    if not answer.scores:
        return
    yield ""
    yield "Scores today, the pod taken away first:"
    rows = answer.scores if wide else answer.scores[:3]
    rows += tuple(row for row in answer.scores[len(rows) :] if row.node == answer.asked_node)
    names = [name for name in rows[0].plugins if wide or _differs(rows, name)]
    head = ["NODE", "TOTAL", *names]
    body = [
        [
            f"{row.node} *" if row.node == answer.node else row.node,
            str(row.total),
            *(str(row.plugins.get(name, 0)) for name in names),
        ]
        for row in rows
    ]
    yield from table(head, body)


def _differs(rows: tuple[Score, ...], name: str) -> bool:
    return len({row.plugins.get(name, 0) for row in rows}) > 1


def render_pending(found: Pending, *, wide: bool = False) -> list[str]:
    """All pending pods by cause, on one screen."""
    if not found.count:
        return ["No pod is pending.", *unread(found.unread)]
    lines = [f"{plural(found.count, 'pod')} pending on {plural(found.nodes, 'node')}"]
    if found.observed:
        lines.append(
            f"= of {found.observed:,} your scheduler has spoken of, "
            f"{plural(found.identical, 'answer')} {'is' if found.identical == 1 else 'are'} "
            "identical to its own"
        )
    if found.fix is not None and len(found.groups) > 1:
        head = "What frees most: "
        lines += ["", *_freeing(found, f"of all {found.count:,}", head, True)]
    shown = found.groups if wide else found.groups[:8]
    for group in shown:
        lines += ["", *_group(group, wide)]
    rest = found.groups[len(shown) :]
    if rest:
        count = sum(group.count for group in rest)
        more = f"{plural(len(rest), 'more cause')} with {plural(count, 'pod')}"
        lines += ["", f"and {more} (-o wide shows all)"]
    lines += unread(found.unread)
    if found.version_note:
        lines += ["", decided_as(found.version, found.version_note)]
    return lines


def _group(group: Group, wide: bool) -> Iterator[str]:
    oldest = f", oldest {span(group.oldest_seconds)}" if group.oldest_seconds else ""
    yield from wrapped(f"{group.cause}{oldest}", f"{group.count:6,}  ", "        ")
    shown = listed(list(group.owners), min(5 if wide else 3, len(group.owners)), group.owner_count)
    yield from wrapped(shown, "        ")
    if group.fix is not None:
        yield from _freeing(group, f"of {group.count:,}", "        fix: ", wide)


def _freeing(found: Group | Pending, of: str, head: str, commands: bool) -> Iterator[str]:
    """The change that frees most, and how many."""
    assert found.fix is not None
    least = "at least " if found.frees_more else ""
    text = f"{found.fix.change} (frees {least}{found.frees:,} {of})"
    yield from fix_lines(replace(found.fix, change=text, equals=()), head, commands)


def render_owner(found: OwnerAnswer, *, wide: bool = False) -> list[str]:
    """An owner and its pods."""
    lines = [f"{found.owner}: {found.summary}"]
    for note in found.notes:
        lines += wrapped(note, "  ", "    ")
    for answer in found.pods:
        lines += ["", *render(answer, wide=wide)]
    return lines


def unread(items: tuple[Unread, ...]) -> Iterator[str]:
    """What the answer lacks."""
    if not items:
        return
    yield ""
    yield "Could not be read, so the answer may lack something:"
    for item in items:
        without = f" ({item.without})" if item.without else ""
        yield from wrapped(f"{item.what}: {item.why}{without}", "  ", "    ")
