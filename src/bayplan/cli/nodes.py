"""`bayplan nodes`: add simulated nodes of chosen shapes to a cluster, list shapes, remove nodes.

A node is an ordinary Node object, ready, with the labels that clouds and kubelets set. What makes
it live is the simulated kubelet of `bayplan up`; on any other API server it is a place to schedule
to and nothing runs there. It is marked by an annotation, so `remove` takes away only such nodes.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import click
import msgspec

from bayplan.cli import values
from bayplan.errors import ConfigError

if TYPE_CHECKING:
    from bayplan.client import Client

SIMULATED = "bayplan.dev/simulated"
AT_ONCE = 16
ZONES = ("local-a", "local-b", "local-c")


class Shape(msgspec.Struct, frozen=True):
    """What a kind of machine offers."""

    cpu: str
    memory: str
    pods: str = "110"
    storage: str = "100Gi"
    extra: tuple[tuple[str, str], ...] = ()


SHAPES = {
    "small": Shape("2", "4Gi"),
    "medium": Shape("4", "16Gi"),
    "large": Shape("16", "64Gi"),
    "xlarge": Shape("64", "256Gi", pods="250", storage="500Gi"),
    "compute": Shape("32", "64Gi", storage="200Gi"),
    "memory": Shape("16", "256Gi", storage="200Gi"),
    "gpu": Shape("32", "128Gi", storage="500Gi", extra=(("nvidia.com/gpu", "8"),)),
    "edge": Shape("1", "1Gi", pods="20", storage="16Gi"),
}


def make_node(
    name: str,
    shape: Shape,
    *,
    shape_name: str = "custom",
    zone: str = "",
    labels: dict[str, str] | None = None,
    taints: list[dict[str, str]] | None = None,
) -> dict[str, object]:
    """Return a Node object as a kubelet would have registered it."""
    every = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": shape_name,
    }
    if zone:
        every["topology.kubernetes.io/zone"] = zone
        every["topology.kubernetes.io/region"] = zone.rpartition("-")[0] or zone
    capacity = {
        "cpu": shape.cpu,
        "memory": shape.memory,
        "pods": shape.pods,
        "ephemeral-storage": shape.storage,
        **dict(shape.extra),
    }
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "simulated kubelet is posting ready status",
    }
    spec: dict[str, object] = {"taints": taints} if taints else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {**every, **(labels or {})},
            "annotations": {SIMULATED: "true"},
        },
        "spec": spec,
        "status": {"capacity": capacity, "allocatable": capacity, "conditions": [ready]},
    }


async def add_nodes(client: Client, nodes: list[dict[str, object]]) -> list[str]:
    """Create nodes, several at once; return the names of those that were there already."""
    from bayplan.client import AlreadyExists
    from bayplan.client.resources import NODES

    gate, present = asyncio.Semaphore(AT_ONCE), []

    async def add(node: dict[str, object]) -> None:
        async with gate:
            try:
                await client.create(NODES, node)
            except AlreadyExists:
                meta = node["metadata"]
                assert isinstance(meta, dict)
                present.append(str(meta["name"]))

    await asyncio.gather(*[add(node) for node in nodes])
    return sorted(present)


def parse_labels(texts: tuple[str, ...]) -> dict[str, str]:
    """Read `key=value` words."""
    return {key: value for key, _, value in (text.partition("=") for text in texts)}


def parse_taints(texts: tuple[str, ...]) -> list[dict[str, str]]:
    """Read taints as kubectl writes them: `key=value:NoSchedule` or `key:NoExecute`."""
    taints = []
    for text in texts:
        head, colon, effect = text.rpartition(":")
        if not colon or effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
            raise ConfigError(
                f'"{text}" must look like key=value:EFFECT, where EFFECT is '
                "NoSchedule, PreferNoSchedule or NoExecute"
            )
        key, _, value = head.partition("=")
        taints.append({"key": key, "effect": effect, **({"value": value} if value else {})})
    return taints


TAINT = values.Checked("KEY=VALUE:EFFECT", lambda text: parse_taints((text,)))

_kubeconfig = click.option(
    "--kubeconfig", default="", type=values.FILE, help="Kubeconfig of the cluster."
)


@click.group("nodes")
def command() -> None:
    """Add simulated nodes to a cluster, remove them, list their shapes."""


@command.command("add")
@click.argument("count", type=click.IntRange(1, 100_000), default=1)
@click.option("--shape", default="medium", type=values.one_of("SHAPE", lambda: SHAPES),
              help="One of `bayplan nodes shapes`.")  # fmt: skip
@click.option("--cpu", default="", type=values.QUANTITY, help="CPU, in place of the shape's.")
@click.option("--memory", default="", type=values.QUANTITY, help="Memory, in place of the shape's.")
@click.option("--pods", default="", type=values.QUANTITY,
              help="Number of pods, in place of the shape's.")  # fmt: skip
@click.option("--resource", "resources", multiple=True, type=values.RESOURCE,
              help="Another resource: name=quantity.")  # fmt: skip
@click.option(
    "--zones",
    default=",".join(ZONES),
    show_default=True,
    help='Zones to spread the nodes over, by commas; "" for none.',
)
@click.option("--label", "labels", multiple=True, type=values.LABEL, help="A label: key=value.")
@click.option("--taint", "taints", multiple=True, type=TAINT, help="A taint: key=value:NoSchedule.")
@click.option("--prefix", default="", help="Begin of the names (default: the shape).")
@_kubeconfig
def add(
    count: int,
    shape: str,
    cpu: str,
    memory: str,
    pods: str,
    resources: tuple[str, ...],
    zones: str,
    labels: tuple[str, ...],
    taints: tuple[str, ...],
    prefix: str,
    kubeconfig: str,
) -> None:
    """Add COUNT nodes; those that exist already stay as they are."""
    chosen = _shape(shape, cpu, memory, pods, parse_labels(resources))
    places = values.listed(zones) or [""]
    given, bars = parse_labels(labels), parse_taints(taints)
    nodes = [
        make_node(
            f"{prefix or shape}-{number}",
            chosen,
            shape_name=shape,
            zone=places[(number - 1) % len(places)],
            labels=given,
            taints=bars,
        )
        for number in range(1, count + 1)
    ]
    present = asyncio.run(_add(kubeconfig, nodes))
    click.echo(f"{count_of(count - len(present))} added" + _remark(present))


@command.command("shapes")
def shapes() -> None:
    """List the shapes."""
    click.echo(f"{'NAME':<10}{'CPU':>5}{'MEMORY':>9}{'PODS':>6}{'STORAGE':>9}  OTHER")
    for name, shape in SHAPES.items():
        other = ", ".join(f"{key}: {value}" for key, value in shape.extra)
        line = (
            f"{name:<10}{shape.cpu:>5}{shape.memory:>9}{shape.pods:>6}{shape.storage:>9}  {other}"
        )
        click.echo(line.rstrip())


@command.command("remove")
@click.argument("names", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All simulated nodes.")
@_kubeconfig
def remove(names: tuple[str, ...], everything: bool, kubeconfig: str) -> None:
    """Remove simulated nodes by name."""
    if not names and not everything:
        raise click.UsageError("name the nodes to remove, or give --all")
    removed, left = asyncio.run(_remove(kubeconfig, set(names)))
    click.echo(f"{count_of(len(removed))} removed")
    missing = sorted(set(names) - set(removed))
    if missing:
        from bayplan.words import did_you_mean

        hint = did_you_mean(missing[0], left)
        raise ConfigError(f"no simulated nodes of these names: {', '.join(missing)}{hint}")


def _shape(name: str, cpu: str, memory: str, pods: str, extra: dict[str, str]) -> Shape:
    base = SHAPES[name]
    return Shape(
        cpu=cpu or base.cpu,
        memory=memory or base.memory,
        pods=pods or base.pods,
        storage=base.storage,
        extra=(*base.extra, *extra.items()),
    )


async def _add(kubeconfig: str, nodes: list[dict[str, object]]) -> list[str]:
    from bayplan.client import connect, load_kubeconfig

    client = connect(load_kubeconfig(kubeconfig or None), qps=0)
    try:
        return await add_nodes(client, nodes)
    finally:
        await client.close()


async def _remove(kubeconfig: str, names: set[str]) -> tuple[list[str], list[str]]:
    """Return the names of the simulated nodes that were removed, and of those that are left."""
    from bayplan.client import NotFound, connect, load_kubeconfig
    from bayplan.client.resources import NODES

    client = connect(load_kubeconfig(kubeconfig or None), qps=0)
    removed, left = [], []
    try:
        items = msgspec.json.decode(await client.list(NODES))["items"]
        for item in items:
            meta = item["metadata"]
            if meta.get("annotations", {}).get(SIMULATED) != "true":
                continue
            if names and meta["name"] not in names:
                left.append(meta["name"])
                continue
            with suppress(NotFound):
                await client.delete(NODES, meta["name"])
                removed.append(meta["name"])
    finally:
        await client.close()
    return removed, left


def count_of(number: int) -> str:
    """`1 node`, `2 nodes`."""
    return f"{number} node{'' if number == 1 else 's'}"


def _remark(present: list[str]) -> str:
    if not present:
        return ""
    shown = ", ".join(present[:5]) + (" …" if len(present) > 5 else "")
    return f"; {len(present)} existed already: {shown}; --prefix NAME makes others"


def default_nodes(count: int) -> list[dict[str, object]]:
    """Return the nodes of a new `bayplan up` cluster: medium ones over three zones."""
    return [
        make_node(
            f"node-{number}",
            SHAPES["medium"],
            shape_name="medium",
            zone=ZONES[(number - 1) % len(ZONES)],
        )
        for number in range(1, count + 1)
    ]
