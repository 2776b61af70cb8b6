"""`bayplan demo`: a cluster, a workload, and a table that says where each pod went and why.

Starts what `bayplan up` starts, but in memory and on a port of its own, explains a pod that waits
and does what helps (see `demo_why`), places a small mixed workload (see `demo_workload`), prints
the table and ends. The words in the last column are taken from the records that the scheduler keeps
of its attempts; nothing is computed for show.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from bayplan.errors import BayplanError

if TYPE_CHECKING:
    from bayplan.engine.cycle.records import AttemptRecord
    from bayplan.scheduler.cluster import LocalCluster

WAIT = 15.0


class Row:
    """What the table says about a pod."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.node = ""
        self.score = ""
        self.why = ""


@click.command("demo")
@click.option("--plain", is_flag=True, help="No colours, no frame.")
def command(plain: bool) -> None:
    """Place a small workload on a small cluster and tell why."""
    from bayplan.observe import logs

    logs.configure(0)
    rows, message = asyncio.run(_demo())
    _print(rows, message, plain)


async def _demo() -> tuple[list[Row], str]:
    from bayplan.apiserver.serving import Settings
    from bayplan.cli import demo_why
    from bayplan.cli import demo_workload as workload
    from bayplan.cli.nodes import add_nodes
    from bayplan.client.resources import PODS, PRIORITY_CLASSES
    from bayplan.config import DEFAULT_GATES, default_config
    from bayplan.scheduler.cluster import local_cluster
    from bayplan.scheduler.extensions import load_registry

    async with local_cluster(
        Settings(store="memory"),
        config=default_config(),
        gates=DEFAULT_GATES,
        registry=load_registry([]),
    ) as cluster:
        for item in workload.classes():
            await cluster.client.create(PRIORITY_CLASSES, item)
        await add_nodes(cluster.client, demo_why.cordon(workload.nodes()))
        uids: dict[str, str] = {}
        await _first_scene(cluster, uids)
        waves = workload.waves()
        for wave in waves:
            for pod in wave:
                await cluster.client.create(PODS, pod, workload.NAMESPACE)
            await _settled(cluster, [_name(pod) for pod in wave], uids)
        names = [_name(pod) for wave in waves for pod in wave]
        return [_row(cluster, name, uids[name]) for name in names], _message(cluster)


async def _first_scene(cluster: LocalCluster, uids: dict[str, str]) -> None:
    """A pod that waits, why, and what helps; it goes again before the workload comes."""
    from bayplan.cli import demo_why
    from bayplan.cli.demo_workload import NAMESPACE
    from bayplan.client.resources import PODS
    from bayplan.inspect.why.render import render

    await cluster.client.create(PODS, demo_why.waiting_pod(), NAMESPACE)
    await _settled(cluster, [demo_why.NAME], uids)
    answer = await demo_why.explain(cluster)
    click.echo(f"$ bayplan why {demo_why.NAME}")
    click.echo("\n".join(render(answer)))
    expected = await demo_why.do_first_fix(cluster, answer)
    key = f"{NAMESPACE}/{demo_why.NAME}"
    await _until(lambda: _node_of(cluster, key) == expected, f"{key} on {expected}")
    click.echo(f"\nThe first of these was done: {demo_why.NAME} is now on {expected}.\n")
    await cluster.client.delete(PODS, demo_why.NAME, NAMESPACE)
    await _until(lambda: cluster.scheduler.pod(key) is None, f"the end of {key}")


def _node_of(cluster: LocalCluster, key: str) -> str:
    pod = cluster.scheduler.pod(key)
    return pod.spec.node_name if pod is not None else ""


async def _until(happened: Callable[[], bool], what: str) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + WAIT
    while not happened():
        if loop.time() > deadline:
            raise BayplanError(f"the demo waited in vain for {what}")
        await asyncio.sleep(0.02)


def _name(pod: dict[str, object]) -> str:
    meta = pod["metadata"]
    assert isinstance(meta, dict)
    return str(meta["name"])


async def _settled(cluster: LocalCluster, names: list[str], uids: dict[str, str]) -> None:
    """Wait until each pod is bound, or has been tried and nominates no node."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + WAIT
    left = list(names)
    while left:
        for name in list(left):
            pod = cluster.scheduler.pod(f"default/{name}")
            if pod is None:
                continue
            uids[name] = pod.metadata.uid
            refused = any(
                c.type == "PodScheduled" and c.status == "False" for c in pod.status.conditions
            )
            if pod.spec.node_name or (refused and not pod.status.nominated_node_name):
                left.remove(name)
        if loop.time() > deadline:
            raise BayplanError(f"the demo's pods {', '.join(left)} were not placed in time")
        await asyncio.sleep(0.02)


def _row(cluster: LocalCluster, name: str, uid: str) -> Row:
    row = Row(name)
    records = cluster.scheduler.core.records.of(uid)
    pod = cluster.scheduler.pod(f"default/{name}")
    last = records[-1] if records else None
    if pod is None:
        row.node, row.why = "-", f"evicted{_by_whom(cluster, uid)}"
    elif not pod.spec.node_name:
        row.node, row.why = "-", "fits nowhere; see below"
    elif last is not None:
        row.node = pod.spec.node_name
        row.score, row.why = _reasons(last, row.node)
        victims = next((r.victims for r in records if r.victims is not None), None)
        if victims is not None:
            gone = ", ".join(victim.metadata.name for victim in victims.pods)
            row.why = f"evicted {gone} to make room"
    return row


def _reasons(record: AttemptRecord, node: str) -> tuple[str, str]:
    """Return the score of the chosen node and what set it apart from the next best."""
    total = len(record.names)
    if record.feasible_count <= 1:
        kept_out = ", ".join(f"{count} {reason}" for reason, count in record.reasons().items())
        return "-", f"the only one of {total} that fits ({kept_out})"
    others = [name for name in record.names if name != node and record.status_of(name) is None]
    rival = max(others, key=record.total_of)
    fit, score = f"{record.feasible_count} of {total} fit", record.total_of(node)
    if record.total_of(rival) == score:
        equal = sum(record.total_of(name) == score for name in others)
        return str(score), f"{fit}; as good as {equal} other{'s' if equal > 1 else ''}"
    mine, its = record.scores_of(node), record.scores_of(rival)
    gains = sorted((mine[p] - its[p], p) for p in mine if mine[p] != its[p])
    parts = ", ".join(f"{plugin} {gain:+d}" for gain, plugin in reversed(gains))
    return str(score), f"{fit}; before {rival}: {parts}"


def _by_whom(cluster: LocalCluster, uid: str) -> str:
    for record in cluster.scheduler.core.records:
        if record.victims is not None and any(
            victim.metadata.uid == uid for victim in record.victims.pods
        ):
            return f" for {record.pod_key.rpartition('/')[2]}"
    return ""


def _message(cluster: LocalCluster) -> str:
    pod = cluster.scheduler.pod("default/giant")
    conditions = pod.status.conditions if pod is not None else ()
    return next((c.message for c in conditions if c.type == "PodScheduled"), "")


def _print(rows: list[Row], message: str, plain: bool) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(no_color=plain, highlight=False)
    table = Table(box=None if plain else box.SIMPLE_HEAD, title=None if plain else "bayplan demo")
    for title, align in (("POD", "left"), ("NODE", "left"), ("SCORE", "right"), ("WHY", "left")):
        table.add_column(title, justify=align, overflow="fold")  # type: ignore[arg-type]
    for row in rows:
        table.add_row(row.name, row.node, row.score, row.why)
    console.print(table)
    console.print(f"\ngiant cannot be scheduled: {message}", soft_wrap=True)
