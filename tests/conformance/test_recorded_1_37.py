"""900 decisions of kube-scheduler v1.37.1, recorded with `bayplan conformance record`."""

from pathlib import Path

from click.testing import CliRunner

from bayplan.cli.conformance import command
from bayplan.cli.conformance_decisions import read

FILE = Path(__file__).parent / "decisions-1.37.jsonl.gz"


def test_all_recorded_decisions_agree():
    result = CliRunner().invoke(command, ["decisions", str(FILE)])

    assert "agreement: 900/900" == result.output.splitlines()[-1]


def test_what_1_37_says_is_not_what_1_36_says():
    options = ["--emulated-version", "1.36", "--family", "preempt"]
    result = CliRunner().invoke(command, ["decisions", str(FILE), *options])

    assert result.exit_code == 1


def test_the_recording_says_what_it_is_of():
    assert {("1.37", "v1.37.1")} == {(row["version"], row["recorded"]) for row in read(FILE)}
