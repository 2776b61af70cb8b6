"""The krew manifests: what `make dist` writes is complete and true."""

import hashlib
import runpy

import pytest

from bayplan.api import yaml
from tests.docs.pages import ROOT

KREW = runpy.run_path(str(ROOT / "hack" / "krew"))


@pytest.mark.parametrize("name", KREW["PLUGINS"])
def test_a_manifest_names_the_archive_and_its_checksum(name, tmp_path):
    archive = tmp_path / "bayplan-linux-arm64.tar.gz"
    archive.write_bytes(b"what is packed")
    text = (ROOT / "deploy" / "inspect" / f"{name}.yaml").read_text()

    found = yaml.load(KREW["filled"](text, archive, "1.2.3", "arm64"))

    (one,) = found["spec"]["platforms"]
    assert ("Plugin", name) == (found["kind"], found["metadata"]["name"])
    assert "v1.2.3" == found["spec"]["version"]
    assert hashlib.sha256(b"what is packed").hexdigest() == one["sha256"]
    assert one["uri"].endswith("/bayplan-linux-arm64.tar.gz")
    assert {"os": "linux", "arch": "arm64"} == one["selector"]["matchLabels"]
    assert f"bin/kubectl-{name}" == one["bin"]
    assert KREW["PYTHON"] in found["spec"]["caveats"]


def test_every_plugin_of_the_package_has_a_manifest():
    manifests = {path.stem for path in (ROOT / "deploy" / "inspect").glob("*.yaml")}

    assert {*KREW["PLUGINS"], "cluster-role"} == manifests
