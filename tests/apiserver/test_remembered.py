"""What is remembered of clients' texts is bounded in bytes, not only in number."""

import gc
import tracemalloc

import pytest

from tests.apiserver.api import CONFIGMAPS, PODS, configmap, pod

LONG = 50_000
TIMES = 40

# Each makes a request whose text is long and differs from the others'.
ASKED = {
    "label key": lambda text: ("POST", CONFIGMAPS, configmap("x", labels={text: "v"})),
    "label value": lambda text: ("POST", CONFIGMAPS, configmap("x", labels={"k": text})),
    "node selector": lambda text: ("POST", PODS, pod("x", nodeSelector={"k": text})),
    "image": lambda text: ("POST", f"{PODS}?dryRun=All", _container(image=text)),
    "quantity": lambda text: ("POST", PODS, _container(resources={"requests": {"cpu": text}})),
    "long number": lambda text: ("POST", PODS, _container(resources=_zeros(text))),
    "many values": lambda text: ("POST", PODS, pod("x", affinity=_affinity(*_many(text)))),
    "resource": lambda text: ("POST", PODS, _container(resources={"requests": {text: "1"}})),
    "time": lambda text: ("POST", CONFIGMAPS, configmap("x", creationTimestamp=text)),
    "affinity": lambda text: ("POST", PODS, pod("x", affinity=_affinity(text))),
    "spread": lambda text: ("POST", PODS, pod("x", topologySpreadConstraints=[_spread(text)])),
    "path": lambda text: ("GET", f"{CONFIGMAPS}/{text}", None),
    "query": lambda text: ("GET", f"{CONFIGMAPS}?x={text}", None),
    "labelSelector": lambda text: ("GET", f"{CONFIGMAPS}?labelSelector=a!={text}", None),
    "labelSelector set": lambda text: ("GET", f"{CONFIGMAPS}?labelSelector=a+in+({text})", None),
    "fieldSelector": lambda text: ("GET", f"{CONFIGMAPS}?fieldSelector=metadata.name={text}", None),
}


def _container(**fields):
    made = pod("x")
    made["spec"]["containers"][0] |= fields
    return made


def _zeros(text):
    return {"requests": {"cpu": "0" * LONG + text[:4]}}


def _many(text):
    return [f"{text[:4]}-{n}" for n in range(5000)]


def _affinity(*values):
    term = {"matchExpressions": [{"key": "k", "operator": "In", "values": values}]}
    required = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def _spread(text):
    selector = {"matchLabels": {"k": text}}
    return {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
    }


@pytest.mark.parametrize("what", sorted(ASKED))
async def test_long_texts_are_not_remembered(api, what):
    asked = [ASKED[what](f"{n:04}" + "a" * LONG) for n in range(TIMES)]
    await api.call(*asked[0])  # what is loaded once
    tracemalloc.start()
    try:
        for each in asked[1:]:
            answer = await api.call(*each)
            del answer
        gc.collect()
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert grown < TIMES * LONG / 2


@pytest.mark.parametrize("header", ["accept", "content-type", "user-agent", "authorization"])
async def test_long_headers_are_not_remembered(api, header):
    tracemalloc.start()
    try:
        for n in range(TIMES):
            await api.call("GET", CONFIGMAPS, headers={header: f"{n:04}" + "a" * LONG})
        gc.collect()
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert grown < TIMES * LONG / 2
