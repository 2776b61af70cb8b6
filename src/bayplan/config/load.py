"""Loads the scheduler's configuration: decode strictly, fill in defaults, validate.

Accepts KubeSchedulerConfiguration v1 as YAML or JSON, and the files of older schedulers that
`policy` knows (a Policy, a ConfigMap that holds one, a componentconfig with `algorithmSource`),
which are converted with a warning. Every problem of a file is reported at once. It opens the one
file it is given and those that an `algorithmSource` names, nothing else.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from bayplan.api import yaml
from bayplan.config.args import NodeResourcesFitArgs
from bayplan.config.decode import decode
from bayplan.config.defaults import set_defaults
from bayplan.config.fields import InvalidConfig
from bayplan.config.gates import DEFAULT_GATES, FeatureGates
from bayplan.config.types import API_VERSION, KIND, KubeSchedulerConfiguration, PluginConfig
from bayplan.config.validation import validate
from bayplan.errors import ConfigError, DecodeError

ConfigMapReader = Callable[[str, str], Mapping[str, str]]
"""Returns the `data` of a ConfigMap, given its namespace and name."""


class Loaded(msgspec.Struct, frozen=True):
    """A complete, valid configuration and what the user should know about its file."""

    config: KubeSchedulerConfiguration
    warnings: tuple[str, ...] = ()


def load_file(
    path: str | Path,
    gates: FeatureGates = DEFAULT_GATES,
    read_config_map: ConfigMapReader | None = None,
) -> Loaded:
    """Load a file; every error names it."""
    try:
        return load(_read(path), gates, read_config_map)
    except InvalidConfig as problem:
        named = InvalidConfig(problem.problems, str(path), problem.config)
        named.warnings = problem.warnings
        raise named from problem
    except (DecodeError, ConfigError) as problem:
        raise ConfigError(f'loading configuration "{path}": {problem}') from problem


def _read(path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as problem:
        raise ConfigError(problem.strerror or str(problem)) from problem


def read_document(path: str | Path) -> dict[str, Any]:
    """The data of a file as a v1 document, converted if it is old, without defaults."""
    return _document(_read(path), None, [])


def load(
    data: str | bytes,
    gates: FeatureGates = DEFAULT_GATES,
    read_config_map: ConfigMapReader | None = None,
) -> Loaded:
    """Load YAML or JSON text."""
    warnings: list[str] = []
    document = _document(data, read_config_map, warnings)
    warnings += _zero_weights(document)
    try:
        return Loaded(from_data(document, gates), tuple(warnings))
    except InvalidConfig as problem:
        problem.warnings = tuple(warnings)
        raise


def _document(
    data: str | bytes, read_config_map: ConfigMapReader | None, warnings: list[str]
) -> dict[str, Any]:
    document = yaml.load(data)
    if not isinstance(document, dict):
        found = "nothing" if document is None else f"{document!r:.40}"
        raise ConfigError(f"expected an object with apiVersion and kind, got {found}")
    from bayplan.config.policy import convert_legacy, is_legacy  # not without a file

    if is_legacy(document):
        return convert_legacy(document, read_config_map, warnings)
    return document


def _zero_weights(document: Mapping[str, Any]) -> list[str]:
    """Name each weight of 0, which kube-scheduler takes for 1 without a word."""

    def items(data: object, key: str) -> list[Any]:
        found = data.get(key) if isinstance(data, Mapping) else None
        return found if isinstance(found, list) else []

    found = []
    for i, profile in enumerate(items(document, "profiles")):
        plugins = profile.get("plugins") if isinstance(profile, Mapping) else None
        for point, group in plugins.items() if isinstance(plugins, Mapping) else ():
            for j, plugin in enumerate(items(group, "enabled")):
                if isinstance(plugin, Mapping) and plugin.get("weight") == 0:
                    where = f"profiles[{i}].plugins.{point}.enabled[{j}].weight"
                    name = plugin.get("name")
                    found.append(f"{where}: 0 means 1; to switch {name} off, list it in disabled")
    return found


def from_data(
    document: Mapping[str, Any], gates: FeatureGates = DEFAULT_GATES
) -> KubeSchedulerConfiguration:
    """Build a configuration from the JSON data of a v1 file; raise InvalidConfig with all
    problems."""
    body = dict(document)
    _check_kind(body.pop("apiVersion", None), body.pop("kind", None))
    problems: list[str] = []
    config = decode(body, KubeSchedulerConfiguration, "", problems)
    if not gates.since("1.37"):
        problems += [
            f'unknown field "profiles[{number}].plugins.podGroupPostFilter"'
            for number, profile in enumerate(config.profiles)
            if profile.plugins.pod_group_post_filter is not None
        ]
    if not problems:
        return complete(config, gates)
    # What could be read is looked at too: a person wants to hear of everything in one round.
    config = set_defaults(config, gates)
    found = [f"strict decoding error: {problem}" for problem in problems]
    raise InvalidConfig(found + validate(config, gates), config=config)


def complete(
    config: KubeSchedulerConfiguration, gates: FeatureGates = DEFAULT_GATES
) -> KubeSchedulerConfiguration:
    """Fill in defaults and validate."""
    config = set_defaults(config, gates)
    problems = validate(config, gates)
    if problems:
        raise InvalidConfig(problems, config=config)
    return _leave_to_extenders(config)


def default_config(gates: FeatureGates = DEFAULT_GATES) -> KubeSchedulerConfiguration:
    """What an empty file means."""
    return complete(KubeSchedulerConfiguration(), gates)


def _check_kind(version: object, kind: object) -> None:
    if kind is None or version is None:
        missing = "apiVersion" if kind else "kind"
        raise ConfigError(
            f"'{missing}' is missing; "
            f"begin the file with apiVersion: {API_VERSION} and kind: {KIND}"
        )
    if (version, kind) == (API_VERSION, KIND):
        return
    text = f'no kind "{kind}" is registered for version "{version}"'
    if kind == KIND and str(version).startswith("kubescheduler.config.k8s.io/"):
        text += f"; use {API_VERSION}, and see the migration notes of Kubernetes 1.25"
    else:
        text += f"; expected apiVersion: {API_VERSION}, kind: {KIND}"
    raise ConfigError(text)


def _leave_to_extenders(config: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """Resources that an extender asks the scheduler to ignore replace NodeResourcesFit's list."""
    ignored = tuple(
        resource.name
        for extender in config.extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    )
    if not ignored:
        return config
    replace = msgspec.structs.replace
    profiles = []
    for i, profile in enumerate(config.profiles):
        fit = profile.args("NodeResourcesFit")
        if not isinstance(fit, NodeResourcesFitArgs):
            raise ConfigError(
                f"profiles[{i}]: an extender asks to ignore {', '.join(ignored)}, "
                "but can't find NodeResourcesFitArgs in plugin config"
            )
        changed = PluginConfig(
            name="NodeResourcesFit", args=replace(fit, ignored_resources=ignored)
        )
        items = tuple(
            changed if item.name == changed.name else item for item in profile.plugin_config
        )
        profiles.append(replace(profile, plugin_config=items))
    return replace(config, profiles=tuple(profiles))
