"""A changed file is noticed once it has stopped changing."""

import asyncio

from bayplan.clock import run_virtual
from bayplan.scheduler.filewatch import FileWatch


def test_changes_are_noticed_when_the_file_rests(tmp_path):
    file = tmp_path / "config"
    file.write_text("one")
    seen = []

    async def main():
        task = asyncio.create_task(FileWatch([file], lambda: seen.append("changed")).run())
        await asyncio.sleep(5.5)
        quiet = list(seen)
        file.write_text("two!")
        await asyncio.sleep(0.9)
        early = list(seen)
        await asyncio.sleep(5)
        once = list(seen)
        file.unlink()
        await asyncio.sleep(5)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return quiet, early, once

    assert ([], [], ["changed"]) == run_virtual(main())
    assert ["changed", "changed"] == seen
