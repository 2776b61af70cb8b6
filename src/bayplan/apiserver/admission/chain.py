"""The admission chain as data, and the two functions that run its halves."""

from __future__ import annotations

from collections.abc import Callable

from bayplan.apiserver.admission.types import Attributes, Reader

Step = Callable[[Attributes, Reader], None]

CHAIN: dict[str, tuple[Step | None, Step | None]] = {}


def admit(attrs: Attributes, reader: Reader) -> None:
    """Run the mutating half: may change `attrs.obj`; raises AdmissionError to refuse."""
    for mutate, _ in CHAIN.values():
        if mutate is not None:
            mutate(attrs, reader)


def validate(attrs: Attributes, reader: Reader) -> None:
    """Run the validating half, after the object has passed validation."""
    for _, check in CHAIN.values():
        if check is not None:
            check(attrs, reader)
