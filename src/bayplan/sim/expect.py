"""Expectations: what the cluster should do, and if it does not, what it did instead.

Each check is a function that returns "" or says what was seen. `within` waits for it to come true
(in virtual time waiting costs nothing); `hold` demands that it stays true that long. A failure
raises ExpectationFailed, unless failures are collected (as YAML scenarios do).
"""

from collections import Counter
from collections.abc import Callable, Mapping

import msgspec

from bayplan.api import labels as label_lib
from bayplan.sim.errors import ExpectationFailed
from bayplan.sim.objects import HOSTNAME, ZONE
from bayplan.sim.tracker import PodLife, Tracker

WITHIN = 10.0

Check = Callable[[], str]


class Outcome(msgspec.Struct, frozen=True):
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
        self.outcomes: list[Outcome] = []
        self.collect = False
        """True: failures are only collected."""
        self.waiting_for = ""

    async def that(
        self, text: str, check: Check, *, within: float = WITHIN, hold: float = 0.0
    ) -> bool:
        """Expect whatever `check` checks."""
        self.waiting_for = text
        seen = await self._tracker.until(check, within)
        if not seen and hold:
            seen = await self._tracker.while_(check, hold)
        self.waiting_for = ""
        outcome = Outcome(self._elapsed(), text, not seen, seen)
        self.outcomes.append(outcome)
        self._tracker.note(outcome.time, outcome.line(), "expect" if outcome.ok else "failed")
        if seen and not self.collect:
            raise ExpectationFailed(f"expected {text}; seen instead: {seen}")
        return not seen

    # -- one pod

    async def bound(
        self,
        pod: str,
        to: str | list[str] | None = None,
        *,
        namespace: str = "default",
        within: float = WITHIN,
        hold: float = 0.0,
    ) -> bool:
        """A pod is bound, to this node or one of these."""
        key = _key(pod, namespace)
        allowed = [to] if isinstance(to, str) else to
        text = f"pod {key} bound" + (f" to {' or '.join(allowed)}" if allowed else "")
        return await self.that(text, lambda: self._bound(key, allowed), within=within, hold=hold)

    def _bound(self, key: str, allowed: list[str] | None) -> str:
        life = self._tracker.pods.get(key)
        if life is None:
            return self._absent(key)
        if life.node and (allowed is None or life.node in allowed):
            return ""
        return _place(life)

    async def pending(
        self,
        pod: str,
        because: str = "",
        *,
        namespace: str = "default",
        within: float = WITHIN,
        hold: float = 0.0,
    ) -> bool:
        """A pod is not bound; with `because`, the scheduler's message contains this."""
        key = _key(pod, namespace)
        text = f"pod {key} pending" + (f' because "{because}"' if because else "")
        return await self.that(text, lambda: self._pending(key, because), within=within, hold=hold)

    def _pending(self, key: str, because: str) -> str:
        life = self._tracker.pods.get(key)
        if life is None:
            return self._absent(key)
        if life.node or (because and because not in f"{life.why} {_reason(life)}"):
            return _place(life)
        return ""

    async def gone(self, pod: str, *, namespace: str = "default", within: float = WITHIN) -> bool:
        """A pod does not exist any more."""
        key = _key(pod, namespace)

        def check() -> str:
            life = self._tracker.pods.get(key)
            return "" if life is None else f"it exists, {_place(life)}"

        return await self.that(f"pod {key} gone", check, within=within)

    async def phase(
        self, pod: str, phase: str, *, namespace: str = "default", within: float = WITHIN
    ) -> bool:
        """A pod is Running, Succeeded, Failed or Pending."""
        key = _key(pod, namespace)

        def check() -> str:
            life = self._tracker.pods.get(key)
            if life is None:
                return self._absent(key)
            return "" if life.phase == phase else f"phase {life.phase}, {_place(life)}"

        return await self.that(f"pod {key} {phase}", check, within=within)

    async def never_evicted(self, pods: str, *, namespace: str = "default") -> bool:
        """Nobody preempted, evicted or drained a pod of this name (or selector) so far."""

        def check() -> str:
            lives = [life for life in self._lives(pods, namespace, past=True) if life.disruption]
            return ", ".join(f"{life.key}: {life.disruption}" for life in lives)

        return await self.that(f"pods {pods} never evicted", check, within=0.0)

    async def evicted(
        self, pod: str, reason: str = "", *, namespace: str = "default", within: float = WITHIN
    ) -> bool:
        """Somebody ended a pod: PreemptionByScheduler, EvictionByEvictionAPI …"""

        def check() -> str:
            lives = self._lives(pod, namespace, past=True)
            if any(life.disruption and reason in life.disruption for life in lives):
                return ""
            return "; ".join(life.disruption or _place(life) for life in lives) or "no such pod"

        text = f"pod {pod} evicted" + (f" by {reason}" if reason else "")
        return await self.that(text, check, within=within)

    # -- many pods

    async def count(
        self,
        pods: str,
        count: int | None = None,
        *,
        bound: int | None = None,
        pending: int | None = None,
        running: int | None = None,
        namespace: str = "default",
        within: float = WITHIN,
        hold: float = 0.0,
    ) -> bool:
        """So many pods of a selector (`app=web`, `*` for all) exist, are bound, wait, or run."""
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
        return await self.that(text, check, within=within, hold=hold)

    async def spread(
        self,
        pods: str,
        by: str = "node",
        *,
        exactly: Mapping[str, int] | None = None,
        most: int | None = None,
        least: int | None = None,
        skew: int | None = None,
        namespace: str = "default",
        within: float = WITHIN,
        hold: float = 0.0,
    ) -> bool:
        """How the bound pods of a selector lie over nodes, zones or another node label."""

        def check() -> str:
            counts = self._counts(pods, by, namespace)
            wrong = (
                (exactly is not None and {k: v for k, v in counts.items() if v} != dict(exactly))
                or (most is not None and max(counts.values(), default=0) > most)
                or (least is not None and min(counts.values(), default=0) < least)
                or (skew is not None and _skew(counts) > skew)
            )
            if not wrong:
                return ""
            return ", ".join(f"{name}: {number}" for name, number in sorted(counts.items()))

        limits = {"exactly": exactly, "most": most, "least": least, "skew": skew}
        rule = ", ".join(f"{name} {value}" for name, value in limits.items() if value is not None)
        text = f"pods {pods} by {by}: {rule}"
        return await self.that(text, check, within=within, hold=hold)

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
        self,
        reason: str,
        object: str = "",
        *,
        message: str = "",
        within: float = WITHIN,
    ) -> bool:
        """An event with this reason was recorded, about this object, with this in its text."""

        def check() -> str:
            about = [e for e in self._tracker.events if _names(e.object, object)]
            if any(e.reason == reason and message in e.message for e in about):
                return ""
            others = sorted({f"{e.reason} ({e.message})" for e in about})
            return f"events {'; '.join(others[:5])}" if others else "no event about it"

        text = f"event {reason}" + (f" about {object}" if object else "")
        text += f' with "{message}"' if message else ""
        return await self.that(text, check, within=within)

    async def node(
        self,
        name: str,
        *,
        ready: bool | None = None,
        exists: bool = True,
        pods: int | None = None,
        within: float = WITHIN,
    ) -> bool:
        """A node is there, is ready or not, runs so many pods."""

        def check() -> str:
            life = self._tracker.nodes.get(name)
            if life is None:
                return "no such node" if exists else ""
            here = [p.name for p in self._tracker.pods.values() if p.node == name]
            if not exists:
                return "it exists"
            wrong = (ready is not None and life.ready != ready) or (
                pods is not None and len(here) != pods
            )
            state = "ready" if life.ready else "not ready"
            return f"{state}, {len(here)} pods: {', '.join(here)}" if wrong else ""

        facts = [] if exists else ["gone"]
        facts += [] if ready is None else ["ready" if ready else "not ready"]
        facts += [] if pods is None else [f"{pods} pods"]
        return await self.that(f"node {name} {', '.join(facts) or 'there'}", check, within=within)

    # -- helpers

    def _absent(self, key: str) -> str:
        old = next((life for life in reversed(self._tracker.past) if life.key == key), None)
        if old is None:
            return "no such pod"
        return f"it is gone since {old.gone:g} s" + (f" ({old.disruption})" * bool(old.disruption))

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


def _key(pod: str, namespace: str) -> str:
    return pod if "/" in pod else f"{namespace}/{pod}"


def _names(seen: str, wanted: str) -> bool:
    if not wanted:
        return True
    return seen == wanted or seen.rpartition("/")[2] == wanted


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
