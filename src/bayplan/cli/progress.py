"""How far a long comparison is, told now and then on stderr."""

from __future__ import annotations

import time

import click

REPORT_EVERY = 5.0


class Progress:
    """Says now and then how far a run is."""

    def __init__(self, total: int, what: str = "cases") -> None:
        self._total, self._what = total, what
        self._began = self._said = time.monotonic()
        self.count = 0

    def step(self, differing: int) -> None:
        self.count += 1
        now = time.monotonic()
        if now - self._said >= REPORT_EVERY:
            self._said = now
            how_far = f"{self.count}/{self._total} {self._what}, {self.rate:.0f}/s"
            click.echo(f"{how_far}, {differing} differ", err=True)

    @property
    def rate(self) -> float:
        return self.count / max(time.monotonic() - self._began, 1e-9)
