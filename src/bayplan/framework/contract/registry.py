"""Where plugins come from: a dict literal, entry points of installed packages, named modules.

A registry maps a plugin's name to its factory `new(args, handle)`. Outside plugins are found in the
entry-point group `bayplan.plugins` (name = plugin name, value = `package.module:new`), or named
with `--plugins module`: such a module holds `PLUGINS`, a dict of the same shape.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import entry_points
from typing import Any

from bayplan.errors import ConfigError, Importing
from bayplan.framework.contract.points import Plugin

ENTRY_POINTS = "bayplan.plugins"

Factory = Callable[[Any, Any], Plugin]
"""`new(args, handle)`: `args` is the plugin's struct or JSON data from the configuration."""

Registry = dict[str, Factory]


def merge(*registries: Mapping[str, Factory]) -> Registry:
    """Join registries; a name that two of them hold is an error."""
    merged: Registry = {}
    for registry in registries:
        for name, factory in registry.items():
            if name in merged:
                raise ConfigError(f'a plugin named "{name}" already exists; rename one of the two')
            merged[name] = factory
    return merged


def from_entry_points(group: str = ENTRY_POINTS) -> Registry:
    """Factories of the plugins that installed packages offer."""
    found: Registry = {}
    for entry in entry_points(group=group):
        with Importing(f'loading plugin "{entry.name}" from entry point "{entry.value}"'):
            factory = entry.load()
        found[entry.name] = _checked(entry.name, factory, entry.value)
    return found


def from_modules(names: Iterable[str]) -> Registry:
    """Factories of the modules that a user named with `--plugins`."""
    registries = []
    for name in names:
        with Importing(f'loading plugin module "{name}"'):
            module = importlib.import_module(name)
            plugins = getattr(module, "PLUGINS", None)
        if not isinstance(plugins, Mapping):
            raise ConfigError(
                f'plugin module "{name}" has no PLUGINS; define PLUGINS = {{"MyPlugin": new}}'
            )
        registries.append({key: _checked(key, value, name) for key, value in plugins.items()})
    return merge(*registries)


def _checked(name: str, factory: object, where: str) -> Factory:
    if not callable(factory):
        raise ConfigError(f'plugin "{name}" of "{where}" is not a factory new(args, handle)')
    return factory
