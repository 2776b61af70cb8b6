"""Traces from chance: arrivals, sizes and lifetimes as measured on public ones, no download.

Most frequent shapes with rounded shares, and log-normal lifetimes. `gpu` follows Alibaba's openb
trace of 2023 (shared GPUs as labels), `dlrm` Alibaba's of 2025, `msr` Gavel's traces of training
jobs on one V100 (both with whole GPUs as `nvidia.com/gpu`); `web` is a plain mix of small services.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec

from bayplan.sim.traces.format import GPU, TracePod
from bayplan.sim.traces.openb import COUNT, MILLI


class Model(msgspec.Struct, frozen=True):
    """What a generator draws from."""

    shapes: tuple[tuple[float, int, int, int, int], ...]
    """Share, thousandths of a core, MiB, GPUs, thousandths of each."""
    log_mean: float
    log_deviation: float
    """Of a lifetime in seconds."""
    whole: bool = False
    """Whether GPUs are a resource of Kubernetes, not labels for the policies of the examples."""


MODELS = {
    "gpu": Model(
        (
            (0.21, 3152, 5600, 1, 810),
            (0.17, 11300, 49152, 1, 1000),
            (0.13, 11400, 48128, 1, 1000),
            (0.09, 3152, 5600, 1, 1000),
            (0.08, 11908, 47104, 1, 470),
            (0.08, 12500, 57344, 0, 0),
            (0.08, 8000, 30517, 1, 470),
            (0.06, 32000, 49152, 0, 0),
            (0.05, 18708, 64512, 1, 1000),
            (0.05, 11908, 47104, 1, 650),
        ),
        6.44,
        1.88,
    ),
    "dlrm": Model(
        (
            (0.30, 64000, 327680, 0, 0),
            (0.24, 8000, 40960, 1, 1000),
            (0.18, 96000, 491520, 0, 0),
            (0.12, 48000, 245760, 0, 0),
            (0.06, 48000, 204800, 0, 0),
            (0.04, 8000, 24576, 1, 1000),
            (0.04, 12000, 122880, 1, 1000),
            (0.02, 192000, 983040, 0, 0),
        ),
        8.98,
        2.78,
        whole=True,
    ),
    "msr": Model(
        (
            (0.69, 0, 0, 1, 1000),
            (0.03, 0, 0, 2, 1000),
            (0.13, 0, 0, 4, 1000),
            (0.15, 0, 0, 8, 1000),
        ),
        9.40,
        2.25,
        whole=True,
    ),
    "web": Model(
        (
            (0.5, 100, 128, 0, 0),
            (0.3, 500, 512, 0, 0),
            (0.15, 1000, 2048, 0, 0),
            (0.05, 4000, 8192, 0, 0),
        ),
        8.0,
        1.2,
    ),
}


def generate(model: Model, pods: int, rate: float, seed: int) -> Iterator[TracePod]:
    """Draw pods that arrive at a mean rate (a second)."""
    rng = random.Random(seed)
    weights = [shape[0] for shape in model.shapes]
    time = 0.0
    for _ in range(pods):
        time += rng.expovariate(rate)
        _, cpu, memory, count, milli = rng.choices(model.shapes, weights)[0]
        labels, extra = {}, {}
        if count and model.whole:
            extra = {GPU: str(count)}
        elif count:
            labels = {COUNT: str(count), MILLI: str(milli)}
        duration = round(rng.lognormvariate(model.log_mean, model.log_deviation), 3)
        asks = (f"{cpu}m", f"{memory}Mi") if cpu else ("", "")
        yield TracePod(round(time, 3), duration, *asks, labels, extra=extra)
