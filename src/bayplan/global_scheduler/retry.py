"""Which objects wait for placement, and when each may be tried again.

A new or changed object is due at once. One that could not be placed waits 1, 2, 4, 8, 10, 10 …
seconds; a hint (capacity came free, the inventory changed) makes those that have waited out their
backoff due, and without any hint all are tried again after a while. Time is an argument, and does
not go back. Hints may come by the thousand: only the first after a try does anything.
"""

import heapq

FIRST, LIMIT = 1.0, 10.0
FLUSH = 60.0


class RetryQueue:
    """Keys in order of arrival, with backoff."""

    def __init__(self) -> None:
        self._due: dict[str, None] = {}
        self._attempts: dict[str, int] = {}
        self._parked: dict[str, float] = {}
        """When each is due."""
        self._backoff: dict[str, float] = {}
        """Of those that no hint has reached, until when they wait whatever comes."""
        self._timers: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._due) + len(self._parked)

    def add(self, key: str) -> None:
        """A new or changed object: due at once."""
        self._unpark(key)
        self._due[key] = None

    def _unpark(self, key: str) -> None:
        self._parked.pop(key, None)
        self._backoff.pop(key, None)

    def forget(self, key: str) -> None:
        """The object is gone, or was placed."""
        self._due.pop(key, None)
        self._unpark(key)
        self._attempts.pop(key, None)

    def fail(self, key: str, now: float) -> float:
        """The object could not be placed; returns the seconds until it may be tried again."""
        attempts = self._attempts[key] = self._attempts.get(key, 0) + 1
        wait = min(FIRST * float(2 ** (attempts - 1)), LIMIT)
        self._backoff[key] = now + wait
        self._park(key, now + FLUSH)
        return wait

    def _park(self, key: str, due: float) -> None:
        self._parked[key] = due
        heapq.heappush(self._timers, (due, key))

    def hint(self, now: float) -> None:
        """Something changed that may help: those parked become due after their backoff."""
        for key, ready in self._backoff.items():
            self._park(key, max(ready, now))
        self._backoff.clear()

    def pop(self, now: float) -> str | None:
        """The next object to try."""
        while self._timers and self._timers[0][0] <= now:
            _, key = heapq.heappop(self._timers)
            if key in self._parked and self._parked[key] <= now:
                self._unpark(key)
                self._due[key] = None
        if not self._due:
            return None
        key = next(iter(self._due))
        del self._due[key]
        return key

    def next_time(self) -> float | None:
        """When the next parked object becomes due, if one is parked."""
        while self._timers and self._timers[0][1] not in self._parked:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None
