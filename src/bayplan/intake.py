"""How much of requests' bodies a server holds, over all its connections together.

One body has a limit of its own; many that are sent by halves would still fill the memory. Small
ones are let in however much is held, so that who holds the room keeps nobody else from asking.
"""

from __future__ import annotations

from bayplan.errors import BayplanError

MAX_INTAKE = 256 * 1024 * 1024
SMALL = 64 * 1024


class FullError(BayplanError):
    """Too much is held already."""

    def __init__(self) -> None:
        super().__init__("too many request bodies at once, please try again later")


class Intake:
    """The bytes that are held now."""

    def __init__(self) -> None:
        self.held = 0

    def share(self) -> Share:
        """Return what counts one body, as long as it is entered."""
        return Share(self)


class Share:
    """The part of one body."""

    __slots__ = ("_intake", "size")

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self.size = 0

    def take(self, count: int) -> None:
        """Count what has arrived or was unpacked. Raises FullError when it is too much."""
        intake = self._intake
        intake.held += count
        self.size += count
        if intake.held > MAX_INTAKE and self.size > SMALL:
            raise FullError

    def __enter__(self) -> Share:
        return self

    def __exit__(self, *error: object) -> None:
        self._intake.held -= self.size
        self.size = 0
