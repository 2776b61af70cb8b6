"""Every node, or every zone, in turn: what if just that one were gone.

A node is drained, with budgets and all; a zone is lost, which asks nobody. Pods that were pending
before are left out: the question is whether what runs still runs. Those that would lose their node
in any case, to a more important pod that is pending now, are told once and apart. Each try is taken
back before the next, so one costs what runs there, not what the cluster holds.
"""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.inspect.cluster import Cluster
from bayplan.inspect.errors import InspectError
from bayplan.inspect.whatif.answer import Model, Stuck
from bayplan.inspect.whatif.ask import settle
from bayplan.inspect.whatif.budgets import Budgets
from bayplan.inspect.whatif.carrying import Carrying
from bayplan.inspect.whatif.draining import Draining
from bayplan.inspect.whatif.owners import title
from bayplan.inspect.whatif.reading import Reading
from bayplan.inspect.whatif.rehearsal import Rehearsal
from bayplan.inspect.whatif.settling import Settling
from bayplan.inspect.whatif.shapes import ZONE

SHOWN = 20
"""How many stuck pods of one try an answer names."""


class Each(Model, frozen=True, kw_only=True):
    """One node or zone that was taken away."""

    name: str
    ok: bool
    nodes: int = 1
    pods: int = 0
    """Pods that had to move."""
    moved: int = 0
    pending: int = 0
    blocked: int = 0
    lost: int = 0
    evictions: int = 0
    stuck: tuple[Stuck, ...] = ()
    """The first pods that found no place, or could not go."""


class EachAnswer(Model, frozen=True, kw_only=True):
    """All tries."""

    each: str
    """`node` or `zone`."""
    ok: bool
    """Whether everything that runs now still runs, whichever one goes."""
    tries: tuple[Each, ...]
    anyway: tuple[Stuck, ...] = ()
    """Pods that lose their node with all nodes there, to pods that are pending now."""
    version: str = ""
    version_note: str = ""

    def __str__(self) -> str:
        from bayplan.inspect.whatif.text import render_each

        return "\n".join(render_each(self))


def each(cluster: Cluster, what: str) -> EachAnswer:
    """Take every node or zone away in turn."""
    groups = list(_groups(cluster, what))
    with Rehearsal(cluster.engine, cluster.now) as trial:
        budgets = Budgets(cluster)
        start = settle(cluster, trial, budgets)
        anyway = tuple(Reading(cluster, Carrying(cluster, trial, budgets, start)).losses())
        tries = [_try(cluster, start, name, nodes, drain=what == "node") for name, nodes in groups]
    ok = not anyway and all(t.ok for t in tries)
    return EachAnswer(
        each=what,
        ok=ok,
        tries=tuple(tries),
        anyway=anyway,
        version=cluster.settings.gates.version,
        version_note=cluster.version_note,
    )


def _groups(cluster: Cluster, what: str) -> Iterator[tuple[str, list[str]]]:
    if what not in ("node", "zone"):
        raise InspectError(f'--each "{what}" is not known; use node or zone')
    names = sorted(cluster.nodes)
    if what == "node":
        yield from ((name, [name]) for name in names)
        return
    zones: dict[str, list[str]] = {}
    for name in names:
        zones.setdefault(cluster.nodes[name].labels.get(ZONE, ""), []).append(name)
    if set(zones) == {""}:
        raise InspectError(f"no node has the label {ZONE}, so there is no zone to take away")
    yield from ((zone or "(no zone)", zones[zone]) for zone in sorted(zones))


def _try(cluster: Cluster, start: Settling, name: str, nodes: list[str], *, drain: bool) -> Each:
    budgets = start.budgets
    with Rehearsal(cluster.engine, cluster.now) as trial:
        settling = Settling(cluster, trial, budgets, start.admission)
        draining = Draining(trial, settling, budgets)
        if drain:
            draining.drain(nodes)
        else:
            draining.lose(nodes, remove=False)
            settling.run()
        return _read(cluster, name, len(nodes), settling, draining)


def _read(cluster: Cluster, name: str, nodes: int, settling: Settling, draining: Draining) -> Each:
    failed, unborn = list(settling.failed()), list(settling.unborn())
    stuck = [(w.first, "pending", w.message) for w in failed]
    stuck += [
        (first, "pending", "its stateful set waits for lower ordinals") for _, first in unborn
    ]
    stuck += [(item.first, "refused", item.message) for item in settling.refused()]
    lost = [(pod, "lost", "it has no owner") for pod in settling.unmade.values()]
    blocked = [(pod, "blocked", why) for pod, _, why in draining.blocked]
    moved = sum(bool(w.node) for w in settling.ends.values())
    every = stuck + lost + blocked
    return Each(
        name=name,
        ok=not every,
        nodes=nodes,
        pods=moved + len(every),
        moved=moved,
        pending=len(stuck),
        blocked=len(blocked),
        lost=len(lost),
        evictions=len(settling.preempted),
        stuck=tuple(
            Stuck(
                pod=pod.key,
                owner=title(cluster, pod),
                source=pod.spec.node_name or name,
                state=state,
                reason=why,
            )
            for pod, state, why in every[:SHOWN]
        ),
    )
