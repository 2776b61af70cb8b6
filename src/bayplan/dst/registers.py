"""Values that clients read and change under rivalry, and whether what they saw makes sense.

Each change names the version that it replaces. An answer that is lost, refused or an error says
nothing: a repeated request may have been the one that won.
"""

from __future__ import annotations

import asyncio
import math
import random

import msgspec

from bayplan.client import Client, ClientError, NotFound
from bayplan.client.resources import CONFIG_MAPS
from bayplan.dst.linear import Operation, linearizable
from bayplan.dst.truth import Broken

LINEAR = "what clients saw has an order"
NAMES = ("r0", "r1")


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Register(msgspec.Struct):
    metadata: _Meta
    data: dict[str, str] = {}


def reading(begin: float, end: float, seen: str) -> Operation[str]:
    return Operation(begin, end, lambda state: state if state == seen else None, f"reads {seen}")


def change(begin: float, end: float, old: str, new: str) -> Operation[str]:
    text = f"changes {old} to {new}"
    return Operation(begin, end, lambda state: new if state == old else None, text)


class Registers:
    """All that was asked and seen, by name."""

    def __init__(self) -> None:
        self.history: dict[str, list[Operation[str]]] = {name: [] for name in NAMES}
        self._turn = 0
        self._serial = 0

    def _now(self) -> float:
        """A moment of its own for each event, in the order in which they happen."""
        self._turn += 1
        return self._turn

    async def use(self, client: Client, rng: random.Random) -> str:
        """Read, then change what was read."""
        name = rng.choice(NAMES)
        for _ in range(rng.randint(1, 3)):
            begin = self._now()
            try:
                found = msgspec.json.decode(
                    await client.get(CONFIG_MAPS, name, "default"), type=_Register
                )
                old, version = found.data["v"], found.metadata.resource_version
            except NotFound:
                old, version = "", ""
            self.history[name].append(reading(begin, self._now(), old))
            await asyncio.sleep(rng.random() * 0.05)
            await self._change(client, name, old, version)
        return name

    async def _change(self, client: Client, name: str, old: str, version: str) -> None:
        self._serial += 1
        new, begin = f"v{self._serial}", self._now()
        end = math.inf
        meta = {"name": name} | ({"resourceVersion": version} if version else {})
        body = {"metadata": meta, "data": {"v": new}}
        try:
            if version:
                await client.update(CONFIG_MAPS, name, body, "default")
            else:
                await client.create(CONFIG_MAPS, body, "default")
            end = self._now()
        except ClientError:
            pass
        self.history[name].append(change(begin, end, old, new))

    def check(self) -> None:
        for name, history in self.history.items():
            if not linearizable(history, ""):
                told = "; ".join(f"[{op.begin:g},{op.end:g}] {op.text}" for op in history)
                raise Broken(LINEAR, f"{name}: {told}")
