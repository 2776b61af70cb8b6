"""`bayplan whatif`: what would move, wait or break if the cluster changed."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from bayplan.cli import values
from bayplan.cli._source import FORMATS, load_cluster, settings_of, show, source_options
from bayplan.cli.completing import node_names, owner_names

if TYPE_CHECKING:
    from bayplan.inspect.whatif import AnyChange

VERBS = {
    "drain": ("NODE|SELECTOR", "Empty nodes as `kubectl drain` does."),
    "cordon": ("NODE|SELECTOR", "Mark nodes unschedulable."),
    "uncordon": ("NODE|SELECTOR", "Mark nodes schedulable."),
    "remove": ("NODE|SELECTOR", "Lose nodes, with what runs there."),
    "add": ("3xSHAPE", "Nodes like NODE, of an instance type, or cpu=8,memory=32Gi,zone=b."),
    "apply": ("FILE|DIR", "Manifests, as `kubectl apply`."),
    "delete": ("KIND/NAME", "A pod, or an owner with its pods."),
    "scale": ("KIND/NAME=N", "Another number of replicas."),
    "priority": ("KIND/NAME=CLASS", "Another priority class, or number."),
    "patch": ("KIND/NAME=JSON", "A JSON patch of a pod, an owner's pods, or a node."),
    "request": ("KIND/NAME=cpu=1", "Other requests of all containers, e.g. cpu=500m,memory=1Gi."),
}
NAMES = {
    **dict.fromkeys(("drain", "cordon", "uncordon", "remove", "add"), node_names),
    **dict.fromkeys(("delete", "scale", "priority"), owner_names),
}
"""What completes the values; files complete the others."""


def _collect(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> None:
    assert param.name is not None
    ctx.ensure_object(dict).setdefault(param.name, []).extend(values)


def _change(verb: str) -> values.Checked | values.ReadFile:
    """The type of a change's value: how it is written; what it means is the cluster's to say."""
    if verb == "apply":
        return values.FILE_OR_FOLDER

    def check(text: str) -> None:
        from bayplan.inspect.whatif import parse_change
        from bayplan.inspect.whatif.changes import Add

        found = parse_change(verb, text)
        if VERBS[verb][0] == "NODE|SELECTOR":
            values.nodes_or_selector(text)
        elif isinstance(found, Add):
            for part in found.shape.split(","):
                if "=" not in part and not values.NAME.fullmatch(part.strip()):
                    raise ValueError(f'"{part}" is neither a node, an instance type nor KEY=VALUE')

    return values.Checked(VERBS[verb][0], check, empty=False)


def _changes(command: Any) -> Any:
    for verb, (metavar, text) in reversed(VERBS.items()):
        option = click.option(
            f"--{verb}", multiple=True, metavar=metavar, help=text, type=_change(verb),
            callback=_collect, expose_value=False, shell_complete=NAMES.get(verb),
        )  # fmt: skip
        command = option(command)
    return command


class InOrder(click.Command):
    """A command that knows in which order its changes were given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with click.core.augment_usage_errors(ctx):
            _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        ctx.ensure_object(dict)["order"] = [param.name for param in order]
        return super().parse_args(ctx, args)


@click.command(cls=InOrder)
@partial(
    source_options,
    config_help="Change the scheduler's configuration to this; see --current-config.",
    version_help="Change the scheduler to this version; the cluster's own is what it has now.",
)
@_changes
@click.option("--current-config", default="", type=values.FILE,
              help="What the scheduler has now; the defaults if not given.")  # fmt: skip
@click.option("--each", type=click.Choice(["node", "zone"]),
              help="Instead: drain every node, or lose every zone, one at a time.")  # fmt: skip
@click.option("--strict", is_flag=True, help="Also fail if a new pod would stay pending.")
@click.option("-o", "--output", type=click.Choice([*FORMATS, "junit"]), default="text",
              show_default=True, help="junit is for CI.")  # fmt: skip
@click.pass_context
def command(
    ctx: click.Context, /, *, current_config: str, each: str | None, strict: bool, output: str,
    **source: Any,
) -> None:  # fmt: skip
    """Tell what would happen, without touching the cluster: `bayplan whatif --drain node-3`.

    Changes are carried out in the order in which they are given; --config, --plugins and
    --emulated-version change the scheduler first. Exit code 0: everything that runs would still
    run; 1: not everything, or a drain would not end.
    """
    from bayplan.inspect.whatif import each as try_each
    from bayplan.inspect.whatif import what_if
    from bayplan.inspect.whatif.junit import junit_each, junit_what_if

    changes = ordered(ctx.ensure_object(dict))
    if each and changes:
        raise click.UsageError("--each tries nodes or zones by itself; give no other change")
    wanted = {name: source[name] for name in ("config", "plugins", "emulated_version")}
    if not (each or changes or any(wanted.values())):
        raise click.UsageError("no change is given; try --drain NODE, or --each node")
    gates = source["feature_gates"]
    if not gates:
        settings_of(**wanted)  # what is wrong with it is told before reading
    cluster = load_cluster(**{**source, "config": current_config, "emulated_version": ""})
    settings = None
    if any(wanted.values()):
        wanted["emulated_version"] = wanted["emulated_version"] or cluster.settings.gates.version
        settings = settings_of(**wanted, feature_gates=gates)
    if each:
        tried = try_each(cluster.with_settings(settings) if settings else cluster, each)
        _print(tried, output, lambda: junit_each(tried))
        sys.exit(0 if tried.ok else 1)
    found = what_if(cluster, changes, settings=settings)
    _print(found, output, lambda: junit_what_if(found))
    sys.exit(0 if found.ok and not (strict and found.new_pending) else 1)


def _print(answer: Any, output: str, junit: Any) -> None:
    if output == "junit":
        click.echo(junit())
    else:
        show(answer, output, lambda: str(answer))


def ordered(given: dict[str, list[str]]) -> list[AnyChange]:
    """The changes in the order of the command line."""
    from bayplan.inspect.whatif import parse_change

    left = {verb: list(given.get(verb, ())) for verb in VERBS}
    verbs = [name for name in given.get("order", ()) if name in left]
    return [parse_change(verb, left[verb].pop(0)) for verb in verbs if left[verb]]
