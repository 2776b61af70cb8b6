"""How writes share etcd's transactions and how keys are read, without an etcd."""

from __future__ import annotations

import asyncio

import pytest

from bayplan.clock import run_virtual
from bayplan.store import KeyValue, Put, Unavailable
from bayplan.store.etcd_batch import MAX_IN_FLIGHT, Batcher
from bayplan.store.etcd_wire import PLACE_BITS, EtcdKv, Keys, check_ops


class Away:
    """A client that finds nobody, after a second."""

    def __init__(self) -> None:
        self.now = self.most = self.calls = 0

    async def call(self, *given: object, safe: bool) -> None:
        self.calls += 1
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(1)
        self.now -= 1
        raise Unavailable("nobody there")


def test_what_waits_goes_when_the_wire_is_free_again() -> None:
    """Writes of one key cannot share a transaction, and few are on the wire at once."""
    client = Away()

    async def main() -> list[object]:
        batcher = Batcher(client, Keys("/r"))  # type: ignore[arg-type]
        writes = [batcher.submit([Put("/a", b"")]) for _ in range(3 * MAX_IN_FLIGHT)]
        async with asyncio.timeout(60):
            return await asyncio.gather(*writes, return_exceptions=True)

    outcomes = run_virtual(main())

    assert [Unavailable] * 3 * MAX_IN_FLIGHT == [type(outcome) for outcome in outcomes]
    assert (3 * MAX_IN_FLIGHT, MAX_IN_FLIGHT) == (client.calls, client.most)


def test_a_key_is_read_without_its_root_and_with_its_place() -> None:
    keys = Keys("/r")
    found = keys.decode(
        EtcdKv(key=b"/r/a/b", value=b"\x03\x00text", create_revision=5, mod_revision=7)
    )

    assert KeyValue("/a/b", b"text", 5 << PLACE_BITS, 7 << PLACE_BITS | 3) == found


def test_a_write_asks_for_when_its_key_was_created_not_for_its_value() -> None:
    """One that creates knows that itself."""
    known = Keys("/r").request([Put("/a", b"x")], 3)["requestTxn"]
    new = Keys("/r").request([Put("/a", b"x", 0)], 3)["requestTxn"]

    put = {"requestPut": {"key": "L3IvYQ==", "value": "AwF4"}}
    assert [put, {"requestRange": {"key": "L3IvYQ==", "keysOnly": True}}] == known["success"]
    assert [put] == new["success"]


def test_what_cannot_be_one_transaction_is_refused() -> None:
    check_ops([Put("/a", b""), Put("/b", b"")], 2)
    with pytest.raises(ValueError, match="a transaction of 2 operations; etcd takes 1"):
        check_ops([Put("/a", b""), Put("/b", b"")], 1)
    with pytest.raises(ValueError, match="a key occurs twice in one transaction"):
        check_ops([Put("/a", b""), Put("/a", b"")], 2)
