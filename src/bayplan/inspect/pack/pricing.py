"""What nodes cost: `KEY=VALUE=COST` by a label of theirs, or one COST for all others."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

import numpy as np

from bayplan.api import Node
from bayplan.cluster.arrays import IntArray
from bayplan.inspect.errors import InspectError

SCALE = 10_000
"""Costs are kept in whole numbers of this part."""
FORM = "write KEY=VALUE=COST, such as node.kubernetes.io/instance-type=m6i.large=0.096, or a COST"


class Prices:
    """Costs by node label; without any, every node costs 1."""

    def __init__(self, given: Sequence[str] = ()) -> None:
        self.given = bool(given)
        self._default: int | None = None if given else 1
        self._by_label: list[tuple[str, str, int]] = []
        for text in given:
            parts = text.rsplit("=", 1)
            if len(parts) == 1:
                self._default = _amount(text, text)
                continue
            key, equals, value = parts[0].partition("=")
            if not key or not equals:
                raise InspectError(f'--price "{text}": {FORM}')
            self._by_label.append((key, value, _amount(parts[1], text)))

    def costs(self, nodes: Sequence[Node]) -> IntArray:
        """(N,): what each node costs; raises InspectError for a node without a price."""
        return np.array([self._cost(node) for node in nodes], dtype=np.int64)

    def unused(self, nodes: Sequence[Node]) -> list[str]:
        """Labels that have a price and no node."""
        return [
            f"{key}={value}"
            for key, value, _ in self._by_label
            if not any(node.labels.get(key) == value for node in nodes)
        ]

    def _cost(self, node: Node) -> int:
        for key, value, cost in self._by_label:
            if node.labels.get(key) == value:
                return cost
        if self._default is None:
            keys = sorted({key for key, _, _ in self._by_label})
            has = ", ".join(f"{key}={node.labels.get(key, '')}" for key in keys)
            raise InspectError(
                f'node "{node.name}" ({has}) has no price; '
                "add --price for it, or one COST for all others"
            )
        return self._default


def _amount(text: str, whole: str) -> int:
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise InspectError(f'--price "{whole}": "{text}" is no number; {FORM}') from None
    if not (value.is_finite() and 0 < value < 10**9) or int(value * SCALE) < 1:
        raise InspectError(f'--price "{whole}": the cost must be from 0.0001 to 1e9')
    return int(value * SCALE)
