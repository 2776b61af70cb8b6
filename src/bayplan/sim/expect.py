"""Expectations: what the cluster should do, and if it does not, what it did instead.

An expectation is one value: what is checked, what must have existed for that to mean anything,
how long to wait for it (`within`; in virtual time waiting costs nothing) and how long it must
then stay true (`hold`). All of them take a namespace. A failure raises ExpectationFailed, unless
failures are collected (as YAML scenarios do).
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import TypedDict, Unpack

import msgspec

from bayplan.api import labels as label_lib
from bayplan.sim.errors import ExpectationFailed
from bayplan.sim.objects import HOSTNAME, ZONE
from bayplan.sim.tracker import PodLife, Seen, Tracker
from bayplan.words import plural

WITHIN = 10.0

Check = Callable[[], str]
"""Returns "" when all is well, else what is seen instead."""


class Terms(TypedDict, total=False):
    """What every expectation can say beside its subject."""

    within: float
    hold: float
    namespace: str


class Expectation(msgspec.Struct, frozen=True):
    """What is expected, of what, and for how long."""

    text: str
    check: Check
    existed: Check = str
    """Says why the subject cannot be judged: it never existed."""
    undecided: Check = str
    """Says what is still to come; it counts until the time is over, or `hold` is to be watched."""
    within: float = WITHIN
    hold: float = 0.0

    def now(self) -> str:
        """What is wrong at this moment, if the scheduler may still act."""
        return self.existed() or self.check() or ("" if self.hold else self.undecided())

    def finally_(self) -> str:
        """What is wrong when the time is over."""
        return self.existed() or self.check()


class Judgement(msgspec.Struct, frozen=True):
    """How one expectation ended."""

    time: float
    text: str
    ok: bool
    seen: str = ""

    def line(self) -> str:
        mark = "ok  " if self.ok else "FAIL"
        return f"{mark} {self.text}" + (f"; seen instead: {self.seen}" if self.seen else "")


class Expect:
    """The expectations of one scenario: `await client.expect.bound("web-1", to="node-2")`."""

    def __init__(self, tracker: Tracker, elapsed: Callable[[], float]) -> None:
        self._tracker = tracker
        self._elapsed = elapsed
        self.outcomes: list[Judgement] = []
        self.collect = False
        """True: failures are only collected."""
        self.waiting_for = ""

    async def that(
        self, text: str, check: Check, *, within: float = WITHIN, hold: float = 0.0
    ) -> bool:
        """Expect whatever `check` checks."""
        return await self.judge(Expectation(text, check, within=within, hold=hold))

    async def judge(
        self, expected: Expectation, refresh: Callable[[], Awaitable[float]] | None = None
    ) -> bool:
        """Wait for an expectation and note how it ended.

        `refresh` is for what changes unseen by the tracker: it looks again, and returns how long
        to wait before the next look.
        """
        self.waiting_for = expected.text
        tracker, elapsed = self._tracker, self._elapsed
        seen = await tracker.until(expected.now, expected.within, elapsed, refresh)
        if seen:
            seen = expected.finally_()
        if not seen and expected.hold:
            seen = await tracker.while_(expected.finally_, expected.hold, elapsed, refresh)
        self.waiting_for = ""
        judgement = Judgement(self._elapsed(), expected.text, not seen, seen)
        self.outcomes.append(judgement)
        tracker.note(judgement.time, judgement.line(), "expect" if judgement.ok else "failed")
        if seen and not self.collect:
            raise ExpectationFailed(f"expected {expected.text}; seen instead: {seen}")
        return not seen

    # -- one pod

    async def bound(
        self, pod: str, to: str | list[str] | None = None, **terms: Unpack[Terms]
    ) -> bool:
        """A pod is bound, to this node or one of these."""
        key, allowed = _key(pod, terms), [to] if isinstance(to, str) else to

        def check(life: PodLife) -> str:
            fits = bool(life.node) and (allowed is None or life.node in allowed)
            return "" if fits else _place(life)

        text = f"pod {key} bound" + (f" to {' or '.join(allowed)}" if allowed else "")
        return await self._of_pod(key, text, check, terms)

    async def pending(self, pod: str, because: str = "", **terms: Unpack[Terms]) -> bool:
        """A pod was tried and is not bound; with `because`, the scheduler's message contains this.

        One that nobody tried counts as pending when the time is over.
        """
        key = _key(pod, terms)

        def check(life: PodLife) -> str:
            if life.node or (because and because not in f"{life.why} {_reason(life)}"):
                return _place(life)
            return ""

        def undecided() -> str:
            life = self._tracker.pods.get(key)
            return "" if life is None or life.reasons else _place(life)

        text = f"pod {key} pending" + (f' because "{because}"' if because else "")
        return await self._of_pod(key, text, check, terms, undecided)

    async def phase(self, pod: str, phase: str, **terms: Unpack[Terms]) -> bool:
        """A pod is Running, Succeeded, Failed or Pending."""
        key = _key(pod, terms)

        def check(life: PodLife) -> str:
            return "" if life.phase == phase else f"phase {life.phase}, {_place(life)}"

        return await self._of_pod(key, f"pod {key} {phase}", check, terms)

    async def _of_pod(
        self,
        key: str,
        text: str,
        check: Callable[[PodLife], str],
        terms: Terms,
        undecided: Check = str,
    ) -> bool:
        def look() -> str:
            life = self._tracker.pods.get(key)
            return self._absent(key) if life is None else check(life)

        return await self.judge(_expectation(text, look, terms, undecided=undecided))

    async def gone(self, pod: str, **terms: Unpack[Terms]) -> bool:
        """A pod does not exist any more."""
        key = _key(pod, terms)

        def check() -> str:
            life = self._tracker.pods.get(key)
            return "" if life is None else f"it exists, {_place(life)}"

        def existed() -> str:
            return "" if key in self._tracker.names else "it never existed"

        return await self.judge(_expectation(f"pod {key} gone", check, terms, existed=existed))

    async def never_evicted(self, pods: str, **terms: Unpack[Terms]) -> bool:
        """Nobody preempted, evicted or drained a pod of this name (or selector) so far."""
        namespace = terms.get("namespace", "default")

        def check() -> str:
            lives = [life for life in self._lives(pods, namespace, past=True) if life.disruption]
            return ", ".join(f"{life.key}: {life.disruption}" for life in lives)

        text = f"pods {pods} never evicted"
        existed = self._existed(pods, namespace)
        return await self.judge(_expectation(text, check, terms, existed=existed))

    async def evicted(self, pod: str, reason: str = "", **terms: Unpack[Terms]) -> bool:
        """Somebody ended a pod: PreemptionByScheduler, EvictionByEvictionAPI …"""
        namespace = terms.get("namespace", "default")

        def check() -> str:
            lives = self._lives(pod, namespace, past=True)
            if any(life.disruption and reason in life.disruption for life in lives):
                return ""
            return "; ".join(life.disruption or _place(life) for life in lives) or "no such pod"

        text = f"pod {pod} evicted" + (f" by {reason}" if reason else "")
        return await self.judge(_expectation(text, check, terms))

    # -- many pods

    async def count(
        self,
        pods: str,
        count: int | None = None,
        *,
        bound: int | None = None,
        pending: int | None = None,
        running: int | None = None,
        **terms: Unpack[Terms],
    ) -> bool:
        """So many pods of a selector (`app=web`, `*` for all) exist, are bound, wait, or run."""
        namespace = terms.get("namespace", "default")
        wanted = {"existing": count, "bound": bound, "pending": pending, "running": running}
        wanted = {name: number for name, number in wanted.items() if number is not None}

        def check() -> str:
            lives = self._lives(pods, namespace)
            seen = {
                "existing": len(lives),
                "bound": sum(bool(life.node) for life in lives),
                "pending": sum(not life.node for life in lives),
                "running": sum(life.phase == "Running" for life in lives),
            }
            if all(seen[name] == number for name, number in wanted.items()):
                return ""
            why = Counter(life.why for life in lives if not life.node and life.why)
            reasons = "".join(f"; {number} pending: {text}" for text, number in why.items())
            return ", ".join(f"{seen[name]} {name}" for name in seen) + reasons

        text = f"pods {pods}: " + ", ".join(f"{number} {name}" for name, number in wanted.items())
        undecided = self._untried(pods, namespace) if pending else str
        return await self.judge(_expectation(text, check, terms, undecided=undecided))

    async def spread(
        self,
        pods: str,
        by: str = "node",
        *,
        exactly: Mapping[str, int] | None = None,
        most: int | None = None,
        least: int | None = None,
        skew: int | None = None,
        **terms: Unpack[Terms],
    ) -> bool:
        """How the bound pods of a selector lie over nodes, zones or another node label."""
        namespace = terms.get("namespace", "default")

        def check() -> str:
            counts = self._counts(pods, by, namespace)
            if not counts:
                return "there are no nodes" if by == "node" else f"no node has a label for {by}"
            if skew is not None and not any(counts.values()):
                return "no pod is bound"  # nowhere is not evenly
            wrong = (
                (exactly is not None and counts != dict.fromkeys(counts, 0) | dict(exactly))
                or (most is not None and max(counts.values(), default=0) > most)
                or (least is not None and min(counts.values(), default=0) < least)
                or (skew is not None and _skew(counts) > skew)
            )
            if not wrong:
                return ""
            return ", ".join(f"{name}: {number}" for name, number in sorted(counts.items()))

        limits = {"exactly": exactly, "most": most, "least": least, "skew": skew}
        rule = ", ".join(f"{name} {value}" for name, value in limits.items() if value is not None)
        expected = _expectation(
            f"pods {pods} by {by}: {rule}",
            check,
            terms,
            existed=self._existed(pods, namespace),
            undecided=self._untried(pods, namespace),
        )
        return await self.judge(expected)

    def _counts(self, pods: str, by: str, namespace: str) -> dict[str, int]:
        label = {"node": HOSTNAME, "zone": ZONE}.get(by, by)
        place = {
            name: name if by == "node" else life.labels.get(label, "")
            for name, life in self._tracker.nodes.items()
        }
        counts = dict.fromkeys(sorted(filter(None, place.values())), 0)
        for life in self._lives(pods, namespace):
            if life.node and life.end is None and (where := place.get(life.node)):
                counts[where] += 1
        return counts

    # -- events and nodes

    async def event(
        self, reason: str, object: str = "", *, message: str = "", **terms: Unpack[Terms]
    ) -> bool:
        """An event with this reason was recorded, about this object, with this in its text.

        A namespace, if one is given, is that of the object.
        """
        namespace = terms.get("namespace", "")

        def check() -> str:
            about = [e for e in self._tracker.events if _names(e, object, namespace)]
            if any(e.reason == reason and message in e.message for e in about):
                return ""
            others = sorted({f"{e.reason} ({e.message})" for e in about})
            return f"events {'; '.join(others[:5])}" if others else "no event about it"

        text = f"event {reason}" + (f" about {object}" if object else "")
        text += f' with "{message}"' if message else ""
        return await self.judge(_expectation(text, check, terms))

    async def node(
        self,
        name: str,
        *,
        ready: bool | None = None,
        exists: bool = True,
        pods: int | None = None,
        **terms: Unpack[Terms],
    ) -> bool:
        """A node is there, is ready or not, runs so many pods (finished ones do not count)."""
        tracker = self._tracker

        def check() -> str:
            life = tracker.nodes.get(name)
            if life is None:
                return "no such node" if exists else ""
            if not exists:
                return "it exists"
            here = [p.name for p in tracker.pods.values() if p.node == name and p.end is None]
            wrong = (ready is not None and life.ready != ready) or (
                pods is not None and len(here) != pods
            )
            state = "ready" if life.ready else "not ready"
            return f"{state}, {plural(len(here), 'pod')}: {', '.join(here)}" if wrong else ""

        def existed() -> str:
            known = exists or any(life.name == name for life in tracker.every_node())
            return "" if known else "it never existed"

        facts = [] if exists else ["gone"]
        facts += [] if ready is None else ["ready" if ready else "not ready"]
        facts += [] if pods is None else [plural(pods, "pod")]
        text = f"node {name} {', '.join(facts) or 'there'}"
        return await self.judge(_expectation(text, check, terms, existed=existed))

    # -- helpers

    def _absent(self, key: str) -> str:
        old = next((life for life in reversed(self._tracker.past) if life.key == key), None)
        if old is None:
            return "no such pod"
        return f"it is gone since {old.gone:g} s" + (f" ({old.disruption})" * bool(old.disruption))

    def _existed(self, pods: str, namespace: str) -> Check:
        return lambda: "" if self._lives(pods, namespace, past=True) else "no such pod ever existed"

    def _untried(self, pods: str, namespace: str) -> Check:
        def check() -> str:
            lives = self._lives(pods, namespace)
            number = sum(not (life.node or life.reasons) for life in lives)
            return f"{plural(number, 'pod')} not tried yet" if number else ""

        return check

    def _lives(self, pods: str, namespace: str, *, past: bool = False) -> list[PodLife]:
        """Pods by selector (has `=`, `!` or a space), by `*`, or by name."""
        every = self._tracker.every_pod() if past else list(self._tracker.pods.values())
        here = [life for life in every if life.namespace == namespace]
        if pods == "*":
            return here
        if any(sign in pods for sign in "=! "):
            selector = label_lib.parse_selector(pods)
            return [life for life in here if selector.matches(life.labels)]
        if pods.endswith("*"):
            return [life for life in here if life.name.startswith(pods[:-1])]
        return [life for life in here if life.name == pods]


def _expectation(
    text: str, check: Check, terms: Terms, *, existed: Check = str, undecided: Check = str
) -> Expectation:
    within, hold = terms.get("within", WITHIN), terms.get("hold", 0.0)
    return Expectation(text, check, existed, undecided, within, hold)


def _key(pod: str, terms: Terms) -> str:
    return pod if "/" in pod else f"{terms.get('namespace', 'default')}/{pod}"


def _names(seen: Seen, wanted: str, namespace: str) -> bool:
    where, _, name = seen.object.rpartition("/")
    if namespace and where != namespace:
        return False
    return wanted in ("", seen.object, name)


def _skew(counts: Mapping[str, int]) -> int:
    return max(counts.values(), default=0) - min(counts.values(), default=0)


def _reason(life: PodLife) -> str:
    return life.reasons[-1].reason if life.reasons else ""


def _place(life: PodLife) -> str:
    if life.node:
        return f"bound to {life.node}"
    if life.why:
        return f"pending because {life.why}"
    return "pending, not tried yet"
