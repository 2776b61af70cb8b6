"""Code that runs at import can end neither the process nor a background task."""

import asyncio
import shutil

import pytest

from bayplan.errors import ConfigError
from bayplan.extender.serve import load
from bayplan.framework.contract.registry import from_modules
from bayplan.global_scheduler import run
from bayplan.scheduler.extensions import load_registry


def test_a_plugin_file_that_exits_is_an_error(tmp_path):
    path = tmp_path / "leaving.py"
    path.write_text("import sys\nsys.exit(3)\n")

    with pytest.raises(ConfigError, match=r"leaving\.py"):
        load_registry([str(path)])


def test_a_plugin_module_that_exits_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "leaving_module.py").write_text("raise SystemExit\n")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(ConfigError, match="leaving_module"):
        from_modules(["leaving_module"])


def test_an_extender_that_exits_is_an_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "leaving_extender.py").write_text("raise SystemExit\n")

    with pytest.raises(ConfigError, match="leaving_extender"):
        load("leaving_extender:app")


async def test_an_inventory_that_is_away_for_a_while_is_read_again(tmp_path, monkeypatch):
    class Scheduler(run.GlobalScheduler):
        def __init__(self):
            self.options = run.Options(directory=tmp_path / "conf", reread_seconds=0.01)
            self.taken = asyncio.Event()

        def _use(self):
            self.taken.set()

    directory = tmp_path / "conf"
    from click.testing import CliRunner

    from bayplan.cli.global_ import init

    CliRunner().invoke(init, [str(directory)])
    scheduler = Scheduler()
    task = asyncio.create_task(scheduler.reread(run.files.newest_change(directory)))
    failed = asyncio.Event()
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(
        run.log, "error", lambda *_, **__: loop.call_soon_threadsafe(failed.set), raising=False
    )
    shutil.move(directory, tmp_path / "away")
    async with asyncio.timeout(20):
        await failed.wait()
    assert not task.done()
    shutil.move(tmp_path / "away", directory)
    (directory / "note.txt").write_text("changed")

    async with asyncio.timeout(20):
        await scheduler.taken.wait()
    task.cancel()
