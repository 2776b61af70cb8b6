"""The priority levels of a server, kept in step with the objects in the store.

A request is classified once for each combination of user, verb, resource and namespace; then taking
a seat costs a lookup and an addition. What is exempt has no level's limit, but this is one process:
reads and writes of exempt users together are bounded by the flags for requests in flight, and
there the flows are user and program. Documents and health are answered without a seat.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from bayplan.api.user import User
from bayplan.apiserver.authorization import Action
from bayplan.apiserver.fairness import suggested
from bayplan.apiserver.fairness.schemas import Schema, ordered
from bayplan.apiserver.fairness.seats import Flow, Pool, Seats
from bayplan.apiserver.following import Changes
from bayplan.apiserver.reader import CachedReader
from bayplan.store import Store

Object = dict[str, Any]
KEPT = 8192  # classifications that are remembered
Headers = tuple[tuple[bytes, bytes], ...]


class Place(NamedTuple):
    """Where a request belongs. No flow: it is exempt, and told apart by user and program."""

    seats: Seats
    flow: Flow | None
    headers: Headers


class Level(NamedTuple):
    """The seats of one PriorityLevelConfiguration; None: it is exempt."""

    uid: str
    seats: Seats | None


class Fairness:
    """Tells requests where to wait."""

    def __init__(self, store: Store, reader: CachedReader, reads: int, writes: int) -> None:
        self._reader = reader
        self._changes = Changes(store, f"{suggested.GROUP}/")
        self._exempt = {True: Seats(reads), False: Seats(writes)}
        self._total = reads + writes
        self._schemas: list[Schema] = []
        self._levels: dict[str, Level] = {}
        self._places: dict[tuple[User, Action, bool], Place] = {}

    def close(self) -> None:
        self._changes.close()

    def place(self, user: User, action: Action, *, reading: bool) -> Place:
        """Return where a request belongs."""
        if self._changes.new():
            self._read()
        key = (user, action, reading)
        found = self._places.get(key)
        if found is None:
            if len(self._places) >= KEPT:
                self._places.clear()
            found = self._places[key] = self._classify(user, action, reading)
        return found

    def _classify(self, user: User, action: Action, reading: bool) -> Place:
        for schema in self._schemas:
            if schema.level in self._levels and schema.matches(user, action):
                level = self._levels[schema.level]
                headers = (
                    (b"x-kubernetes-pf-flowschema-uid", schema.uid.encode()),
                    (b"x-kubernetes-pf-prioritylevel-uid", level.uid.encode()),
                )
                shown = headers if schema.uid else ()
                if level.seats is None:
                    return Place(self._exempt[reading], None, shown)
                return Place(level.seats, (schema.name, schema.flow(user, action)), shown)
        last = self._levels[suggested.CATCH_ALL].seats
        assert last is not None
        return Place(last, (suggested.CATCH_ALL, user.name), ())

    def _stored(self, resource: str, suggestions: list[Object]) -> list[Object]:
        """Return the objects of the store with the mandatory ones, or all suggestions."""
        stored = list(self._reader.list(suggested.GROUP, resource))
        if not stored:
            return suggestions
        present = {each["metadata"]["name"] for each in stored}
        return stored + [
            each
            for each in suggestions
            if each["metadata"]["name"] in suggested.MANDATORY
            and each["metadata"]["name"] not in present
        ]

    def _read(self) -> None:
        self._places.clear()
        known = self._levels
        objects = self._stored(suggested.LEVELS, suggested.levels())
        shares = sum(_limited(each).get("nominalConcurrencyShares", 30) for each in objects)
        pool = Pool()
        self._levels = {}
        for obj in objects:
            name, uid = obj["metadata"]["name"], obj["metadata"].get("uid", "")
            seats = self._seats(obj, shares)
            before = known[name].seats if name in known else None
            if seats is not None:
                if before is not None and before.settings == seats.settings:
                    seats = before  # who sits and waits there stays
                seats.join(pool)
            self._levels[name] = Level(uid, seats)
        found = self._stored(suggested.SCHEMAS, suggested.schemas())
        self._schemas = ordered(map(Schema, found))

    def _seats(self, obj: Object, shares: int) -> Seats | None:
        if obj["spec"].get("type") == "Exempt":
            return None
        limited = _limited(obj)
        share = limited.get("nominalConcurrencyShares", 30)
        limit = math.ceil(self._total * share / shares) if shares else 0
        percent = limited.get("borrowingLimitPercent")
        response = limited.get("limitResponse") or {}
        queuing = response.get("queuing") or {}
        waits = response.get("type") == "Queue"
        length = queuing.get("queueLengthLimit", 50) if waits else 0
        return Seats(
            limit,
            queue=length,
            room=length * queuing.get("queues", 64),
            lends=round(limit * limited.get("lendablePercent", 0) / 100),
            borrows=None if percent is None else round(limit * percent / 100),
        )


def _limited(obj: Object) -> Object:
    found: Object = obj["spec"].get("limited") or {}
    return found if obj["spec"].get("type") == "Limited" else {"nominalConcurrencyShares": 0}
