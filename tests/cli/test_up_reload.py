"""`bayplan up` takes over plugin files that change; `config validate` finds plugins beside it."""

import io
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import structlog
from rich.console import Console
from rich.live import Live

from bayplan.cli import up
from bayplan.observe import logs
from bayplan.testing.servers import bayplan_command
from tests.cli.test_up import Up, eventually

pytestmark = pytest.mark.xdist_group("up")
PLUGIN = """
class Closed:
    name = "Closed"

    def filter_node(self, state, pod, node):
        return {answer}


PLUGINS = {{"Closed": lambda args, handle: Closed()}}
"""
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled: [{name: Closed}]
"""
POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}


def _write(folder: Path, answer: str) -> tuple[Path, Path]:
    plugin, config = folder / "closed_plugin.py", folder / "ksc.yaml"
    plugin.write_text(PLUGIN.format(answer=answer))
    config.write_text(CONFIG)
    return plugin, config


def test_a_changed_plugin_file_is_used_without_a_restart(tmp_path):
    closed = '__import__("bayplan.framework").framework.unschedulable("node(s) closed")'
    plugin, config = _write(tmp_path, closed)
    up = Up(tmp_path, f"--config={config}", f"--plugins={plugin}")
    try:
        up.call("POST", "/api/v1/namespaces/default/pods", POD)
        path = "/api/v1/namespaces/default/pods/p"
        eventually(lambda: "3 node(s) closed" in json.dumps(up.call("GET", path)["status"]))
        _write(tmp_path, "None")

        assert eventually(lambda: up.call("GET", path)["spec"].get("nodeName"))
    finally:
        assert 0 == up.stop()


@pytest.mark.parametrize("named", ["closed_plugin", "closed_plugin.py"])
def test_validate_finds_plugins_in_the_current_directory(tmp_path, named):
    _write(tmp_path, "None")

    done = subprocess.run(
        bayplan_command("config", "validate", "ksc.yaml", f"--plugins={named}"),
        cwd=tmp_path,
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert (0, "") == (done.returncode, done.stderr)


def test_lines_stand_above_the_status_line():
    seen = io.StringIO()
    console = Console(file=seen, force_terminal=True, width=80)
    logs.configure()

    with Live("2 pods placed", console=console, auto_refresh=False, redirect_stdout=False):
        up._say("configuration reloaded")
        structlog.get_logger().info("told")

    lines = [line for line in re.split(r"\n|\x1b\[2K", seen.getvalue()) if line.strip("\r")]
    assert "configuration reloaded" in lines
    assert any(line.endswith('"told"') for line in lines)
