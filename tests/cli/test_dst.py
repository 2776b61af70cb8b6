"""The simulation is run by name, in parts and by several processes, and says how far it came."""

import subprocess
import sys

import pytest


def run(*words):
    command = [sys.executable, "-m", "bayplan.cli.dst", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_seeds_are_run_and_counted(jobs):
    said = run("--seeds", "2", "--first", "2", "--jobs", jobs)

    assert said.startswith("2 seeds from 2: nothing broke; ")
    assert 1 == said.count("\n")


def test_a_run_that_must_end_says_where_to_go_on():
    said = run("--seeds", "1000", "--first", "7", "--seconds", "0.001")

    assert said.startswith("1 seed from 7: nothing broke; ")
    assert said.endswith("; go on with --first 8\n")
