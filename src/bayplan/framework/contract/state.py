"""What plugins remember between the extension points of one attempt.

A fresh state is made for every attempt. Keys are strings, by convention `PluginName` or
`PluginName/what`; a value that changes after it was written (through `add_pod` and `remove_pod`)
must have a `clone()`, which the dry runs of preemption and nominated pods call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from bayplan.cluster.info import PodInfo

T = TypeVar("T")

PODS_TO_ACTIVATE = "kubernetes.io/pods-to-activate"
"""A dict of pod key to pod that a plugin wants moved to the active queue after a success."""


@runtime_checkable
class Cloneable(Protocol):
    """A value that changes in place and therefore knows how to copy itself."""

    def clone(self) -> Any: ...


class StateMissing(KeyError):
    """A key was read that no plugin wrote in this attempt; kube-scheduler says `not found`."""

    def __str__(self) -> str:
        return "not found"


class CycleState:
    """Key to value, plus which plugins are left out for the rest of this attempt."""

    __slots__ = (
        "_data",
        "info",
        "parallel_pre_bind",
        "skip_filter",
        "skip_post_filter",
        "skip_pre_bind",
        "skip_score",
    )

    def __init__(self, info: PodInfo | None = None) -> None:
        self._data: dict[str, object] = {}
        self.info = info
        """The pod of this attempt with what is worked out about it once; set by the engine."""
        self.skip_filter: set[str] = set()
        """Plugins whose PreFilter said Skip: their filter, add_pod and remove_pod are left out."""
        self.skip_score: set[str] = set()
        """Plugins whose PreScore said Skip."""
        self.skip_pre_bind: set[str] = set()
        self.parallel_pre_bind: set[str] = set()
        self.skip_post_filter = False
        """Set in whole-group trials, which must not preempt pod by pod."""

    def write(self, key: str, value: object) -> None:
        self._data[key] = value

    def read(self, key: str, kind: type[T] | None = None) -> T:
        """Return what was written, or raise StateMissing; `kind` is for the type checker only."""
        try:
            return self._data[key]  # type: ignore[return-value]
        except KeyError:
            raise StateMissing(key) from None

    def get(self, key: str, kind: type[T] | None = None) -> T | None:
        """Return what was written, or None."""
        return self._data.get(key)  # type: ignore[return-value]

    @property
    def data(self) -> dict[str, object]:
        """Everything that was written; do not change it."""
        return self._data

    def take(self, data: dict[str, object], skip_filter: set[str]) -> None:
        """Start with what kept answers' plugins wrote; both are the state's from now on."""
        self._data = data
        self.skip_filter = skip_filter

    def delete(self, key: str) -> None:
        self._data.pop(key, None)

    def clone(self) -> CycleState:
        """Copy for a dry run: values with a `clone()` are copied, all others shared."""
        copy = CycleState.__new__(CycleState)
        copy._data = self._data.copy()
        copy.info = self.info
        copy.skip_filter = self.skip_filter.copy()
        copy.skip_score = self.skip_score.copy()
        copy.skip_pre_bind = set()
        copy.parallel_pre_bind = set()
        copy.skip_post_filter = self.skip_post_filter
        for key, value in self._data.items():
            # Not isinstance(value, Cloneable): that walks the protocol and costs microseconds.
            clone = getattr(value, "clone", None)
            if clone is not None:
                copy._data[key] = clone()
        return copy
