"""Shells get a script that completes bayplan's words."""

import os
import subprocess
import tomllib

import pytest
from click.testing import CliRunner

from bayplan.cli.main import COMMANDS, bayplan
from bayplan.testing.servers import bayplan_command
from tests.docs.pages import ROOT


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_printed(shell):
    result = CliRunner().invoke(bayplan, ["completion", shell])

    assert result.exit_code == 0
    assert "_BAYPLAN_COMPLETE" in result.output


def test_bash_reads_its_script():
    """zsh and fish are on few machines, so theirs are not tried."""
    script = CliRunner().invoke(bayplan, ["completion", "bash"]).output

    subprocess.run(["bash", "-n"], input=script, text=True, check=True, timeout=60)


def completed(*words: str) -> list[str]:
    env = {
        **os.environ,
        "_BAYPLAN_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["bayplan", *words]),
        "COMP_CWORD": str(len(words)),
    }
    program = "import sys; sys.argv[0] = 'bayplan'; from bayplan.cli.main import main; main()"
    command = [bayplan_command()[0], "-c", program]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


def test_commands_and_flags_are_completed():
    assert sorted(COMMANDS) == completed("")
    assert ["scenario", "scheduler"] == completed("sc")
    assert ["--kubeconfig-out"] == completed("up", "--kube")


def plugin(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    program = f"import sys; sys.argv[0] = {name!r}; from bayplan.cli.main import plugin; plugin()"
    command = [bayplan_command()[0], "-c", program, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


SHOP = ("--from", str(ROOT / "examples/inspect/cluster.yaml"), "-n", "shop")


@pytest.mark.parametrize(
    ("program", "words", "proposals"),
    [
        ("kubectl_complete-why", [*SHOP, "ch"], ["checkout-0", ":4"]),
        (
            "kubectl_complete-why",
            [*SHOP, "--node", "worker-"],
            ["worker-1", "worker-2", "worker-3", ":4"],
        ),
        ("kubectl_complete-whatif", [*SHOP, "--drain", "g"], ["gpu-1", ":4"]),
        ("kubectl_complete-capacity", [*SHOP, "--keep-free", ""], ["node", "zone", ":4"]),
        ("kubectl_complete-why", ["--from", ""], [":0"]),
        ("kubectl_complete-why", ["--from", "/nothing", "x"], [":4"]),
    ],
)
def test_kubectl_is_told_how_the_words_of_a_plugin_go_on(program, words, proposals):
    done = plugin(program, *words)

    assert "" == done.stderr
    assert proposals == done.stdout.splitlines()


def test_a_plugin_is_the_command_of_its_name():
    done = plugin("/usr/bin/kubectl-why", "checkout-0", *SHOP)

    assert done.stdout.startswith("shop/checkout-0: no node of 4 fits")


def test_every_plugin_has_its_completion():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    plugins = {name.removeprefix("kubectl-") for name in scripts if name.startswith("kubectl-")}

    assert {"why", "whatif", "capacity"} == plugins
    assert {f"kubectl_complete-{name}" for name in plugins} <= set(scripts)
