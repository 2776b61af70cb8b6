"""One rule for the whole command line: a wrong word is told at once, by name, with exit code 2.

Commands and options are those of the parser itself. None of them runs: a value is refused before.
"""

import sys

import click
import pytest

from bayplan.cli import learn, values
from bayplan.cli.main import main
from bayplan.lessons import runner
from bayplan.scheduler.flags import FLAGS
from tests.cli.walking import commands

NONSENSE = "?!"
FREE = {
    # what only a cluster can tell
    "--context", "--namespace", "--node", "--zones", "--prefix", "--lose",
    # what only the file that is named with it can tell
    "--scheduler-name", "--ablate", "--accelerator", "--id", "conformance decisions --family",
    # names, paths and secrets of a user's own choice
    "--filter-verb", "--prioritize-verb", "--preempt-verb", "--bind-verb", "--token", "--name",
    "--service-account-issuer",
}  # fmt: skip
"""Options that take any text, each for a reason; any other must have a type that can refuse."""


ALL = dict(commands())


def is_output(kind):
    return isinstance(kind, click.Path) and not kind.exists


def wrong_values(option):
    """What an option must refuse."""
    kind = option.type
    if option.is_flag or option.count or is_output(kind):
        return []
    found = [NONSENSE]
    if isinstance(kind, click.IntRange | click.FloatRange):
        found += [] if kind.min is None else [str(kind.min - 1)]
        found += [] if kind.max is None else [str(kind.max + 1)]
    return found


def is_free(path, option):
    words = " ".join(path)
    return any(name in FREE or f"{words} {name}" in FREE for name in option.opts)


def options(wanted):
    return [
        pytest.param(path, option, id=" ".join((*path, option.opts[-1])))
        for path, command in ALL.items()
        for option in command.params
        if isinstance(option, click.Option) and wanted(path, option)
    ]


