"""Sends nonsense to an API server and tells what broke.

    python -m tests.apiserver.fuzz --requests 10000 [--seed 1]

Requests are drawn from every kind, verb and subresource. Bodies are valid objects in which
something was removed, replaced or nested, patches of all types, and plain rubbish. A request fails
if it ends in an unexpected exception, takes longer than five seconds, or is answered with something
that is not a Status though it is an error. Memory must not grow while the store does not.
"""

import argparse
import asyncio
import gc
import json
import random
import string
import sys
from typing import Any

from bayplan.apiserver.kinds import Kind, built_in
from bayplan.store.memory import MemoryStore
from tests.apiserver.api import Api
from tests.definitions import definition

SECONDS = 60.0
SEEDED = "seeded"  # an object of this name exists of every kind that can be made
NAMES = ("a", "b", "x-1", "Bad_Name", "a.b", "kubernetes", "default", "%00", "é")
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE")
ACCEPTS = (
    "application/json",
    "application/yaml",
    "*/*",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json",
    "image/png",
    ";;,=q",
)
BODY_TYPES = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "x/y")
PATCH_TYPES = (
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/json-patch+json",
    "application/apply-patch+yaml",
)
QUERIES = (
    "limit",
    "continue",
    "resourceVersion",
    "resourceVersionMatch",
    "labelSelector",
    "fieldSelector",
    "dryRun",
    "fieldManager",
    "fieldValidation",
    "force",
    "pretty",
    "propagationPolicy",
    "gracePeriodSeconds",
    "includeObject",
    "orphanDependents",
)
VALUES = (
    "",
    "0",
    "1",
    "-1",
    "99999999999999999999",
    "true",
    "All",
    "Strict",
    "Exact",
    "a=b",
    "%",
    "Orphan",
)
EXAMPLES: dict[str, dict[str, Any]] = {
    "Pod": {
        "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]}
    },
    "Node": {
        "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": "1"}},
    },
    "Service": {"spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}},
    "ConfigMap": {"data": {"a": "b"}, "binaryData": {"b": "AA=="}},
    "Deployment": {
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        }
    },
    "StatefulSet": {
        "spec": {
            "serviceName": "s",
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        }
    },
    "Job": {
        "spec": {
            "template": {
                "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
            }
        }
    },
    "Secret": {"stringData": {"a": "b"}},
    "Event": {"reason": "R", "type": "Normal", "reportingInstance": "i", "action": "A"},
    "ResourceClaim": {
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}
    },
    "PersistentVolume": {
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/x"},
        }
    },
    "StorageClass": {"provisioner": "p.example/x"},
    "Role": {"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]},
    "PriorityClass": {"value": 5},
    "Lease": {"spec": {"holderIdentity": "x", "renewTime": "2021-03-04T05:06:07.000000Z"}},
    "Binding": {"target": {"kind": "Node", "name": "n"}},
    "PodDisruptionBudget": {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}},
    "PersistentVolumeClaim": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    "CustomResourceDefinition": {
        "spec": definition("boats", properties={"spec": {"type": "object"}})["spec"]
    },
}


