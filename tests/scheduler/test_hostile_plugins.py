"""Code that runs at import can end neither the process nor a background task."""

import pytest

from bayplan.errors import ConfigError
from bayplan.extender.serve import load
from bayplan.framework.contract.registry import from_modules
from bayplan.scheduler.extensions import load_registry


def test_a_plugin_file_that_exits_is_an_error(tmp_path):
    path = tmp_path / "leaving.py"
    path.write_text("import sys\nsys.exit(3)\n")

    with pytest.raises(ConfigError, match=r"leaving\.py"):
        load_registry([str(path)])


def test_a_plugin_module_that_exits_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "leaving_module.py").write_text("raise SystemExit\n")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(ConfigError, match="leaving_module"):
        from_modules(["leaving_module"])


def test_an_extender_that_exits_is_an_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "leaving_extender.py").write_text("raise SystemExit\n")

    with pytest.raises(ConfigError, match="leaving_extender"):
        load("leaving_extender:app")
