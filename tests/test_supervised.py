"""Background work is begun again when it fails, and is over when it is done."""

import ast
import asyncio
import threading
from collections import Counter
from pathlib import Path

import pytest

from bayplan.clock import run_virtual
from bayplan.supervised import end, supervised, to_its_end


def test_work_that_fails_is_counted_and_begun_again_after_longer_pauses():
    begun = []

    async def work():
        begun.append(asyncio.get_running_loop().time())
        if len(begun) < 4:
            raise RuntimeError("no")

    async def main():
        failures = Counter()
        await supervised("x", work, failures)
        return failures

    assert {"x": 3} == run_virtual(main())
    assert [0, 1, 3, 7] == [moment - begun[0] for moment in begun]


def test_what_is_ended_is_over():
    async def main():
        task = supervised("x", asyncio.Event().wait, Counter())
        await asyncio.sleep(0)
        await end(task, None)
        return task.cancelled()

    assert run_virtual(main())


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("turns", range(1, 4))
async def test_who_is_cancelled_leaves_after_the_thread_that_works_for_it(turns, times):
    go, ended, dropped = threading.Event(), [], []

    def work():
        assert go.wait(60)
        ended.append(True)
        return "file"

    async def hold():
        try:
            await to_its_end(work, dropped.append)
        finally:
            assert ended  # what is held is let go now

    holding = asyncio.create_task(hold())
    for _ in range(turns):
        await asyncio.sleep(0)
    for _ in range(times):
        holding.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert not holding.done()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await holding

    assert ["file"] == dropped


SOURCE = Path(supervised.__code__.co_filename).parent
# Whose tasks are awaited by who begins them, or tell themselves what went wrong.
AWAITED = {
    "apiserver/serving.py": "the server itself; awaited where it is begun",
    "apiserver/web.py": "one connection, which ends with its errors",
    "asgi.py": "awaited where it is begun",
    "dst/disk.py": "part of a simulation that fails with it",
    "dst/processes.py": "part of a simulation that fails with it",
    "global_scheduler/members.py": "begun again by the global scheduler's own `keep`",
    "global_scheduler/run.py": "begun again by the global scheduler's own `keep`",
    "global_scheduler/service.py": "begun again by the global scheduler's own `keep`",
    "lessons/lesson5.py": "the lesson is to begin a task",
    "lessons/runner.py": "a lesson's play, judged by how it ends",
    "page/reach.py": "informers that it begins again itself",
    "page/watching.py": "awaited where it is begun",
    "scheduler/live.py": "looked at in every turn of the loop",
    "scheduler/performer.py": "one action each; what fails is logged",
    "scheduler/process.py": "parts whose end is the end of the process",
    "sim/against.py": "part of a simulation that fails with it",
    "sim/schedulers.py": "part of a simulation that fails with it",
    "sim/script.py": "part of a simulation that fails with it",
    "sim/world.py": "part of a simulation that fails with it",
    "store/etcd_batch.py": "one batch each; its requests get the error",
    "supervised.py": "the supervisor itself",
}


def begins_tasks(path: Path) -> bool:
    return any(
        isinstance(node, ast.Attribute)
        and node.attr == "create_task"
        and isinstance(node.value, ast.Name)
        and node.value.id == "asyncio"
        for node in ast.walk(ast.parse(path.read_text()))
    )


def test_background_work_is_supervised_or_awaited():
    found = {str(p.relative_to(SOURCE)) for p in SOURCE.rglob("*.py") if begins_tasks(p)}

    assert set(AWAITED) == found
