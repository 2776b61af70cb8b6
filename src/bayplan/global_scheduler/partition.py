"""Shares objects among several global schedulers: each owns a range of the hash of the uid.

Every scheduler keeps a Lease of its own. Those whose lease is fresh are the members; sorted by
name, the n-th of them owns the n-th part of 0..2**63-1. When one comes or goes the parts move, and
for a moment two may want the same object: that is harmless, because the allocation's id is the
object's uid and the ledger's transaction lets one write it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Container
from contextlib import suppress
from datetime import UTC, datetime

import msgspec
import structlog

from bayplan.client import ApiError, Client, ClientError, Conflict, NotFound
from bayplan.client.resources import LEASES

log = structlog.get_logger(__name__)

NAMESPACE = "kube-system"
LABEL = "bayplan.dev/global-scheduler"
DURATION = 15
RENEW_EVERY = 5.0
TOP = 2**63 - 1
_FNV_OFFSET, _FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3


def hash_key(uid: str) -> int:
    """FNV-1a of the uid, folded into 0..2**63-1 as the original folds it."""
    value = _FNV_OFFSET
    for byte in uid.encode():
        value = (value ^ byte) * _FNV_PRIME & 0xFFFFFFFFFFFFFFFF
    return value - TOP if value > TOP else value


def divide(parts: int, top: int) -> list[tuple[int, int]]:
    """Split 0..top (inclusive) into ranges as even as possible, the longer ones first."""
    chunk, rest = divmod(top, parts)
    ranges = []
    start = 0
    for number in range(parts):
        length = chunk + (1 if number <= rest else 0)
        end = min(start + length - 1, top)
        if start > top:
            break
        ranges.append((start, end))
        start = end + 1
    return ranges


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str = ""
    lease_duration_seconds: int = DURATION
    renew_time: str | None = None


class _Lease(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)


class _Leases(msgspec.Struct):
    items: list[_Lease] = []


class Partition:
    """This scheduler's share, kept up to date."""

    def __init__(
        self,
        client: Client,
        name: str,
        *,
        clock: Callable[[], float],
        changed: Callable[[], None] = lambda: None,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._name = name
        self._clock = clock
        self._pause = pause
        self._changed = changed
        self.members: list[str] = []
        self._range: Container[int] = ()

    def is_mine(self, uid: str) -> bool:
        """Whether this scheduler takes care of the object."""
        return hash_key(uid) in self._range

    def on_change(self, changed: Callable[[], None]) -> None:
        """Call when the share has moved."""
        self._changed = changed

    async def run(self) -> None:
        """Renew and look around until cancelled; then leave at once."""
        try:
            while True:
                with suppress(ClientError):
                    await self.step()
                await self._pause(RENEW_EVERY)
        finally:
            with suppress(ClientError, asyncio.CancelledError):
                await self._client.delete(LEASES, self._lease_name, NAMESPACE)

    async def step(self) -> None:
        """Renew the own lease and take the share that follows from all leases."""
        await self._renew()
        body = await self._client.list(LEASES, NAMESPACE, label_selector=LABEL)
        now = self._clock()
        members = sorted(
            lease.spec.holder_identity
            for lease in msgspec.json.decode(body, type=_Leases).items
            if _fresh(lease.spec, now)
        )
        if members != self.members and self._name in members:
            self.members = members
            first, last = divide(len(members), TOP)[members.index(self._name)]
            self._range = range(first, last + 1)
            log.info("share changed", members=len(members), start=first)
            self._changed()

    @property
    def _lease_name(self) -> str:
        return f"global-scheduler-{self._name}"

    async def _renew(self) -> None:
        moment = datetime.fromtimestamp(self._clock(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {
            "holderIdentity": self._name,
            "leaseDurationSeconds": DURATION,
            "renewTime": moment,
        }
        try:
            await self._client.patch(LEASES, self._lease_name, {"spec": spec}, NAMESPACE)
        except NotFound:
            meta = {"name": self._lease_name, "namespace": NAMESPACE, "labels": {LABEL: "member"}}
            body = {
                "apiVersion": LEASES.api_version,
                "kind": "Lease",
                "metadata": meta,
                "spec": spec,
            }
            with suppress(Conflict, ApiError):
                await self._client.create(LEASES, body, NAMESPACE)


def _fresh(spec: _Spec, now: float) -> bool:
    if not spec.renew_time:
        return False
    renewed = datetime.fromisoformat(spec.renew_time).timestamp()
    return now < renewed + spec.lease_duration_seconds
