"""Asks what follows from changes: settles the cluster, changes it, compares, takes all back.

First the scheduler is given the time to place what is pending anyway, and whom it evicts for that;
the changes are made after it, in the same rehearsal. An answer begins at the cluster as it is now,
and marks what would come so without any change. With other settings (`--config`,
`--emulated-version`) the changes are made in a second engine, and what comes without them is what
the first one has done: what runs stays, what is pending is decided anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from bayplan.engine.engine import Engine
from bayplan.inspect.cluster import Cluster
from bayplan.inspect.settings import Settings
from bayplan.inspect.whatif.answer import NodeCount, Side, WhatIf
from bayplan.inspect.whatif.budgets import Budgets
from bayplan.inspect.whatif.carrying import Carrying
from bayplan.inspect.whatif.changes import AnyChange, Apply, Remove
from bayplan.inspect.whatif.commands import scheduler_commands
from bayplan.inspect.whatif.headroom import headroom
from bayplan.inspect.whatif.reading import Anyway, Reading
from bayplan.inspect.whatif.rehearsal import Rehearsal
from bayplan.inspect.whatif.settling import Settling, Waiting

Look = Callable[[Engine, Sequence[Waiting]], None]


def what_if(
    cluster: Cluster,
    changes: Sequence[AnyChange],
    *,
    settings: Settings | None = None,
    look: Look = lambda engine, waiting: None,
) -> WhatIf:
    """Carry changes out in the engine, tell what follows, and leave everything as it was.

    `look` is called with the engine while it holds the outcome, and the pods that then wait.
    """
    moving = any(isinstance(change, Remove | Apply) for change in changes)
    engine = cluster.fresh_engine() if moving else cluster.engine
    before = _side(engine, sum(1 for _ in cluster.pending()))
    with Rehearsal(engine, cluster.now) as trial:
        budgets = Budgets(cluster)
        start = settle(cluster, trial, budgets)
        anyway = Anyway(start)
        if settings is None:
            return _carry_out(cluster, trial, budgets, start, changes, anyway, before, look)
    other = cluster.fresh_engine(settings)
    with Rehearsal(other, cluster.now) as trial:
        budgets = Budgets(cluster)
        start = settle(cluster, trial, budgets)
        found = _carry_out(cluster, trial, budgets, start, changes, anyway, before, look)
    return replace(
        found,
        changes=(f"schedule with {settings.title}", *found.changes),
        commands=(*scheduler_commands(settings), *found.commands),
    )


def settle(cluster: Cluster, trial: Rehearsal, budgets: Budgets) -> Settling:
    """Let the scheduler catch up with what is pending now."""
    settling = Settling(cluster, trial, budgets)
    for pod in cluster.pending():
        settling.add(pod)
    settling.run()
    return settling


def _carry_out(
    cluster: Cluster,
    trial: Rehearsal,
    budgets: Budgets,
    start: Settling,
    changes: Sequence[AnyChange],
    anyway: Anyway,
    before: Side,
    look: Look,
) -> WhatIf:
    carrying = Carrying(cluster, trial, budgets, start)
    for change in changes:
        carrying.carry_out(change)
    look(trial.engine, list(carrying.settling.failed()))
    after = _side(trial.engine, sum(1 for _ in carrying.settling.failed()))
    return Reading(cluster, carrying, anyway).answer(changes, before, after)


def _side(engine: Engine, pending: int) -> Side:
    table = engine.cache.table
    usable = int((~table.unschedulable).sum())
    return Side(
        nodes=NodeCount(total=table.count, usable=usable),
        running=engine.cache.pod_count,
        pending=pending,
        headroom=headroom(engine),
    )
