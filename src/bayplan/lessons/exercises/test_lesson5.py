"""Exercise of lesson 5: wait half as long.

Run with `pytest` beside your copy of lesson5.py; it fails until you have done it.
"""

from pathlib import Path

from bayplan.lessons.runner import module_at, run

LESSON = module_at(Path(__file__).parent / "lesson5.py")


async def scenario(stage):
    await stage.create_node("node8")
    await stage.create_pod("pod8")
    await stage.sleep(3)
    await stage.expect_unbound("pod8")
    await stage.sleep(2)
    await stage.expect_bound("pod8", to="node8")


def test_a_pod_waits_half_as_long():
    run(LESSON, print, scenario=scenario)
