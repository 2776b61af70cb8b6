"""How a simulated pod or node is told to behave.

By annotations of its own, `bayplan.dev/NAME: "value"`, or by a ConfigMap with the label
`bayplan.dev/behaviour`: `pods` (those of its namespace; in kube-system those of all namespaces) or
`nodes` (in kube-system). Its data are a `selector` of labels, for pods also an `image` (a pattern
with *, or several, that one of the images must match), and the same names and values. What a pod
says itself goes before what ConfigMaps say, and of those the first by name.

    start-seconds  run-seconds  exit-code  stop-seconds    when it begins, how long it runs, how it
                                                           ends, how long it takes to stop
    image-pull     "fail", or the seconds it takes
    ready          "false": never
    startup  readiness  liveness    what that probe answers: "ok", "fail", "fail@30" (from 30 s
                                    after the start on), "ok@30" (only from then on)
    cpu  memory    what it uses: "250m", or over time "100m@0 900m@60 100m@120", again and again
    log  log-seconds    a line that it writes every so many seconds
    failed         a node's: "true": its kubelet is silent, its pods stand still
    pressure       a node's: "memory", "disk", "pid"
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase

import msgspec

from bayplan.api import quantity
from bayplan.api.labels import Selector, parse_selector
from bayplan.client import Change, Informer
from bayplan.controllers.objects import Meta, Object
from bayplan.errors import DecodeError

PREFIX = "bayplan.dev/"
LABEL = f"{PREFIX}behaviour"
EVERYWHERE = "kube-system"
_NAMES = frozenset(
    (
        *("start-seconds", "run-seconds", "exit-code", "stop-seconds", "image-pull", "ready"),
        *("startup", "readiness", "liveness", "cpu", "memory", "log", "log-seconds"),
        *("failed", "pressure"),
    )
)


class Rule(msgspec.Struct, frozen=True):
    """A ConfigMap that tells pods or nodes how to behave."""

    metadata: Meta
    data: dict[str, str] = {}


class Told(msgspec.Struct, frozen=True):
    """What one pod or node was told, with values of the right types; wrong ones are left out."""

    words: Mapping[str, str] = {}

    def text(self, name: str) -> str:
        return self.words.get(name, "")

    def seconds(self, name: str) -> float | None:
        try:
            seconds = float(self.words[name])
        except (KeyError, ValueError):
            return None
        return None if math.isnan(seconds) else max(seconds, 0.0)

    def number(self, name: str) -> int | None:
        text = self.words.get(name, "")
        return int(text) if re.fullmatch("[0-9]{1,5}", text) else None

    def probe(self, name: str, elapsed: float) -> bool | None:
        """Return what a probe answers so long after the start; None if nothing was said."""
        match = re.fullmatch(r"(ok|fail)(?:@(\d+(?:\.\d+)?))?", self.words.get(name, ""))
        if match is None:
            return None
        first = match[1] == "ok"
        return first if match[2] is None or elapsed >= float(match[2]) else not first

    def amount(self, name: str, elapsed: float) -> int | None:
        """Return what is used of a resource, in nanos, so long after the start."""
        steps: list[tuple[float, int]] = []
        for word in self.words.get(name, "").split():
            value, _, at = word.partition("@")
            try:
                steps.append((float(at or 0), quantity.nanos(value)))
            except (ValueError, DecodeError):
                return None
        if not steps:
            return None
        period = steps[-1][0]
        moment = elapsed % period if period and len(steps) > 2 else elapsed
        return next((v for at, v in reversed(steps) if at <= moment), steps[0][1])


NOTHING = Told()


class Rules:
    """The ConfigMaps that tell pods and nodes how to behave."""

    def __init__(self, informer: Informer[Rule]) -> None:
        self._informer = informer
        self._rules: dict[str, list[tuple[Selector, Rule]]] = {"pods": [], "nodes": []}
        informer.add_handler(self._changed)
        self.on_change: list[Callable[[], None]] = []

    def _changed(self, changes: Sequence[Change[Rule]]) -> None:
        for kind, rules in self._rules.items():
            rules.clear()
            found = sorted(self._informer.store.values(), key=lambda rule: rule.metadata.key)
            for rule in found:
                if rule.metadata.labels.get(LABEL) != kind:
                    continue
                try:
                    rules.append((parse_selector(rule.data.get("selector", "")), rule))
                except DecodeError:
                    continue  # a selector that nobody can read selects nothing
        for listener in self.on_change:
            listener()

    def tells(self, kind: str) -> bool:
        """Whether there is any rule for pods, or for nodes."""
        return bool(self._rules[kind])

    def of(self, obj: Object, kind: str) -> Told:
        """Return what a pod or a node was told."""
        meta = obj.metadata
        own = {
            name[len(PREFIX) :]: value
            for name, value in meta.annotations.items()
            if name.startswith(PREFIX) and name[len(PREFIX) :] in _NAMES
        }
        rules = self._rules[kind]
        if not rules:
            return Told(own) if own else NOTHING
        for selector, rule in rules:
            near = rule.metadata.namespace in (meta.namespace, EVERYWHERE)
            if near and selector.matches(meta.labels) and _has_image(obj, rule.data.get("image")):
                own = {**{k: v for k, v in rule.data.items() if k in _NAMES}, **own}
        return Told(own) if own else NOTHING


def _has_image(obj: Object, pattern: str | None) -> bool:
    if not pattern:
        return True
    images = [container.get("image", "") for container in obj.spec.get("containers") or ()]
    return any(fnmatchcase(image, one) for one in pattern.split() for image in images)
