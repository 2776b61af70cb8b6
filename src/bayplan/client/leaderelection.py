"""Leader election by Lease, as client-go does it.

A candidate tries every `retry_period` to create the Lease, or to take it over once it has not
changed for `lease_duration` *as seen by its own clock*: clocks of different machines are never
compared. The leader renews it at the same pace; when no renewal succeeded for `renew_deadline` it
stops leading before another can have begun. A renewal counts from when it was sent, not from its
answer: others may have seen it written all that time ago. On a requested end the lease is released,
so that a standby need not wait.

The elapsed-time clock is the running loop's; `wall` only fills the Lease's timestamps. A leader
gives up a retry period and renew_deadline after its last renewal, as upstream, and never later than
lease_duration; `holds` tells by the clock alone, so one that hung or was stopped finds its writes
refused (`fence`) before it noticed.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import msgspec
import structlog

from bayplan.client.errors import AlreadyExists, ClientError, Conflict, NotFound
from bayplan.client.resources import LEASES
from bayplan.client.rest import UNREADABLE, Client

log = structlog.get_logger(__name__)

JITTER = 1.2
RELEASE_SECONDS = 2.0  # it expires by itself


class LeaseSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The part of a Lease that elections use."""

    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: str = ""
    renew_time: str = ""
    lease_transitions: int = 0


class _Lease(msgspec.Struct, frozen=True):
    metadata: msgspec.Raw  # what has none is no object
    spec: LeaseSpec = LeaseSpec()


_decoder = msgspec.json.Decoder(_Lease)
_FIELDS = frozenset(field.encode_name for field in msgspec.structs.fields(LeaseSpec))


