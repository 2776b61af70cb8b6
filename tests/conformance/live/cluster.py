"""The world around a live scheduler: requests, mirrors of objects, a kubelet, the process itself.

The cluster must be private to the run. Of its kubeconfig only the server's address and a bearer
token are read, and TLS is not verified.
"""

from __future__ import annotations

import fnmatch
import http.client
import json
import os
import re
import shlex
import ssl
import subprocess
import tempfile
import threading
import time
import urllib.parse
from contextlib import suppress

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
PREFIX = "live-"  # of every namespace that this program makes
PATIENCE = 60.0  # how long `check` waits for a differing observation to become equal
STEP_TIMEOUT = 120.0
START_TIMEOUT = 120.0  # a busy machine may take its time to start a process
KUBELET_DELAY = 0.3
NO_NODES = "no nodes available to schedule pods"
QUIET = {"record": 1.5, "check": 0.8}
SCHEDULER_CONDITIONS = ("PodScheduled", "DisruptionTarget")
SELECTED_NODE = "volume.kubernetes.io/selected-node"
SCHEDULER_ANNOTATIONS = (SELECTED_NODE, "pv.kubernetes.io/bound-by-controller")
KINDS = {  # kind: (API path, resource, namespaced)
    "Namespace": ("/api/v1", "namespaces", False),
    "Node": ("/api/v1", "nodes", False),
    "Pod": ("/api/v1", "pods", True),
    "Service": ("/api/v1", "services", True),
    "PersistentVolumeClaim": ("/api/v1", "persistentvolumeclaims", True),
    "PersistentVolume": ("/api/v1", "persistentvolumes", False),
    "Event": ("/apis/events.k8s.io/v1", "events", True),
    "PodDisruptionBudget": ("/apis/policy/v1", "poddisruptionbudgets", True),
    "PriorityClass": ("/apis/scheduling.k8s.io/v1", "priorityclasses", False),
    "RuntimeClass": ("/apis/node.k8s.io/v1", "runtimeclasses", False),
    "StorageClass": ("/apis/storage.k8s.io/v1", "storageclasses", False),
    "CSINode": ("/apis/storage.k8s.io/v1", "csinodes", False),
    "CSIDriver": ("/apis/storage.k8s.io/v1", "csidrivers", False),
}
STATUS_IGNORED_ON_CREATE = {
    "Pod",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "PodDisruptionBudget",
}
PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
WAITS = {  # step: what must hold for every pod that it names
    "wait_bound": lambda pod, _: pod["spec"].get("nodeName"),
    "wait_message": lambda pod, step: any(
        step["holds"] in c.get("message", "")
        for c in pod["status"].get("conditions", ())
        if c["type"] == "PodScheduled"
    ),
    "wait_unschedulable": lambda pod, _: any(
        c["type"] == "PodScheduled"
        and c["status"] == "False"
        and c.get("reason") != "SchedulingGated"
        for c in pod["status"].get("conditions", ())
    ),
    "wait_nominated": lambda pod, _: pod["status"].get("nominatedNodeName"),
    "wait_terminating": lambda pod, _: pod["metadata"].get("deletionTimestamp"),
    "wait_gone": None,
}


class StepFailed(Exception):
    """A step of a scenario could not be carried out, or what it waits for did not happen."""


class Api:
    """JSON requests to the API server, one kept connection a thread."""

    def __init__(self, kubeconfig: str):
        with open(kubeconfig, encoding="utf-8") as source:
            text = source.read()
        server = re.search(r"\bserver[\"']?\s*:\s*[\"']?(https?://[^\s\"',}]+)", text)
        token = re.search(r"\btoken[\"']?\s*:\s*[\"']?([^\s\"',}]+)", text)
        if not server:
            raise SystemExit(f"{kubeconfig}: no server address found")
        self.url = urllib.parse.urlsplit(server.group(1))
        self.headers = {
            "Accept": "application/json",
            **({"Authorization": f"Bearer {token.group(1)}"} if token else {}),
        }
        self.local = threading.local()
        self.opened: list[http.client.HTTPConnection] = []

    def connect(self, timeout: float | None = 60.0) -> http.client.HTTPConnection:
        if self.url.scheme == "http":
            connection = http.client.HTTPConnection(self.url.netloc, timeout=timeout)
        else:
            connection = http.client.HTTPSConnection(
                self.url.netloc, timeout=timeout, context=ssl._create_unverified_context()
            )
        self.opened.append(connection)
        return connection

    def close(self) -> None:
        for connection in self.opened:
            connection.close()

    def request(
        self,
        method: str,
        path: str,
        body=None,
        content_type: str = "application/json",
        ok=(200, 201, 202),
    ):
        """The parsed answer; StepFailed when its status is not in `ok`."""
        for attempt in (0, 1, 2):
            if getattr(self.local, "connection", None) is None:
                self.local.connection = self.connect()
            try:
                self.local.connection.request(
                    method,
                    path,
                    None if body is None else json.dumps(body),
                    {**self.headers, "Content-Type": content_type},
                )
                answer = self.local.connection.getresponse()
                text = answer.read()
                break
            except (OSError, http.client.HTTPException):
                self.local.connection.close()
                self.local.connection = None
                if attempt == 2:
                    raise
        if answer.status not in ok:
            raise StepFailed(
                f"{method} {path}: {answer.status} {text.decode(errors='replace')[:400]}"
            )
        return json.loads(text) if text else {}


