"""The table of commands and their defaults agree with what there is."""

import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from bayplan import lessons
from bayplan.cli.main import COMMANDS, bayplan

NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def default_of(words: list[str], flag: str) -> object:
    command = bayplan
    for word in words:
        command = command.get_command(None, word)
    return next(option.default for option in command.params if flag in option.opts)


def test_the_number_of_lessons_is_right():
    names = [item.name for item in pkgutil.iter_modules(lessons.__path__)]
    count = sum(bool(re.fullmatch(r"lesson\d+", name)) for name in names)

    assert COMMANDS["learn"].startswith(NUMBERS[count - 1])


def test_no_two_servers_listen_on_the_same_port_by_default():
    addresses = [default_of([name], "--bind") for name in ("up", "apiserver")]
    addresses.append(default_of(["extender", "serve"], "--bind"))

    assert len(set(addresses)) == len(addresses)


def test_the_extender_kit_agrees_with_its_command():
    listen = importlib.import_module("bayplan.extender.serve").Listen()

    assert default_of(["extender", "serve"], "--bind") == f"{listen.host}:{listen.port}"


def test_the_package_itself_is_the_command():
    shown = subprocess.run(
        [sys.executable, "-m", "bayplan", "--version"], capture_output=True, text=True, check=True
    )

    assert shown.stdout.startswith("bayplan, version ")


def test_programs_that_tests_start_are_those_of_this_tree(tmp_path):
    command = [sys.executable, "-c", "import bayplan; print(bayplan.__file__)"]
    shown = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)

    assert Path(__file__).parents[2] / "src/bayplan/__init__.py" == Path(shown.stdout.strip())


def test_a_mistyped_command_is_answered_with_the_nearest():
    found = CliRunner().invoke(bayplan, ["wy", "web-0"])

    assert 2 == found.exit_code
    assert "No such command 'wy'. Did you mean why?" in found.output


@pytest.mark.parametrize(
    "arguments",
    [
        ["global", "why", "nothing.json", "--server", "http://127.0.0.1:1"],
        ["global", "whatif", "--lose", "site1", "--server", "http://127.0.0.1:1"],
        ["global", "drain", "site1", "--server", "http://127.0.0.1:1"],
        ["extender", "replay", "missing.jsonl.gz", "http://127.0.0.1:1"],
        ["diff", "missing.yaml", "missing.yaml"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_where_one_is_an_answer_errors_exit_with_two(arguments, tmp_path):
    command = [sys.executable, "-m", "bayplan", *arguments]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert 2 == found.returncode, found.stderr
    assert found.stderr.strip()
