"""The two demos of the seeds, as a user runs them."""

import asyncio
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from bayplan.cli.global_ import command
from bayplan.client.resources import PODS
from bayplan.clock import run_virtual
from bayplan.global_scheduler import demo
from tests.global_scheduler.test_http import DOCUMENTED


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
@pytest.mark.kubectl
def test_both_demos_print_what_the_documents_show():
    ran = subprocess.run(
        [sys.executable, "-m", "bayplan.cli.main", "global", "demo"],
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert 0 == ran.returncode, ran.stderr
    assert '"placed"' not in ran.stderr, "no line of the log stands between those of the demo"
    text = re.sub(
        r'"id": "[0-9a-f-]{36}"', '"id": "7a41e0a0-bad9-49cc-9948-9531aa79c2b7"', ran.stdout
    )
    assert DOCUMENTED in text
    assert "pod/demovm created" in text
    for line in (
        r"Node: +az1/",
        r"Status: +Pending",
        r"Containers: +<none>",
        r"PodScheduled +True",
        r"QoS Class: +BestEffort",
        r"Events: +<none>",
    ):
        assert re.search(line, text), line


def test_init_writes_what_validate_accepts(tmp_path):
    target = str(tmp_path / "conf")

    assert 0 == CliRunner().invoke(command, ["init", target]).exit_code
    valid = CliRunner().invoke(command, ["validate", target])

    assert (0, "valid: 1 site,") == (valid.exit_code, valid.output[:14]), valid.output
    assert CliRunner().invoke(command, ["init", target]).exit_code == 1


def test_validate_reports_every_problem_with_file_and_path(tmp_path):
    CliRunner().invoke(command, ["init", str(tmp_path)])
    (tmp_path / "sites.json").write_text('{"sites": [{"id": "s", "az": 5}, {"id": "s"}]}')
    (tmp_path / "flavors.json").write_text(
        '{"flavors": [{"region": "r", "id": "f", "vcpus": "x"}]}'
    )
    (tmp_path / "conf.yaml").write_text("port: 99999\n")
    (tmp_path / "edgecloud_policy.yaml").write_text("predicates: [{name: Nonsense}]\n")

    result = CliRunner().invoke(command, ["validate", str(tmp_path)])

    assert 1 == result.exit_code
    for line in (
        "conf.yaml: port: must be below 65536, got 99999",
        "conf.yaml: scheduler_policy_file: is missing",
        "sites.json: sites[0].region: is missing",
        'sites.json: sites[1]: "s" is listed twice',
        'flavors.json: flavors[0].vcpus: expected a number, got "x"',
        "flavors.json: flavors[0].os_extra_specs.resource_type: is missing",
        'policy: plugin "Nonsense" is not known',
    ):
        assert line in result.output, result.output


def test_the_newer_spelling_of_files_and_fields_is_read(tmp_path):
    CliRunner().invoke(command, ["init", str(tmp_path)])
    text = (tmp_path / "sites.json").read_text()
    text = text.replace('"sites"', '"site_infos"').replace('"id": "site1"', '"site_id": "site1"')
    (tmp_path / "site_infos.json").write_text(text.replace('"az"', '"availability_zone"'))
    (tmp_path / "sites.json").unlink()
    text = (tmp_path / "site_nodes.json").read_text()
    text = text.replace('"site_nodes"', '"site_resources"').replace('"node_infos"', '"hosts"')
    (tmp_path / "site_resources.json").write_text(text)
    (tmp_path / "site_nodes.json").unlink()

    result = CliRunner().invoke(command, ["validate", str(tmp_path)])

    assert "valid: 1 site, 1 flavor," in result.output, result.output


async def test_what_is_not_installed_is_asked_from_here_and_said_so(monkeypatch):
    monkeypatch.setattr(demo.shutil, "which", lambda name: None)
    said = []
    await demo.run(said.append)

    url = re.search(r"http://127.0.0.1:\d+/v1/allocations", said[0])[0]
    answer = re.sub(
        r'"id": "[0-9a-f-]{36}"', '"id": "7a41e0a0-bad9-49cc-9948-9531aa79c2b7"', said[2]
    )
    assert [
        '$ curl -H "Content-Type:application/json" -X POST '
        f"-T conf/sample_allocation_req_body.json {url}",
        "(curl is not installed; the same request from Python)",
        DOCUMENTED,
        "$ kubectl apply -f vm.yaml",
        "(kubectl is not installed; the same request from Python)",
        "$ kubectl describe pods demovm",
        "Name:  demovm\nNode:  az1/",
    ] == [*said[:2], answer, *said[3:]]


class Pods:
    """A server on which the pod is bound when it is asked for the third time."""

    asked = 0

    async def get(self, resource, name, namespace):
        assert (PODS, "demovm", "default") == (resource, name, namespace)
        self.asked += 1
        return json.dumps({"spec": {"nodeName": "az9"} if self.asked > 2 else {}})


async def test_what_is_installed_is_run(monkeypatch):
    """Here it is `echo`, which says what it was told."""
    monkeypatch.setattr(demo.shutil, "which", lambda name: "/bin/echo")
    said, pods = [], Pods()
    await demo.allocation_demo(said.append, Path("conf"), 7)
    await demo.machine_demo(said.append, Path("conf"), Path("admin.kubeconfig"), pods)

    url = "http://127.0.0.1:7/v1/allocations"
    asked = "-H Content-Type:application/json -X POST -T conf/sample_allocation_req_body.json"
    assert [
        f"-s {asked} {url}\n",
        "$ kubectl apply -f vm.yaml",
        "--kubeconfig admin.kubeconfig apply -f conf/vm.yaml\n",
        "$ kubectl describe pods demovm",
        "--kubeconfig admin.kubeconfig describe pods demovm\n",
    ] == said[1:]
    assert 3 == pods.asked


def test_a_pod_that_is_never_bound_is_not_waited_for_for_ever():
    async def main():
        await demo._until_bound(Pods())
        assert 0.1 == asyncio.get_running_loop().time(), "it was asked for the third time"
        pods = Pods()
        pods.asked = -(10**6)
        with pytest.raises(TimeoutError):
            await demo._until_bound(pods)
        return asyncio.get_running_loop().time()

    assert demo.DEADLINE + 0.1 == pytest.approx(run_virtual(main()))
