"""What a plugin answers: a code, reasons, and which plugin said so.

`None` stands for success everywhere, so that the common case costs nothing. The numbers of the
codes are kube-scheduler's. A status is a value: compare it, store it, never change it.
It does not say what follows from a code; `points.py` does, one extension point at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum


class Code(IntEnum):
    """The outcome of one call of a plugin; the numbers are kube-scheduler's."""

    SUCCESS = 0
    ERROR = 1
    """An unexpected failure: the attempt is aborted and retried after error backoff."""
    UNSCHEDULABLE = 2
    """Rejected, and taking other pods away might help."""
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    """Rejected, and preemption on that node cannot help."""
    WAIT = 4
    """Permit only: park the pod."""
    SKIP = 5
    """PreFilter, PreScore, PreBindPreFlight: leave this plugin out; Bind: ask the next one."""
    PENDING = 6
    """Rejected until an event of this plugin arrives, which then bypasses backoff."""

    @property
    def text(self) -> str:
        """The name as kube-scheduler prints it."""
        return _TEXT[self]

    @property
    def rejected(self) -> bool:
        return self in _REJECTED


_TEXT = {
    Code.SUCCESS: "Success",
    Code.ERROR: "Error",
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "UnschedulableAndUnresolvable",
    Code.WAIT: "Wait",
    Code.SKIP: "Skip",
    Code.PENDING: "Pending",
}
_REJECTED = frozenset({Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING})


class Status:
    """A code with reasons; `None` in its place means success."""

    __slots__ = ("code", "error", "plugin", "reasons")

    def __init__(
        self,
        code: Code,
        reasons: str | Iterable[str] = (),
        *,
        error: BaseException | None = None,
        plugin: str = "",
    ) -> None:
        self.code = code
        self.reasons: tuple[str, ...] = (reasons,) if isinstance(reasons, str) else tuple(reasons)
        self.error = error
        self.plugin = plugin

    @classmethod
    def from_error(cls, error: BaseException, plugin: str = "") -> Status:
        return cls(Code.ERROR, error=error, plugin=plugin)

    @property
    def rejected(self) -> bool:
        return self.code in _REJECTED

    @property
    def success(self) -> bool:
        return self.code is Code.SUCCESS

    @property
    def all_reasons(self) -> tuple[str, ...]:
        """The reasons, led by the text of the error if there is one."""
        return (str(self.error), *self.reasons) if self.error is not None else self.reasons

    @property
    def message(self) -> str:
        return ", ".join(self.all_reasons)

    def with_plugin(self, plugin: str) -> Status:
        return Status(self.code, self.reasons, error=self.error, plugin=plugin)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Status) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        return self.code, self.reasons, self.plugin, None if self.error is None else str(self.error)

    def __repr__(self) -> str:
        return f"Status({self.code.text}, {self.message!r}, plugin={self.plugin!r})"


def unschedulable(*reasons: str) -> Status:
    """Rejected; preemption might help."""
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    """Rejected; preemption cannot help."""
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)


def failed(error: BaseException | str) -> Status:
    """An unexpected failure that aborts the attempt."""
    return Status(Code.ERROR, error) if isinstance(error, str) else Status.from_error(error)


SKIP = Status(Code.SKIP)
"""The answer of PreFilter, PreScore, PreBindPreFlight or Bind that leaves the plugin out."""


def is_success(status: Status | None) -> bool:
    return status is None or status.code is Code.SUCCESS
