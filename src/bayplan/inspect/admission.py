"""What the API server would refuse when a pod is made: priority, account, limit ranges, quota.

A pod that exists has passed; one from a file, from an owner's template, or made again by its owner
has not. `Admission` holds what decides about that, counts pods that come and go against quotas,
and says what would not be accepted and what would help. Webhooks are not asked.
"""

from __future__ import annotations

import difflib
import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from bayplan.api import Object, ObjectMeta, Pod, PriorityClass, convert, plain, quantity
from bayplan.api.limit_ranges import pod_problems
from bayplan.api.quotas import Usage, in_scope, pod_usage, undeclared
from bayplan.api.requests import parse_all
from bayplan.inspect.admitting import SYSTEM, completed
from bayplan.inspect.admitting import admitted as with_admission
from bayplan.inspect.cluster import Cluster
from bayplan.inspect.errors import unknown
from bayplan.inspect.objects import LimitRange, ResourceQuota, ServiceAccount, TemplateSpec
from bayplan.inspect.step import Step, set_to

REFUSED = "; the pod would be refused"
_PODS = ("pods", "count/pods")
_READ = (PriorityClass, ServiceAccount, LimitRange, ResourceQuota)

O = TypeVar("O", bound=Object)  # noqa: E741 - an object of one kind
Afterwards = Callable[[Callable[[], object]], object]
"""Takes what undoes a count."""


def admitted(cluster: Cluster, body: dict[str, Any]) -> Pod:
    """The pod as the API server would store it."""
    body = {"apiVersion": "v1", "metadata": {}, **body, "kind": "Pod"}
    convert(Pod, body)
    meta = body["metadata"]
    meta.setdefault("namespace", cluster.origin.namespace)
    meta.setdefault("name", f"{meta.get('generateName', 'pod-')}new".replace("--", "-"))
    meta.setdefault("uid", f"new/{meta['namespace']}/{meta['name']}")
    whole = completed(body)
    pod = convert(Pod, whole)
    pod = replace(pod, spec=msgspec.convert(whole["spec"], TemplateSpec))
    ranges = cluster.of(LimitRange).values()
    return with_admission(pod, cluster.of(PriorityClass).values(), ranges)


class Obstacle(msgspec.Struct, frozen=True):
    """Why the API server would refuse a pod, and the change that ends it, if one is known."""

    text: str
    step: Step | None = None
    instead: Step | None = None
    """Another change that does."""


