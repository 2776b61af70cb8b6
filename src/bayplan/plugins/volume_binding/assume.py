"""Volumes and claims as they will be once what was decided is written, over what is known.

An assumed object hides the one that the lister has, until that one changes: then the API server
has spoken and the assumption is dropped. Reverting drops it at once.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from bayplan.api import Object
from bayplan.framework import Lister

O = TypeVar("O", bound=Object)  # noqa: E741 - an object of one kind


class AssumeCache(Generic[O]):
    """A lister with assumptions on top."""

    def __init__(self, lister: Lister[O]) -> None:
        self.lister = lister
        self._assumed: dict[str, tuple[O, O]] = {}

    def get(self, key: str) -> O | None:
        """The assumed object if the assumption still stands, else what the lister has."""
        known = self.lister.get(key)
        entry = self._assumed.get(key)
        if entry is None:
            return known
        if known is not None and _same_version(known, entry[0]):
            return entry[1]
        del self._assumed[key]
        return known

    def assume(self, assumed: O) -> None:
        """Hide the known object behind one that is going to be written."""
        known = self.lister.get(assumed.key)
        if known is None:
            raise LookupError(f'could not find {assumed.KIND} "{assumed.key}"')
        self._assumed[assumed.key] = (known, assumed)

    def restore(self, key: str) -> None:
        """Forget an assumption; unknown keys are no error."""
        self._assumed.pop(key, None)


def _same_version(a: Object, b: Object) -> bool:
    version = a.metadata.resource_version
    return a is b or (version != "" and version == b.metadata.resource_version)
