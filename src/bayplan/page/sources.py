"""What a page can show: a cluster that lives, one that was written down, the runs of a scenario.

A source owns a board and makes a `Cluster` of what it knows, to be asked. Of a run the whole story
is known: its board is at the end and its history goes back to the beginning.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from bayplan.api import Object
from bayplan.errors import BayplanError, ConfigError
from bayplan.inspect import Cluster, Origin, Settings
from bayplan.page.board import Board
from bayplan.page.past import Past

Json = dict[str, object]


class Source(Protocol):
    """What the page's server asks of a source."""

    board: Board

    @property
    def live(self) -> bool:
        """Whether anything can still change."""

    def cut_off(self) -> float | None:
        """Return since when a living cluster has not answered, None while it does."""

    def about(self) -> Json:
        """Return the name, the kind of source and its runs.

        `queue` is "scheduler" where it tells the places of pods, else only their objects do.
        """

    def run(self, name: str) -> Board | None:
        """Return the board of a run by name; "" is the first (or only) one."""

    async def cluster(self, run: str, moment: float | None) -> Cluster:
        """Return the cluster as it was at a moment, None for now; it may take a while."""


def moment_of(source: Source, run: str, text: str) -> float | None:
    """Return the moment that an address names, None for now.

    Of a running cluster it is seconds since the epoch, of a run seconds since its beginning: so two
    runs have the same moment, and the address of a living cluster stays true while time passes.
    """
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds):
        raise ConfigError(f'moment "{text}": t must be a number of seconds')
    board = source.run(run)
    if source.live or board is None:
        return seconds
    return board.start_time + max(seconds, 0.0)


class Event(NamedTuple):
    """One change in a story."""

    time: float
    action: str
    """ADDED, MODIFIED or DELETED."""
    item: Object


class Story:
    """A run that is over: everything that happened, in the order of time."""

    def __init__(
        self,
        name: str,
        title: str,
        events: Sequence[Event],
        end: float,
        settings: Settings | None = None,
        outcome: Json | None = None,
    ) -> None:
        """`outcome` says how a scenario ended: what was expected of it, and what failed."""
        self.name, self.title, self.settings, self.outcome = name, title, settings, outcome
        self._events = events
        self._time = events[0].time if events else 0.0
        self.board = Board(lambda: self._time, most_changes=2 * len(events) + 1)
        self.board.begin()
        for event in events:
            if event.time != self._time:
                self.board.frame()
                self._time = event.time
            if event.action == "DELETED":
                self.board.delete(event.item)
            else:
                self.board.put(event.item)
        self.board.frame()
        self._time = max(end, self._time)

    def objects(self, moment: float | None) -> Iterable[Object]:
        """Return what existed at a moment."""
        found: dict[tuple[str, str], Object] = {}
        for event in self._events:
            if moment is not None and event.time > moment:
                break
            key = (event.item.KIND, event.item.key)
            if event.action == "DELETED":
                found.pop(key, None)
            else:
                found[key] = event.item
        return found.values()


class Stories:
    """One run, or several to be compared."""

    live = False

    def __init__(self, kind: str, stories: Sequence[Story]) -> None:
        """`kind` is "scenario" or "recording"; the first story is the one that is shown."""
        self._kind = kind
        self._stories = {story.name: story for story in stories}
        self._first = stories[0]
        self.board = self._first.board

    def cut_off(self) -> float | None:
        return None

    def about(self) -> Json:
        runs = [
            {"name": story.name, "title": story.title, "outcome": story.outcome}
            for story in self._stories.values()
        ]
        return {"name": self._first.title, "kind": self._kind, "runs": runs}

    def run(self, name: str) -> Board | None:
        found = self._find(name)
        return None if found is None else found.board

    async def cluster(self, run: str, moment: float | None) -> Cluster:
        story = self._find(run) or self._first
        origin = Origin(story.title, taken=story.board.now if moment is None else moment)
        return Cluster.from_objects(story.objects(moment), origin=origin, settings=story.settings)

    def _find(self, name: str) -> Story | None:
        return self._stories.get(name) if name else self._first


class Picture:
    """A cluster at one moment: a dump or a snapshot."""

    live = False

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.board = Board(lambda: cluster.now)
        for item in (*cluster.nodes.values(), *cluster.pods.values()):
            self.board.put(item)
        self.board.begin()

    def cut_off(self) -> float | None:
        return None

    def about(self) -> Json:
        return {"name": self._cluster.origin.name, "kind": "snapshot", "runs": []}

    def run(self, name: str) -> Board | None:
        return None if name else self.board

    async def cluster(self, run: str, moment: float | None) -> Cluster:
        return self._cluster


class Living:
    """A running cluster, fed by whoever watches it."""

    live = True

    def __init__(
        self,
        name: str,
        read: Callable[[], Awaitable[Cluster]],
        *,
        clock: Callable[[], float] = time.time,
        asks_scheduler: bool = False,
    ) -> None:
        """`read` returns all that questions need, as it is now.

        `asks_scheduler`: whether places in the queue are told by the scheduler itself.
        """
        self._name = name
        self._asks_scheduler = asks_scheduler
        self._read = read
        self.board = Board(clock)
        self.past = Past(clock)
        self.reach: Callable[[], float | None] = lambda: None

    def cut_off(self) -> float | None:
        return self.reach()

    def about(self) -> Json:
        places = "scheduler" if self._asks_scheduler else "objects"
        return {"name": self._name, "kind": "cluster", "runs": [], "queue": places}

    def run(self, name: str) -> Board | None:
        return None if name else self.board

    async def cluster(self, run: str, moment: float | None) -> Cluster:
        since = self.cut_off()
        if since is not None:
            when = time.strftime("%H:%M:%S", time.localtime(since))
            raise BayplanError(
                f"the API server has not answered since {when}; ask again when it does"
            )
        now = await self._read()
        if moment is None:
            return now
        origin = replace(now.origin, taken=moment)
        objects = self.past.objects(now.objects, moment)
        return Cluster(objects, origin=origin, settings=now.settings)
