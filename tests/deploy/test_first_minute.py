"""What `make demo` does on a fresh clone: it waits for nothing that only development needs."""

import os
import shutil
import subprocess
import sys
import tomllib
from importlib.machinery import SourceFileLoader
from importlib.metadata import requires
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]


def test_the_demo_needs_only_what_running_needs(tmp_path):
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "hack/install-runtime"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    done = subprocess.run(
        ["make", "--no-print-directory", "--dry-run", "demo"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )

    steps = [line.split("#")[0].strip() for line in done.stdout.splitlines()]
    assert steps == [
        "python3 hack/install-runtime .venv",
        "touch .venv/.runtime",
        ".venv/bin/bayplan demo",
    ]


@pytest.mark.parametrize("name", ["plain", "with a space", "it's", "long" * 50])
def test_the_commands_run_wherever_the_clone_is(name, tmp_path):
    python = tmp_path / name / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / name], check=True)
    script = load("install-runtime", ROOT / "hack" / "install-runtime")
    script.link_source(tmp_path, python, {"arguments": "told:main"})
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "told.py").write_text(
        "import sys\ndef main(): print(sys.argv[1:])\n", "utf-8"
    )
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    told = subprocess.check_output(
        [python.parent / "arguments", "a b", "$c"], env=environment, text=True
    )

    assert "['a b', '$c']\n" == told


def test_a_python_without_pip_is_told_what_to_install(tmp_path):
    """Debian leaves pip and ensurepip out of its python3."""
    without = "import runpy, sys; sys.modules.update(pip=None, ensurepip=None); sys.argv.pop(0)"
    run = "; runpy.run_path(sys.argv[0], run_name='__main__')"
    words = [ROOT / "hack" / "install-runtime", tmp_path / "venv"]
    done = subprocess.run(
        [sys.executable, "-c", without + run, *words], capture_output=True, text=True, check=False
    )

    assert (1, False) == (done.returncode, (tmp_path / "venv").exists())
    assert "apt install python3-venv" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_first_part_of_the_constraints_is_all_that_running_needs():
    """On every Python that is supported: pip is told to install these and to ask for no more."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    script = load("install-runtime", ROOT / "hack" / "install-runtime")
    lines = script.runtime_packages((ROOT / "constraints.txt").read_text("utf-8"))

    pinned = {canonicalize_name(line.partition("==")[0]) for line in lines}
    assert needed(project["dependencies"]) == pinned


def needed(dependencies):
    """The names that requirements come to, by what is installed here."""
    found, todo = set(), [Requirement(each) for each in dependencies]
    while todo:
        name = canonicalize_name(todo.pop().name)
        if name not in found:
            found.add(name)
            further = [Requirement(each) for each in requires(name) or []]
            todo += [each for each in further if each.marker is None or asked(each.marker)]
    return found


def asked(marker):
    versions = ("3.11", "3.12", "3.13", "3.14")
    given = [{"python_version": each, "python_full_version": f"{each}.0"} for each in versions]
    return any(marker.evaluate({"extra": "", **each}) for each in given)


def load(name, path):
    loader = SourceFileLoader(name, str(path))
    module = module_from_spec(spec_from_loader(name, loader))
    loader.exec_module(module)
    return module
