"""Help is complete: every option says what it is, nothing is cut off, one thing has one name."""

import re
from collections import defaultdict

import click
import pytest
from click.testing import CliRunner

from bayplan.cli.main import bayplan
from bayplan.lessons.runner import LESSONS
from tests.cli.test_values import ALL
from tests.docs.pages import ROOT

OPTIONS = [
    (path, option)
    for path, command in ALL.items()
    for option in command.params
    if isinstance(option, click.Option)
]
GROUPS = sorted({path[:n] for path in ALL for n in range(len(path))})


def shown(path):
    """Its help on a terminal of 80 columns, of which click leaves two free."""
    return CliRunner().invoke(bayplan, [*path, "--help"], terminal_width=78).output


def test_every_option_says_what_it_is():
    silent = [" ".join((*path, option.opts[-1])) for path, option in OPTIONS if not option.help]

    assert [] == silent


@pytest.mark.parametrize("path", GROUPS, ids=" ".join)
def test_no_line_about_a_command_is_cut_off(path):
    cut = [line for line in shown(path).partition("Commands:")[2].splitlines() if "..." in line]

    assert [] == cut


@pytest.mark.parametrize("path", [*GROUPS, *sorted(ALL)], ids=" ".join)
def test_a_terminal_of_80_columns_has_room_for_it(path):
    assert [] == [line for line in shown(path).splitlines() if len(line) > 80]


DIFFER = {
    "--add", "--family",  # whatif has its own; families of a recording are its file's
    "--data", "--out",  # a directory or a file
    "--output", "--store",  # choices of each
    "--limit", "--pods",  # a time or a number; an amount of a node or a number
}  # fmt: skip


def test_an_option_is_written_alike_wherever_it_is():
    forms = defaultdict(set)
    for path, option in OPTIONS:
        if not option.is_flag:
            shown = option.make_metavar(click.Context(ALL[path]))
            forms[option.opts[-1]].add(shown)
    unlike = {name: shown for name, shown in forms.items() if len(shown) > 1}

    assert unlike.keys() == DIFFER, unlike


def test_the_table_of_the_api_server_has_its_options_and_their_defaults():
    page = (ROOT / "docs/reference/apiserver.md").read_text("utf-8")
    rows = [line.split("|") for line in page.replace("\\|", "/").splitlines()
            if line.startswith("| `--")]  # fmt: skip
    named = {name for row in rows for name in re.findall(r"`(--[a-z-]+)", row[1])}
    known = {name for option in ALL["apiserver",].params
             for name in (*option.opts, *option.secondary_opts)}  # fmt: skip

    assert known == named
    for option in ALL["apiserver",].params:
        [row] = [row for row in rows if f"`{option.opts[0]}" in row[1]]
        if isinstance(option.default, str) and option.default:
            assert option.default in row[2]
        elif isinstance(option.default, int | float) and not isinstance(option.default, bool):
            shown = "3 MiB" if option.opts[0] == "--max-request-bytes" else f"{option.default:g}"
            assert shown in row[2]


def test_no_two_servers_share_a_port_by_default_and_the_page_names_each():
    binds = {
        " ".join(path).removesuffix(" serve"): option.default
        for path, option in OPTIONS
        if option.opts[-1] == "--bind" and option.default and not option.default.endswith(":0")
    }
    page = (ROOT / "docs/reference/cli.md").read_text("utf-8")
    rows = re.findall(r"^\| `bayplan ([a-z ]+)` \| ([0-9.]+:[0-9]+)", page, re.MULTILINE)

    assert len(binds) == len(set(binds.values()))
    assert {"up", "apiserver", "extender"} <= set(binds)
    assert set(binds.items()) <= set(rows)
    assert len(rows) == len({bind.rpartition(":")[2] for _, bind in rows})


def test_the_number_of_lessons_is_that_of_the_lessons():
    number = {8: "eight"}[len(LESSONS)]

    assert f"{number} lessons that grow a scheduler" in shown(())
    for page in ("README.md", "docs/tutorial/first-cluster.md", "docs/reference/cli.md"):
        assert f"{number} lessons" in (ROOT / page).read_text("utf-8").lower()
