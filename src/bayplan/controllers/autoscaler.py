"""Scales workloads as their HorizontalPodAutoscalers say, by what metrics.k8s.io tells of pods.

Every 15 s each autoscaler reads the Scale of its target and the usage of its pods, and writes the
number of replicas that upstream's arithmetic gives, within its behaviour's windows and policies.
Metrics of kind Resource and ContainerResource are followed; others are told of as missing.
"""

from __future__ import annotations

import msgspec

from bayplan.api import quantity
from bayplan.client import Change, ClientError, Resource
from bayplan.client.resources import PODS
from bayplan.controllers.autoscaling import DOWN_DEFAULT, UP_DEFAULT, replicas_for, within_policy
from bayplan.controllers.namespace import discover
from bayplan.controllers.objects import Json, Object, is_active, is_ready, timestamp, with_condition
from bayplan.controllers.runtime import Kit, OneWorker, Worker, namespace_index

AUTOSCALERS = Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
SYNC_SECONDS = 15.0
KEPT_SECONDS = 3600.0


class NoMetricError(Exception):
    """A metric cannot be had; the first argument is the condition's reason."""


class AutoscalerController(OneWorker):
    """Follows HorizontalPodAutoscalers."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._scalers = kit.cache(AUTOSCALERS)
        self._pods = kit.cache(PODS)
        self._pods.add_index("namespace", namespace_index)
        self._worker = Worker(kit, "horizontalpodautoscaler", self._sync, (self._scalers,))
        self._scalers.listen(self._changed)
        self._kinds: dict[tuple[str, str], Resource] = {}
        self._wishes: dict[str, list[tuple[float, int]]] = {}  # by uid: moment and replicas
        self._changes: dict[str, list[tuple[float, int]]] = {}

    def _changed(self, change: Change[Object]) -> None:
        old, new = change.old, change.new
        if change.type == "DELETED":
            self._wishes.pop(new.metadata.uid, None)
            self._changes.pop(new.metadata.uid, None)
        elif old is None or old.metadata.generation != new.metadata.generation:
            self._worker.queue.add(new.key)

    async def _sync(self, key: str) -> float | None:
        scaler = self._scalers.get(key)
        if scaler is None or scaler.deleted:
            return None
        conditions: list[Json] = list(scaler.status.get("conditions") or [])
        status: Json = {"observedGeneration": scaler.metadata.generation}
        try:
            path, scale = await self._scale_of(scaler)
        except (ClientError, NoMetricError) as error:
            text = f"the HPA controller was unable to get the target's current scale: {error}"
            conditions = self._set(conditions, "AbleToScale", False, "FailedGetScale", text)
            await self._write(scaler, {**status, "conditions": conditions})
            return SYNC_SECONDS
        text = "the HPA controller was able to get the target's current scale"
        conditions = self._set(conditions, "AbleToScale", True, "SucceededGetScale", text)
        current = int((scale.get("spec") or {}).get("replicas") or 0)
        status["currentReplicas"] = int((scale.get("status") or {}).get("replicas") or 0)
        try:
            desired, why, conditions = await self._desired(scaler, scale, status, conditions)
        except NoMetricError as error:
            reason, text = error.args
            conditions = self._set(conditions, "ScalingActive", False, reason, text)
            self._tell(scaler, reason, text, warning=True)
            desired, why = current, ""
        if desired != current:
            await self._kit.client.request(
                "PUT", path, body={**scale, "spec": {**scale["spec"], "replicas": desired}}
            )
            self._tell(scaler, "SuccessfulRescale", f"New size: {desired}; reason: {why}")
            status["lastScaleTime"] = self._kit.now()
            self._changes.setdefault(scaler.metadata.uid, []).append(
                (self._kit.clock(), desired - current)
            )
            text = f"the HPA controller was able to update the target scale to {desired}"
            conditions = self._set(conditions, "AbleToScale", True, "SucceededRescale", text)
        status["desiredReplicas"] = desired
        await self._write(scaler, {**status, "conditions": conditions})
        return SYNC_SECONDS

    async def _scale_of(self, scaler: Object) -> tuple[str, Json]:
        target: Json = scaler.spec.get("scaleTargetRef") or {}
        group, _, version = str(target.get("apiVersion", "")).rpartition("/")
        wanted = (group, str(target.get("kind", "")))
        if wanted not in self._kinds:
            found = await discover(self._kit, namespaced=True)
            self._kinds = {(r.group, r.kind): r for r in found}
        resource = self._kinds.get(wanted)
        if resource is None:
            raise NoMetricError(f'no matches for kind "{wanted[1]}" in group "{group}"')
        root = f"/apis/{group}/{version}" if group else f"/api/{version}"
        name = target.get("name", "")
        path = f"{root}/namespaces/{scaler.metadata.namespace}/{resource.plural}/{name}/scale"
        scale: Json = msgspec.json.decode(await self._kit.client.request("GET", path))
        return path, scale

    async def _desired(
        self, scaler: Object, scale: Json, status: Json, conditions: list[Json]
    ) -> tuple[int, str, list[Json]]:
        current = int((scale.get("spec") or {}).get("replicas") or 0)
        low, high = int(scaler.spec.get("minReplicas") or 1), int(scaler.spec["maxReplicas"])
        if current == 0 and low != 0:
            text = "scaling is disabled since the replica count of the target is zero"
            conditions = self._set(conditions, "ScalingActive", False, "ScalingDisabled", text)
            return 0, "", conditions
        if current > high:
            return high, "Current number of replicas above Spec.MaxReplicas", conditions
        if current < low:
            return low, "Current number of replicas below Spec.MinReplicas", conditions
        wish, why, shown = await self._wish(scaler, scale, current)
        status["currentMetrics"] = shown
        text = (
            "the HPA was able to successfully calculate a replica count from "
            f"{shown[0]['resource']['name'] if 'resource' in shown[0] else 'container'} resource"
        )
        conditions = self._set(conditions, "ScalingActive", True, "ValidMetricFound", text)
        steady = self._stabilized(scaler, current, wish)
        limited = min(max(steady, low), high)
        if limited > current or limited < current:
            rules = self._rules(scaler, up=limited > current)
            changes = self._changes.get(scaler.metadata.uid, [])
            limited = within_policy(current, limited, rules, changes, self._kit.clock())
        reason, text = "DesiredWithinRange", "the desired count is within the acceptable range"
        if wish > high:
            reason, text = (
                "TooManyReplicas",
                ("the desired replica count is more than the maximum replica count"),
            )
        elif wish < low:
            reason, text = (
                "TooFewReplicas",
                ("the desired replica count is less than the minimum replica count"),
            )
        over = reason != "DesiredWithinRange"
        return limited, why, self._set(conditions, "ScalingLimited", over, reason, text)

    def _rules(self, scaler: Object, *, up: bool) -> Json:
        told = (scaler.spec.get("behavior") or {}).get("scaleUp" if up else "scaleDown") or {}
        return {**(UP_DEFAULT if up else DOWN_DEFAULT), **told}

    def _stabilized(self, scaler: Object, current: int, wish: int) -> int:
        """Return the calmest of the wishes within the windows."""
        now, uid = self._kit.clock(), scaler.metadata.uid
        wishes = [w for w in self._wishes.get(uid, [(now, current)]) if w[0] > now - KEPT_SECONDS]
        wishes.append((now, wish))
        self._wishes[uid] = wishes
        up = float(self._rules(scaler, up=True)["stabilizationWindowSeconds"] or 0)
        down = float(self._rules(scaler, up=False)["stabilizationWindowSeconds"] or 0)
        lowest = min([wish, *(n for at, n in wishes if at > now - up)])
        highest = max([wish, *(n for at, n in wishes if at > now - down)])
        if current < lowest:
            return lowest
        return highest if current > highest else current

    async def _wish(self, scaler: Object, scale: Json, current: int) -> tuple[int, str, list[Json]]:
        """Return the most replicas that a metric asks for, why, and what was found."""
        selector = str((scale.get("status") or {}).get("selector", ""))
        usage = await self._usage(scaler.metadata.namespace, selector)
        best, why, shown = 0, "", []
        for metric in scaler.spec.get("metrics") or []:
            count, text, found = self._metric(scaler, metric, usage, current)
            shown.append(found)
            if count > best or not why:
                best, why = count, text
        if not shown:
            raise NoMetricError("InvalidMetricSourceType", "the HPA has no metrics")
        return best, why, shown

    async def _usage(self, namespace: str, selector: str) -> dict[str, Json]:
        path = f"/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods"
        try:
            raw = await self._kit.client.request("GET", path, query={"labelSelector": selector})
        except ClientError as error:
            text = f"the HPA was unable to compute the replica count: {error}"
            raise NoMetricError("FailedGetResourceMetric", text) from error
        items = msgspec.json.decode(raw)["items"]
        if not items:
            text = (
                "the HPA was unable to compute the replica count: "
                "no metrics returned from resource metrics API"
            )
            raise NoMetricError("FailedGetResourceMetric", text)
        return {item["metadata"]["name"]: item for item in items}

    def _metric(
        self, scaler: Object, metric: Json, usage: dict[str, Json], current: int
    ) -> tuple[int, str, Json]:
        kind = metric.get("type", "")
        field = {"Resource": "resource", "ContainerResource": "containerResource"}.get(kind)
        if field is None:
            text = f"the HPA was unable to compute the replica count: no {kind} metrics are served"
            raise NoMetricError(f"FailedGet{kind}Metric", text)
        source: Json = metric.get(field) or {}
        name, only = source.get("name", ""), source.get("container", "")
        target: Json = source.get("target") or {}
        pods = self._live(scaler.metadata.namespace, usage)
        used = {pod.metadata.name: _used(usage[pod.metadata.name], name, only) for pod in pods}
        unready = [pod.metadata.name for pod in pods if not is_ready(pod)]
        mean = sum(used.values()) // max(len(used), 1)
        value: Json = {"averageValue": quantity.format_nanos(mean)}
        if target.get("type") == "Utilization":
            wanted = {pod.metadata.name: _requested(pod, name, only) for pod in pods}
            share = int(target.get("averageUtilization") or 80) / 100
            count, ratio = replicas_for(current, used, wanted, unready, share)
            value["averageUtilization"] = int(ratio * share * 100)
            text = f"{name} resource utilization (percentage of request)"
        else:
            each = quantity.nanos(target.get("averageValue") or "1")
            wanted = dict.fromkeys(used, each)
            count, ratio = replicas_for(current, used, wanted, unready, 1.0)
            text = f"{name} resource"
        found: Json = {"name": name, "current": value}
        if only:
            found["container"] = only
        way = "above target" if ratio > 1.0 else "below target"
        return count, f"{text} {way}", {"type": kind, field: found}

    def _live(self, namespace: str, usage: dict[str, Json]) -> list[Object]:
        pods = self._pods.by("namespace", namespace)
        return [pod for pod in pods if is_active(pod) and pod.metadata.name in usage]

    def _set(
        self, conditions: list[Json], type_: str, value: bool, reason: str, text: str
    ) -> list[Json]:
        status = {"conditions": conditions}
        now = timestamp(self._kit.clock())
        return with_condition(status, type_, "True" if value else "False", reason, text, now)

    async def _write(self, scaler: Object, status: Json) -> None:
        await self._kit.set_status(AUTOSCALERS, scaler, status)

    def _tell(self, scaler: Object, reason: str, text: str, *, warning: bool = False) -> None:
        self._kit.events.record(
            AUTOSCALERS,
            scaler.metadata,
            reason,
            text,
            "horizontal-pod-autoscaler",
            warning=warning,
        )


def _used(item: Json, name: str, only: str) -> int:
    return sum(
        quantity.nanos(container["usage"].get(name, "0"))
        for container in item["containers"]
        if only in ("", container["name"])
    )


def _requested(pod: Object, name: str, only: str) -> int:
    total = 0
    for container in pod.spec.get("containers") or []:
        if only not in ("", container.get("name")):
            continue
        request = ((container.get("resources") or {}).get("requests") or {}).get(name)
        if request is None:
            text = (
                "the HPA was unable to compute the replica count: failed to get "
                f"{name} utilization: missing request for {name} in container "
                f"{container.get('name')} of Pod {pod.metadata.name}"
            )
            raise NoMetricError("FailedGetResourceMetric", text)
        total += quantity.nanos(request)
    return total
