"""Whatever is asked in whatever order, objects go as a plain model says."""

import random
import time
from dataclasses import dataclass, field, replace
from urllib.parse import urlencode

import pytest

from tests.apiserver.api import CONFIGMAPS, PODS, Api, configmap, pod

NOW = 1_800_000_000
ONE = "metadata.name=x"
OWN = "example.com/mine"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
POLICIES = {"Orphan": "orphan", "Foreground": "foregroundDeletion"}


@dataclass
class Kept:
    """What matters of an object that is there."""

    period: int | None  # what a pod is given that says nothing; None for others
    bound: bool = True
    finalizers: list[str] = field(default_factory=list)
    generation: int | None = 1
    end: int | None = None
    left: int | None = None  # the grace that it was deleted with

    def deleted(self, now, grace=None, policy=None):
        """What is left after a deletion; None if nothing is."""
        after = replace(self)
        if grace is not None and grace < 0:
            grace = 1
        if self.end is not None and self.left and (grace is None or grace >= self.left):
            return after  # a second one brings the end nearer, or nothing
        if self.end is None:
            given = self.period if grace is None else grace
            after.left = given if self.bound and self.period is not None else 0
            after.end = now + after.left
            after.generation = None if self.generation is None else self.generation + 1
        elif self.left:
            after.end, after.left = self.end - self.left + grace, grace
            if after.end < now:
                after.end, after.left = now, min(grace, 1)
        if policy is not None:
            kept = [name for name in self.finalizers if name not in POLICIES.values()]
            more = [POLICIES[policy]] if policy in POLICIES else []
            after.finalizers = kept + more
        return after if after.finalizers or after.left else None

    def lifted(self):
        """What is left without finalizers."""
        after = replace(self, finalizers=[])
        return None if self.end is not None and not self.left else after

    def seen(self):
        end = (
            None if self.end is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.end))
        )
        return sorted(self.finalizers), self.generation, end, self.left


def seen(body):
    meta = body["metadata"]
    names = ("generation", "deletionTimestamp", "deletionGracePeriodSeconds")
    return sorted(meta.get("finalizers", [])), *(meta.get(name) for name in names)


def drawn(rng, kind):
    finalizers = [OWN] if rng.random() < 0.4 else []
    if kind == CONFIGMAPS:
        return Kept(None, False, finalizers, None), configmap("x", finalizers=finalizers)
    if kind == BUDGETS:
        meta = {"name": "x", "finalizers": finalizers}
        return Kept(None, False, finalizers), {"metadata": meta, "spec": {"minAvailable": 1}}
    period, bound = rng.choice((0, 1, 30)), rng.random() < 0.7
    body = pod("x", terminationGracePeriodSeconds=period, **({"nodeName": "n"} if bound else {}))
    body["metadata"]["finalizers"] = finalizers
    return Kept(period, bound, finalizers), body


async def look(api, path, kept):
    """See that what is stored is as the model has it; return it."""
    answer = await api.call("GET", path)
    assert (404 if kept is None else 200) == answer.status
    if kept is not None:
        assert kept.seen() == seen(answer.body)
    return answer.body


@pytest.mark.parametrize("kind", [PODS, CONFIGMAPS, BUDGETS], ids=["pods", "configmaps", "budgets"])
@pytest.mark.parametrize("seed", range(2))
async def test_deletions(seed, kind):
    rng, now, done = random.Random(seed), [NOW], set()
    api = await Api.start(clock=lambda: now[0])
    path, kept, before = f"{kind}/x", None, {}
    for _ in range(250):
        now[0] += rng.choice((0, 0, 1, 3, 7))
        if kept is None:
            kept, body = drawn(rng, kind)
            before = await api.ok("POST", kind, body)
        if rng.random() < 0.15:
            patch = {"metadata": {"finalizers": None}}
            await api.ok("PATCH", path, patch)
            kept = kept.lifted()
            before = await look(api, path, kept)
            continue
        asked = {"gracePeriodSeconds": rng.choice((None, -5, 0, 1, 3, 10, 30))}
        asked["propagationPolicy"] = rng.choice((None, None, "Background", *POLICIES))
        meant = rng.choice(("", "", "", "uid", "resourceVersion"))
        right = rng.random() < 0.5
        if meant:
            asked["preconditions"] = {meant: before["metadata"][meant] if right else "1"}
        dry = rng.random() < 0.2
        if dry:
            asked["dryRun"] = ["All"]
        options = {name: value for name, value in asked.items() if value is not None}

        target, query = (path, {}) if rng.random() < 0.7 else (kind, {"fieldSelector": ONE})
        if not meant and rng.random() < 0.3:
            query |= {name: "All" if name == "dryRun" else value for name, value in options.items()}
            options = None
        answer = await api.call("DELETE", f"{target}?{urlencode(query)}", options)

        if meant and not right:
            assert 409 == answer.status
            done.add("another was meant")
        else:
            assert 200 == answer.status
            after = kept.deleted(now[0], asked["gracePeriodSeconds"], asked["propagationPolicy"])
            if target == kind:
                assert [seen(before)] == [seen(item) for item in answer.body["items"]]
            elif after is None and kind != PODS:
                assert "Success" == answer.body["status"]
            elif after is not None:
                assert after.seen() == seen(answer.body)
            done.add("dry" if dry else "gone" if after is None else "waits")
            kept = kept if dry else after
        found = await look(api, path, kept)
        if dry or (kept is not None and kept.seen() == seen(before)):
            assert before == found
        before = found
    await api.close()
    assert {"another was meant", "dry", "gone", "waits"} == done
