"""Carries out the recorded scenarios against a live scheduler and takes the same observations.

A scenario: {id, note, config?, steps: [...], observe: {...}, expected: {...}}. `{ns}` in any string
of a step is the scenario's namespace. Every scenario has a new namespace, and a scheduler process
with its configuration, that of the scenario before it if that was the same. It has told a probe
pod that there are no nodes before the first step, except where a step starts it.

  create: object or list, count: N        `{i}` in strings counts 0..N-1
  patch: {kind, name, namespace?}, body, type: merge|strategic|json, subresource?
  delete: {kind, name, namespace?}, grace?
  bind: POD, node: NODE                    what another scheduler would do
  bind_claim: CLAIM, to: VOLUME?           completes a binding as the volume controller would
  wait_bound, wait_unschedulable, wait_gone, wait_nominated, wait_terminating: names or globs
  wait_message: names, holds: TEXT         until TEXT is in the condition that tells why they wait
  wait_selected_node: CLAIM                until the claim carries the scheduler's node annotation
  sleep: seconds                           settle: seconds without any change
  kubelet: false|true                      whether terminating bound pods are removed soon
  scheduler: start|stop                    a scenario with such a step starts without a scheduler
  observe: {...}, as: LABEL                an observation on the way; the last one is `end`

An observation waits for quiet and then takes pods (state, node, nominated node, conditions,
events), tallies of bound and pending pods, the order of binding, claims and volumes.
It agrees if it becomes equal to the expected one within PATIENCE seconds.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from functools import partial

from tests.conformance.live.cluster import (
    KINDS,
    NO_NODES,
    PATCH_TYPES,
    PATIENCE,
    PREFIX,
    QUIET,
    SCHEDULER_ANNOTATIONS,
    SCHEDULER_CONDITIONS,
    SELECTED_NODE,
    START_TIMEOUT,
    STATUS_IGNORED_ON_CREATE,
    STEP_TIMEOUT,
    UUID,
    WAITS,
    Api,
    Kubelet,
    SchedulerProcess,
    StepFailed,
    Watcher,
    path_of,
)


class Runner:
    """Runs scenarios one after the other on one API server."""

    def __init__(self, kubeconfig: str, command: str, mode: str = "check"):
        self.kubeconfig, self.command, self.mode = kubeconfig, command, mode
        self.api = Api(kubeconfig)
        self.pods, self.events, self.claims, self.volumes = self.watchers = [
            Watcher(self.api, kind)
            for kind in ("Pod", "Event", "PersistentVolumeClaim", "PersistentVolume")
        ]
        self.kubelet = Kubelet(self.api, self.pods)
        for thread in [*self.watchers, self.kubelet]:
            thread.start()
        self.scheduler: SchedulerProcess | None = None
        self.namespaces: list[str] = []

    def stop(self) -> None:
        """End the scheduler; tell the threads to end, as they do when the API server goes away."""
        self.stop_scheduler()
        for thread in (*self.watchers, self.kubelet):
            thread.stopping = True

    def close(self) -> None:
        """Wait for the threads and close all connections."""
        for thread in (*self.watchers, self.kubelet):
            thread.join(60)
        self.api.close()

    # -- life of a scenario

    def run(self, scenario: dict, expected: dict | None) -> dict:
        """label -> observation; `error` holds what went wrong."""
        self.sweep()
        namespace = f"{PREFIX}{uuid.uuid4().hex[:8]}"
        self.namespaces, self.kubelet.enabled, result = [namespace], True, {}
        steps = json.loads(json.dumps(scenario["steps"]).replace("{ns}", namespace))
        own = any("scheduler" in step for step in steps)
        if own or (self.scheduler and self.scheduler.config != scenario.get("config")):
            self.stop_scheduler()
        try:
            self.make_namespace(namespace)
            if not own:
                self.start_scheduler(scenario)
                self.probe()
            for step in [*steps, {"observe": scenario["observe"], "as": "end"}]:
                if step.get("scheduler") == "start":
                    self.start_scheduler(scenario)
                elif step.get("scheduler") == "stop":
                    self.stop_scheduler()
                elif "observe" in step:
                    result[step["as"]] = self.observe_until(
                        step["observe"], expected and expected.get(step["as"])
                    )
                else:
                    self.step(step)
        except StepFailed as failure:
            result["error"] = self.normal(str(failure))
            if self.scheduler and self.scheduler.process.poll() is not None:
                result["error"] += (
                    f"; it ended with code {self.scheduler.process.returncode}: "
                    f"{self.scheduler.last_words()}"
                )
        if own or result != expected:
            self.stop_scheduler()
        return result

    def make_namespace(self, name: str) -> None:
        self.api.request(
            "POST",
            path_of("Namespace"),
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
            ok=(201, 409),
        )

    def start_scheduler(self, scenario: dict) -> None:
        if not self.scheduler:
            config = scenario.get("config")
            self.scheduler = SchedulerProcess(self.command, self.kubeconfig, config)

    def probe(self) -> None:
        """Wait until the scheduler answers, and no node of an earlier scenario is left to it."""
        namespace = f"{self.namespaces[0]}-probe"
        self.make_namespace(namespace)
        self.until(
            lambda: NO_NODES in self.answer_to_probe(namespace),
            "the scheduler knows nodes that are gone",
        )

    def answer_to_probe(self, namespace: str) -> str:
        probe = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "probe"},
            "spec": {
                "schedulerName": self.scheduler.name,
                "containers": [{"name": "c", "image": "probe"}],
            },
        }
        self.api.request("POST", path_of("Pod", namespace), probe)
        conditions: list[dict] = []

        def answered() -> bool:
            status = self.pods.live.get((namespace, "probe"), {}).get("status", {})
            conditions[:] = [c for c in status.get("conditions", ()) if c["type"] == "PodScheduled"]
            return bool(conditions)

        self.until(
            answered,
            "no reaction of the scheduler to the probe pod",
            {"timeout": START_TIMEOUT},
        )
        self.api.request("DELETE", path_of("Pod", namespace, "probe"), {"gracePeriodSeconds": 0})
        self.until(
            lambda: (namespace, "probe") not in self.pods.live, "the probe pod did not go away"
        )
        return conditions[0].get("message", "")

    def stop_scheduler(self) -> None:
        if self.scheduler:
            self.scheduler.stop()
            self.scheduler = None

    def sweep(self) -> None:
        """Deletes every object that a scenario can have made, and waits until it is gone."""
        deadline = time.monotonic() + STEP_TIMEOUT
        kinds = [kind for kind in KINDS if kind != "Namespace"]
        while True:
            left = 0
            for kind in kinds:
                for item in self.api.request("GET", path_of(kind), ok=(200, 404)).get("items", ()):
                    meta = item["metadata"]
                    if meta["name"].startswith("system-") or not meta.get(
                        "namespace", PREFIX
                    ).startswith(PREFIX):
                        continue
                    left += 1
                    path = path_of(kind, meta.get("namespace"), meta["name"])
                    if meta.get("finalizers"):
                        self.api.request(
                            "PATCH",
                            path,
                            {"metadata": {"finalizers": None}},
                            PATCH_TYPES["merge"],
                            ok=(200, 404, 409),
                        )
                    self.api.request(
                        "DELETE", path, {"gracePeriodSeconds": 0}, ok=(200, 202, 404, 409)
                    )
            for item in self.api.request("GET", path_of("Namespace"))["items"]:
                name = item["metadata"]["name"]
                if name.startswith(PREFIX):
                    self.api.request(
                        "DELETE", path_of("Namespace", name=name), ok=(200, 202, 404, 409)
                    )
                    self.api.request(
                        "PUT",
                        path_of("Namespace", name=name, subresource="finalize"),
                        {**item, "spec": {"finalizers": []}},
                        ok=(200, 404, 409),
                    )
            if not left:
                break
            if time.monotonic() > deadline:
                raise SystemExit("objects of an earlier scenario do not go away")
        self.until(
            lambda: not any(key[0].startswith(PREFIX) for key in self.pods.live),
            "pods do not go away",
        )

    def until(self, done, problem: str, step: dict | None = None) -> None:
        deadline = time.monotonic() + (step or {}).get("timeout", STEP_TIMEOUT)
        while not done():
            if time.monotonic() > deadline or (
                self.scheduler and self.scheduler.process.poll() is not None
            ):
                raise StepFailed(problem)
            time.sleep(0.02)

    def settle(self, quiet: float) -> None:
        """Returns after `quiet` seconds without a change, or after 20 seconds."""
        begin = time.monotonic()

        def last_change() -> float:
            return max(
                [begin]
                + [w.changed.get(ns, 0.0) for w in self.watchers for ns in [*self.namespaces, ""]]
            )

        while time.monotonic() - last_change() < quiet and time.monotonic() - begin < 20:
            time.sleep(0.03)

    # -- steps: do_NAME carries out the step that has the key NAME

    def step(self, step: dict) -> None:
        for name, value in step.items():
            if hasattr(self, f"do_{name}"):
                return getattr(self, f"do_{name}")(value, step)
            if name in WAITS:
                return self.wait(name, value, step)
            if name == "sleep":
                return time.sleep(value)
            if name == "settle":
                return self.settle(value)
            if name == "kubelet":
                self.kubelet.enabled = value
                return None
        raise SystemExit(f"unknown step {step}")

    def do_create(self, items, step: dict) -> None:
        for item in items if isinstance(items, list) else [items]:
            for i in range(step.get("count", 1)):
                self.create(json.loads(json.dumps(item).replace("{i}", str(i))))

    def create(self, item: dict) -> None:
        kind = item["kind"]
        namespace = (
            item["metadata"].setdefault("namespace", self.namespaces[0]) if KINDS[kind][2] else None
        )
        if namespace and namespace not in self.namespaces:
            self.make_namespace(namespace)
            self.namespaces.append(namespace)
        for patience in (
            0.1,
            0.3,
            0.6,
            1.0,
            2.0,
            0.0,
        ):  # admission may not have seen a class that was just made: 403
            answer = self.api.request(
                "POST", path_of(kind, namespace), item, ok=(201, 403) if patience else (201,)
            )
            if answer["kind"] != "Status":
                break
            time.sleep(patience)
        if "status" in item and kind in STATUS_IGNORED_ON_CREATE:
            path = path_of(kind, namespace, item["metadata"]["name"], "status")
            self.api.request("PATCH", path, {"status": item["status"]}, PATCH_TYPES["merge"])

    def do_patch(self, target: dict, step: dict) -> None:
        path = path_of(
            target["kind"],
            target.get("namespace", self.namespaces[0]),
            target["name"],
            step.get("subresource", ""),
        )
        self.api.request("PATCH", path, step["body"], PATCH_TYPES[step.get("type", "merge")])

    def do_delete(self, target: dict, step: dict) -> None:
        options = {"gracePeriodSeconds": step["grace"]} if "grace" in step else {}
        self.api.request(
            "DELETE",
            path_of(target["kind"], target.get("namespace", self.namespaces[0]), target["name"]),
            options,
        )

    def do_bind(self, pod: str, step: dict) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": step["node"]}
        self.api.request(
            "POST",
            path_of("Pod", self.namespaces[0], pod, "binding"),
            {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target},
        )

    def do_bind_claim(self, claim: str, step: dict) -> None:
        def claimed() -> list[str]:
            return [
                name
                for (_, name), item in list(self.volumes.live.items())
                if (item["spec"].get("claimRef") or {}).get("name") == claim
            ]

        if "to" not in step:
            self.until(claimed, f"no volume was claimed for {claim}", step)
        volume = step.get("to") or claimed()[0]
        namespace, yes = (
            self.namespaces[0],
            {
                "pv.kubernetes.io/bind-completed": "yes",
                "pv.kubernetes.io/bound-by-controller": "yes",
            },
        )
        path, merge = path_of("PersistentVolumeClaim", namespace, claim), PATCH_TYPES["merge"]
        uid = self.api.request("GET", path)["metadata"]["uid"]
        reference = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": namespace,
            "name": claim,
            "uid": uid,
        }
        self.api.request(
            "PATCH",
            path_of("PersistentVolume", name=volume),
            {"spec": {"claimRef": reference}},
            merge,
        )
        self.api.request(
            "PATCH",
            path_of("PersistentVolume", name=volume, subresource="status"),
            {"status": {"phase": "Bound"}},
            merge,
        )
        self.api.request(
            "PATCH", path, {"metadata": {"annotations": yes}, "spec": {"volumeName": volume}}, merge
        )
        self.api.request("PATCH", path + "/status", {"status": {"phase": "Bound"}}, merge)

    def do_wait_selected_node(self, claim: str, step: dict) -> None:
        def selected() -> bool:
            return SELECTED_NODE in self.claims.live[self.namespaces[0], claim]["metadata"].get(
                "annotations", {}
            )

        self.until(selected, f"no node was selected for the claim {claim}", step)

    def wait(self, name: str, patterns, step: dict) -> None:
        def done(pattern: str) -> bool:
            found = self.pods.matching(self.namespaces, pattern, gone=False)
            return (
                not found
                if name == "wait_gone"
                else bool(found) and all(WAITS[name](pod, step) for pod, _ in found.values())
            )

        for pattern in [patterns] if isinstance(patterns, str) else patterns:
            self.until(partial(done, pattern), f"{name} {pattern}: did not happen", step)

    # -- observations

    def observe_until(self, spec: dict, expected: dict | None) -> dict:
        """Observes after quiet; with an expectation, until it is met or patience ends."""
        self.settle(spec.get("settle", QUIET[self.mode]))
        deadline, seen = time.monotonic() + PATIENCE, self.observe(spec)
        while expected is not None and seen != expected and time.monotonic() < deadline:
            time.sleep(0.1)
            seen = self.observe(spec)
        return seen

    def observe(self, spec: dict) -> dict:
        seen: dict = {}
        for pattern, options in spec.get("pods", {}).items():
            for name, (pod, gone) in self.pods.matching(self.namespaces, pattern).items():
                seen.setdefault("pods", {})[name] = self.view_pod(pod, gone, options)
        for group in spec.get("tally", ()):
            seen.setdefault("tally", []).append(self.tally(group))
        if "order" in spec:
            known = self.pods.matching(self.namespaces, spec["order"])
            seen["order"] = [
                name for ns, name in self.pods.bound if ns == self.namespaces[0] and name in known
            ]
        for label, watcher, field in (
            ("claims", self.claims, "volumeName"),
            ("volumes", self.volumes, "claimRef"),
        ):
            for name in spec.get(label, ()):
                item = watcher.live.get(
                    (self.namespaces[0] if label == "claims" else "", name),
                    {"metadata": {}, "spec": {}},
                )
                value = item["spec"].get(field)
                notes = item["metadata"].get("annotations", {})
                seen.setdefault(label, {})[name] = {
                    field: f"{value.get('namespace')}/{value.get('name')}"
                    if isinstance(value, dict)
                    else value,
                    "annotations": {
                        key: notes[key] for key in SCHEDULER_ANNOTATIONS if key in notes
                    },
                }
        return json.loads(self.normal(json.dumps(seen)))

    def view_pod(self, pod: dict, gone: bool, options: dict) -> dict:
        meta, status, node = pod["metadata"], pod.get("status", {}), pod["spec"].get("nodeName")
        state = (
            "deleted"
            if gone
            else "terminating"
            if meta.get("deletionTimestamp")
            else "bound"
            if node
            else "pending"
        )
        view = {"state": state, "node": "<any>" if node and options.get("node") == "any" else node}
        if options.get("nominated", True):
            view["nominated"] = status.get("nominatedNodeName")
        view["conditions"] = {
            c["type"]: {
                key: c[key]
                for key in ("status", "reason", "message")
                if c.get(key) and (key != "message" or options.get("message", True))
            }
            for c in status.get("conditions", ())
            if c["type"] in SCHEDULER_CONDITIONS
        }
        detail = options.get("events", "all")
        if detail != "none":
            with self.events.lock:
                mine = [
                    e
                    for e in self.events.live.values()
                    if e.get("regarding", {}).get("uid") == meta["uid"]
                ]
            view["events"] = sorted({self.view_event(event, detail) for event in mine})
            if view["node"] == "<any>":
                view["events"] = sorted(
                    {re.sub(rf"\b{re.escape(node)}$", "<any>", event) for event in view["events"]}
                )
        return view

    @staticmethod
    def view_event(event: dict, detail: str) -> str:
        by = event.get("reportingController") or event.get("deprecatedSource", {}).get(
            "component", ""
        )
        head = f"{event.get('type')} {event.get('reason')} {event.get('action', '')} by {by}"
        return head if detail == "reasons" else f"{head}: {event.get('note', '')}"

    def tally(self, group: dict) -> dict:
        places: dict[str, int] = {}
        pending, messages = 0, set()
        for pod, _ in self.pods.matching(self.namespaces, group["pods"], gone=False).values():
            node = pod["spec"].get("nodeName")
            if not node:
                pending += 1
                messages |= {
                    c.get("message", "")
                    for c in pod.get("status", {}).get("conditions", ())
                    if c["type"] == "PodScheduled"
                }
                continue
            place = node
            if group.get("by", "node") != "node":
                place = (
                    self.api.request("GET", path_of("Node", name=node))["metadata"]
                    .get("labels", {})
                    .get(group["by"], "")
                )
            places[place] = places.get(place, 0) + 1
        return {
            "bound": places if group.get("names") else sorted(places.values()),
            "pending": pending,
            "messages": sorted(messages),
        }

    def normal(self, text: str) -> str:
        return UUID.sub("<uid>", text.replace(self.namespaces[0], "<ns>"))


def differences(expected, got, path: str = "") -> list[str]:
    if isinstance(expected, dict) and isinstance(got, dict):
        found = []
        for key in sorted({*expected, *got}):
            if key not in expected or key not in got:
                found.append(
                    f"{path}/{key}: {'missing' if key in expected else 'unexpected'} "
                    f"{json.dumps(expected.get(key, got.get(key)))}"
                )
            else:
                found += differences(expected[key], got[key], f"{path}/{key}")
        return found
    return (
        []
        if expected == got
        else [f"{path}: expected {json.dumps(expected)}\n{'':8}got {json.dumps(got)}"]
    )