class Fuzzer:
    """Draws requests; the same seed draws the same ones."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.kinds = built_in()

    def scalar(self) -> Any:
        choices = (
            None,
            True,
            0,
            -1,
            2**31,
            2**63,
            1.5,
            "",
            "x",
            "1Gi",
            "2021-03-04T05:06:07Z",
            "\u0000",
            "a" * 300,
            [],
            {},
            [None],
            {"": ""},
        )
        return self.random.choice(choices)

    def mutate(self, value: Any) -> Any:
        """Change one thing somewhere inside a value."""
        if isinstance(value, dict) and value and self.random.random() < 0.85:
            out = dict(value)
            key = self.random.choice(list(out))
            action = self.random.random()
            if action < 0.15:
                del out[key]
            elif action < 0.25:
                out[self.random.choice(("metadata", "spec", "unknown", key + "x"))] = self.scalar()
            else:
                out[key] = self.mutate(out[key])
            return out
        if isinstance(value, list) and value and self.random.random() < 0.8:
            out = list(value)
            place = self.random.randrange(len(out))
            if self.random.random() < 0.2:
                out.append(out[place])
            else:
                out[place] = self.mutate(out[place])
            return out
        return self.nested() if self.random.random() < 0.02 else self.scalar()

    def nested(self) -> Any:
        value: Any = "deep"
        for _ in range(self.random.choice((50, self.random.randint(330, 980), 5000))):
            value = [value] if self.random.random() < 0.5 else {"a": value}
        return value

    def object(self, kind: Kind) -> dict[str, Any]:
        name = SEEDED if self.random.random() < 0.5 else self.random.choice(NAMES)
        metadata = {"name": name, "labels": {"a": "b"}}
        found = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
        return found | EXAMPLES.get(kind.kind, {"spec": {}})

    def body(self, kind: Kind, method: str) -> bytes:
        draw = self.random.random()
        if draw < 0.04:
            return bytes(self.random.randrange(256) for _ in range(self.random.randrange(60)))
        if draw < 0.05:
            return ("{" * self.random.choice((3, 20000))).encode()
        value: Any = self.object(kind)
        if method == "PATCH" and self.random.random() < 0.5:
            value = self.json_patch()
        for _ in range(self.random.randrange(4)):
            value = self.mutate(value)
        try:
            return json.dumps(value).encode()
        except RecursionError:
            return b'{"a":' * 5000

    def json_patch(self) -> Any:
        paths = ("/metadata/labels/a", "/spec", "/metadata", "", "/spec/containers/0", "/~", "/a/-")
        operations = ("add", "remove", "replace", "move", "copy", "test", "odd")
        return [
            {
                "op": self.random.choice(operations),
                "path": self.random.choice(paths),
                "from": self.random.choice(paths),
                "value": self.scalar(),
            }
            for _ in range(self.random.randrange(3))
        ]

    def target(self, kind: Kind, method: str) -> str:
        base = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        if kind.namespaced and self.random.random() < 0.97:
            base += f"/namespaces/{self.random.choice(('default',) * 9 + ('nowhere', ''))}"
        path = f"{base}/{kind.resource}"
        named = {"POST": 0.25, "GET": 0.5, "DELETE": 0.7}.get(method, 0.97)
        if self.random.random() < named:
            path += "/" + (SEEDED if self.random.random() < 0.8 else self.random.choice(NAMES))
            if self.random.random() < (0.9 if method == "POST" else 0.25):
                path += "/" + self.random.choice([*kind.subresources, "status", "nothing"])
        if self.random.random() < 0.03:  # cut off, and gone on otherwise
            end = self.random.choice(("x", "'", "//", "/../", "%2f", "", "a" * 5000))
            path = path[: self.random.randrange(len(path))] + end
        if self.random.random() < 0.02:
            path = "/" + "".join(self.random.choices(string.printable, k=12)).strip()
        return path

    def query(self) -> str:
        pairs = [
            f"{self.random.choice(QUERIES)}={self.random.choice(VALUES)}"
            for _ in range(self.random.choice((0, 0, 1, 2)))
        ]
        return "&".join(pairs)

    def request(self) -> tuple[str, str, bytes, dict[str, str | None]]:
        kind = self.random.choice(self.kinds)
        method = self.random.choices(METHODS, (15, 30, 20, 30, 4, 1, 1, 1))[0]
        types = PATCH_TYPES if method == "PATCH" else BODY_TYPES
        weights = (3, 2, 2, 2) if method == "PATCH" else (9, 2, 1, 1)
        headers: dict[str, str | None] = {
            "accept": self.random.choices(ACCEPTS, (30, 2, 3, 3, 2, 1, 1))[0],
            "content-type": self.random.choices(types, weights)[0],
        }
        target = f"{self.target(kind, method)}?{self.query()}"
        return method, target, self.body(kind, method), headers


def kept() -> int:
    """Count what is kept in memory, which tells more than pages that the allocator keeps."""
    gc.collect()
    return sys.getallocatedblocks()


async def fuzz(requests: int, seed: int) -> tuple[list[str], int]:
    """Send so many requests; return what failed and how much more the second half left behind."""
    fuzzer = Fuzzer(seed)
    store = MemoryStore(max_events=500, max_bytes=2 << 20)
    api = await Api.start(store)
    failures: list[str] = []
    middle = 0
    await seed_objects(api, fuzzer)
    for number in range(requests):
        method, target, body, headers = fuzzer.request()
        before = api.server.failures
        try:
            async with asyncio.timeout(SECONDS):
                answer = await api.call(method, target, body, headers)
        except TimeoutError:
            failures.append(f"hangs: {method} {target} {headers} {body[:300]!r}")
            continue
        if api.server.failures != before:
            failures.append(f"{answer.status}: {method} {target} {headers} {body[:600]!r}")
        elif answer.status >= 400 and not is_error(answer.body, method):
            failures.append(f"no Status: {method} {target} {answer.body!r:.300}")
        if number % 500 == 499:
            await clear(store)
            await seed_objects(api, fuzzer)
        if number == requests // 2:
            middle = kept()
    grown = kept() - middle
    await api.close()
    return failures, grown


def is_error(body: Any, method: str) -> bool:
    """Say whether a body is what an error may look like: a Status, or text in YAML or plain."""
    return not isinstance(body, dict) or body.get("kind") == "Status" or method == "HEAD"


async def seed_objects(api: Api, fuzzer: Fuzzer) -> None:
    """Create an object of every kind, as far as the examples go, for others to be changed."""
    for kind in fuzzer.kinds:
        base = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        where = "/namespaces/default" if kind.namespaced else ""
        body = {"metadata": {"name": SEEDED}} | EXAMPLES.get(kind.kind, {})
        await api.call("POST", f"{base}{where}/{kind.resource}", body)


async def clear(store: MemoryStore) -> None:
    """Delete what was created, so that growth is the server's own."""
    for kv in store.range_now("").items:
        if not kv.key.startswith("core/namespaces/"):
            await store.delete(kv.key)


def main() -> None:
    parser = argparse.ArgumentParser(description="fuzz the API server")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    failures, grown = asyncio.run(fuzz(options.requests, options.seed))
    for failure in failures[:20]:
        print(failure)  # noqa: T201 - a program to be run by hand
    print(  # noqa: T201
        f"seed {options.seed}: {options.requests} requests, {len(failures)} failures, "
        f"{grown:+,} blocks of memory in the second half"
    )
    raise SystemExit(bool(failures))


if __name__ == "__main__":
    main()
