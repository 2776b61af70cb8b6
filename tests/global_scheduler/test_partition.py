import random
import uuid

import pytest

from bayplan.apiserver.server import ApiServer
from bayplan.client import AsgiTransport, Client
from bayplan.global_scheduler.partition import DURATION, TOP, Partition, divide, hash_key
from bayplan.store import MemoryStore

_rng = random.Random(1)
UIDS = [str(uuid.UUID(int=_rng.getrandbits(128), version=4)) for _ in range(300)]


@pytest.mark.parametrize(
    ("parts", "top", "ranges"),
    [
        (2, 5, [(0, 2), (3, 5)]),
        (2, 4, [(0, 2), (3, 4)]),
        (4, 2, [(0, 0), (1, 1), (2, 2)]),
        (2, TOP, [(0, 4611686018427387903), (4611686018427387904, TOP)]),
    ],
)
def test_ranges_are_even_and_cover_everything(parts, top, ranges):
    assert ranges == divide(parts, top)


def test_the_hash_is_the_originals():
    assert 5616628843102262957 == hash_key("3f1c9a52-7b1e-4a6e-9a3f-0d9b6d3c1e77")


async def test_every_object_has_one_owner_as_schedulers_come_and_go():
    api = ApiServer(MemoryStore())
    await api.start()
    client = Client(AsgiTransport(api, token=api.admin_token))
    now = [1_000_000.0]
    moves = []
    one, two, three = (
        Partition(client, name, clock=lambda: now[0], changed=lambda n=name: moves.append(n))
        for name in ("one", "two", "three")
    )

    def owners():
        return [sum(part.is_mine(uid) for part in (one, two, three)) for uid in UIDS]

    assert {0} == set(owners())  # nobody acts before it has a lease
    await one.step()
    assert {1} == set(owners())
    for part in (two, three, one, two, three):
        await part.step()
    assert {1} == set(owners())
    assert all(any(part.is_mine(uid) for uid in UIDS) for part in (one, two, three))

    now[0] += DURATION + 1  # "three" died
    for part in (one, two, one, two):
        await part.step()

    assert ["one", "two"] == one.members == two.members
    assert {1} == {one.is_mine(uid) + two.is_mine(uid) for uid in UIDS}
    assert moves.count("one") >= 3
