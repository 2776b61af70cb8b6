"""The answer to "how many more" for people."""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.inspect.amounts import decided_as, show
from bayplan.inspect.capacity.answer import Capacity
from bayplan.inspect.capacity.ask import zones_text
from bayplan.words import table

REASONS = 5


def render(found: Capacity) -> list[str]:
    """Numbers first, then what ends it and what is stranded."""
    return [*_head(found), "", *_fits(found), *_binding(found), *_stranded(found), *_notes(found)]


def _head(found: Capacity) -> Iterator[str]:
    kept = f" with the room kept to lose any one {found.keep_free}" if found.keep_free else ""
    mix = " + ".join(f"{item.share} {item.template}" for item in found.fits)
    fit = "fits" if found.sets == 1 else "fit"
    if len(found.fits) == 1 and found.fits[0].share == 1:
        more = "at least " if found.limited else ""
        yield f"{more}{found.fits[0].together} more {found.fits[0].template} {fit}{kept}"
    else:
        sets = "1 more set" if found.sets == 1 else f"{found.sets} more sets"
        yield f"{sets} of {mix} {fit}{kept}"


def _fits(found: Capacity) -> Iterator[str]:
    head = ("TEMPLATE", "TOGETHER", "ALONE", "NODES", "BY ZONE")
    rows = [
        (i.template, str(i.together), str(i.alone), str(i.nodes), zones_text(i.zones))
        for i in found.fits
    ]
    yield from table(head, rows, indent="")


def _binding(found: Capacity) -> Iterator[str]:
    if not found.binding and not found.ends:
        return
    yield ""
    if found.ends:
        yield f"What ends it: with one more set, {found.ends}"
        return
    yield "What ends it, by number of nodes:"
    for reason, nodes in list(found.binding.items())[:REASONS]:
        yield f"  {nodes:6}  {reason}"


def _stranded(found: Capacity) -> Iterator[str]:
    if not found.stranded:
        return
    yield ""
    yield "Stranded, free but of no use to these pods:"
    for item in found.stranded:
        free = show(item.resource, item.free)
        yield f"  {item.resource} {free} on {item.nodes} node(s), for lack of {item.because}"
        if item.holders:
            most = (f"{who} {show(item.because, used)}" for who, used in item.holders.items())
            yield f"      most {item.because} there: {', '.join(most)}"


def _notes(found: Capacity) -> Iterator[str]:
    if found.checked and not found.sets:
        yield ""
        yield f"Note: with one more, or even now, losing a {found.keep_free} leaves pods homeless"
    if found.notes:
        yield ""
    for note in found.notes:
        yield f"Note: {note}"
    if found.version_note:
        yield ""
        yield decided_as(found.version, found.version_note)
