"""A result as data for programs: the JSON output, and what the HTML page draws."""

from __future__ import annotations

import msgspec

from bayplan.sim.run import Result
from bayplan.sim.tracker import PodLife

Data = dict[str, object]


def as_data(result: Result) -> Data:
    """Return everything about a result."""
    tracker = result.tracker
    return {
        "name": result.name,
        "ok": result.ok,
        "seed": result.seed,
        "hash": result.hash,
        "seconds": round(result.seconds, 6),
        "failures": result.failures,
        "expectations": [msgspec.to_builtins(outcome) for outcome in result.outcomes],
        "placements": result.placements,
        "pods": [_pod(life) for life in tracker.every_pod()],
        "nodes": [msgspec.to_builtins(life) for life in tracker.every_node()],
        "events": [msgspec.to_builtins(event) for event in tracker.events],
        "queues": [{"time": time, **sizes} for time, sizes in tracker.queues],
        "timeline": [msgspec.to_builtins(moment) for moment in tracker.timeline],
    }


def _pod(life: PodLife) -> Data:
    data: Data = msgspec.to_builtins(life)
    return {**data, "why": life.why}


def encode(results: list[Result], extra: list[Data]) -> str:
    """Return the JSON of results; `extra` is added to each."""
    documents = [as_data(result) | more for result, more in zip(results, extra, strict=True)]
    return msgspec.json.format(msgspec.json.encode(documents), indent=2).decode()