def told(words, monkeypatch, capsys):
    """Exit code and what stands on standard error."""
    monkeypatch.setattr(sys, "argv", ["bayplan", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    shown = capsys.readouterr()
    assert "" == shown.out
    return ended.value.code, shown.err.splitlines()


def refused(words, name, value, monkeypatch, capsys):
    code, lines = told(words, monkeypatch, capsys)

    assert 2 == code, lines
    assert 1 <= len(lines) <= 2, lines
    assert lines[0].startswith("error: "), lines
    assert "Traceback" not in " ".join(lines)
    assert name in lines[0]
    assert value in lines[0]


@pytest.mark.parametrize(
    ("path", "option"),
    options(lambda path, option: wrong_values(option) and not is_free(path, option)),
)
def test_a_value_that_is_none_is_refused_by_name(path, option, monkeypatch, capsys):
    for name in option.opts:
        for value in wrong_values(option):
            words = [*path, f"{name}={value}" if name.startswith("--") else f"{name}{value}"]
            refused(words, name.lstrip("-"), value, monkeypatch, capsys)


def test_every_other_option_is_free_for_a_reason():
    any_text = {
        name
        for path, command in ALL.items()
        for option in command.params
        if isinstance(option, click.Option) and option.type is click.STRING
        for name in [
            next((n for n in option.opts if n in FREE), " ".join((*path, option.opts[-1])))
        ]
    }

    assert any_text == FREE


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_an_option_that_there_is_not_is_refused_by_name(path, monkeypatch, capsys):
    refused([*path, "--no-such-option"], "--no-such-option", "", monkeypatch, capsys)


@pytest.mark.parametrize("words", ["up --nodes", "nodes add --shape", "why web-0 --from"])
def test_an_option_without_its_value_says_where_to_read_on(words, monkeypatch, capsys):
    command, option = words.replace(" web-0", "").rsplit(" ", 1)
    code, lines = told(words.split(), monkeypatch, capsys)

    assert 2 == code
    assert [f"error: option '{option}' requires an argument."] == lines[:1]
    assert [f"see: bayplan {command} --help"] == lines[1:]


REQUIRED = [path for path, command in ALL.items() if any(item.required for item in command.params)]


@pytest.mark.parametrize("path", REQUIRED, ids=" ".join)
def test_a_word_that_is_missing_is_named_in_a_line(path, monkeypatch, capsys):
    refused([*path], "missing", "", monkeypatch, capsys)


TYPED = [
    pytest.param(path, item, id=" ".join((*path, item.name)))
    for path, command in ALL.items()
    for item in command.params
    if isinstance(item, click.Argument) and item.type not in (click.STRING, click.UNPROCESSED)
    if not is_output(item.type)
]


@pytest.mark.parametrize(("path", "argument"), TYPED)
def test_an_argument_that_is_none_is_refused_by_name(path, argument, monkeypatch, capsys):
    before = [item for item in ALL[path].params if isinstance(item, click.Argument)]
    before = before[: before.index(argument)]
    words = [next(iter(getattr(item.type, "choices", ["README.md"]))) for item in before]
    monkeypatch.chdir(values.Path(__file__).parents[2])

    named = argument.make_metavar(click.Context(ALL[path])).strip("[]{}").removesuffix("...")
    refused([*path, *words, NONSENSE], named.strip("[]"), NONSENSE, monkeypatch, capsys)


CHECKED = [
    flag.name for flag in FLAGS.values() if flag.kind not in ("string", "list") or flag.words
]


@pytest.mark.parametrize("name", [*CHECKED, "emulated-version", "feature-gates"])
def test_the_scheduler_s_flags_follow_the_rule(name, monkeypatch, capsys):
    refused(["scheduler", f"--{name}={NONSENSE}"], f"--{name}", NONSENSE, monkeypatch, capsys)


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ("why web-0 --feature-gates OpportunisticBatching=maybe --from .", 2, "--feature-gates"),
        ("up --bind 127.0.0.1:99999", 2, "the port is not from 0 to 65535"),
        ("up --config nothing.yaml", 2, "it is looked for in"),
        ("nodes add --shape xlrage", 2, "did you mean xlarge"),
        ("nodes add --resource gpu=many", 2, "no quantity"),
        ("nodes remove", 2, "--all"),
        ("learn 9", 2, "1<=x<=8"),
        ("scenario run first-pdo", 2, "did you mean first-pod"),
        ("apiserver --store etcd", 2, "--etcd-servers"),
        ("global serve --store etcd", 2, "--etcd-servers"),
        ("config validate README.md", 1, "README.md"),
        ("backup no-such copy", 2, '"no-such" does not exist; it is looked for in'),
        ("backup docs copy", 1, '"docs" has no bayplan.db'),
        ("restore no-such --etcd-servers http://127.0.0.1:1", 2, '"no-such" does not exist'),
        ("scheduler leader", 2, "flags only"),
        ("why web-0 --from -", 2, "/dev/stdin is what is piped in"),
    ],
)
def test_what_the_words_tell_is_two_and_what_fails_is_one(words, code, text, monkeypatch, capsys):
    monkeypatch.chdir(values.Path(__file__).parents[2])
    found, lines = told(words.split(), monkeypatch, capsys)

    assert code == found, lines
    assert text in " ".join(lines)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("--add", "2xworker-1,taint=gpu=true:NoSchedule,label.example.com/a=b"),
        ("--add", "3xcpu=8,memory=32Gi,zone=b"),
        ("--add", "like node worker-1"),
        ("--drain", "disk in (ssd, nvme),!gpu"),
        ("--request", "deployment/web=cpu=500m,memory=1Gi"),
    ],
)
def test_every_form_of_a_change_is_taken(name, value):
    assert value == taken("whatif", name, value)


@pytest.mark.parametrize(
    ("command", "name", "value"),
    [
        ("sweep", "--dask", "host:8786"),
        ("sweep", "--dask", "tcp://host:8786"),
        ("up", "--plugins", "json,click"),
        ("up", "--ui-bind", ""),
        ("up", "--bind", "[::1]:0"),
        ("why", "--filename", "-"),
        ("why", "--emulated-version", "kube=1.36"),
        ("apiserver", "--etcd-servers", "http://a:2379,https://b:2379"),
        ("apiserver", "--controllers", "*,-kubelet"),
    ],
)
def test_every_form_that_is_right_is_taken(command, name, value):
    assert value == taken(command, name, value)


def taken(command, name, value):
    option = next(item for item in ALL[command,].params if name in item.opts)
    return option.type.convert(value, option, click.Context(ALL[command,]))


def test_a_gate_is_of_the_version_that_is_given_wherever_it_stands(monkeypatch, capsys):
    """The version is read first, so that the order of the words does not matter."""
    late = ["config", "print-default", "--feature-gates", "Nothing=true", "--emulated-version=1.36"]

    code, lines = told(late, monkeypatch, capsys)

    assert (2, True) == (code, "unrecognized feature gate: Nothing" in lines[0])


def test_the_lessons_that_may_be_named_are_those_there_are():
    assert learn.LESSONS == runner.LESSONS[-1]
