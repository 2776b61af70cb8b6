"""Exercise of lesson 7: do not wake a pod for a node that stays cordoned.

Run with `pytest` beside your copy of lesson7.py; it fails until you have done it.
"""

from pathlib import Path

from bayplan.lessons.runner import module_at, run

LESSON = module_at(Path(__file__).parent / "lesson7.py")


async def scenario(stage):
    await stage.create_node("node0", unschedulable=True)
    await stage.create_pod("pod1")
    await stage.sleep(3)
    await stage.create_node("node1", unschedulable=True)
    await stage.sleep(20)
    chances = sum("another chance" in text for text in stage.heard)
    assert chances == 0, f"woken {chances} times for nothing"
    await stage.create_node("node2")
    await stage.sleep(20)
    await stage.expect_bound("pod1", to="node2")


def test_only_an_open_node_wakes_a_pod():
    run(LESSON, print, scenario=scenario)
