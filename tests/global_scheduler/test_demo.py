"""The two demos of the seeds, as a user runs them."""

import re
import shutil
import subprocess
import sys

import pytest
from click.testing import CliRunner

from bayplan.cli.global_ import command
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
