"""Numbers with their nouns, and what a misspelt name may mean."""

import fcntl
import io
import os
import struct
import sys
import termios

import pytest
from click.testing import CliRunner

from bayplan import words as module
from bayplan.cli.main import bayplan, main
from bayplan.inspect import Cluster, UnknownObject
from bayplan.testing import make_node
from bayplan.words import did_you_mean, plural, table, terminal_width, wrapped
from tests.docs.pages import ROOT

CLUSTER = str(ROOT / "examples/inspect/cluster.yaml")
ROOM = ("ROOM", "BEFORE"), [("cpu free", "18.5 of 24, at most 16 on one node")]


def test_a_table_is_folded_to_the_terminal_and_to_nothing_else(monkeypatch):
    assert "  cpu free   18.5 of 24, at most 16 on one node" == list(table(*ROOM))[1]

    monkeypatch.setattr(module, "terminal_width", lambda: 40)
    assert [
        "  ROOM       BEFORE",
        "  cpu free   18.5 of 24, at most 16 on",
        "             one node",
    ] == list(table(*ROOM))


def test_a_table_whose_words_alone_are_too_wide_is_left(monkeypatch):
    monkeypatch.setattr(module, "terminal_width", lambda: 40)
    head, row = ["A"] * 5, ["twelve-chars x"] * 5

    assert f"  {'   '.join(row)}" == list(table(head, [row]))[1]


def test_a_sentence_ends_at_100_columns_or_at_the_terminal(monkeypatch):
    text = "word " * 60

    assert 99 == max(map(len, wrapped(text)))
    monkeypatch.setattr(module, "terminal_width", lambda: 80)
    assert 79 == max(map(len, wrapped(text)))


@pytest.mark.parametrize(
    "asked",
    [
        "why checkout-0 -n shop --node worker-1",
        "why --pending -A",
        "whatif --drain worker-1",
        "whatif --each node",
        "capacity 2xcpu=500m,memory=1Gi cpu=1",
        "diff --emulated-version 1.36",
    ],
)
def test_answers_fit_a_terminal_of_80_columns(asked, monkeypatch):
    monkeypatch.setattr(module, "terminal_width", lambda: 80)
    to = ["--to-emulated-version", "1.37"] if asked.startswith("diff") else []
    shown = CliRunner().invoke(bayplan, [*asked.split(), *to, "--from", CLUSTER]).stdout

    assert shown
    assert [] == [line for line in shown.splitlines() if len(line) > 80]


def test_the_list_of_scenarios_fits_a_terminal_and_is_a_line_each_elsewhere(monkeypatch):
    piped = CliRunner().invoke(bayplan, ["scenario", "list"]).stdout.splitlines()
    monkeypatch.setattr(module, "terminal_width", lambda: 80)
    shown = CliRunner().invoke(bayplan, ["scenario", "list"]).stdout

    assert all(line[0] != " " for line in piped)
    assert " ".join(piped).split() == shown.split()
    assert [] == [line for line in shown.splitlines() if len(line) > 80]


def test_the_width_is_that_of_the_terminal(monkeypatch):
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 72, 0, 0))
    with os.fdopen(ours, "rb"), os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        assert 72 == terminal_width()
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert 0 == terminal_width()


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 pods"), (1, "1 pod"), (2, "2 pods"), (1200, "1,200 pods")]
)
def test_one_is_no_plural(count, text):
    assert text == plural(count, "pod")


def test_what_is_near_is_named_and_what_is_far_is_not():
    assert "; did you mean first-pod?" == did_you_mean("firstpod", ["first-pod", "drain"])
    assert "" == did_you_mean("zzz", ["first-pod", "drain"])


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("extender nwe", "did you mean new?"),
        ("extender chekc http://127.0.0.1:1", "did you mean check?"),
        ("scenario run firstpod", "did you mean first-pod"),
        ("nodes add --shape medum", "did you mean medium"),
        (
            "extender no_such_extender:app",
            "go to its directory, or name the file: DIRECTORY/no_such_extender.py:app",
        ),
        ("nodes add two", "'two' is not a valid whole number"),
        ("up --nodes two", "'two' is not a valid whole number"),
    ],
)
def test_a_misspelt_name_or_a_wrong_value_is_told_what_would_do(words, hint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(bayplan, words.split())

    assert found.exit_code
    assert hint in found.output + str(found.exception)


def test_the_report_of_a_scenario_counts_one_as_one():
    found = CliRunner().invoke(bayplan, ["scenario", "run", "first-pod"])

    assert "1 pod, 1 bound, 0 still pending; 1 node; " in found.output


def test_a_surplus_word_that_is_an_option_is_told_so(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["bayplan", "whatif", "drain", "worker-1"])
    with pytest.raises(SystemExit) as left:
        main()

    assert 2 == left.value.code
    assert "(drain worker-1). Did you mean --drain?" in capsys.readouterr().err


def test_who_asks_about_a_deployment_as_a_pod_is_told_how_to_ask():
    web = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 1, "template": {"spec": {"containers": []}}},
    }
    cluster = Cluster.from_objects([make_node("n").body(), web])

    with pytest.raises(UnknownObject, match='"web" is no pod but a deployment: ask about'):
        cluster.why("web")
