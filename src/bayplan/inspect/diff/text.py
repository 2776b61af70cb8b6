"""A difference for people: on a terminal, and as Markdown for a merge request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from bayplan.inspect.diff.answer import PENDING, Changed, Diff
from bayplan.words import table

ROWS = 20


def render(found: Diff) -> list[str]:
    """The verdict, the totals side by side, and the first pods that differ."""
    lines = [f"A: {found.a}", f"B: {found.b}", "", _verdict(found), ""]
    lines += table(("TOTAL", "A", "B"), _totals(found), indent="")
    if found.plugins:
        lines += ["", "Responsible for direct differences:"]
        lines += [f"  {count:6}  {plugin}" for plugin, count in found.plugins.items()]
    if found.changed:
        lines += ["", *table(("OWNER", "PODS", "A", "B", "WHY"), _rows(found), indent="")]
    return lines + [f"Note: {note}" for note in found.notes]


def markdown(found: Diff) -> str:
    """A short comment for a merge request."""
    lines = [f"### Scheduling: `{found.a}` → `{found.b}`", "", _verdict(found), ""]
    lines += ["| total | A | B |", "| --- | ---: | ---: |"]
    lines += [f"| {name} | {a} | {b} |" for name, a, b in _totals(found)]
    if found.plugins:
        by = ", ".join(f"{plugin} ({count})" for plugin, count in found.plugins.items())
        lines += ["", f"Responsible: {by}."]
    if found.changed:
        lines += ["", "| owner | pods | A | B | why |", "| --- | ---: | --- | --- | --- |"]
        lines += [f"| {' | '.join(row)} |" for row in _rows(found)]
    return "\n".join(lines)


def _verdict(found: Diff) -> str:
    if found.same:
        pods = (
            "the pod goes where it" if found.pods == 1 else f"all {found.pods} pods go where they"
        )
        return f"Same: {pods} went."
    direct = sum(item.direct for item in found.changed)
    return (
        f"Different: {len(found.changed)} of {found.pods} pods go elsewhere, "
        f"{direct} by the configuration itself, {len(found.changed) - direct} in consequence."
    )


def _totals(found: Diff) -> list[tuple[str, str, str]]:
    a, b = found.totals_a, found.totals_b
    rows = [
        ("placed", str(a.placed), str(b.placed)),
        ("pending", str(a.pending), str(b.pending)),
        ("evictions", str(a.evictions), str(b.evictions)),
    ]
    if not a.nodes_used and not b.nodes_used:
        return rows  # every pod of these runs has ended: nothing is packed or spread any more
    return [
        *rows,
        ("nodes used", str(a.nodes_used), str(b.nodes_used)),
        ("packing", f"{a.packing:.1%}", f"{b.packing:.1%}"),
        ("spread (deviation)", f"{a.spread:.1%}", f"{b.spread:.1%}"),
    ]


def _rows(found: Diff) -> Iterator[tuple[str, ...]]:
    groups: dict[tuple[str, str], list[Changed]] = {}
    for item in found.changed:
        why = (item.plugin or item.detail) if item.direct else "in consequence"
        groups.setdefault((item.owner or item.pod, why), []).append(item)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    for (owner, why), items in ordered[:ROWS]:
        yield owner, str(len(items)), _most(i.a for i in items), _most(i.b for i in items), why
    if len(ordered) > ROWS:
        yield f"... {len(ordered) - ROWS} more", "", "", "", ""


def _most(names: Iterator[str]) -> str:
    counts = Counter(name or PENDING for name in names)
    shown = ", ".join(f"{n} x{c}" if c > 1 else n for n, c in counts.most_common(2))
    return shown + (f", +{len(counts) - 2}" if len(counts) > 2 else "")
