"""Plugin files and modules are read as they are now, never as bytecode remembers them."""

import os
import sys

import pytest

from bayplan.scheduler.extensions import load_registry

MOMENT = 1_700_000_000
TEXT = "PLUGINS = {{'Mine': lambda *a: {}}}\n"


def written(path, answer, part):
    """Write a version of a plugin: of equal size, within the same second."""
    path.write_text(TEXT.format(answer))
    os.utime(path, ns=(0, MOMENT * 10**9 + part))


@pytest.fixture(autouse=True)
def bytecode(monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)


def test_a_file_changed_twice_within_a_second_is_read_anew(tmp_path):
    path = tmp_path / "swift.py"
    found = []
    for answer in (1, 2, 3):
        written(path, answer, answer)
        found.append(load_registry([str(path)])["Mine"]())

    assert [1, 2, 3] == found


def test_a_module_changed_twice_within_a_second_is_read_anew(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    found = []
    for answer in (1, 2, 3):
        written(tmp_path / "swift_module.py", answer, answer)
        found.append(load_registry(["swift_module"], again=answer > 1)["Mine"]())

    del sys.modules["swift_module"]
    assert [1, 2, 3] == found
