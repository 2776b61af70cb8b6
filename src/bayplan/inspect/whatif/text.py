"""A what-if's answer for people: the verdict, what moves, what does not, and the room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from bayplan.inspect.amounts import decided_as, show
from bayplan.inspect.whatif.answer import Move, Side, Stuck, WhatIf
from bayplan.inspect.whatif.each import Each, EachAnswer
from bayplan.words import table, wrapped

TARGETS = 4
ROWS = 15
ALONE = "(no owner)"
WORST = 10


def render(found: WhatIf) -> list[str]:
    """All of an answer that matters, on one screen."""
    lines = [f"What if: {'; '.join(found.changes) or 'nothing changes'}", "", _verdict(found)]
    lines += _stuck(found)
    lines += _moves(found)
    lines += _starts(found)
    lines += _evictions(found)
    if found.deleted:
        lines += ["", f"Deleted: {_names(found.deleted)}"]
    lines += ["", *_room(found.before, found.after)]
    if found.commands:
        lines += ["", "To do it:", *(f"  {command}" for command in found.commands)]
    if found.notes:
        lines += ["", *(f"Note: {note}" for note in found.notes)]
    return [*lines, *_version(found)]


def _version(found: WhatIf | EachAnswer) -> list[str]:
    note = found.version_note
    return ["", decided_as(found.version, note)] if note else []


def _verdict(found: WhatIf) -> str:
    ran = [item for item in found.stuck if item.source]
    if found.ok:
        text = "OK: everything that runs keeps running"
        if found.moves:
            text += f"; {_pods(len(found.moves))} would move"
    else:
        by = Counter(item.state for item in ran)
        parts = []
        if by["pending"]:
            parts.append(f"{_pods(by['pending'])} would find no node")
        if by["refused"]:
            parts.append(f"{_pods(by['refused'])} would not be made again")
        if by["lost"]:
            parts.append(f"{_pods(by['lost'])} would be lost")
        if by["blocked"]:
            parts.append(f"{_pods(by['blocked'])} could not be evicted")
        text = f"NOT OK: {', '.join(parts)}"
        if all(item.anyway for item in ran):
            text += ", with or without this"
        if found.moves:
            text += f"; {_pods(len(found.moves))} would move"
    for new, what in ((True, "new "), (False, "pending ")):
        mine = [item for item in found.new_pending if item.new is new]
        waits = sum(item.state != "refused" for item in mine)
        for count, end in ((waits, "stay pending"), (len(mine) - waits, "not be made")):
            if count:
                text += f"; {count} {what}{'pod' if count == 1 else 'pods'} would {end}"
    return text


_HEADS = {
    "pending": "Would stay pending",
    "refused": "Would not be made, the API server refuses",
    "lost": "Would be lost",
    "blocked": "Could not be evicted, the drain would hang",
}


def _stuck(found: WhatIf) -> Iterator[str]:
    for state, head in _HEADS.items():
        mine = [item for item in found.stuck if item.state == state]
        if not mine:
            continue
        yield ""
        yield f"{head}: {_pods(len(mine))}"
        groups: dict[tuple[str, str], list[Stuck]] = {}
        for item in mine:
            groups.setdefault((item.owner or item.pod, item.reason), []).append(item)
        for (owner, reason), items in _some(groups.items(), ROWS):
            yield f"  {owner}: {_pods(len(items))}{_whence(items)}"
            yield from wrapped(reason, "      ")
        yield from _more(len(groups))


def _whence(items: Sequence[Stuck]) -> str:
    places = _counted(item.source for item in items if item.source)
    text = f" from {places}" if places else " (new)"
    if not places and not items[0].new:
        text = ", which would be placed without this"
    same = sum(item.anyway for item in items)
    if not same:
        return text
    return f"{text}, {'' if same == len(items) else f'{same} of them '}in any case"


def _moves(found: WhatIf) -> Iterator[str]:
    if not found.moves:
        return
    yield ""
    same = sum(move.anyway for move in found.moves)
    yield f"Would move: {_pods(len(found.moves))}" + (f", {same} in any case" if same else "")
    groups: dict[tuple[str, str], list[Move]] = {}
    for move in found.moves:
        groups.setdefault((move.source, move.owner or ALONE), []).append(move)
    rows = [
        (source, owner, str(len(items)), _counted(item.target for item in items))
        for (source, owner), items in _some(groups.items(), ROWS)
    ]
    yield from table(("FROM", "OWNER", "PODS", "TO"), rows)
    yield from _more(len(groups))


def _starts(found: WhatIf) -> Iterator[str]:
    for new, head in (
        (True, "New pods that would start"),
        (False, "Pending pods that would start"),
    ):
        mine = [item for item in found.starts if item.new is new]
        if mine:
            yield ""
            yield f"{head}: {len(mine)}"
            groups: dict[str, list[str]] = {}
            for item in mine:
                groups.setdefault(item.owner or item.pod, []).append(item.node)
            rows = [(o, str(len(n)), _counted(n)) for o, n in _some(groups.items(), ROWS)]
            yield from table(("OWNER", "PODS", "NODES"), rows)
            yield from _more(len(groups))
    if found.anyway:
        yield ""
        verb = "is" if len(found.anyway) == 1 else "are"
        yield f"Placed in any case: {_pods(len(found.anyway))} that {verb} pending now"
    if found.still_pending:
        yield ""
        yield f"Pending before and after: {_pods(found.still_pending)}"


def _evictions(found: WhatIf) -> Iterator[str]:
    if not found.evictions:
        return
    yield ""
    yield f"Would be evicted for more important pods: {len(found.evictions)}"
    for item in found.evictions[:ROWS]:
        broken = ", against its budget" if item.violates_budget else ""
        same = ", in any case" if item.anyway else ""
        yield f"  {item.pod} on {item.node}, by {item.by}{broken}{same}"
    yield from _more(len(found.evictions))


def _room(before: Side, after: Side) -> Iterator[str]:
    rows = [
        (
            "nodes",
            f"{before.nodes.usable} of {before.nodes.total} usable",
            f"{after.nodes.usable} of {after.nodes.total} usable",
        ),
        ("pods", f"{before.running} run, {before.pending} wait",
         f"{after.running} run, {after.pending} wait"),
    ]  # fmt: skip
    for name in before.headroom | after.headroom:
        if name in ("pods", "ephemeral-storage"):
            continue
        rows.append((f"{name} free", _free(before, name), _free(after, name)))
    yield from table(("ROOM", "BEFORE", "AFTER"), rows, indent="")


def _free(side: Side, name: str) -> str:
    room = side.headroom.get(name)
    if room is None:
        return "-"
    free, whole = show(name, room.free), show(name, room.allocatable)
    return f"{free} of {whole}, at most {show(name, room.largest)} on one node"


# -- each ---------------------------------------------------------------------------------------


def render_each(found: EachAnswer) -> list[str]:
    """Which can go, which cannot, and why."""
    bad = [item for item in found.tries if not item.ok]
    good = len(found.tries) - len(bad)
    verb = "drained" if found.each == "node" else "lost"
    lines = [f"What if each {found.each} were {verb} in turn: {len(found.tries)} tried", ""]
    lines += _in_any_case(found)
    if not bad:
        word = "else " if found.anyway else ""
        lines.append(f"OK: any one {found.each} can go, everything {word}keeps running")
        return [*lines, *_version(found)]
    lines.append(f"NOT OK: {good} can go, {len(bad)} cannot")
    worst = sorted(bad, key=lambda item: (-(item.pending + item.lost + item.blocked), item.name))
    rows = [_each_row(item) for item in worst[:ROWS]]
    head = (found.each.upper(), "PODS", "MOVE", "NO NODE", "LOST", "BLOCKED", "EVICT")
    lines += ["", *table(head, rows, indent="")]
    lines += [f"... and {len(worst) - ROWS} more"] if len(worst) > ROWS else []
    return [*lines, "", "Why, by owner:", *_reasons(bad), *_version(found)]


def _in_any_case(found: EachAnswer) -> Iterator[str]:
    """What is lost with every node there, for pods that are pending now."""
    if not found.anyway:
        return
    head = f"In any case, with all of them: {_pods(len(found.anyway))} would find no node"
    yield f"{head}, evicted for pods that are pending now"
    for owner, count in Counter(item.owner or item.pod for item in found.anyway).most_common(WORST):
        yield f"  {owner}: {_pods(count)}"
    yield ""


def _each_row(item: Each) -> tuple[str, ...]:
    numbers = (item.pods, item.moved, item.pending, item.lost, item.blocked, item.evictions)
    return (item.name, *(str(number) if number else "-" for number in numbers))


def _reasons(bad: Sequence[Each]) -> Iterator[str]:
    groups: dict[str, list[tuple[str, Stuck]]] = {}
    for item in bad:
        for stuck in item.stuck:
            groups.setdefault(stuck.owner or stuck.pod, []).append((item.name, stuck))
    ordered = sorted(groups.items(), key=lambda item: (-len({n for n, _ in item[1]}), item[0]))
    for owner, items in ordered[:WORST]:
        names = sorted({name for name, _ in items})
        yield f"  {owner}: without {_names(names)}"
        yield from wrapped(items[0][1].reason, "      ")
    if len(ordered) > WORST:
        yield f"  ... and {len(ordered) - WORST} more owners"


# -- words --------------------------------------------------------------------------------------


def _counted(names: Iterable[str]) -> str:
    """`node-1 x3, node-2, and 4 other nodes`."""
    counts = Counter(names)
    shown = [
        f"{name} x{count}" if count > 1 else name for name, count in counts.most_common(TARGETS)
    ]
    more = len(counts) - TARGETS
    return ", ".join(shown) + (f", and {more} more" if more > 0 else "")


def _names(names: Sequence[str]) -> str:
    more = len(names) - TARGETS
    return ", ".join(names[:TARGETS]) + (f", and {more} more" if more > 0 else "")


def _pods(count: int) -> str:
    return f"{count} pod" if count == 1 else f"{count} pods"


def _some(items: Iterable[tuple[object, ...]], count: int) -> list:  # type: ignore[type-arg]
    return list(items)[:count]


def _more(count: int) -> Iterator[str]:
    if count > ROWS:
        yield f"  ... and {count - ROWS} more"
