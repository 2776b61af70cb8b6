"""A result for people: the timeline, what was expected, and what came out."""

from __future__ import annotations

from collections import Counter

from bayplan.sim.run import Result
from bayplan.words import plural

MANY = 200


def timeline(result: Result, limit: int = MANY) -> list[str]:
    """Return the lines of the timeline; the middle of a very long one is left out."""
    lines = [moment.line() for moment in result.timeline]
    if limit and len(lines) > limit:
        half = limit // 2
        left_out = f"{'':10}   … {len(lines) - limit} lines left out (--timeline=all shows them) …"
        return [*lines[:half], left_out, *lines[-half:]]
    return lines


def summary(result: Result) -> list[str]:
    """Return the last lines: expectations, pods, hash."""
    lines = [outcome.line() for outcome in result.outcomes]
    missed = {outcome.text for outcome in result.outcomes if not outcome.ok}
    lines += [
        f"FAIL {text}"
        for text in result.failures
        if not any(text.startswith(f"expected {name};") for name in missed)
    ]
    tracker = result.tracker
    lives = tracker.every_pod()
    bound = sum(bool(life.node) for life in lives)
    waiting = [life for life in tracker.pods.values() if not life.node]
    seconds = f"{result.seconds:.3f}".rstrip("0").rstrip(".")
    simulated = " simulated" if result.hash else ""  # there is none of a cluster of others
    lines.append(
        f"{plural(len(lives), 'pod')}, {bound} bound, {len(waiting)} still pending; "
        f"{plural(len(tracker.nodes), 'node')}; {seconds} s{simulated}"
    )
    reasons = Counter(life.why or "not tried yet" for life in waiting)
    lines += [f"  {number} pending: {why}" for why, number in reasons.most_common(5)]
    if result.hash:
        lines.append(f"hash {result.hash} (seed {result.seed})")
    return lines
