"""Whatever is sent to an extender is answered, never with a 500, and nothing stays behind.

`BAYPLAN_FUZZ_EXTENDER=100000` sends more (`make attack`).
"""

import gzip
import json
import os
import random
import re

import pytest

from bayplan.extender import Extender

SEED = int(os.environ.get("BAYPLAN_SEED", "0"))
REQUESTS = int(os.environ.get("BAYPLAN_FUZZ_EXTENDER", "1000"))
EACH = 250
NAMES = [f"n{number}" for number in range(5)]
VALID = {
    "Pod": {"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": []}},
    "Nodes": {"items": [{"metadata": {"name": name}} for name in NAMES]},
    "NodeNames": NAMES,
    "NodeNameToVictims": {"n0": {"Pods": [], "NumPDBViolations": 0}},
    "NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "u"}]}},
    "PodName": "p",
    "PodNamespace": "default",
    "PodUID": "u",
    "Node": "n0",
}
VALUES = (None, 0, -1, 2**70, 1.5, True, "", "\x00", "x" * 3000, [], {}, [[]], [None], {"": None})
PATHS = ("/filter", "/prioritize", "/preempt", "/bind", "/", "/../filter", "/filter/", "/metrics")


def mutated(rng, value):
    """Replace, drop or repeat something somewhere."""
    if rng.random() < 0.15:
        return rng.choice(VALUES)
    if isinstance(value, dict):
        return {
            rng.choice((key, key.lower(), key, key, "unknown")): mutated(rng, each)
            for key, each in value.items()
            if rng.random() < 0.9
        }
    if isinstance(value, list):
        return [mutated(rng, each) for each in value] * rng.choice((1, 1, 1, 2))
    return value


def body_of(rng):
    body = json.dumps(mutated(rng, VALID)).encode()
    how = rng.random()
    if how < 0.15:
        at = rng.randrange(len(body))
        return body[:at] + rng.randbytes(rng.randint(0, 8)) + body[at + rng.randint(0, 8) :], {}
    if how < 0.2:  # a number that no type holds, where a text stood
        return re.sub(
            rb'"[a-z0-9]*"(?=[,}\]])', rng.choice((b"1e400", b"9" * 5000)), body, count=1
        ), {}
    if how < 0.25:
        packed = gzip.compress(body)
        return packed[: rng.choice((len(packed), 10, 3))], {b"content-encoding": b"gzip"}
    return body, {}


def kit():
    made = Extender()
    made.filter(lambda pod, nodes: nodes)
    made.prioritize(lambda pod, nodes: {str(node): 1 for node in nodes})
    made.preempt(lambda pod, victims: victims)
    made.bind(lambda pod_name, node: None)
    return made


async def asked(app, rng):
    body, extra = body_of(rng)
    headers = {b"host": b"127.0.0.1", b"content-type": b"application/json", **extra}
    scope = {
        "type": "http",
        "method": rng.choice(("POST", "POST", "POST", "GET", "PUT")),
        "path": rng.choice(PATHS),
        "headers": list(headers.items()),
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "query_string": b"",
    }
    sent = []

    async def receive():
        return {"type": "http.request", "body": body}

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)
    return sent[0]["status"], body


@pytest.mark.parametrize("part", range(REQUESTS // EACH))
async def test_no_request_is_answered_with_500(part):
    rng, app, seen = random.Random(SEED * REQUESTS + part), kit(), set()
    for _ in range(EACH):
        status, body = await asked(app, rng)
        assert status < 500, body[:500]
        seen.add(status)
    assert {200, 400} <= seen, "both sides of the line were tried"