class Admission:
    """What decides about new pods, as it is now, and what pods use of quotas."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._objects: dict[type[Object], Mapping[str, Any]] = {k: cluster.of(k) for k in _READ}
        self._by_namespace: dict[type[Object], dict[str, list[Any]]] = {}
        self._used: dict[str, Usage] = {}
        """By quota, where it is known."""

    def put(self, item: Object) -> None:
        """An object comes to be, or changes."""
        if type(item) in self._objects:
            self._objects[type(item)] = {**self._objects[type(item)], item.key: item}
            self._by_namespace.pop(type(item), None)

    def _in(self, kind: type[O], namespace: str) -> list[O]:
        """The objects of a kind in a namespace."""
        found = self._by_namespace.get(kind)
        if found is None:
            found = self._by_namespace[kind] = {}
            for item in self._objects[kind].values():
                found.setdefault(item.namespace, []).append(item)
        return found.get(namespace, [])

    @property
    def ranges(self) -> Iterable[LimitRange]:
        return self._objects[LimitRange].values()

    def obstacles(self, pod: Pod, times: int = 1) -> list[Obstacle]:
        """Everything that the API server would not accept about so many such pods, made now."""
        return [
            *self.without_class(pod),
            *self._account(pod),
            *self._limits(pod),
            *self._quota(pod, times),
        ]

    def refusal(self, pod: Pod) -> str:
        """The first of it in words; empty if the pod would be made."""
        found = self.obstacles(pod)
        return found[0].text.removesuffix(REFUSED) if found else ""

    def outlived(self, pod: Pod) -> list[str]:
        """What a pod that exists was made with and that is not there (any more)."""
        kept = f"; it keeps priority {pod.priority}, another pod like it would be refused"
        return [item.text.removesuffix(REFUSED) + kept for item in self.without_class(pod)]

    def count(self, pod: Pod, number: int, afterwards: Afterwards) -> None:
        """A pod was made (1) or is gone (-1)."""
        for quota, usage in self._counted(pod):
            used = self._used_of(quota)
            for name, amount in usage.items():
                if name in used:
                    used[name] += number * amount
                    afterwards(partial(_take_back, used, name, number * amount))

    def without_class(self, pod: Pod) -> Iterator[Obstacle]:
        """The priority class that a pod names and that there is not."""
        name, classes = pod.spec.priority_class_name, self._objects[PriorityClass]
        if not name or not classes or name in classes or name in SYSTEM:
            return
        near = difflib.get_close_matches(name, list(classes), n=1, cutoff=0.5)
        if near:
            patch = (
                set_to(near[0], "spec", "priorityClassName"),
                set_to(classes[near[0]].value, "spec", "priority"),
            )
            step = Step(f'use the priority class "{near[0]}"', 20, "priority class", patch)
        else:
            made = PriorityClass(metadata=ObjectMeta(name=name), value=pod.priority)
            command = f"kubectl create priorityclass {name} --value={pod.priority}"
            text = f'create the priority class "{name}" with a value of your choice'
            step = Step(text, 30, "priority class", put=(made,), commands=(command,))
        yield Obstacle(f"{unknown('priority class', name, classes)}{REFUSED}", step)

    def _account(self, pod: Pod) -> Iterator[Obstacle]:
        if not isinstance(pod.spec, TemplateSpec):
            return
        namespace, name = pod.namespace, pod.spec.service_account_name or "default"
        known = self._objects[ServiceAccount]
        if not known or f"{namespace}/{name}" in known:
            return
        account = ServiceAccount(metadata=ObjectMeta(name=name, namespace=namespace))
        command = f"kubectl create serviceaccount -n {namespace} {name}"
        text = f'create the service account "{name}"'
        step = Step(text, 25, "service account", put=(account,), commands=(command,))
        names = [item.name for item in known.values() if item.namespace == namespace]
        problem = unknown("service account", name, names, f'namespace "{namespace}"')
        yield Obstacle(f"{problem}{REFUSED}", step)

    def _limits(self, pod: Pod) -> Iterator[Obstacle]:
        for item in self._in(LimitRange, pod.namespace):
            body, limits = plain(pod), plain(item.spec).get("limits", ())
            problems = [text for limit in limits for text in pod_problems(body, limit)]
            if problems:
                text = f'limit range "{item.name}": {"; ".join(problems)}'
                yield Obstacle(text, _within(pod, item))

    def _quota(self, pod: Pod, times: int) -> Iterator[Obstacle]:
        """Quotas that leave no room for more such pods, or want to be told more."""
        for quota, usage in self._counted(pod):
            hard = parse_all(quota.status.hard or quota.spec.hard, "status.hard")
            missing = undeclared(hard, plain(pod))
            if missing:
                yield Obstacle(f'quota "{quota.name}": must specify {"; ".join(missing)}')
                continue
            used = self._used_of(quota)
            short = {
                name: used.get(name, 0) + times * usage[name]
                for name, limit in hard.items()
                if usage.get(name, 0) > 0 and used.get(name, 0) + times * usage[name] > limit
            }
            if short:
                lower = _lower(pod, {n: (hard[n] - used.get(n, 0)) // times for n in short}, usage)
                yield _over(quota, hard, used, short, usage, lower)

    def _counted(self, pod: Pod) -> Iterator[tuple[ResourceQuota, Usage]]:
        """Quotas that count a pod, and what it uses of them."""
        body: dict[str, Any] = {}
        usage: Usage = {}
        for quota in self._in(ResourceQuota, pod.namespace):
            if not body:
                body = plain(pod)
                usage = {**dict.fromkeys(_PODS, quantity.NANO), **pod_usage(body)}
            if in_scope(plain(quota.spec), body):
                yield quota, usage

    def _used_of(self, quota: ResourceQuota) -> Usage:
        used = self._used.get(quota.key)
        if used is None:
            used = self._used[quota.key] = self._now(quota)
        return used

    def _now(self, quota: ResourceQuota) -> Usage:
        """What is used at the beginning: as the quota says, or counted if it says nothing."""
        hard = quota.status.hard or quota.spec.hard
        used = dict.fromkeys(hard, 0) | parse_all(quota.status.used, "status.used")
        if quota.status.used:
            return used
        spec = plain(quota.spec)
        for pod in self._cluster.pods.values():
            if pod.namespace != quota.namespace or pod.finished:
                continue
            body = plain(pod)
            if in_scope(spec, body):
                usage = {**dict.fromkeys(_PODS, quantity.NANO), **pod_usage(body)}
                for name in used:
                    used[name] += usage.get(name, 0)
        return used


def _take_back(used: Usage, name: str, amount: int) -> None:
    used[name] -= amount


def _within(pod: Pod, item: LimitRange) -> Step | None:
    """Ask for what the bounds of a limit range allow each container."""
    ops, texts = [], []
    for limit in item.spec.limits:
        if limit.type != "Container":
            continue
        for number, container in enumerate(pod.spec.containers):
            for part in ("requests", "limits"):
                given = getattr(container.resources, part)
                for name, amount in given.items():
                    bound = _bound(limit.min.get(name), limit.max.get(name), amount)
                    if bound is not None:
                        path = ("spec", "containers", number, "resources", part, name)
                        ops.append(set_to(str(bound), *path))
                        texts.append(f'{name} {part} of container "{container.name}" to {bound}')
    if not ops:
        return None
    return Step(f"set the {' and the '.join(texts)}", 20, "limit range", tuple(ops))


def _bound(
    least: str | int | float | None, most: str | int | float | None, amount: str | int | float
) -> str | int | float | None:
    """The bound that an amount is beyond."""
    if least is not None and quantity.compare(amount, least) < 0:
        return least
    return most if most is not None and quantity.compare(amount, most) > 0 else None


def _lower(pod: Pod, left: Mapping[str, int], usage: Usage) -> Step | None:
    """Ask for no more than a quota has left: the largest container gives it up."""
    ops, texts = [], []
    for name, room in left.items():
        part, _, resource = name.rpartition(".")
        if part not in ("", "requests", "limits") or resource not in ("cpu", "memory"):
            return None
        amounts = [
            parse_all(getattr(container.resources, part or "requests")).get(resource, 0)
            for container in pod.spec.containers
        ]
        number = amounts.index(max(amounts))
        target = amounts[number] - (usage[name] - room)
        if target <= 0 or pod.spec.init_containers or pod.spec.resources is not None:
            return None
        shown, container = _shown(resource, target), pod.spec.containers[number]
        path = ("spec", "containers", number, "resources", part or "requests", resource)
        ops.append(set_to(shown, *path))
        noun = "limit" if part == "limits" else "request"
        texts.append(f'lower the {resource} {noun} of container "{container.name}" to {shown}')
    return Step(" and ".join(texts), 35, "within quota", tuple(ops))


def _shown(name: str, nanos: int) -> str:
    """An amount as people write it: bytes in powers of two."""
    of_bytes = name.endswith(("memory", "storage"))
    return quantity.format_nanos(nanos, quantity.BINARY_SI if of_bytes else quantity.DECIMAL_SI)


def _over(
    quota: ResourceQuota,
    hard: Mapping[str, int],
    used: Mapping[str, int],
    short: dict[str, int],
    usage: Usage,
    lower: Step | None,
) -> Obstacle:
    parts = [
        f"{name} {_shown(name, used.get(name, 0))} of {_shown(name, hard[name])} used, "
        f"the pod asks {_shown(name, usage[name])}"
        for name in short
    ]
    raised = {name: _shown(name, total) for name, total in short.items()}
    spec = replace(quota.spec, hard={**quota.spec.hard, **raised})
    status = replace(quota.status, hard={**quota.status.hard, **raised})
    patch = shlex.quote(json.dumps({"spec": {"hard": raised}}))
    command = f"kubectl patch resourcequota -n {quota.namespace} {quota.name} -p {patch}"
    shown = " and ".join(f"{name} to {value}" for name, value in raised.items())
    text = f'raise the quota "{quota.name}": {shown}'
    changed = replace(quota, spec=spec, status=status)
    step = Step(text, 30, "quota", put=(changed,), commands=(command,))
    return Obstacle(f'quota "{quota.name}": {"; ".join(parts)}', step, lower)
