"""Exercise of lesson 6: give parked pods another chance every 30 seconds.

Run with `pytest` beside your copy of lesson6.py; it fails until you have done it.
"""

from pathlib import Path

from bayplan.lessons.runner import module_at, run

LESSON = module_at(Path(__file__).parent / "lesson6.py")


async def scenario(stage):
    await stage.create_node("node0", unschedulable=True)
    await stage.create_pod("pod1")
    await stage.sleep(5)
    await stage.create_node("node1")
    await stage.sleep(40)
    await stage.expect_bound("pod1", to="node1")


def test_a_parked_pod_is_tried_again():
    run(LESSON, print, scenario=scenario)
