"""A control plane that does not start is told in words, and leaves nothing behind."""

import shutil
import sys
from pathlib import Path

import pytest

from bayplan.cli.main import main
from bayplan.testing.servers import PROGRAMS

SAYS_NO = "#!/bin/sh\ncase $1 in --version) echo v1.36.4;; *) echo no room for me; exit 1;; esac\n"
ETCD = shutil.which("etcd", path=str(Path(sys.executable).parent))


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Real programs of which every one refuses to start."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in PROGRAMS:
        (folder / name).write_text(SAYS_NO)
        (folder / name).chmod(0o755)
    (tmp_path / "cluster").mkdir()
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(folder))
    monkeypatch.setattr("tempfile.mkdtemp", lambda prefix: str(tmp_path / "cluster"))
    monkeypatch.setattr(sys, "argv", ["bayplan", "conformance", "fuzz", "--live", "1"])
    return folder


def running_in(folder):
    """The command lines that name something in a folder."""
    lines = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(file.read_text())
        except OSError:
            continue  # it has ended
    return [line for line in lines if str(folder) in line]


@pytest.mark.parametrize("failing", ["etcd", "kube-apiserver"])
def test_fuzz_live_says_what_the_server_said(failing, programs, tmp_path, capsys):
    if failing == "kube-apiserver":
        if ETCD is None:
            pytest.skip("no etcd here")
        (programs / "etcd").unlink()
        (programs / "etcd").symlink_to(ETCD)

    with pytest.raises(SystemExit) as ended:
        main()

    assert 1 == ended.value.code
    said = capsys.readouterr().err
    assert f"{failing} ended: " in said
    assert said.endswith("no room for me\n\n")
    assert not (tmp_path / "cluster").exists()
    assert [] == running_in(tmp_path)
