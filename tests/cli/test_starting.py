"""What `bayplan up` and `bayplan apiserver` say and leave behind when they cannot start."""

import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from bayplan.cli.fresh import FreshDirectory
from bayplan.cli.main import bayplan
from bayplan.errors import BayplanError


def refusal(*words: str) -> str:
    """The one error with which a command ends."""
    result = CliRunner().invoke(bayplan, words)
    assert isinstance(result.exception, BayplanError), (result.output, result.exception)
    return str(result.exception)


@pytest.fixture
def taken():
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        yield f"127.0.0.1:{holder.getsockname()[1]}"


@pytest.mark.parametrize("command", ["up", "apiserver"])
def test_a_taken_port_is_told_with_a_hint_and_leaves_nothing(tmp_path: Path, taken, command):
    data = tmp_path / "deep" / "data"

    text = refusal(command, f"--data={data}", f"--bind={taken}")

    assert taken in text
    assert "choose another --bind" in text
    assert [] == list(tmp_path.iterdir())


def test_a_taken_port_of_the_page_leaves_nothing(tmp_path: Path, taken):
    words = [f"--data={tmp_path / 'data'}", "--bind=127.0.0.1:0", f"--ui-bind={taken}"]

    result = CliRunner().invoke(bayplan, ["up", *words])

    assert "choose another address for the page" in str(result.exception)
    assert "is ready" not in result.output
    assert [] == list(tmp_path.iterdir())


def test_a_directory_that_was_there_stays(tmp_path: Path, taken):
    (tmp_path / "mine").write_text("kept")

    refusal("up", f"--data={tmp_path}", f"--bind={taken}")

    assert (tmp_path / "mine").read_text() == "kept"


def test_data_that_cannot_be_made_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")

    text = refusal("up", f"--data={tmp_path / 'file' / 'data'}", "--bind=127.0.0.1:0")

    assert "making the data directory" in text
    assert "choose another --data" in text


@pytest.mark.parametrize("name", ["apiserver.crt", "apiserver.key", "ca.crt"])
def test_a_damaged_certificate_is_named(tmp_path: Path, name):
    words = ["apiserver", f"--data={tmp_path}", "--bind=127.0.0.1:0"]
    from bayplan.apiserver import tls

    files = tls.generate(tmp_path / "tls", ["127.0.0.1"])
    (files.key.parent / name).write_text("not PEM")

    text = refusal(*words)

    assert name in text
    assert "remove" in text


def test_a_corrupt_database_comes_with_advice(tmp_path: Path):
    (tmp_path / "bayplan.db").write_bytes(b"this is no database " * 500)

    text = refusal("up", f"--data={tmp_path}", "--bind=127.0.0.1:0")

    assert "bayplan.db" in text
    assert "bayplan backup" in text


def test_what_was_kept_stays(tmp_path: Path):
    with FreshDirectory(tmp_path / "a" / "b") as data:
        (tmp_path / "a" / "b").mkdir(parents=True)
        data.keep()

    assert (tmp_path / "a" / "b").is_dir()
