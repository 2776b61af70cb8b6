"""What concurrent clients of a store see has an order, for every kind of store."""

import asyncio
import math
import random

from bayplan.dst.linear import Operation, linearizable
from bayplan.store import Conflict, MemoryStore, StoreError


def read(begin, end, seen):
    return Operation(begin, end, lambda state: state if state == seen else None)


class Client:
    """Reads and changes keys of a store, and writes down what it saw."""

    turn = 0

    def __init__(self, store, history, rng, number):
        self.store, self.history, self.rng, self.number = store, history, rng, number

    def now(self):
        Client.turn += 1
        return Client.turn

    async def run(self, root, rounds):
        for n in range(rounds):
            key = f"{root}{self.rng.choice('ab')}"
            begin = self.now()
            try:
                found = await self.store.get(key)
            except StoreError:
                continue
            old = "" if found is None else found.value.decode()
            self.history.setdefault(key, []).append(read(begin, self.now(), old))
            await asyncio.sleep(0)
            await self.change(key, found, old, f"{self.number}-{n}")

    async def change(self, key, found, old, new):
        begin, end = self.now(), math.inf
        try:
            await self.store.put(key, new.encode(), expect=found.mod_revision if found else 0)
            end = self.now()
        except Conflict:
            return  # it lost, and says so
        except StoreError:
            pass
        step = Operation(begin, end, lambda state: new if state == old else None)
        self.history[key].append(step)


async def rivalry(store, root, *, clients=4, rounds=12):
    history = {}
    rivals = [Client(store, history, random.Random(n), n) for n in range(clients)]
    await asyncio.gather(*(rival.run(root, rounds) for rival in rivals))
    return history


async def test_stores_are_linearizable(store):
    history = await rivalry(store, "/linear/")

    assert {"/linear/a", "/linear/b"} == set(history)
    assert all(linearizable(each, "") for each in history.values())


async def test_a_store_that_serves_the_past_is_found():
    class Stale(MemoryStore):
        """Answers reads of a moment ago."""

        last = None

        async def get(self, key, *, revision=0):
            found, self.last = self.last, await super().get(key)
            return found if found is None or found.key == key else self.last

    history = await rivalry(Stale(), "/linear/")

    assert not all(linearizable(each, "") for each in history.values())
