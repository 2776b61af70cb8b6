"""How the cluster's scheduler is set up: its configuration, feature gates and plugins.

Without a configuration file the defaults are taken. Extenders are named but not called from
outside: a question must not reach addresses that only the scheduler is meant to reach. A scheduler
that answers for itself asks its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from bayplan.config import (
    DEFAULT_GATES,
    FeatureGates,
    KubeSchedulerConfiguration,
    default_config,
    load_file,
    parse_gates,
    parse_version,
)
from bayplan.config.gates import NEWEST, VERSIONS
from bayplan.framework.contract.extender import Extender
from bayplan.framework.contract.registry import Factory
from bayplan.plugins import in_tree_registry


class Settings(msgspec.Struct, frozen=True):
    """A scheduler's configuration, complete."""

    config: KubeSchedulerConfiguration
    gates: FeatureGates = DEFAULT_GATES
    registry: Mapping[str, Factory] = msgspec.field(default_factory=in_tree_registry)
    source: str = "the defaults"
    warnings: tuple[str, ...] = ()
    told: bool = False
    """Whether the version was asked for, not found out."""
    extenders: Sequence[Extender] = ()
    """Asked only where the scheduler answers for itself."""

    @property
    def own(self) -> bool:
        """Whether somebody who knows only the version would assume another scheduler."""
        outside = set(self.registry) - set(in_tree_registry())
        given = self.extenders or outside or self.gates.changed
        return bool(given) or self.config != default_config(self.gates)

    @property
    def title(self) -> str:
        """What a person would call it: where it comes from, and the version that it decides as."""
        return f"{self.source} ({self.gates.version})"

    @property
    def scheduler_names(self) -> tuple[str, ...]:
        return tuple(profile.scheduler_name for profile in self.config.profiles)


def version_key(text: str) -> tuple[int, ...]:
    """The numbers of `v1.36.4-gke.1` for comparing; empty if it is no version."""
    match = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", text)
    return () if match is None else tuple(int(part or 0) for part in match.groups())


def version_for(server: str) -> str:
    """The version to decide as, for a server that calls itself `v1.36.4`; unknown is the newest."""
    found = version_key(server)[:2]
    if not found:
        return NEWEST
    known = {version_key(version)[:2]: version for version in VERSIONS}
    at_most = [number for number in known if number <= found]
    return known[max(at_most)] if at_most else known[min(known)]


def load_settings(
    config: str | Path = "",
    *,
    feature_gates: str = "",
    emulated_version: str = "",
    registry: Mapping[str, Factory] | None = None,
) -> Settings:
    """Read a configuration file, or take the defaults; raises ConfigError."""
    gates = parse_gates(feature_gates, parse_version(emulated_version))
    plugins = in_tree_registry() if registry is None else registry
    if not config:
        return Settings(default_config(gates), gates, plugins)
    loaded = load_file(config, gates)
    warnings = list(loaded.warnings)
    if loaded.config.extenders:
        names = ", ".join(item.url_prefix for item in loaded.config.extenders)
        warnings.append(f"extenders are not asked, so answers leave them out: {names}")
    return Settings(loaded.config, gates, plugins, str(config), tuple(warnings))
