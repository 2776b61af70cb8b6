"""What runs beside the answers: shares that are renewed, lost sites, work that fails."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from bayplan.client import ApiError, Conflict, NotFound
from bayplan.clock import run_virtual
from bayplan.global_scheduler import draining, supervise
from bayplan.global_scheduler.draining import LOOK_EVERY, Lost
from bayplan.global_scheduler.inventory import Inventory, Quota, Site
from bayplan.global_scheduler.partition import (
    DURATION,
    RENEW_EVERY,
    Partition,
    _fresh,
    _Spec,
)
from bayplan.global_scheduler.quotas import QuotaError, check
from bayplan.global_scheduler.table import SiteTable


class Leases:
    """An API server that has Leases only; `away` of its next requests fail."""

    def __init__(self) -> None:
        self.leases: dict[str, Any] = {}
        self.asked: list[str] = []
        self.away = 0

    def _asked(self, what: str) -> None:
        self.asked.append(what)
        if self.away:
            self.away -= 1
            raise ApiError(503, "ServiceUnavailable", "away")

    async def patch(self, resource: Any, name: str, body: Any, namespace: str) -> None:
        self._asked("patch")
        if name not in self.leases:
            raise NotFound(404, "NotFound", name)
        self.leases[name] |= body

    async def create(self, resource: Any, body: Any, namespace: str) -> None:
        self._asked("create")
        self.leases[body["metadata"]["name"]] = {"spec": body["spec"]}

    async def list(self, *given: Any, **more: Any) -> bytes:
        self._asked("list")
        return json.dumps({"items": list(self.leases.values())}).encode()

    async def delete(self, resource: Any, name: str, namespace: str) -> None:
        self._asked("delete")
        del self.leases[name]


def test_a_share_is_renewed_and_given_back_at_once() -> None:
    """Also where the server was away for a while."""

    async def main() -> None:
        client, clock = Leases(), asyncio.get_running_loop().time
        part = Partition(client, "one", clock=clock)  # type: ignore[arg-type]
        running = asyncio.create_task(part.run())
        await asyncio.sleep(RENEW_EVERY / 2)
        assert ["patch", "create", "list"] == client.asked
        assert part.is_mine("any")
        client.away = 1
        await asyncio.sleep(2 * RENEW_EVERY)
        assert ["patch", "patch", "list"] == client.asked[3:]
        spec = client.leases["global-scheduler-one"]["spec"]
        told = datetime.fromisoformat(spec["renewTime"]).timestamp()
        assert ("one", DURATION, 2 * RENEW_EVERY) == (
            spec["holderIdentity"],
            spec["leaseDurationSeconds"],
            pytest.approx(told),
        )
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert ("delete", {}) == (client.asked[-1], client.leases)

    run_virtual(main())


def test_a_share_moves_only_when_others_come_or_go() -> None:
    async def main() -> list[int]:
        client, moved = Leases(), []
        now = [1000.0]
        one, two = (
            Partition(
                client,  # type: ignore[arg-type]
                name,
                clock=lambda: now[0],
                changed=lambda: moved.append(1),
            )
            for name in ("one", "two")
        )
        counts = []
        for step in (one.step, one.step, two.step, one.step, two.step, one.step):
            await step()
            counts.append(len(moved))
        return counts

    assert [1, 1, 2, 3, 3, 3] == run_virtual(main())


async def test_who_was_faster_with_a_lease_is_no_failure() -> None:
    client = Leases()

    async def taken(*given: Any) -> None:
        raise Conflict(409, "AlreadyExists", "taken")

    client.create = taken  # type: ignore[method-assign]
    part = Partition(client, "one", clock=lambda: 1000.0)  # type: ignore[arg-type]
    await part.step()

    assert ([], False) == (part.members, part.is_mine("any"))


@pytest.mark.parametrize(
    ("renewed", "fresh"),
    [(None, False), ("", False), (0.0, True), (DURATION - 0.5, True), (float(DURATION), False)],
)
def test_how_long_a_lease_counts(renewed: Any, fresh: bool) -> None:
    now = 1_000_000.0
    moment = renewed
    if isinstance(renewed, float):
        moment = datetime.fromtimestamp(now - renewed, UTC).isoformat()

    assert fresh == _fresh(_Spec("one", DURATION, moment), now)


def test_work_that_fails_is_begun_again_ever_later_and_told_once() -> None:
    moments: list[float] = []
    failures = [
        *[ExceptionGroup("all", [ExceptionGroup("some", [ValueError("bad"), KeyError()])])] * 3,
        OSError("other"),
        None,
        *[OSError("other")] * 9,
    ]

    async def work() -> None:
        moments.append(asyncio.get_running_loop().time())
        if not failures:
            raise asyncio.CancelledError
        if (problem := failures.pop(0)) is not None:
            raise problem

    async def main() -> None:
        with pytest.raises(asyncio.CancelledError):
            await supervise.keep("it", work)

    with capture_logs() as logs:
        run_virtual(main())

    first, most = supervise.FIRST, supervise.LIMIT
    waits = [min(first * 2**n, most) for n in (1, 2, 3, 4)] + [first]
    waits += [min(first * 2**n, most) for n in range(1, 10)]
    assert pytest.approx(waits) == [b - a for a, b in pairwise(moments)]
    told = [entry["error"] for entry in logs]
    assert ["ValueError: bad", "OSError: other", "OSError: other"] == told


class Sites:
    """A service with sites that are used, and what it has left."""

    def __init__(self, **used: int) -> None:
        statuses = {"offline": "Offline", "normal": "Normal", "sold": "Sellout"}
        self.table = SiteTable(
            Inventory(sites=tuple(Site(n, "r", n, status=s) for n, s in statuses.items()))
        )
        self.ledger = SimpleNamespace(
            by_site={name: set(range(count)) for name, count in used.items()}
        )


@pytest.mark.parametrize(
    ("used", "lost"),
    [
        ({}, set()),
        ({"offline": 1, "normal": 1, "sold": 1}, {"offline"}),
        ({"offline": 0, "normal": 1}, set()),
        ({"gone": 2}, {"gone"}),
        ({"gone": 0, "offline": 2}, {"offline"}),
    ],
)
def test_which_sites_are_lost(used: dict[str, int], lost: set[str]) -> None:
    """Those that are offline or no longer in the inventory, while something is there."""
    watcher = Lost(Sites(**used), lambda: 1.0, clock=float, pause=asyncio.sleep)

    assert lost == watcher._lost()


@pytest.mark.parametrize(
    ("after", "left"), [(0.0, []), (25.0, [40, 70]), (30.0, [40, 70]), (31.0, [50])]
)
def test_a_lost_site_is_left_after_its_time_and_again_after_as_long(
    monkeypatch: pytest.MonkeyPatch, after: float, left: list[int]
) -> None:
    moments: list[float] = []

    async def leave(service: object, site: str, why: str) -> Any:
        assert ("offline", "offline lost") == (site, why)
        moments.append(asyncio.get_running_loop().time())
        return SimpleNamespace(moved=(), empty=False)

    async def main() -> None:
        clock = asyncio.get_running_loop().time
        lost = Lost(Sites(offline=1), lambda: after, clock=clock, pause=asyncio.sleep)
        running = asyncio.create_task(lost.run())
        await asyncio.sleep(71)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    monkeypatch.setattr(draining, "leave", leave)
    monkeypatch.setattr(draining, "LOOK_EVERY", 10.0)
    run_virtual(main())

    assert left == [round(moment) for moment in moments]
    assert LOOK_EVERY > 0


@pytest.mark.parametrize(
    ("used", "more", "refused"),
    [
        ({}, {"vcpus": 8}, ""),
        ({"vcpus": 1}, {"vcpus": 8}, 'domain "d" would have 9 vcpus and may have 8; it has 1 now'),
        ({"vcpus": 9}, {"vcpus": 0}, ""),
        ({"vcpus": 9}, {}, ""),
        ({"vcpus": 9}, {"vcpus": -1}, ""),
        ({"vcpus": 9}, {"vcpus": 1}, "would have 10 vcpus"),
        ({}, {"memory": 10**9}, ""),
    ],
)
@pytest.mark.parametrize("whose", ["d", "*"])
def test_who_has_too_much_gets_nothing_more(
    used: dict[str, int], more: dict[str, int], refused: str, whose: str
) -> None:
    """And may give back; what has no limit is not counted."""
    quotas = {whose: Quota(whose, {"vcpus": 8})}

    if not refused:
        check(quotas, "d", used, more)
        return
    with pytest.raises(QuotaError, match=refused):
        check(quotas, "d", used, more)
    check({"other": quotas[whose]}, "d", used, more)
