"""Which objects wait for placement, and when each may be tried again.

A new or changed object is due at once. One that could not be placed waits 1, 2, 4, 8, 10, 10 …
seconds; a hint (capacity came free, the inventory changed) makes those that have waited out their
backoff due, and without any hint all are tried again after a while. Time is an argument.
"""

import heapq

FIRST, LIMIT = 1.0, 10.0
FLUSH = 60.0


class RetryQueue:
    """Keys in order of arrival, with backoff."""

    def __init__(self) -> None:
        self._due: dict[str, None] = {}
        self._attempts: dict[str, int] = {}
        self._parked: dict[str, tuple[float, float]] = {}
        self._timers: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._due) + len(self._parked)

    def add(self, key: str) -> None:
        """A new or changed object: due at once."""
        self._parked.pop(key, None)
        self._due[key] = None

    def forget(self, key: str) -> None:
        """The object is gone, or was placed."""
        self._due.pop(key, None)
        self._parked.pop(key, None)
        self._attempts.pop(key, None)

    def fail(self, key: str, now: float) -> float:
        """The object could not be placed; returns the seconds until it may be tried again."""
        attempts = self._attempts[key] = self._attempts.get(key, 0) + 1
        wait = min(FIRST * float(2 ** (attempts - 1)), LIMIT)
        self._parked[key] = (now + wait, now + FLUSH)
        heapq.heappush(self._timers, (now + FLUSH, key))
        return wait

    def hint(self, now: float) -> None:
        """Something changed that may help: those parked become due after their backoff."""
        for key, (ready, _) in list(self._parked.items()):
            self._parked[key] = (ready, max(ready, now))
            heapq.heappush(self._timers, (max(ready, now), key))

    def pop(self, now: float) -> str | None:
        """The next object to try."""
        while self._timers and self._timers[0][0] <= now:
            _, key = heapq.heappop(self._timers)
            if key in self._parked and self._parked[key][1] <= now:
                del self._parked[key]
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
