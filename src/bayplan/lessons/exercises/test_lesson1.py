"""Exercise of lesson 1: choose the node with the shortest name.

Run with `pytest` beside your copy of lesson1.py; it fails until you have done it.
"""

from pathlib import Path

from bayplan.lessons.runner import module_at, run

LESSON = module_at(Path(__file__).parent / "lesson1.py")


async def scenario(stage):
    for name in ("a-long-name", "short", "another-long-name"):
        await stage.create_node(name)
    for number in range(5):
        await stage.create_pod(f"pod{number}")
    await stage.sleep(1)
    for number in range(5):
        await stage.expect_bound(f"pod{number}", to="short")


def test_the_shortest_name_wins():
    run(LESSON, print, scenario=scenario)
