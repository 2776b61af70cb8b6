"""The documentation is true: links lead somewhere, commands exist, marked examples run."""

import io
import json
import re
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from bayplan.cli.main import bayplan, main
from bayplan.sim import script
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


def test_every_field_of_a_scenario_is_described():
    text = (ROOT / "docs/reference/scenarios.md").read_text()
    table = text.split("## Top level")[1].split("\n## ")[0]

    described = set(re.findall(r"`(\w+)[`.]", "".join(re.findall(r"^\|([^|]+)\|", table, re.M))))

    assert {*script.TOP} == described


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


def test_every_command_is_in_the_list_of_commands():
    page = (ROOT / "docs" / "reference" / "cli.md").read_text("utf-8")
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("|")]
    missing = []
    for name in bayplan.list_commands(click.Context(bayplan)):
        command = bayplan.get_command(click.Context(bayplan), name)
        own = "".join(row for row in rows if re.search(rf"`bayplan {name}\b", row))
        group = isinstance(command, click.Group)
        parts = command.list_commands(click.Context(command)) if group else [name]
        missing += [f"{name} {part}" for part in parts if not re.search(rf"\b{part}\b", own)]

    assert [] == missing


@pytest.mark.parametrize("index", ["docs/README.md", "mkdocs.yml"])
def test_every_page_is_in_the_table_of_contents(index):
    text = (ROOT / index).read_text("utf-8")
    names = [str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")]

    assert [] == [name for name in names if name != "README.md" and name not in text]


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
    """Run a block of Python, or the commands of a session."""
    if block.language != "python":
        return _run_session(block)
    text = "\n".join(block.lines)
    for folder in HERE:
        text = text.replace(f'"{folder}', f'"{ROOT}/{folder}')
    exec(compile(text, "a block of the page", "exec"), {})


def _run_session(block: Block) -> None:
    """Run each `$ bayplan …` line; what is shown below it must be its whole output.

    A line `…` stands for lines that are left out, in a line for anything; blank lines do not
    count, and a command with nothing below it may print what it likes. Each must end with the
    code 0, or the block says otherwise: with `exits=1` one ends with 1.
    """
    codes: set[int] = set()
    for command, shown in _commands(block):
        code, output = _output_of(command)
        codes.add(code)
        if shown:
            _compare(shown, [line for line in output if line])
    assert block.exits == max(codes, default=0)


def _commands(block: Block) -> list[tuple[str, list[str]]]:
    """The command lines, each with what is shown below it."""
    found: list[tuple[str, list[str]]] = []
    for line in block.lines:
        if line.startswith("$ "):
            found.append((line.removeprefix("$ "), []))
        elif line.strip():
            found[-1][1].append(line.strip())
    return found


def _compare(shown: list[str], output: list[str]) -> None:
    left, cut = output, False
    for line in shown:
        if line == "…":
            cut = True
            continue
        pattern = re.escape(line).replace("…", ".*")
        place = next((i for i, got in enumerate(left) if re.fullmatch(pattern, got)), None)
        assert place is not None, f"{line!r} is not in the output, or too early: {left}"
        assert cut or place == 0, f"before {line!r} a line … must stand for {left[:place]}"
        left, cut = left[place + 1 :], False
    assert cut or not left, f"a line … must stand for the end: {left}"


def _output_of(line: str) -> tuple[int, list[str]]:
    program, *words = line.split()
    assert "bayplan" == program
    words = [str(ROOT / word) if word.startswith(HERE) else word for word in words]
    output = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["bayplan", *words])
        patch.setattr(sys.modules["__main__"], "__package__", None)  # click asks who was started
        with redirect_stdout(output), redirect_stderr(output), pytest.raises(SystemExit) as ended:
            main()
    output.flush()
    shown = output.buffer.getvalue().decode()
    return int(ended.value.code or 0), [text.strip() for text in shown.splitlines()]


def _call_tests(file: Path) -> None:
    """Call the test functions of an example, without another pytest process."""
    namespace: dict[str, object] = {}
    exec(compile(file.read_text(), file, "exec"), namespace)
    tests = [item for name, item in namespace.items() if name.startswith("test_")]

    assert tests
    for test in tests:
        assert callable(test)
        test()


SCRIPTS = sorted(f"bench/{path.name}" for path in (ROOT / "bench").glob("*.py"))
BY_HAND = [*SCRIPTS, "-m tests.mutation", "-m tests.mutation.handmade"]
# One process for all of them: most of what each would do is to import the same.
ASK_EACH = """
import contextlib, io, json, runpy, sys
whole, found = list(sys.path), {}
for script in json.loads(sys.argv[1]):
    *module, name = script.split()
    sys.argv[:] = [name, "--help"]
    sys.path[:] = whole if module else ["bench", *whole[1:]]
    said, code = io.StringIO(), None
    run = runpy.run_module if module else runpy.run_path
    with contextlib.redirect_stdout(said):
        try:
            run(name, run_name="__main__")
        except SystemExit as ended:
            code = ended.code or 0
        except BaseException as error:
            code = repr(error)
    found[script] = code, said.getvalue()
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def helps():
    """The exit code of each and what it said, when asked for help."""
    command = [sys.executable, "-c", ASK_EACH, json.dumps(BY_HAND)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stderr
    return json.loads(done.stdout)


@pytest.mark.xdist_group("by-hand")
@pytest.mark.parametrize("script", BY_HAND)
def test_what_is_run_by_hand_says_how(script, helps):
    code, said = helps[script]

    assert 0 == code
    assert said.lower().startswith("usage:")
