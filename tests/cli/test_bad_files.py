"""Every command, and files that are not what it wants: a line that says so, and no traceback.

Commands and options are those of the parser itself: a new one must be in the table of words.
"""

import errno
import gzip
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from bayplan import stopping
from bayplan.cli import values
from bayplan.cli.main import main
from bayplan.sim.traces.format import TracePod
from tests.cli.walking import CONFIG, commands

CLUSTER = """apiVersion: v1
kind: Node
metadata: {name: n1}
status: {capacity: {cpu: 4, memory: 8Gi, pods: 110}, allocatable: {cpu: 4, memory: 8Gi, pods: 110}}
---
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: default}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}
"""
FROM = ["--from", "cluster.yaml"]
NOWHERE = "http://127.0.0.1:1"
ASKED = ["--server", NOWHERE]
SERVED = ["--bind", "127.0.0.1:0"]
WORDS = {
    "apiserver": ["--store", "memory", *SERVED],
    "backup": ["folder", "copy"],
    "capacity": ["cpu=1", *FROM],
    "config convert": ["config.yaml"],
    "config validate": ["config.yaml"],
    "conformance decisions": ["decisions.jsonl"],
    "conformance fuzz": ["--oracle", "oracle"],
    "conformance record": ["out.jsonl", "--oracle", "oracle"],
    "diff": [*FROM, "--to-config", "config.yaml"],
    "extender check": [NOWHERE],
    "extender replay": ["calls.jsonl", NOWHERE],
    "extender serve": ["--profile", "config.yaml", *SERVED],
    "global drain": ["site1", *ASKED],
    "global rebalance": ASKED,
    "global serve": ["--config-base", "folder", *SERVED, "--store", "memory"],
    "global stranded": ASKED,
    "global whatif": ["--lose", "site1", *ASKED],
    "global why": ["request.json", *ASKED],
    "inspect serve": [*FROM, *SERVED],
    "learn": ["1"],
    "nodes add": [],
    "nodes remove": ["--all"],
    "pack": FROM,
    "restore": ["folder", "--etcd-servers", NOWHERE],
    "scenario record": ["out.yaml"],
    "scenario run": ["first-pod"],
    "snapshot save": ["out.snapshot", *FROM],
    "snapshot scrub": ["cluster.yaml", "out.snapshot"],
    "snapshot show": ["cluster.yaml"],
    "sweep": ["plan.yaml", "--jobs", "1"],
    "trace import": ["openb", "openb.csv", "out.csv"],
    "trace reproduce": ["fgd", "--data", "folder"],
    "trace run": ["trace.csv", "--nodes", "2"],
    "tune": ["plan.yaml"],
    "ui": [*SERVED, *FROM],
    "up": [*SERVED, "--data", "data"],
    "whatif": [*FROM, "--drain", "n1"],
    "why": ["p", *FROM],
}
"""Each command that reads a file, with good words; those after its path."""
FILES = {
    "empty": b"",
    "binary": bytes(range(256)) * 8,
    "list": b"[]\n",
    "words": b"hello world\n",
    "broken.gz": gzip.compress(b"abc" * 1000)[:-9],
    "other.json": b'{"a": 1}\n',
    "strange.yaml": b"apiVersion: v1\nkind: Pod\nmetadata: 7\nspec: []\n",
}
GOOD = {
    ("apiserver", "--token-file", "empty"): "kube-apiserver takes it, too",
    ("extender serve", "--token-file", "list"): "one word may be a token",
}
ALL = {" ".join(path): command for path, command in commands()}


def reads():
    """Each command with an option or argument that names a file to read."""
    for words, command in ALL.items():
        for item in command.params:
            read = isinstance(item.type, click.Path) and item.type.exists
            if read and not item.name.startswith("etcd_"):  # read where etcd is asked
                yield pytest.param(words, item, id=f"{words} {item.opts[-1]}")


def filled(words, item, file):
    """The words of a command with this file in the place of the one that it reads."""
    given = WORDS[words]
    if isinstance(item, click.Argument):
        arguments = [one for one in ALL[words].params if isinstance(one, click.Argument)]
        place = arguments.index(item)
        return [*words.split(), *given[:place], file, *given[place + 1 :]]
    replaced = {*item.opts, *(["--from"] if "--kubeconfig" in item.opts else [])}
    kept = [
        word
        for before, word in zip(["", *given], given, strict=False)
        if word not in replaced and before not in replaced
    ]
    return [*words.split(), *kept, item.opts[-1], file]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, body in FILES.items():
        Path(name).write_bytes(body)
    Path("folder").mkdir()
    Path("cluster.yaml").write_text(CLUSTER)
    Path("config.yaml").write_text(CONFIG)
    for name in ("calls.jsonl", "request.json", "plan.yaml", "openb.csv", "trace.csv", "oracle"):
        Path(name).write_text("")
    return tmp_path