class LeaderElector:
    """One candidate for one Lease."""

    def __init__(
        self,
        client: Client,
        identity: str,
        *,
        namespace: str = "kube-system",
        name: str = "kube-scheduler",
        lease_duration: float = 15.0,
        renew_deadline: float = 10.0,
        retry_period: float = 2.0,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
        jitter: Callable[[], float] = lambda: 0.0,
        on_new_leader: Callable[[str], None] = lambda identity: None,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        """`jitter` returns 0..1 and stretches the retry period by up to 1.2 times that.

        `on_lost` is called when the lease was lost, before the work that it allowed is cancelled.
        """
        self.identity = identity
        self.is_leader = False
        self._client = client
        self._namespace, self._name = namespace, name
        self._lease_duration = lease_duration
        self._renew_deadline = renew_deadline
        self._retry_period = retry_period
        self._wall = wall
        self._jitter = jitter
        self._on_new_leader = on_new_leader
        self._on_lost = on_lost
        self._seen: LeaseSpec | None = None
        self._raw = b""
        self._seen_at: float
        self._reported = ""
        self._sent_at: float  # when the last write of the lease was sent
        self._renewed_at: float
        self._until = -math.inf

    async def run(self, lead: Callable[[], Awaitable[None]]) -> bool:
        """Wait for the lease, then run `lead` while it is ours.

        Returns True when `lead` ended by itself and False when the lease was lost, after `lead`
        has been cancelled. When this call is cancelled while leading, the lease is released.
        """
        await self._acquire()
        work = asyncio.ensure_future(lead())
        renewing = asyncio.ensure_future(self._renew())
        try:
            await asyncio.wait({work, renewing}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                await work
                return True
            await renewing  # raises what ended it, if it was not the lease
            return False
        finally:
            self.is_leader = False
            for task in (renewing, work):
                task.cancel()
            lost = renewing.done() and not renewing.cancelled()
            await asyncio.gather(work, renewing, return_exceptions=True)
            self._until = -math.inf
            if not lost:
                await self._release()

    def holds(self) -> bool:
        """Tell whether the lease is ours at this moment, whatever has been noticed so far."""
        return asyncio.get_running_loop().time() < self._until

    def healthy(self, tolerance: float = 20.0) -> bool:
        """Tell whether a leader has renewed recently enough (client-go's health check)."""
        if not self.is_leader:
            return True
        age = asyncio.get_running_loop().time() - self._renewed_at
        return age <= self._lease_duration + tolerance

    async def _acquire(self) -> None:
        log.info("attempting to acquire leader lease", lease=f"{self._namespace}/{self._name}")
        await self._until_ours()
        self.is_leader = True
        log.info("successfully acquired lease", lease=f"{self._namespace}/{self._name}")

    async def _renew(self) -> None:
        """Renew until it has failed for the whole deadline."""
        while True:
            await asyncio.sleep(self._retry_period)
            try:
                async with asyncio.timeout_at(self._until):
                    await self._until_ours()
            except TimeoutError:
                self.is_leader = False
                log.error("failed to renew lease", lease=f"{self._namespace}/{self._name}")
                self._on_lost()
                return

    async def _until_ours(self) -> None:
        ours = await self._try()
        while not ours:
            await asyncio.sleep(self._retry_period * (1.0 + JITTER * self._jitter()))
            ours = await self._try()
        self._renewed_at = self._sent_at
        patience = self._retry_period + self._renew_deadline
        # Others see whole seconds of the duration.
        self._until = self._sent_at + min(patience, int(self._lease_duration))

    async def _try(self) -> bool:
        """Take or renew the lease; return whether it is ours now."""
        try:
            ours = await self._acquire_or_renew()
            # An answer that comes this late tells what was, not what is.
            now = asyncio.get_running_loop().time
            return ours and now() - self._sent_at < self._renew_deadline
        except Conflict:
            log.info("another was quicker to write the leader lease")
            return False
        except (ClientError, *UNREADABLE) as problem:
            log.warning("leader lease cannot be written", err=str(problem))
            return False

    async def _acquire_or_renew(self) -> bool:
        try:
            raw = await self._client.get(LEASES, self._name, self._namespace)
        except NotFound:
            return await self._create()
        spec = self._note(raw)
        ours = spec.holder_identity == self.identity
        valid = self._seen_at + spec.lease_duration_seconds > asyncio.get_running_loop().time()
        if spec.holder_identity and valid and not ours:
            return False
        record = LeaseSpec(
            holder_identity=self.identity,
            lease_duration_seconds=int(self._lease_duration),
            acquire_time=spec.acquire_time if ours else self._stamp(),
            renew_time=self._stamp(),
            lease_transitions=spec.lease_transitions + (0 if ours else 1),
        )
        await self._write(record)
        return True

    async def _create(self) -> bool:
        stamp = self._stamp()
        record = LeaseSpec(self.identity, int(self._lease_duration), stamp, stamp)
        lease = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": record,
        }
        self._sent_at = asyncio.get_running_loop().time()
        try:
            raw = await self._client.create(LEASES, lease, self._namespace)
        except AlreadyExists:
            return False
        self._note(raw)
        return True

    async def _write(self, record: LeaseSpec) -> None:
        """Replace the record; whatever else stands in the Lease stays."""
        lease = msgspec.json.decode(self._raw)
        kept = {key: value for key, value in lease.get("spec", {}).items() if key not in _FIELDS}
        lease["spec"] = kept | msgspec.to_builtins(record)
        self._sent_at = asyncio.get_running_loop().time()
        self._note(await self._client.update(LEASES, self._name, lease, self._namespace))

    def _note(self, raw: bytes) -> LeaseSpec:
        found = _decoder.decode(raw).spec
        self._raw = raw
        if found != self._seen:
            self._seen, self._seen_at = found, asyncio.get_running_loop().time()
            self._report(found.holder_identity)
        return found

    async def _release(self) -> None:
        """Give the lease up, so that nobody has to wait until it has run out."""
        try:
            async with asyncio.timeout(min(self._renew_deadline, RELEASE_SECONDS)):
                while not await self._released():
                    log.info("a renewal on its way came first, releasing again")
        except (ClientError, TimeoutError, *UNREADABLE) as problem:
            log.warning("lease not released", err=str(problem))

    async def _released(self) -> bool:
        seen = self._seen
        if seen is None or seen.holder_identity != self.identity:
            return True
        # A renewal whose answer nobody waited for has left another version behind.
        seen = self._note(await self._client.get(LEASES, self._name, self._namespace))
        if seen.holder_identity != self.identity:
            return True
        stamp = self._stamp()
        try:
            await self._write(LeaseSpec("", 1, stamp, stamp, seen.lease_transitions))
        except Conflict:
            return False
        return True

    def _report(self, holder: str) -> None:
        if holder and holder != self._reported:
            self._reported = holder
            self._on_new_leader(holder)

    def _stamp(self) -> str:
        moment = self._wall().astimezone(UTC).replace(tzinfo=None)
        return f"{moment.isoformat(timespec='microseconds')}Z"
