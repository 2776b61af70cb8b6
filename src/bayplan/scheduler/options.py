"""From flags and files to everything that a scheduler process needs to start.

As upstream: with `--config` the file decides, except that leader-election flags on the command
line override it; without it the deprecated flags fill in a default configuration. Loading again
(`reload`) reads the same file and plugins anew and leaves what a running process cannot change.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from bayplan.client import Connection, load_kubeconfig
from bayplan.config import (
    ClientConnectionConfiguration,
    FeatureGates,
    KubeSchedulerConfiguration,
    LeaderElectionConfiguration,
    complete,
    default_config,
    load_file,
    parse_duration,
    parse_gates,
)
from bayplan.errors import ConfigError
from bayplan.scheduler.flags import Values

ELECTION_FLAGS = {
    "leader-elect-lease-duration": "lease_duration",
    "leader-elect-renew-deadline": "renew_deadline",
    "leader-elect-retry-period": "retry_period",
    "leader-elect-resource-lock": "resource_lock",
    "leader-elect-resource-name": "resource_name",
    "leader-elect-resource-namespace": "resource_namespace",
}


class Options(msgspec.Struct, frozen=True):
    """A scheduler process, ready to start."""

    config: KubeSchedulerConfiguration
    gates: FeatureGates
    values: Values
    config_file: str = ""
    warnings: tuple[str, ...] = ()

    def connection(self) -> Connection:
        """Return the API server to talk to."""
        kubeconfig = self.config.client_connection.kubeconfig
        return load_kubeconfig(kubeconfig or None, master=self.values.text("master"))

    def watched_files(self) -> list[Path]:
        """Return the files whose change asks for a reload."""
        files = [Path(self.config_file)] if self.config_file else []
        files += [Path(item) for item in self.values.items("plugins") if item.endswith(".py")]
        return files


def load_options(values: Values) -> Options:
    """Turn flags into options; raise ConfigError (or InvalidConfig) that says what to change."""
    if values.text("logging-format") not in ("text", "json"):
        raise ConfigError(
            f'--logging-format "{values.text("logging-format")}" is not known; use text or json'
        )
    gates = parse_gates(values.text("feature-gates"))
    file = values.text("config") or values.text("policy-config-file")
    warnings = [f"--{name} has no meaning here and is ignored" for name in values.without_meaning()]
    if file:
        loaded = load_file(file, gates)
        config = loaded.config
        warnings += loaded.warnings
        ignored = ("kubeconfig", "kube-api-qps", "kube-api-burst", "profiling")
        warnings += [
            f"--{name} is ignored because --config is given"
            for name in ignored
            if name in values.given and values.text("config")
        ]
    else:
        config = _from_flags(values, gates)
    return Options(
        config=_with_election(config, values, gates),
        gates=gates,
        values=values,
        config_file=file,
        warnings=tuple(warnings),
    )


def _from_flags(values: Values, gates: FeatureGates) -> KubeSchedulerConfiguration:
    connection = ClientConnectionConfiguration(
        kubeconfig=values.text("kubeconfig"),
        qps=values.number("kube-api-qps"),
        burst=values.integer("kube-api-burst"),
    )
    config = msgspec.structs.replace(
        default_config(gates),
        client_connection=connection,
        enable_profiling=values.boolean("profiling"),
    )
    return complete(config, gates)


def _with_election(
    config: KubeSchedulerConfiguration, values: Values, gates: FeatureGates
) -> KubeSchedulerConfiguration:
    changes: dict[str, object] = {}
    if "leader-elect" in values.given:
        changes["leader_elect"] = values.boolean("leader-elect")
    for flag, field in ELECTION_FLAGS.items():
        if flag in values.given:
            text = values.text(flag)
            changes[field] = parse_duration(text) if "resource" not in flag else text
    if not changes:
        return config
    election: LeaderElectionConfiguration = msgspec.structs.replace(
        config.leader_election, **changes
    )
    return complete(msgspec.structs.replace(config, leader_election=election), gates)
