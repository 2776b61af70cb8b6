"""One self-contained page: pods by node over time, utilisation, queues, what was pending and why.

Charts are drawn by a little script on the page from data embedded in it; nothing is loaded from
anywhere, so the file opens offline and can be mailed. Very large runs are thinned: the page shows
at most `MOST_PODS` pods and says so.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import jinja2

from bayplan.sim.report.series import queue_series, used_by_node
from bayplan.sim.run import Result
from bayplan.sim.tracker import PodLife

MOST_PODS = 3000
MOST_LINES = 2000
TEMPLATE = Path(__file__).parent / "page.html.j2"


def page(results: list[Result]) -> str:
    """Return the page of one or more results."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string(TEMPLATE.read_text())
    runs = [_run(result) for result in results]
    return template.render(runs=runs, title=", ".join(result.name for result in results))


def _run(result: Result) -> dict[str, object]:
    tracker = result.tracker
    lives = tracker.every_pod()
    shown = lives[:MOST_PODS]
    end = max(result.seconds, 0.001)
    nodes = tracker.every_node()
    data = {
        "end": end,
        "nodes": [
            {
                "name": node.name,
                "zone": node.zone,
                "cpu": node.cpu,
                "memory": node.memory,
                "from": node.created,
                "to": end if node.gone is None else node.gone,
            }
            for node in nodes
        ],
        "pods": [_span(life, end) for life in shown],
        "used": used_by_node(lives, end),
        "queues": queue_series(tracker.queues, end),
    }
    return {
        "name": result.name,
        "ok": result.ok,
        "seed": result.seed,
        "hash": result.hash,
        "seconds": result.seconds,
        "failures": result.failures,
        "outcomes": result.outcomes,
        "counts": {
            "pods": len(lives),
            "bound": sum(bool(life.node) for life in lives),
            "pending": sum(not life.node for life in tracker.pods.values()),
            "nodes": len(tracker.nodes),
            "evicted": sum(bool(life.disruption) for life in lives),
        },
        "pending": _pending(lives, end),
        "reasons": _reasons(lives),
        "timeline": result.timeline[:MOST_LINES],
        "left_out": max(len(result.timeline) - MOST_LINES, 0),
        "hidden_pods": len(lives) - len(shown),
        "data": _embedded(data),
    }


def _span(life: PodLife, end: float) -> dict[str, object]:
    return {
        "key": life.key,
        "node": life.node,
        "made": life.created,
        "from": life.bound,
        "to": end if life.end is None else life.end,
        "cpu": life.cpu,
        "priority": life.priority,
        "why": life.disruption or (life.reasons[-1].message if life.reasons else ""),
    }


def _pending(lives: list[PodLife], end: float) -> list[dict[str, object]]:
    """The pods that waited longest, with the last reason the scheduler gave."""
    waits = []
    for life in lives:
        until = life.bound if life.bound is not None else (end if life.gone is None else life.gone)
        if life.reasons or (not life.node and life.gone is None):
            last = life.reasons[-1] if life.reasons else None
            why = (last.message or last.reason) if last else "not tried yet"
            waits.append((until - life.created, life.key, life.node, why))
    waits.sort(key=lambda item: (-item[0], item[1]))
    return [
        {"seconds": seconds, "pod": key, "node": node, "why": why}
        for seconds, key, node, why in waits[:200]
    ]


def _reasons(lives: list[PodLife]) -> list[tuple[str, int]]:
    counts = Counter(reason.message or reason.reason for life in lives for reason in life.reasons)
    return counts.most_common(20)


def _embedded(data: object) -> str:
    """JSON that is safe inside a script element."""
    text = json.dumps(data, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