def path_of(kind: str, namespace: str | None = None, name: str = "", subresource: str = "") -> str:
    base, resource, namespaced = KINDS[kind]
    where = f"/namespaces/{namespace}" if namespaced and namespace else ""
    return (
        f"{base}{where}/{resource}"
        + (f"/{name}" if name else "")
        + (f"/{subresource}" if subresource else "")
    )


class Watcher(threading.Thread):
    """Mirrors one kind in all namespaces, deleted objects and the order of binding included."""

    def __init__(self, api: Api, kind: str):
        super().__init__(daemon=True)
        self.stopping = False
        self.api, self.kind = api, kind
        self.live: dict[tuple[str, str], dict] = {}
        self.deleted: dict[tuple[str, str], dict] = {}
        self.bound: list[tuple[str, str]] = []
        self.changed: dict[str, float] = {}
        self.lock = threading.Lock()

    def run(self) -> None:
        while not self.stopping:
            try:
                listing = self.api.request("GET", path_of(self.kind))
                fresh = {self.key(item): item for item in listing["items"]}
                for key in set(self.live) - set(fresh):
                    self.apply("DELETED", self.live[key])
                for item in fresh.values():
                    self.apply("MODIFIED", item)
                connection = self.api.connect(timeout=None)
                version = listing["metadata"]["resourceVersion"]
                connection.request(
                    "GET",
                    f"{path_of(self.kind)}?watch=1&resourceVersion={version}",
                    headers=self.api.headers,
                )
                answer = connection.getresponse()
                while line := answer.readline():
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        break
                    self.apply(event["type"], event["object"])
            except (OSError, http.client.HTTPException, StepFailed, ValueError):
                time.sleep(0.2)

    @staticmethod
    def key(item: dict) -> tuple[str, str]:
        return item["metadata"].get("namespace", ""), item["metadata"]["name"]

    def apply(self, change: str, item: dict) -> None:
        key = self.key(item)
        with self.lock:
            self.changed[key[0]] = time.monotonic()
            if change == "DELETED":
                self.live.pop(key, None)
                self.deleted[key] = item
                return
            self.live[key] = item
            if item.get("spec", {}).get("nodeName") and key not in self.bound:
                self.bound.append(key)

    def matching(self, namespaces, pattern: str, gone: bool = True) -> dict[str, tuple[dict, bool]]:
        """name -> (object, is it deleted); beyond the first namespace it is `SUFFIX/name`."""
        with self.lock:
            pool = {
                **({k: (v, True) for k, v in self.deleted.items()} if gone else {}),
                **{k: (v, False) for k, v in self.live.items()},
            }
        found = {}
        for (namespace, name), value in pool.items():
            if namespace == "" or namespace in namespaces:
                shown = (
                    name
                    if namespace in ("", namespaces[0])
                    else f"{namespace[len(namespaces[0]) :]}/{name}"
                )
                if fnmatch.fnmatchcase(shown, pattern):
                    found[shown] = value
        return dict(sorted(found.items()))


class Kubelet(threading.Thread):
    """Removes bound pods a moment after they began to terminate, while enabled."""

    def __init__(self, api: Api, pods: Watcher):
        super().__init__(daemon=True)
        self.stopping = False
        self.api, self.pods, self.enabled, self.seen = api, pods, True, {}

    def run(self) -> None:
        while not self.stopping:
            time.sleep(0.05)
            with self.pods.lock:
                ending = [
                    (key, pod["metadata"]["uid"])
                    for key, pod in self.pods.live.items()
                    if pod["metadata"].get("deletionTimestamp") and pod["spec"].get("nodeName")
                ]
            for (namespace, name), uid in ending:
                if (
                    self.enabled
                    and time.monotonic() - self.seen.setdefault(uid, time.monotonic())
                    > KUBELET_DELAY
                ):
                    with suppress(OSError, http.client.HTTPException, StepFailed):
                        self.api.request(
                            "DELETE",
                            path_of("Pod", namespace, name),
                            {"gracePeriodSeconds": 0},
                            ok=(200, 202, 404, 409),
                        )


class SchedulerProcess:
    """The scheduler under test, from its command line."""

    def __init__(self, command: str, kubeconfig: str, config: dict | None):
        self.config = config
        full = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            **(config or {}),
            "clientConnection": {
                "kubeconfig": os.path.abspath(kubeconfig),
                "qps": 5000,
                "burst": 10000,
            },
            "leaderElection": {"leaderElect": False},
        }
        self.name = (full.get("profiles") or [{}])[0].get("schedulerName", "default-scheduler")
        self.folder = tempfile.TemporaryDirectory()
        written, self.log_path = (
            os.path.join(self.folder.name, "config.json"),
            os.path.join(self.folder.name, "scheduler.log"),
        )
        with open(written, "w", encoding="utf-8") as out:
            json.dump(full, out)
        self.log = open(self.log_path, "wb")  # noqa: SIM115 - closed by stop()
        self.process = subprocess.Popen(
            [part.replace("{config}", written) for part in shlex.split(command)],
            stdout=self.log,
            stderr=subprocess.STDOUT,
        )

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        self.folder.cleanup()

    def last_words(self) -> str:
        with open(self.log_path, "rb") as log:
            return log.read()[-500:].decode(errors="replace")
