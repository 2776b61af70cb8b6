"""`bayplan explain pod NAME`: why a pod is pending, or why it is where it is.

The scheduler remembers its decisions; this asks it. With `bayplan up` the API server passes the
question on; a scheduler of its own is asked at `--scheduler` with the kubeconfig's credentials.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from bayplan.client import Connection
    from bayplan.engine.loop.explain import Attempt, Explanation

DEFAULT_SCHEDULER = "https://127.0.0.1:10259"


@click.command()
@click.argument("kind", type=click.Choice(["pod", "pods", "po"]))
@click.argument("name")
@click.option("-n", "--namespace", default="", help="Namespace; the kubeconfig's if unset.")
@click.option("--kubeconfig", default="", help="As kubectl's.")
@click.option("--context", default="", help="As kubectl's.")
@click.option("--scheduler", default=DEFAULT_SCHEDULER, show_default=True,
              help="Where a scheduler of its own serves.")  # fmt: skip
@click.option("--scheduler-ca-file", default="",
              help="Its certificate; without it no credential is sent there.")  # fmt: skip
@click.option("-o", "--output", type=click.Choice(["text", "wide", "json", "yaml"]), default="text",
              help="wide also shows examples of nodes, all scores and the history.")  # fmt: skip
def command(
    kind: str,
    name: str,
    namespace: str,
    kubeconfig: str,
    context: str,
    scheduler: str,
    scheduler_ca_file: str,
    output: str,
) -> None:
    """Explain why POD is pending, or why it is where it is: `bayplan explain pod web-0`."""
    import msgspec

    from bayplan.api import yaml
    from bayplan.client import load_kubeconfig
    from bayplan.engine.loop.explain import Explanation

    connection = load_kubeconfig(kubeconfig or None, context=context)
    key = f"{namespace or connection.namespace}/{name}"
    own = _scheduler_at(connection, scheduler.rstrip("/"), scheduler_ca_file)
    body = asyncio.run(_ask((connection, own), key))
    if output == "json":
        click.echo(msgspec.json.format(body, indent=2).decode())
    elif output == "yaml":
        click.echo(yaml.dump(msgspec.json.decode(body)), nl=False)
    else:
        found = msgspec.json.decode(body, type=Explanation)
        for line in render(found, wide=output == "wide"):
            click.echo(line)


def _scheduler_at(connection: Connection, server: str, authority: str) -> Connection:
    """The scheduler's own server: unless its certificate can be verified, it learns no secret."""
    import msgspec

    from bayplan.client import Connection

    if authority:
        return msgspec.structs.replace(
            connection, server=server, ca_file=authority, ca_data=b"", insecure=False
        )
    return Connection(server=server, insecure=True)


async def _ask(places: tuple[Connection, ...], key: str) -> bytes:
    from bayplan.client import Forbidden, NotFound, TransportError, Unauthorized, connect
    from bayplan.errors import BayplanError
    from bayplan.scheduler.serving import EXPLAIN

    problems = []
    for place in places:
        client = connect(place)
        try:
            return await client.request("GET", f"{EXPLAIN}{key}")
        except NotFound as problem:
            problems.append(f"{place.server} does not know it ({problem})")
        except (TransportError, Unauthorized, Forbidden) as problem:
            problems.append(f"{place.server}: {problem}")
        finally:
            await client.close()
    remedy = "give --scheduler URL and --scheduler-ca-file FILE"
    raise BayplanError(f'explaining pod "{key}": {"; ".join(problems)}; {remedy}')


def render(found: Explanation, *, wide: bool = False) -> list[str]:
    """The explanation for people."""
    lines = [f"Pod:        {found.pod}", f"Scheduler:  {found.scheduler}"]
    lines.append(f"Place:      {f'node {found.node}' if found.node else found.place}")
    lines.append(f"Attempts:   {found.attempts}")
    if found.waits_for:
        lines.append(f"Waits for:  events of {', '.join(found.waits_for)}")
    if found.backoff_until:
        lines.append(f"Backoff:    until {_time(found.backoff_until)}")
    if found.attempt is not None:
        lines += _attempt(found.attempt, wide)
    if found.changed:
        lines += ["", "Changed since that attempt:"]
        lines += [
            f"  {c.node}: {c.before} -> {c.now}" for c in found.changed[: None if wide else 5]
        ]
    if wide and found.history:
        lines += ["", "History:"]
        lines += [f"  {_time(h.time)}  {h.what}  {h.detail}".rstrip() for h in found.history]
    return lines


def _attempt(attempt: Attempt, wide: bool) -> list[str]:
    lines = ["", f"Last attempt at {_time(attempt.time)}, {attempt.node_count} nodes:"]
    for verdict in attempt.verdicts:
        why = ", ".join(verdict.reasons) or verdict.result
        by = f" ({verdict.plugin})" if verdict.plugin else ""
        some = f"  {', '.join(verdict.examples)}" if wide and verdict.examples else ""
        lines.append(f"  {verdict.nodes:6}  {why}{by}{some}")
    if attempt.message and not attempt.node:
        lines += ["", f"Message:    {attempt.message}"]
    if attempt.victims:
        lines.append(f"Victims:    {', '.join(attempt.victims)} on {attempt.nominated_node}")
    if attempt.scores:
        lines += ["", *_scores(attempt, None if wide else 5)]
    return lines


def _scores(attempt: Attempt, limit: int | None) -> list[str]:
    names = list(attempt.scores[0].by_plugin)
    head = ["NODE", "TOTAL", *(f"{name}*{attempt.weights.get(name, 1)}" for name in names)]
    rows = [
        [
            f"{score.node} *" if score.node == attempt.node else score.node,
            str(score.total),
            *(str(score.by_plugin[name]) for name in names),
        ]
        for score in attempt.scores[:limit]
    ]
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    return [
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (head, *rows)
    ]


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
