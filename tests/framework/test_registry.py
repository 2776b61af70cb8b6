"""Plugins of installed packages are found by their entry points."""

import sys

import pytest

from bayplan.errors import ConfigError
from bayplan.framework import from_entry_points


def install(folder, name, value):
    """What pip leaves behind of a package with one plugin."""
    info = folder / "friendly-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: friendly\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[bayplan.plugins]\n{name} = {value}\n")
    (folder / "friendly_plugin.py").write_text(
        "def new(args, handle):\n    return None\nother = 1\n"
    )


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("friendly_plugin:new", ""),
        ("friendly_plugin:gone", 'loading plugin "Friendly" from entry point'),
        ("friendly_plugin:other", "is not a factory"),
    ],
)
def test_entry_points(tmp_path, monkeypatch, value, problem):
    install(tmp_path, "Friendly", value)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("friendly_plugin", None)

    if problem:
        with pytest.raises(ConfigError, match=problem):
            from_entry_points()
    else:
        assert "Friendly" in from_entry_points()
