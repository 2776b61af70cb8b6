"""State that the plugins of all profiles share because it is about one cluster.

Two profiles must not give one volume or device to two pods, so what plugins have booked is kept
once per cluster. It lives as long as the cluster's objects do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from weakref import WeakKeyDictionary

from bayplan.framework import ClusterObjects

T = TypeVar("T")

_STATES: WeakKeyDictionary[ClusterObjects, dict[str, object]] = WeakKeyDictionary()


def per_cluster(objects: ClusterObjects, name: str, make: Callable[[], T]) -> T:
    """Return the cluster's state of that name, made on first use."""
    states = _STATES.setdefault(objects, {})
    if name not in states:
        states[name] = make()
    return states[name]  # type: ignore[return-value]
