"""Exercise of lesson 2: reject nodes whose name begins with gpu.

Run with `pytest` beside your copy of lesson2.py; it fails until you have done it.
"""

from pathlib import Path

from bayplan.lessons.runner import module_at, run

LESSON = module_at(Path(__file__).parent / "lesson2.py")


async def scenario(stage):
    for name in ("gpu0", "gpu1", "plain"):
        await stage.create_node(name)
    for number in range(5):
        await stage.create_pod(f"pod{number}")
    await stage.sleep(1)
    for number in range(5):
        await stage.expect_bound(f"pod{number}", to="plain")


def test_gpu_nodes_are_rejected():
    run(LESSON, print, scenario=scenario)
