"""Exercise of lesson 3: prefer the nearest digit.

Run with `pytest` beside your copy of lesson3.py; it fails until you have done it.
"""

from pathlib import Path

from bayplan.lessons.runner import module_at, run

LESSON = module_at(Path(__file__).parent / "lesson3.py")


async def scenario(stage):
    for number in (0, 5, 9):
        await stage.create_node(f"node{number}")
    for number in (1, 4, 8):
        await stage.create_pod(f"pod{number}")
    await stage.sleep(1)
    await stage.expect_bound("pod1", to="node0")
    await stage.expect_bound("pod4", to="node5")
    await stage.expect_bound("pod8", to="node9")


def test_the_nearest_digit_wins():
    run(LESSON, print, scenario=scenario)
