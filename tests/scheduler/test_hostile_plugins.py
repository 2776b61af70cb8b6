"""Code that runs at import can end neither the process nor a background task."""

from pathlib import Path

import pytest

from bayplan.errors import BayplanError, ConfigError
from bayplan.extender.serve import load
from bayplan.framework.contract.registry import from_modules
from bayplan.lessons.runner import module_at
from bayplan.scheduler.extensions import load_registry
from bayplan.sim.load import load_scenario

LEAVING = {
    "raise KeyboardInterrupt": r": KeyboardInterrupt \({}\.py:2\)",
    "raise SystemExit(3)": r": SystemExit: 3 \({}\.py:2\)",
    "class Mine(BaseException): pass\nraise Mine('no')": r": Mine: no \({}\.py:3\)",
    "class Mine(Exception):\n    __str__ = sys.exit\nraise Mine": r": Mine \({}\.py:4\)",
    "{}['a']": r": KeyError: 'a' \({}\.py:2\)",
}
"""What a module may do when it is imported, and how that is told."""


def _file(path: Path) -> object:
    return load_registry([str(path)])


def _module(path: Path) -> object:
    return from_modules([path.stem])


def _extender(path: Path) -> object:
    return load(f"{path}:app")


def _scenario(path: Path) -> object:
    return load_scenario(path)


def _lesson(path: Path) -> object:
    return module_at(path)


@pytest.mark.parametrize("code", LEAVING)
@pytest.mark.parametrize("way", [_file, _module, _extender, _scenario, _lesson])
def test_whatever_a_module_raises_is_told_with_its_place(tmp_path, monkeypatch, way, code):
    path = tmp_path / f"leaving{way.__name__}.py"
    path.write_text(f"import sys\n{code}\n")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(BayplanError, match=LEAVING[code].format(path.stem)):
        way(path)


def test_a_plugin_file_that_exits_is_an_error(tmp_path):
    path = tmp_path / "leaving.py"
    path.write_text("import sys\nsys.exit(3)\n")

    with pytest.raises(ConfigError, match=r"leaving\.py"):
        load_registry([str(path)])


@pytest.mark.parametrize("way", [_file, _module])
def test_a_plugin_that_exits_when_it_is_looked_into_is_an_error(tmp_path, monkeypatch, way):
    path = tmp_path / f"looked_into{way.__name__}.py"
    # The import system itself looks for other names.
    path.write_text(
        "def __getattr__(name):\n    raise {'PLUGINS': SystemExit}.get(name, AttributeError)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(ConfigError, match=f"{path.stem}.*SystemExit"):
        way(path)


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
