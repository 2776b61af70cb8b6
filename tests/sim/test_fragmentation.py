"""FGD's fragmentation, counted at once, is what adding it up pod by pod gives, to the last bit."""

from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from examples.policies.gpu import MOST_DEVICES, WHOLE, Typical

MODELS = ["", "T4", "A100"]


def typical_pods(random: Random) -> list[dict[str, Any]]:
    shapes = [(0, 0), (300, 1), (500, 1), (WHOLE, 1), (WHOLE, 2), (WHOLE, 8)]
    weights = [random.random() for _ in range(random.randint(1, 9))]
    pods = []
    for weight in weights:
        milli, count = random.choice(shapes)
        model = random.choice(["", "T4", "A100", "T4.A100"]) if milli else ""
        share = weight / sum(weights)
        cpu = random.choice([0, 2_000, 8_000])
        pods.append({"cpu": cpu, "milli": milli, "count": count, "share": share, "model": model})
    return pods


def plain(pods: list[dict[str, Any]], left: list[int], cpu: int, model: str) -> float:
    """One node, one typical pod after another, into the six causes of the paper's program."""
    sums = [0.0] * 6
    for pod in pods:
        cause, lost = why(pod, left, cpu, model)
        sums[cause] += lost * pod["share"]
    total = 0.0
    for value in sums:
        total += value
    return total


def why(pod: dict[str, Any], left: list[int], cpu: int, model: str) -> tuple[int, int]:
    cpus = cpu >= pod["cpu"]
    if not pod["milli"]:
        return (3 if cpus else 4), sum(left)
    if pod["model"] and model not in pod["model"].split("."):
        return 5, sum(left)
    gpus = sum(rest >= pod["milli"] for rest in left) >= pod["count"]
    if gpus and cpus:
        return 1, sum(rest for rest in left if rest < pod["milli"])
    return (2 if gpus else 1 if cpus else 0), sum(left)


@pytest.mark.parametrize("seed", range(60))
def test_what_is_fragmented_equals_the_plain_sum(seed: int) -> None:
    random = Random(seed)
    pods = typical_pods(random)
    rows = random.randint(1, 12)
    left = [random_devices(random) for _ in range(rows)]
    cpu = [random.choice([0, 1_999, 2_000, 7_000, 8_000]) for _ in range(rows)]
    codes = [random.randrange(len(MODELS)) for _ in range(rows)]
    devices = SimpleNamespace(journal=[], count=np.zeros(rows, dtype=np.int64), known=MODELS)
    view: Any = SimpleNamespace(
        devices=devices,
        rows=np.arange(rows),
        left=np.array(left),
        cpu=np.array(cpu),
        codes=np.array(codes),
    )
    found = Typical(pods).at_present(view)
    assert found.tolist() == [
        plain(pods, left[row], cpu[row], MODELS[codes[row]]) for row in range(rows)
    ]


def random_devices(random: Random) -> list[int]:
    count = random.randint(0, MOST_DEVICES)
    given = [random.choice([0, 200, 300, 499, 500, WHOLE, WHOLE]) for _ in range(count)]
    return given + [0] * (MOST_DEVICES - count)
