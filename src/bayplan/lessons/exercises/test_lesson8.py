"""Exercise of lesson 8: an argument `reverse` in pluginConfig makes NodeNumber avoid equal digits.

Run with `pytest` beside your copy of lesson8.py; it fails until you have done it.
"""

from pathlib import Path

from bayplan.lessons.runner import module_at, run

LESSON = module_at(Path(__file__).parent / "lesson8.py")


async def scenario(stage):
    for number in (1, 2):
        await stage.create_node(f"node{number}")
    for number in (1, 2):
        await stage.create_pod(f"pod{number}")
    await stage.sleep(2)
    await stage.expect_bound("pod1", to="node2")
    await stage.expect_bound("pod2", to="node1")


def test_reverse_avoids_equal_digits():
    assert "reverse: true" in LESSON.CONFIG
    run(LESSON, print, scenario=scenario)
