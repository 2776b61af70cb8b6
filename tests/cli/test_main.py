"""The table of commands and their defaults agree with what there is."""

import importlib
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from bayplan import lessons
from bayplan.cli.main import COMMANDS, bayplan, main

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
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


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("wy web-0", "no such command 'wy'. Did you mean why?"),
        ("extender nwe", "did you mean new?"),
        ("trace play t.csv", "There are generate, import, reproduce, run."),
        ("ui --scenario first-pod", "ui SCENARIO"),
        ("why --pod web-0", "why POD"),
        ("whatif drain worker-1", "Did you mean --drain?"),
        ("up --nodse 3", "no such option '--nodse'. Did you mean '--nodes'?"),
        ("scheduler --kubeconfig .", "for flag --kubeconfig (file): it is a folder"),
        ("scheduler --secure-port x", "for flag --secure-port (int): it is no whole number"),
        ("global validate nosuch", "nosuch is not a directory"),
        ("scenario run fist-pod", "did you mean first-pod?\n"),
        ("capacity", "name what should fit: deployment/web, pod/web-0, FILE.yaml or cpu=1"),
    ],
)
def test_a_line_that_is_not_understood_is_answered_with_what_may_be_meant(
    line, hint, monkeypatch, capsys
):
    monkeypatch.setattr(sys, "argv", ["bayplan", *line.split()])

    with pytest.raises(SystemExit) as ended:
        main()

    assert 2 == ended.value.code
    assert hint in capsys.readouterr().err


def test_kubectl_s_plugins_call_themselves_as_they_are_called():
    program = "import sys; sys.argv[0] = '/a/kubectl-why'; import bayplan.__main__ as it; it.main()"
    shown = subprocess.run(
        [sys.executable, "-c", program, "--help"], capture_output=True, text=True
    )

    assert shown.stdout.startswith("Usage: kubectl why [OPTIONS]")


SCRIPTS = tomllib.loads(PYPROJECT.read_text())["project"]["scripts"]
INTERRUPTED = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # who started us may have ignored it
class CtrlC:
    def find_spec(self, name, path=None, target=None):
        if name == "click":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, CtrlC())
sys.argv[0] = "{name}"
from {module} import {function} as run
run()
"""


@pytest.mark.parametrize("name", ["bayplan", "kubectl-why", "kubectl_complete-why"])
def test_ctrl_c_while_the_program_is_being_imported_is_no_error(name):
    module, _, function = SCRIPTS[name].partition(":")
    program = INTERRUPTED.format(name=name, module=module, function=function)
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert (130, "") == (found.returncode, found.stderr)


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


@pytest.mark.parametrize(
    "line",
    [
        "envtest-assets",
        "extender new",
        "global init",
    ],
)
def test_a_place_that_cannot_be_written_is_named_without_a_traceback(
    line, monkeypatch, tmp_path, capsys
):
    (tmp_path / "file").write_text("")
    place = tmp_path / "file" / "new" / "one"
    monkeypatch.setattr(sys, "argv", ["bayplan", *line.split(), str(place)])

    with pytest.raises(SystemExit) as ended:
        main()

    assert 1 == ended.value.code
    said = capsys.readouterr().err
    assert re.fullmatch(r'error: "\S+/file/new\S*": Not a directory; name another\n', said)