def run(words, monkeypatch, capsys):
    """Run as the shell does; return exit code and errors."""
    monkeypatch.setattr(sys, "argv", ["bayplan", *words])
    monkeypatch.setattr(stopping, "stop_on_signals", lambda stop, *_: stop.set())
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code, capsys.readouterr().err


@pytest.mark.parametrize(("words", "item"), list(reads()))
def test_a_wrong_file_is_told_in_a_line(here, monkeypatch, capsys, words, item):
    for file in ["missing", "folder", *FILES]:
        code, said = run(filled(words, item, file), monkeypatch, capsys)

        if (words, item.opts[-1], file) in GOOD:
            assert not code, (file, said)
            continue
        assert code in (1, 2), (file, said)
        problem, *more = said.splitlines()
        assert problem.startswith("error: "), (file, said)
        assert not [line for line in more if not line.startswith("see: ")], (file, said)


def test_what_is_good_is_read_at_all():
    read = {(words, item.opts[-1]) for words, item in (one.values for one in reads())}

    assert {(words, option) for words, option, _ in GOOD} <= read
    assert {file for _, _, file in GOOD} <= FILES.keys()


def writes():
    """Each command with an option or argument that names a file to write."""
    for words, command in ALL.items():
        for item in command.params:
            if isinstance(item.type, values.WrittenFile):
                yield pytest.param(words, item, id=f"{words} {item.opts[-1]}")


MORE = {"trace generate": ["out.csv"], "extender record": [NOWHERE, "out.jsonl"]}


@pytest.mark.parametrize(("words", "item"), list(writes()))
def test_a_place_where_nothing_can_be_written_is_told_before_the_work(
    here, monkeypatch, capsys, words, item
):
    monkeypatch.setattr(sys.modules[__name__], "WORDS", WORDS | MORE)
    for place in ("folder", "empty/below", "empty/far/below"):
        code, said = run(filled(words, item, place), monkeypatch, capsys)

        assert code == 2, said
        assert "directory; name a" in said.splitlines()[0]


def test_an_answer_that_finds_no_room_is_an_error(here, monkeypatch, capsys):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sys, "argv", ["bayplan", "capacity", *WORDS["capacity"]])
    monkeypatch.setattr(click, "echo", lambda text="", err=False: None if err else full())
    with pytest.raises(SystemExit) as ended:
        main()

    assert ended.value.code == 2


def test_a_dump_without_replicasets_says_so(here, monkeypatch, capsys):
    code, said = run(["why", "replicaset/web", *FROM], monkeypatch, capsys)

    assert code == 1
    assert "there are no replicasets in cluster.yaml" in said
    assert "take it anew" in said


def test_decisions_of_another_file_tell_how_they_are_recorded(here, monkeypatch, capsys):
    for file in ("empty", "cluster.yaml", "other.json"):
        code, said = run(["conformance", "decisions", file], monkeypatch, capsys)

        assert code == 1
        assert "conformance record" in said


def test_a_private_key_without_a_certificate_is_not_passed_over(here, monkeypatch, capsys):
    words = ["extender", "serve", *WORDS["extender serve"], "--tls-private-key-file", "words"]
    code, said = run(words, monkeypatch, capsys)

    assert code == 1
    assert "needs TLS" in said


STORIES = ["ui", "scenario run", "diff --to-emulated-version 1.36 --scenario"]


@pytest.mark.parametrize("words", STORIES)
def test_a_wrong_scenario_is_told_in_a_line(here, monkeypatch, capsys, words):
    for file in ["missing", "folder", *FILES]:
        code, said = run([*words.split(), file], monkeypatch, capsys)

        assert code in (1, 2), (file, said)
        problem, *more = said.splitlines()
        assert problem.startswith("error: "), (file, said)
        assert not [line for line in more if not line.startswith("see: ")], (file, said)
        assert file == "missing" or "does not exist" not in problem, problem


def test_an_import_that_is_ended_leaves_the_trace_that_was_there(here, monkeypatch, capsys):
    """Half a trace looks like a whole one."""

    def interrupted(source):
        yield TracePod(0, 10, "1")
        raise KeyboardInterrupt

    Path("out.csv").write_text("as it was")
    monkeypatch.setattr("bayplan.sim.traces.openb.trace_of", interrupted)
    before = {*os.listdir()}
    code, said = run(["trace", "import", *WORDS["trace import"]], monkeypatch, capsys)

    assert (130, "") == (code, said.strip())
    assert "as it was" == Path("out.csv").read_text()
    assert before == {*os.listdir()}


CLOSED = ["config print-default", "nodes shapes", "completion bash", "why p --from cluster.yaml"]


@pytest.mark.parametrize("words", CLOSED)
def test_a_reader_that_has_gone_ends_a_command_without_a_word(here, words):
    """`bayplan … | head -1`."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        command = [sys.executable, "-m", "bayplan", *words.split()]
        done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writing)

    assert done.returncode == 1
    assert not done.stderr
