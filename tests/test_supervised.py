"""Background work is begun again when it fails, and is over when it is done."""

import asyncio
from collections import Counter

from bayplan.clock import run_virtual
from bayplan.supervised import end, supervised


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
