"""What a new pod or node looks like after defaults, admission and validation.

The real API server is asked by a dry run, with another name in the place of the object's own; the
answer serves all objects that differ in nothing but the name. Answers are forgotten when an object
that admission may read (a priority class, a limit range, a namespace) is written.
"""

from __future__ import annotations

import asyncio
import re

import msgspec

from bayplan.api import Object
from bayplan.client import Client, Resource
from bayplan.client.errors import ApiError, Invalid
from bayplan.sim.fast.cluster import TYPES, Json

STAND_IN = "bayplan-stands-in-for-a-name"
LIMIT = 20_000
DRY_RUN = {"dryRun": "All"}
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_encode = msgspec.json.Encoder().encode


Answer = tuple[bytes, Json, Object, bool]
"""As text, as JSON and as struct, and whether the name stands nowhere but at its place."""


class Admission:
    """Answers by shape."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[tuple[str, str, bytes], Answer] = {}
        self._alike: dict[int, tuple[object, Answer]] = {}
        """Answers for objects told apart by their names alone, by id of what they are made from."""
        self._asking = asyncio.Lock()
        self.asked = 0

    def forget(self) -> None:
        self._known.clear()
        self._alike.clear()

    def another(self, alike: object, name: str) -> tuple[Json, Object] | None:
        """The same for one more that was made from the same; None if that is not known."""
        known = self._alike.get(id(alike))
        if known is None or known[0] is not alike or not _NAME.fullmatch(name):
            return None
        return _named(known[1], name)

    async def admit(
        self, resource: Resource, namespace: str, name: str, body: object, alike: object = None
    ) -> tuple[Json, Object]:
        """Return a new object as JSON and struct; raises ApiError if the server refuses it.

        All objects that differ from it in nothing but the name may be made from `alike`.
        """
        if not _NAME.fullmatch(name):
            why = f'{resource.kind} "{name}" is invalid: metadata.name: Invalid value: "{name}"'
            raise Invalid(422, "Invalid", why)
        own, other = _encode(name), _encode(STAND_IN)
        shape = _encode(body).replace(own, other)
        key = (resource.plural, namespace, shape)
        found = self._known.get(key)
        if found is None:
            # One after the other, in the order they came: most of a group that comes at once are
            # of one shape, and the first has it asked for.
            async with self._asking:
                found = self._known.get(key)
                try:
                    found = found or await self._ask(resource, namespace, shape, key)
                except ApiError:
                    # Again by its own name, which is what the refusal is to tell.
                    await self._client.create(resource, _encode(body), namespace, query=DRY_RUN)
                    raise
        text, _, _, only_name = found
        if only_name:
            if alike is not None:
                self._alike[id(alike)] = alike, found
            return _named(found, name)
        filled: Json = msgspec.json.decode(text.replace(other, own))
        return filled, msgspec.convert(filled, TYPES[resource])

    async def _ask(
        self, resource: Resource, namespace: str, shape: bytes, key: tuple[str, str, bytes]
    ) -> Answer:
        self.asked += 1
        text = await self._client.create(resource, shape, namespace, query=DRY_RUN)
        template: Json = msgspec.json.decode(text)
        template["metadata"].pop("managedFields", None)
        text = _encode(template)
        only_name = text.count(_encode(STAND_IN)) == 1
        if len(self._known) >= LIMIT:
            self.forget()
        typed = msgspec.convert(template, TYPES[resource])
        self._known[key] = text, template, typed, only_name
        return self._known[key]


def _named(answer: Answer, name: str) -> tuple[Json, Object]:
    template = answer[1]
    return {**template, "metadata": {**template["metadata"], "name": name}}, answer[2]
