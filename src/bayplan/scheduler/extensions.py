"""Outside plugins: loads them at start and again when their files change.

`--plugins` takes module names and paths of Python files; each holds `PLUGINS`, a dict from plugin
name to factory. Modules are also looked for in the current directory, as `python -m` does.
Packages may also offer entry points (see `framework.registry`). A file is read
anew at every load; a module that was imported before is reloaded, so that an edit takes effect
without a restart. Kept bytecode is not believed: it knows a source by its size and whole second,
which two edits may share. A module that fails to load is a ConfigError that names it: at start the
process ends, on a reload the plugins in use stay.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path

from bayplan.errors import ConfigError, Importing
from bayplan.framework import Registry, from_entry_points, from_modules, merge
from bayplan.plugins import in_tree_registry


def load_registry(items: Sequence[str], *, again: bool = False) -> Registry:
    """Return the factories of all plugins, in-tree and outside; `again` reloads modules."""
    names = [item for item in items if not item.endswith(".py")]
    here = str(Path.cwd())
    if names and here not in sys.path:
        sys.path.append(here)  # last: a file here must not hide an installed package
    if again:
        for name in names:
            _reload(name)
    files = [_from_file(Path(item)) for item in items if item.endswith(".py")]
    return merge(in_tree_registry(), from_entry_points(), from_modules(names), *files)


def _reload(name: str) -> None:
    module = sys.modules.get(name)
    if module is None:
        return
    if (file := module.__file__) is not None and file.endswith(".py"):
        Path(importlib.util.cache_from_source(file)).unlink(missing_ok=True)
    with Importing(f'reloading plugin module "{name}"'):  # if it fails, the old ones stay in use
        importlib.reload(module)


class _Source(SourceFileLoader):
    """Reads a file, and neither reads nor keeps bytecode of it."""

    def path_stats(self, path: str) -> Mapping[str, int]:
        raise OSError("bytecode could be of another text")  # what `get_code` takes for "no cache"


def _from_file(path: Path) -> Registry:
    if not path.is_file():
        raise ConfigError(f'plugin file "{path}" does not exist; check --plugins')
    name = f"bayplan_plugin_{path.stem}"
    spec = importlib.util.spec_from_loader(name, _Source(name, str(path)))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with Importing(f'loading plugin file "{path}"'):
        spec.loader.exec_module(module)
        plugins = getattr(module, "PLUGINS", None)
    if not isinstance(plugins, Mapping) or not all(callable(item) for item in plugins.values()):
        raise ConfigError(
            f'plugin file "{path}" has no PLUGINS; define PLUGINS = {{"MyPlugin": new}}'
        )
    return dict(plugins)
