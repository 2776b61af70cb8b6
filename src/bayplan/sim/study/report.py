"""One HTML page about a sweep or a search: tables, distributions, time lines, fronts.

Nothing is loaded from anywhere: the pictures are SVG in the page, and there is no script.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from bayplan.sim.study.ablation import MEASURES, differences
from bayplan.sim.study.measures import QUANTILES, Curves
from bayplan.sim.study.plan import Plan
from bayplan.sim.study.results import Point, Row, by_point, estimate, values
from bayplan.sim.study.run import Outcome
from bayplan.sim.study.svg import Series, chart
from bayplan.sim.study.tune import Search, Trial

SHOWN = ("pending", "pending_p99", "unbound", "evicted", "nodes", "cpu", "fragmentation", "spread")
FRONTS = (("nodes", "pending"), ("fragmentation", "pending"), ("spread", "nodes"))
STYLE = """
:root{color-scheme:light dark;--ink:#1b2430;--soft:#8a95a5;--line:#d8dee6;--back:#fff}
@media(prefers-color-scheme:dark){:root{--ink:#e6ebf2;--soft:#8a95a5;--line:#333d4a;--back:#12171e}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--back);max-width:72rem;
margin:2rem auto;padding:0 1rem}table{border-collapse:collapse;display:block;overflow-x:auto}
th,td{padding:.25rem .7rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
th:first-child,td:first-child{text-align:left}figure{margin:1rem 0;max-width:44rem}
svg{width:100%;height:auto}svg text{font-size:11px;fill:var(--soft);text-anchor:middle}
svg text.end{text-anchor:end}.grid{stroke:var(--line)}.line{fill:none;stroke-width:2}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.2rem 1rem;padding:0;margin:0}
.legend i{display:inline-block;width:.8em;height:.8em;margin-right:.35em;border-radius:2px}
.failed{color:#c0392b}"""
PALETTE = ("#2f6fde", "#e0872f", "#2f9e6b", "#c2447c", "#7a5bd0", "#3aa6b9", "#a58a2c", "#7d8794")


def report_page(
    plan: Plan, found: Sequence[Row], outcomes: Mapping[str, Outcome], ablated: str | None = None
) -> str:
    """The page of a sweep."""
    parts = [_table(found), _failures(found)]
    points = by_point(found)
    for name in plan.sources:
        here = {p: runs for p, runs in points.items() if p[1] == name}
        parts.append(f"<h2>{escape(name)}</h2>")
        parts.append(_curves(here, outcomes))
        parts += [_front(here, *axes) for axes in FRONTS]
    if ablated is not None:
        parts.append(_ablation(found, ablated))
    return page(plan.name, parts)


def page(title: str, parts: Sequence[str]) -> str:
    """A whole page around some parts."""
    colours = "".join(
        f".c{i}{{stroke:{c};background:{c}}}.dot.c{i}{{fill:{c}}}" for i, c in enumerate(PALETTE)
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width">'
        f"<style>{STYLE}{colours}</style><h1>{escape(title)}</h1>{''.join(parts)}</html>\n"
    )


def cells(rows: Sequence[Sequence[str]]) -> str:
    """A table; the first row is its head."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in rows[0])
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows[1:]
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _label(point: Point) -> str:
    load = "" if point[2] == 1.0 else f", load {point[2]:g}"
    return f"{point[0]}{load} ({point[3]})"


def _table(found: Sequence[Row]) -> str:
    rows = [["runs", "workload", "seeds", *SHOWN]]
    for point, runs in by_point(found).items():
        good = [run for run in runs if not run["error"]]
        said = [str(estimate(values(good, name))) if good else "-" for name in SHOWN]
        rows.append([_label(point), point[1], str(len(good)), *said])
    note = (
        "<p>Means over seeds, with half of their 95 % confidence intervals. Times in seconds.</p>"
    )
    return note + cells(rows)


def _failures(found: Sequence[Row]) -> str:
    failed = [row for row in found if row["error"]]
    items = "".join(
        f"<li>{escape(str(row['config']))} on {escape(str(row['workload']))}, seed {row['seed']}: "
        f"{escape(str(row['error']))}</li>"
        for row in failed
    )
    return f'<h2>Failed</h2><ul class="failed">{items}</ul>' if failed else ""


def _curves(points: Mapping[Point, Sequence[Row]], outcomes: Mapping[str, Outcome]) -> str:
    waits, pending, cpu = [], [], []
    for point, runs in points.items():
        name = _label(point)
        curves = [c for run in runs if (c := outcomes[str(run["run"])].curves) is not None]
        if not curves:
            continue
        waits.append(Series(name, _mean_waits(curves)))
        first = curves[0]
        pending.append(Series(name, list(zip(first.times, first.pending, strict=True))))
        cpu.append(Series(name, list(zip(first.times, first.cpu, strict=True))))
    return (
        "<h3>How long pods waited</h3>"
        + chart(waits, "seconds until bound", "share of pods, %")
        + "<h3>Pods that wait, over time (first seed)</h3>"
        + chart(pending, "seconds", "pods")
        + "<h3>Requested CPU, over time (first seed)</h3>"
        + chart(cpu, "seconds", "share")
    )


def _mean_waits(curves: Sequence[Curves]) -> list[tuple[float, float]]:
    columns = zip(*(curve.waits for curve in curves), strict=True)
    return [
        (sum(column) / len(column), float(share))
        for column, share in zip(columns, QUANTILES, strict=True)
    ]


def front(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points that no other is at least as good as in both (less is better), in order."""
    best: list[tuple[float, float]] = []
    for point in sorted(set(points)):
        if not best or point[1] < best[-1][1]:
            best.append(point)
    return best


def _front(points: Mapping[Point, Sequence[Row]], x: str, y: str) -> str:
    clouds = []
    for point, runs in points.items():
        good = [run for run in runs if not run["error"]]
        if good:
            place = (estimate(values(good, x)).mean, estimate(values(good, y)).mean)
            clouds.append(Series(_label(point), [place], line=False))
    every = [series.points[0] for series in clouds]
    if len(every) < 2:
        return ""
    clouds.append(Series("Pareto front", front(every)))
    return f"<h3>{y} against {x}, less is better</h3>" + chart(clouds, x, y)


def _ablation(found: Sequence[Row], config: str) -> str:
    rows = [["without", "workload", *MEASURES]]
    for plugin, workload, changes in differences(found, config):
        rows.append([plugin, workload, *(str(changes[name]) for name in MEASURES)])
    note = f"<p>Change of each measure when {escape(config)} lacks a plugin, seed by seed.</p>"
    return "<h2>What each plugin contributes</h2>" + note + cells(rows)


def search_page(plan: Plan, search: Search) -> str:
    """The page of a search: the front, how the search went, all trials."""
    objectives = search.space.objectives
    names = [objective.measure for objective in objectives]
    best = search.front()
    head = ["trial", *names, *(knob.name for knob in search.space.knobs)]
    parts = ["<h2>Pareto front</h2>", cells([head, *(_trial_row(t, search) for t in best)])]
    for number, other in enumerate(names[1:], 1):
        every = [(t.values[number], t.values[0]) for t in search.good]
        clouds = [
            Series("trials", every, line=False),
            Series("front", [(t.values[number], t.values[0]) for t in best], line=False),
            Series("unchanged", [(search.trials[0].values[number], search.trials[0].values[0])],
                   line=False),
        ]  # fmt: skip
        parts.append(f"<h3>{names[0]} against {other}</h3>" + chart(clouds, other, names[0]))
    for number, name in enumerate(names):
        went = [(float(t.number), t.values[number]) for t in search.good]
        parts.append(f"<h3>{name} by trial</h3>")
        parts.append(chart([Series(name, went, line=False)], "trial", name))
    parts.append("<h2>All trials</h2>")
    parts.append(cells([head, *(_trial_row(t, search) for t in search.trials)]))
    return page(plan.name, parts)


def _trial_row(trial: Trial, search: Search) -> list[str]:
    said = [f"{value:.5g}" for value in trial.values]
    return [
        str(trial.number),
        *said,
        *(str(trial.choice.get(k.name, "")) for k in search.space.knobs),
    ]
