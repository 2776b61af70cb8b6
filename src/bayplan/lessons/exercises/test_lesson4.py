"""Exercise of lesson 4: understand whole numbers.

Run with `pytest` beside your copy of lesson4.py; it fails until you have done it.
"""

from pathlib import Path

from bayplan.lessons.runner import module_at, run

LESSON = module_at(Path(__file__).parent / "lesson4.py")


async def scenario(stage):
    for number in (2, 12, 22):
        await stage.create_node(f"node{number}")
    for number in (2, 12, 22):
        await stage.create_pod(f"pod{number}")
    await stage.sleep(1)
    for number in (2, 12, 22):
        await stage.expect_bound(f"pod{number}", to=f"node{number}")


def test_whole_numbers_match():
    for seed in range(5):
        run(LESSON, print, scenario=scenario, seed=seed)
