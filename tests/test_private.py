"""Nothing that holds secrets can be read by others, whatever the umask is."""

import os
import stat
from pathlib import Path

import pytest

from bayplan import private
from bayplan.apiserver.serving import Settings, running
from bayplan.global_scheduler.run import Options, open_store
from tests.apiserver.api import CONFIGMAPS


@pytest.fixture(params=[0o000, 0o022, 0o077, 0o777], ids=oct)
def umask(request):
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def open_to_others(directory: Path) -> list[str]:
    every = [directory, *directory.rglob("*")]
    return [f"{path.name} {mode(path):o}" for path in every if mode(path) & 0o077]


@pytest.mark.usefixtures("umask")
async def test_the_data_directory_is_private(tmp_path):
    data = tmp_path / "data"
    tmp_path.chmod(0o700)

    async with running(Settings(data=data)) as served:
        await served.server.store.put("x/y", b"secret")

        assert (data / "bayplan.db-wal").exists()
        assert [] == open_to_others(data)


@pytest.mark.usefixtures("umask")
def test_directories_that_are_made_above_are_private_too(tmp_path):
    """Who may write there may put a directory of their own in its place."""
    tmp_path.chmod(0o700)

    private.make_directory(tmp_path / "a" / "b" / "data")
    private.write(tmp_path / "c" / "d" / "kubeconfig", "token")

    assert [] == open_to_others(tmp_path)


async def test_a_data_directory_that_others_could_read_becomes_private(tmp_path):
    data = tmp_path / "data"
    async with running(Settings(data=data)):
        pass
    data.chmod(0o755)
    for path in data.iterdir():
        path.chmod(0o644 if path.is_file() else 0o755)

    async with running(Settings(data=data)) as served:
        await served.server.store.put(CONFIGMAPS, b"secret")
        names = ("bayplan.db", "bayplan.db-wal", "bayplan.db-shm")

        assert [0o700, 0o600, 0o600, 0o600] == [mode(data), *(mode(data / n) for n in names)]


@pytest.mark.usefixtures("umask")
async def test_the_global_scheduler_s_data_is_private(tmp_path):
    options = Options(directory=tmp_path, store="sqlite")

    async with open_store(options) as (store, _):
        await store.put("x/y", b"secret")

        assert [] == open_to_others(tmp_path / "data")


def test_a_directory_with_other_people_s_files_keeps_its_mode(tmp_path):
    tmp_path.chmod(0o755)
    (tmp_path / "notes").write_text("mine")

    private.make_directory(tmp_path, ("bayplan.db",))

    assert 0o755 == mode(tmp_path)


def test_a_file_that_others_could_read_is_replaced_by_one_that_they_cannot(tmp_path):
    path = tmp_path / "kubeconfig"
    path.write_text("old")
    path.chmod(0o644)

    private.write(path, "token")

    assert (0o600, "token") == (mode(path), path.read_text())


def test_a_pipe_or_device_is_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        private.write(pipe, "all")

        assert os.read(reader, 9) == b"all"
    finally:
        os.close(reader)
    assert pipe.is_fifo()


def test_a_write_that_fails_leaves_nothing_behind(tmp_path):
    (tmp_path / "place" / "below").mkdir(parents=True)
    with pytest.raises(OSError, match="place"):
        private.write(tmp_path / "place", "text")

    assert [path.name for path in tmp_path.iterdir()] == ["place"]
