"""From flags and files to everything that a scheduler process needs to start.

As upstream: with `--config` the file decides, except that leader-election flags on the command
line override it; without it the deprecated flags fill in a default configuration. Loading again
(`reload`) reads the same file and plugins anew and leaves what a running process cannot change.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from bayplan.client import ClientError, Connection, load_kubeconfig
from bayplan.client.resources import CONFIG_MAPS
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
    parse_version,
)
from bayplan.config.load import ConfigMapReader, Loaded, load
from bayplan.errors import ConfigError
from bayplan.scheduler.flags import Values

# What a process takes once, when it starts: the Lease that it holds and its connections.
FIXED = {
    "leader_election": "leaderElection",
    "client_connection": "clientConnection",
    "delay_cache_until_active": "delayCacheUntilActive",
}

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
        if kubeconfig and self.values.text("config") and not Path(kubeconfig).is_file():
            raise ConfigError(
                f'{self.config_file}: clientConnection.kubeconfig: "{kubeconfig}" does not exist'
            )
        return load_kubeconfig(kubeconfig or None, master=self.values.text("master"))

    def watched_files(self) -> list[Path]:
        """Return the files whose change asks for a reload."""
        files = [Path(self.config_file)] if self.config_file else []
        files += [Path(item) for item in self.values.items("plugins") if item.endswith(".py")]
        return files

    def reload(self) -> Options:
        """Read everything anew; raise ConfigError if that would need another process.

        A new scheduler name under the old Lease, say, would let two schedulers place the same pods.
        """
        new = load_options(self.values)
        changed = [
            name
            for field, name in FIXED.items()
            if getattr(new.config, field) != getattr(self.config, field)
        ]
        if changed:
            raise ConfigError(
                f"{' and '.join(changed)} cannot change while the scheduler runs; restart it"
            )
        return new


def load_options(values: Values) -> Options:
    """Turn flags into options; raise ConfigError (or InvalidConfig) that says what to change."""
    version = parse_version(values.text("emulated-version"))
    gates = parse_gates(values.text("feature-gates"), version)
    file = values.text("config") or values.text("policy-config-file")
    warnings = [f"--{name} has no meaning here and is ignored" for name in values.without_meaning()]
    read = _config_map_reader(values)
    map_name = "" if file else values.text("policy-configmap")
    if file or map_name:
        if map_name:
            loaded = _from_config_map(map_name, values, gates, read)
        else:
            loaded = load_file(file, gates, read)
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


def _config_map_reader(values: Values) -> ConfigMapReader:
    """Return what reads a ConfigMap of the cluster, for the old forms that keep their Policy there.

    Options are loaded before and beside the event loop, so the request has a loop of its own.
    """

    async def fetch(namespace: str, name: str) -> bytes:
        from bayplan.client import connect

        connection = load_kubeconfig(
            values.text("kubeconfig") or None, master=values.text("master")
        )
        client = connect(connection)
        try:
            return await client.get(CONFIG_MAPS, name, namespace)
        finally:
            await client.close()

    def read(namespace: str, name: str) -> dict[str, str]:
        with ThreadPoolExecutor(1) as pool:
            try:
                body = pool.submit(lambda: asyncio.run(fetch(namespace, name))).result()
            except ClientError as problem:
                raise ConfigError(f'reading ConfigMap "{namespace}/{name}": {problem}') from problem
        data: dict[str, str] = msgspec.json.decode(body).get("data") or {}
        return data

    return read


def _from_config_map(
    name: str, values: Values, gates: FeatureGates, read: ConfigMapReader
) -> Loaded:
    data = read(values.text("policy-configmap-namespace"), name)
    document = {"kind": "ConfigMap", "apiVersion": "v1", "data": dict(data)}
    loaded = load(msgspec.json.encode(document), gates)
    settings = msgspec.structs.replace(
        loaded.config.client_connection, kubeconfig=values.text("kubeconfig")
    )
    config = msgspec.structs.replace(loaded.config, client_connection=settings)
    return Loaded(config, loaded.warnings)


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
