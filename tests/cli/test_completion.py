"""Shells get a script that completes bayplan's words."""

import os
import shutil
import subprocess

import pytest
from click.testing import CliRunner

from bayplan.cli.main import COMMANDS, bayplan
from bayplan.testing.servers import bayplan_command


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_printed_that_the_shell_reads(shell):
    result = CliRunner().invoke(bayplan, ["completion", shell])

    assert result.exit_code == 0
    assert "_BAYPLAN_COMPLETE" in result.output
    if program := shutil.which(shell):
        subprocess.run([program, "-n"], input=result.output, text=True, check=True, timeout=30)


def completed(*words: str) -> list[str]:
    env = {
        **os.environ,
        "_BAYPLAN_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["bayplan", *words]),
        "COMP_CWORD": str(len(words)),
    }
    program = "import sys; sys.argv[0] = 'bayplan'; from bayplan.cli.main import main; main()"
    command = [bayplan_command()[0], "-c", program]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=30)
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


def test_commands_and_flags_are_completed():
    assert sorted(COMMANDS) == completed("")
    assert ["scenario", "scheduler"] == completed("sc")
    assert ["--kubeconfig-out"] == completed("up", "--kube")
