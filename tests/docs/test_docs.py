"""The documentation is true: links lead somewhere, commands exist, marked examples run."""

import re
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from bayplan.cli.main import bayplan
from bayplan.errors import BayplanError
from tests.docs.pages import ROOT, WALKED, Block, anchors, blocks, commands, links, pages

PAGES = [pytest.param(page, id=str(page.relative_to(ROOT))) for page in pages()]
WORD = re.compile(r"^[a-z][a-z-]*$")
HERE = ("tests/", "examples/", "deploy/")  # arguments that name files of the checkout


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: Path):
    dead = []
    for target in links(page):
        path, _, anchor = target.partition("#")
        if "://" in target:
            continue
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            dead.append(target)

    assert [] == dead


@pytest.mark.parametrize("page", PAGES)
def test_commands_and_their_flags_exist(page: Path):
    problems = [problem for words in commands(page) if (problem := _problem_of(words))]

    assert [] == problems


def _problem_of(words: list[str]) -> str:
    """What is wrong with a command line; the words of its arguments are not looked at."""
    command: click.Command = bayplan
    rest = [word for word in words if word not in ("…", "...")]
    while isinstance(command, click.Group) and rest and WORD.match(rest[0]):
        context = click.Context(command)
        found = command.get_command(context, rest[0])
        if found is None:
            break
        command, rest = found, rest[1:]
    if _needs_a_word(command) and rest and WORD.match(rest[0]):
        return f"no such command: bayplan {' '.join(words)}"
    known = _flags(command)
    flags = {word.split("=")[0] for word in rest if re.match(r"^--?[a-z]", word)}
    unknown = flags - known - {"--help", "-h", "--version"}
    return f"bayplan {' '.join(words)}: no flag {', '.join(sorted(unknown))}" if unknown else ""


def _needs_a_word(command: click.Command) -> bool:
    return isinstance(command, click.Group) and type(command).__name__ != "DefaultsToServe"


def _flags(command: click.Command) -> set[str]:
    if command.name == "scheduler":  # kube-scheduler's flags have a parser of their own
        shown = CliRunner().invoke(command, ["--help"]).output
        return set(re.findall(r"^\s+(--?[a-z0-9-]+)", shown, flags=re.MULTILINE))
    known = {name for item in command.params for name in (*item.opts, *item.secondary_opts)}
    if isinstance(command, click.Group) and "serve" in command.list_commands(
        click.Context(command)
    ):  # `serve` may be left out
        serve = command.get_command(click.Context(command), "serve")
        assert serve is not None
        known |= _flags(serve)
    return known


@pytest.mark.parametrize("page", PAGES)
def test_every_shown_session_is_run_or_says_why_not(page: Path):
    if str(page.relative_to(ROOT)) in WALKED:
        return
    silent = [
        block.lines[:1]
        for block in blocks(page)
        if block.language == "console"
        and not any(mark == "tested" or mark.startswith("reason=") for mark in block.marks)
    ]

    assert [] == silent


TESTED = [
    pytest.param(page, id=str(page.relative_to(ROOT)))
    for page in pages()
    if any(block.file or "tested" in block.marks for block in blocks(page))
]


@pytest.mark.parametrize("page", TESTED)
def test_marked_blocks_run_and_print_what_is_shown(page: Path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    for block in blocks(page):
        if block.file:
            Path(block.file).write_text("\n".join(block.lines) + "\n")
        if "tested" in block.marks:
            _run(block)
    for test in sorted(tmp_path.glob("test_*.py")):
        _call_tests(test)
    for name in [path.stem for path in tmp_path.glob("*.py")]:
        sys.modules.pop(name, None)  # the next page may have another module of this name


def _run(block: Block) -> None:
    """Run each `$ bayplan …` line; every line shown below it must be in its output, in order.

    Each must end with the code 0, or the block says otherwise: with `exits=1` one ends with 1.
    """
    output: list[str] = []
    codes: set[int] = set()
    for line in block.lines:
        if line.startswith("$ "):
            code, output = _output_of(line.removeprefix("$ "))
            codes.add(code)
        elif line.strip() not in ("", "…"):
            shown = re.escape(line.strip()).replace("…", ".*")
            place = next((i for i, got in enumerate(output) if re.fullmatch(shown, got)), None)
            assert place is not None, f"{line!r} is not in the output, or too early: {output}"
            output = output[place + 1 :]
    assert block.exits == max(codes, default=0)


def _output_of(line: str) -> tuple[int, list[str]]:
    program, *words = line.split()
    assert "bayplan" == program
    words = [str(ROOT / word) if word.startswith(HERE) else word for word in words]
    result = CliRunner().invoke(bayplan, words)
    if isinstance(result.exception, BayplanError):
        return 1, [f"error: {result.exception}"]
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, [text.strip() for text in result.output.splitlines()]


def _call_tests(file: Path) -> None:
    """Call the test functions of an example, without another pytest process."""
    namespace: dict[str, object] = {}
    exec(compile(file.read_text(), file, "exec"), namespace)
    tests = [item for name, item in namespace.items() if name.startswith("test_")]

    assert tests
    for test in tests:
        assert callable(test)
        test()
