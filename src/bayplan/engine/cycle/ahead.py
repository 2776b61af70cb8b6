"""Extenders asked about the next pods while this one's answers are awaited.

What a pod's extenders are asked follows from the nodes that pass the plugins and from where its
search begins, and that from how far the search before it went: all known before anybody has
answered, unless a placement takes a node away or an unforeseen pod comes first. So before each
attempt the next pods of the queue are *rehearsed*, each from where the one before it ends, and
their conversations begun. When it is a pod's turn, the attempt is made as ever; only where it
would begin a conversation, one that is about this very pod and these very nodes is taken over.
Any other is thrown away, so decisions are those of asking one after the other.

Who may be asked so is for extenders to say (`AheadExtender.ahead`). How many pods ahead is learnt:
one more after each conversation that was used, half after one that was thrown away; a failed call
ends it for a while. Rehearsals change nothing but what answers keep, which is right or asked anew;
a pod about which a plugin's answer must not be kept, one with a nominated node, and all pods while
nominations stand are not rehearsed.

What it does not do: choose the pods (the loop tells `upcoming`), or wait.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from bayplan.api import Node, Pod
from bayplan.engine.answers import Answers, AttemptFailed
from bayplan.engine.cycle.extending import Conversation
from bayplan.engine.cycle.search import Search, SearchSettings
from bayplan.framework import PodInfo, Profile
from bayplan.framework.contract.extender import AheadExtender

MOST = 8
"""How many pods ahead at most; each has at most one call to each extender under way."""
REST = 32
"""So many attempts are made one after the other after a failure, or when nothing could be used."""
FRESH_SECONDS = 5.0
"""An older answer may tell of a world that is no more."""

Upcoming = Callable[[int], Iterable[PodInfo]]


class Rehearsed(NamedTuple):
    """A conversation that was begun ahead."""

    pod: Pod
    talk: Conversation
    start: int
    next_start: int
    begun: float


class Ahead:
    """The conversations that were begun ahead, in the order of the queue."""

    def __init__(
        self,
        settings: SearchSettings,
        answers_of: Callable[[Profile], Answers],
        *,
        most: int = MOST,
        rest: int = REST,
    ) -> None:
        self._settings = settings
        able = [one for one in settings.extenders if isinstance(one, AheadExtender)]
        self._able = able if len(able) == len(settings.extenders) else []
        """The extenders, if all of them can be asked ahead."""
        self._answers_of = answers_of
        self.most = most
        self.rest = rest
        self._rehearsed: deque[Rehearsed] = deque()
        self.window = 1
        """How many pods ahead of their turn may be asked about now."""
        self._resting = 0
        self._taken: tuple[Conversation, ...] = ()
        """What the last attempt took over."""
        self.counts: Counter[str] = Counter()
        """How many conversations were `used` and `thrown away`, and how often a call `failed`."""

    def __len__(self) -> int:
        return len(self._rehearsed)

    @property
    def allowed(self) -> bool:
        """Whether every extender may be asked ahead, as things are."""
        able = self._able
        return bool(able) and not len(self._settings.cache.nominator) and all(e.ahead for e in able)

    def prepare(
        self,
        info: PodInfo,
        start: int,
        now: float,
        profiles: Mapping[str, Profile],
        upcoming: Upcoming,
    ) -> None:
        """Before a pod's attempt: begin what can be begun for it and those behind it."""
        self._learn()
        if not self.window or not self.allowed:
            self.drop()
            return
        wanted = [info, *upcoming(self.window)]
        self._keep_foreseen(wanted, start, now)
        if len(wanted) < 2:
            return
        for one in wanted[len(self._rehearsed) :]:
            begin = self._rehearsed[-1].next_start if self._rehearsed else start
            found = self._rehearse(one, profiles.get(one.pod.spec.scheduler_name), begin, now)
            if found is None:
                break
            self._rehearsed.append(found)
        self.advance()

    def _learn(self) -> None:
        """After a failed call nobody is asked ahead for a while."""
        talks = [known.talk for known in self._rehearsed]
        if any(talk.stumbled for talk in (*talks, *self._taken)):
            self.counts["failed"] += 1
            self.window, self._resting = 0, self.rest
        elif self._resting:
            self._resting -= 1
            self.window = 0 if self._resting else 1
        self._taken = ()

    def _keep_foreseen(self, wanted: list[PodInfo], start: int, now: float) -> None:
        """Throw away from the first conversation on that is not about the pod now foreseen."""
        good = 0
        for one, known in zip(wanted, self._rehearsed, strict=False):
            fresh = now - known.begun <= FRESH_SECONDS
            if known.pod is not one.pod or known.start != start or not fresh:
                break
            start = known.next_start
            good += 1
        if good < min(len(self._rehearsed), len(wanted)):
            self._narrow()
        self.drop(good)

    def _rehearse(
        self, info: PodInfo, profile: Profile | None, start: int, now: float
    ) -> Rehearsed | None:
        if profile is None or not self._settings.cache.table.count:
            return None
        answers = self._answers_of(profile)
        try:
            if answers.revisions(info) is None:
                return None
            judgement = answers.judge(info)
        except AttemptFailed:
            return None
        if judgement.rejection is not None:
            return None
        search = Search(self._settings, profile, judgement, start)
        nodes = search.rehearse()
        if not nodes:
            return None
        talk = Conversation(self._settings.extenders, info.pod, nodes, self.advance)
        talk.begin()
        return Rehearsed(info.pod, talk, start, search.next_start, now)

    def take(self, pod: Pod, nodes: list[Node]) -> Conversation | None:
        """The conversation about this pod and these nodes, if there is one."""
        if not self._rehearsed or self._rehearsed[0].pod is not pod:
            return None
        known = self._rehearsed.popleft()
        if not known.talk.about(pod, nodes):
            known.talk.drop()
            self.counts["thrown away"] += 1
            self._narrow()
            return None
        self.counts["used"] += 1
        self.window = min(self.window + 1, self.most)
        self._taken = (known.talk,)
        return known.talk

    def advance(self) -> None:
        """Take what answers have come, and ask what follows from them."""
        for known in self._rehearsed:
            known.talk.advance()

    def drop(self, keep: int = 0) -> None:
        """Throw away all but the first."""
        while len(self._rehearsed) > keep:
            self._rehearsed.pop().talk.drop()
            self.counts["thrown away"] += 1

    def _narrow(self) -> None:
        """Something else came than was foreseen."""
        self.window //= 2
        if not self.window:
            self._resting = self.rest
