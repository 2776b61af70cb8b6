"""What is worked on in a thread leaves others their turns: no call into C takes long.

Such a call keeps the interpreter's lock, so the event loop waits for its end however many threads
there are. The bodies are as dense as bodies can be; Python's own loops are interrupted.
"""

import pytest

from tests.apiserver.api import CONFIGMAPS
from tests.apiserver.steps import MOST, calls
from tests.apiserver.test_bombs import DEFINITIONS, THINGS, definition

THING = b'{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"x"},"spec":{"any":%b}}'
CONFIGMAP = b'{"metadata":{"name":"x"},"data":{%b}}'
MERGE = {"content-type": "application/merge-patch+json"}


def keys(count, value):
    return b",".join(b'"k%d":%b' % (number, value) for number in range(count))


BODIES = {
    "keys": (THINGS, THING % (b"{" + keys(200_000, b"{}") + b"}")),
    "digits": (THINGS, THING % (b'["' + b'","'.join([b"1" * 18] * 140_000) + b'"]')),
    "keys given twice": (CONFIGMAPS, CONFIGMAP % (keys(190_000, b'""') + b',"k0":""')),
}


@pytest.mark.parametrize("name", BODIES)
async def test_a_dense_body_leaves_others_their_turns(api, name):
    path, body = BODIES[name]
    await api.ok("POST", DEFINITIONS, definition({"any": KEPT}))

    with calls() as made:
        await api.exchange("POST", path, body, {})
    with calls() as labelled:
        await api.exchange("PATCH", f"{path}/x", b'{"metadata":{"labels":{"a":"b"}}}', MERGE)

    assert "b" == (await api.ok("GET", f"{path}/x"))["metadata"]["labels"]["a"]
    assert made[0] < MOST, made
    assert labelled[0] < MOST, labelled


KEPT = {"x-kubernetes-preserve-unknown-fields": True}
