"""Tests run in any order: one is drawn, told and can be had again; `hack/test-again` draws many."""

import json
import subprocess
import sys
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace

from tests.conftest import (
    in_random_order,
    pytest_configure,
    pytest_configure_node,
    pytest_report_header,
)

AGAIN = Path(__file__).parents[1] / "hack" / "test-again"
THIRD_FAILS = """import sys
from pathlib import Path
told = Path(sys.argv[1])
told.write_text(told.read_text() + sys.argv[2] + " ")
sys.exit(len(told.read_text().split()) == 3)
"""


def again(tmp_path: Path, times: int) -> subprocess.CompletedProcess:
    script, told = tmp_path / "tests.py", tmp_path / "told"
    script.write_text(THIRD_FAILS)
    told.touch()
    options = ["--times", str(times), "--runs", str(tmp_path / "runs.jsonl")]
    command = [sys.executable, str(AGAIN), *options, sys.executable, str(script), str(told)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_runs_end_at_the_first_failure_and_say_how_to_repeat_it(tmp_path):
    done = again(tmp_path, 4)
    runs = [json.loads(line) for line in (tmp_path / "runs.jsonl").read_text().splitlines()]
    order = (tmp_path / "told").read_text().split()

    assert 1 == done.returncode
    assert [(2, True), (6, True), (2, False)] == [(run["jobs"], run["passed"]) for run in runs]
    assert order == [f"ORDER={run['seed']}" for run in runs]
    assert done.stderr.startswith("2 runs passed, then one failed")
    assert order[2] in done.stderr


def test_runs_go_on_where_they_ended(tmp_path):
    first, second = again(tmp_path, 1), again(tmp_path, 2)

    assert [0, 0] == [first.returncode, second.returncode], second.stderr
    assert "1 runs of these sources have passed before" in second.stdout
    assert 2 == len((tmp_path / "told").read_text().split())


def test_an_order_is_drawn_once():
    config = SimpleNamespace(option=SimpleNamespace(order_seed=0))
    pytest_configure(config)
    drawn = config.option.order_seed
    pytest_configure(config)

    assert drawn > 0
    assert drawn == config.option.order_seed
    assert f"order: --order-seed {drawn}" == pytest_report_header(config)


def test_an_order_can_be_had_again_and_keeps_modules_together():
    items = [SimpleNamespace(path=path, name=name) for path in "abcdefgh" for name in range(8)]
    first, same, other = (in_random_order(items, seed) for seed in (1, 1, 2))

    assert first == same != other
    assert 8 == len([path for path, _ in groupby(first, key=lambda item: item.path)])
    assert items != first
    assert sorted(map(id, items)) == sorted(map(id, first))


def test_a_worker_takes_the_order_that_was_drawn_above_it():
    above = SimpleNamespace(option=SimpleNamespace(order_seed=0))
    pytest_configure(above)
    node = SimpleNamespace(config=above, workerinput={})
    pytest_configure_node(node)
    worker = SimpleNamespace(option=SimpleNamespace(order_seed=0), workerinput=node.workerinput)
    pytest_configure(worker)

    assert above.option.order_seed == worker.option.order_seed
