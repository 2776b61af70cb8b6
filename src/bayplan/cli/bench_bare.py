"""The bare pass beside which `bayplan bench decide` measures: numpy with nothing kept."""

from __future__ import annotations

import time

import numpy as np

from bayplan.cli.bench_workloads import ZONES

GI = 1 << 30
MI = 1 << 20


class BarePass:
    """A plain numpy loop: filter, score, choose, add up; goes on where it stopped."""

    def __init__(self, nodes: int, topology: bool) -> None:
        self._topology = topology
        self._offers = np.full(nodes, 4000), np.full(nodes, 32 * GI), np.full(nodes, 110)
        self._used = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)
        self._zone = np.arange(nodes) % ZONES
        self.pods = 0
        self.seconds = 0.0

    @property
    def speed(self) -> float:
        """Pods a second."""
        return self.pods / self.seconds if self.seconds else float("inf")

    def run(self, pods: int) -> None:
        """Place some pods more."""
        started = time.process_time()
        for _ in range(pods):
            self._place()
        self.seconds += time.process_time() - started
        self.pods += pods

    def _place(self) -> None:
        (cpu, memory, allowed), (used_cpu, used_memory, count) = self._offers, self._used
        fits = (count < allowed) & (100 <= cpu - used_cpu) & (500 * MI <= memory - used_memory)
        free = (cpu - used_cpu - 100) * 100 // cpu
        free = free + (memory - used_memory - 500 * MI) * 100 // memory
        before = np.abs(used_cpu / cpu - used_memory / memory) / 2
        after = np.abs((used_cpu + 100) / cpu - (used_memory + 500 * MI) / memory) / 2
        balance = ((1 - after) * 100).astype(np.int64) - ((1 - before) * 100).astype(np.int64)
        total = free // 2 + 50 + (50 + balance) // 2
        if self._topology:
            domains = np.bincount(self._zone, weights=count, minlength=ZONES)
            fits &= (domains - domains.min() < 5)[self._zone]
            spread = (domains * 2.5)[self._zone]
            top = spread.max()
            if top > 0:
                total = total + (100 * (top - spread) / top).astype(np.int64)
        row = int(np.where(fits, total, -1).argmax())
        used_cpu[row] += 100
        used_memory[row] += 500 * MI
        count[row] += 1
