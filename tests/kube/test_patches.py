"""Patches do to our objects what they do to those of the real kube-apiserver.

Hypothesis makes patches of all four types; each is sent to both servers and the answers compared.
Three of the types are tried as dry runs on one object; applies come in sequences by several
managers, and the managedFields are compared as well.
"""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from bayplan.testing.servers import start_embedded, start_kube
from tests.conformance.api.replay import Normaliser
from tests.kube.twins import Connection, managers, without_managers

pytestmark = pytest.mark.kube
FUZZ = settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
BASE = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {
        "name": "base",
        "labels": {"app": "a", "tier": "web"},
        "annotations": {"note": "x"},
        "finalizers": ["example.com/one", "example.com/two"],
    },
    "spec": {
        "selector": {"matchLabels": {"app": "a"}},
        "template": {
            "metadata": {"labels": {"app": "a"}},
            "spec": {
                "nodeSelector": {"zone": "x"},
                "tolerations": [{"key": "k", "operator": "Exists"}],
                "containers": [
                    {
                        "name": "a",
                        "image": "i:1",
                        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                        "ports": [{"containerPort": 80}, {"containerPort": 81, "protocol": "UDP"}],
                        "resources": {"requests": {"cpu": "100m"}},
                        "args": ["x", "y"],
                    },
                    {
                        "name": "b",
                        "image": "j:1",
                        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                    },
                ],
                "volumes": [
                    {"name": "v", "emptyDir": {}},
                    {"name": "w", "hostPath": {"path": "/w"}},
                ],
            },
        },
    },
}


@pytest.fixture(scope="module")
def twins():
    """The real server and ours, each with the base object."""
    with start_kube() as real, start_embedded(None, "--store=memory") as ours:
        pair = Connection(real), Connection(ours)
        for connection in pair:
            status, _ = connection.ask("POST", DEPLOYMENTS, BASE)
            assert status == 201
        yield pair
        for connection in pair:
            connection.close()


def agree(real, ours):
    """Both answered alike. Where the real server answers 500 by accident, ours says 4xx."""
    note(f"real: {real[0]} {real[1].get('message')}\nours: {ours[0]} {ours[1].get('message')}")
    if real[0] == 500:
        assert ours[0] in (400, 422)
        return
    assert real[0] == ours[0]
    if real[0] == 200:
        assert without_managers(real[1]) == without_managers(ours[1])
    else:
        assert refusal(real[1]) == refusal(ours[1])


def refusal(status):
    """Reason, message and causes; see docs/reference/api-differences.md for what texts show."""
    found = Normaliser().value(status, message="all")
    for cause in found.get("details", {}).get("causes", ()):
        if cause[0] == "patch":
            cause[2] = "<the patch, or all of the object>"
    return found


NAMES = st.sampled_from(["a", "b", "c"])
WORDS = st.sampled_from(["", "1", "x"])
maybe = lambda strategy: st.one_of(st.none(), strategy)  # noqa: E731
DIRECTIVE = st.sampled_from(["delete", "replace", "merge"])


def some(required=None, **optional):
    return st.fixed_dictionaries(required or {}, optional=optional)


def with_directives(strategy):
    """Now and then an item carries a $patch directive."""
    marked = st.tuples(strategy, DIRECTIVE).map(lambda pair: {**pair[0], "$patch": pair[1]})
    return st.one_of(strategy, strategy, strategy, marked)


ENV = with_directives(some({"name": st.sampled_from("ABC")}, value=maybe(WORDS)))
PORT = with_directives(
    some(
        {"containerPort": st.sampled_from([80, 81, 82])},
        protocol=st.sampled_from(["TCP", "UDP"]),
        hostPort=maybe(st.just(80)),
    )
)
MOUNT = with_directives(
    some({"mountPath": st.sampled_from(["/v", "/x"])}, name=st.sampled_from("vw"))
)
QUANTITIES = st.dictionaries(
    st.sampled_from(["cpu", "memory"]),
    maybe(st.sampled_from(["1", "0.5", "1.5Gi", "1e3"])),
    max_size=2,
)
CONTAINER = with_directives(
    some(
        {"name": NAMES},
        image=maybe(st.sampled_from(["i:1", "k:2"])),
        env=maybe(st.lists(ENV, max_size=3)),
        ports=maybe(st.lists(PORT, max_size=3)),
        volumeMounts=maybe(st.lists(MOUNT, max_size=2)),
        args=maybe(st.lists(WORDS, max_size=2)),
        resources=maybe(some(requests=maybe(QUANTITIES), limits=maybe(QUANTITIES))),
    )
)
VOLUME = with_directives(
    some(
        {"name": st.sampled_from("vwz")},
        emptyDir=maybe(st.just({})),
        hostPath=maybe(st.just({"path": "/q"})),
        **{"$retainKeys": st.lists(st.sampled_from(["name", "emptyDir", "hostPath"]), unique=True)},
    )
)
ORDER = st.permutations(["a", "b", "c"]).flatmap(
    lambda names: st.integers(0, 3).map(lambda n: [{"name": name} for name in names[:n]])
)
LABELS = st.dictionaries(
    st.sampled_from(["app", "tier", "new"]), maybe(st.sampled_from(["a", "z"])), max_size=3
)
FINALIZERS = st.lists(
    st.sampled_from([f"example.com/{n}" for n in ("one", "two", "three")]), max_size=3
)
STRATEGIC = some(
    kind=st.sampled_from(["Deployment", "Pod", "", "Nonsense"]),
    apiVersion=st.sampled_from(["apps/v1", "v1", ""]),
    metadata=some(
        labels=maybe(LABELS),
        annotations=maybe(LABELS),
        finalizers=maybe(FINALIZERS),
        **{
            "$deleteFromPrimitiveList/finalizers": FINALIZERS,
            "$setElementOrder/finalizers": FINALIZERS,
        },
    ),
    spec=some(
        replicas=maybe(st.integers(0, 3)),
        strategy=maybe(
            st.sampled_from(
                [
                    {"type": "Recreate", "$retainKeys": ["type"]},
                    {"type": "Recreate"},
                    {"rollingUpdate": {"maxSurge": 1}},
                    {"$patch": "replace", "type": "Recreate"},
                    {"$patch": "delete"},
                ]
            )
        ),
        template=some(
            spec=some(
                containers=st.lists(CONTAINER, max_size=3),
                volumes=maybe(st.lists(VOLUME, max_size=2)),
                nodeSelector=maybe(LABELS),
                tolerations=maybe(
                    st.lists(st.just({"key": "q", "operator": "Exists"}), max_size=2)
                ),
                **{"$setElementOrder/containers": ORDER},
            )
        ),
    ),
)


def _orderly(patch):
    """Whether no finalizer is both added and deleted: the real server does that in any order."""
    metadata = patch.get("metadata", {})
    added = metadata.get("finalizers") or []
    return set(added).isdisjoint(metadata.get("$deleteFromPrimitiveList/finalizers", []))


@FUZZ
@given(patch=STRATEGIC.filter(_orderly))
def test_strategic_merge_patches_agree(twins, patch):
    note(repr(patch))
    real, ours = (c.patch("strategic", f"{DEPLOYMENTS}/base", patch, "?dryRun=All") for c in twins)

    agree(real, ours)


def _plain(value):
    """A patch without strategic directives."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items() if not k.startswith("$")}
    return [_plain(v) for v in value] if isinstance(value, list) else value


@FUZZ
@given(patch=STRATEGIC.map(_plain))
def test_merge_patches_agree(twins, patch):
    note(repr(patch))
    real, ours = (c.patch("merge", f"{DEPLOYMENTS}/base", patch, "?dryRun=All") for c in twins)

    agree(real, ours)


POINTERS = st.sampled_from(
    [
        "/metadata/labels", "/metadata/labels/app", "/metadata/labels/new", "/metadata/annotations",
        "/metadata/annotations/a~1b", "/metadata/finalizers", "/metadata/finalizers/-",
        "/metadata/finalizers/0", "/metadata/finalizers/-1", "/spec/replicas", "/spec/paused",
        "/spec/template/spec/containers/0", "/spec/template/spec/containers/1/image",
        "/spec/template/spec/containers/0/env/0/value", "/spec/template/spec/containers/0/env/-",
        "/spec/template/spec/containers/0/args/1", "/spec/template/spec/containers/7",
        "/spec/template/spec/nodeSelector/zone", "/spec/template/spec/volumes/1", "/none/below", "",
        "spec/replicas", "/spec/template/spec/tolerations/0/key", "/kind",
        "/apiVersion", "/metadata",
        "/metadata/name", "/spec", "/status",
    ]
)  # fmt: skip
VALUES = st.sampled_from(
    [
        None,
        1,
        2,
        "a",
        "x",
        "i:1",
        True,
        [],
        {},
        ["example.com/one"],
        {"app": "a"},
        {"name": "Z", "value": "1"},
    ]
)
OPERATION = st.one_of(
    st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "replace", "test"]), "path": POINTERS, "value": VALUES}
    ),
    st.fixed_dictionaries({"op": st.just("remove"), "path": POINTERS}),
    st.fixed_dictionaries(
        {"op": st.sampled_from(["move", "copy"]), "path": POINTERS, "from": POINTERS}
    ),
    st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "nonsense"])}, optional={"path": POINTERS}
    ),
)


@FUZZ
@given(patch=st.lists(OPERATION, max_size=4))
def test_json_patches_agree(twins, patch):
    note(repr(patch))
    real, ours = (c.patch("json", f"{DEPLOYMENTS}/base", patch, "?dryRun=All") for c in twins)

    agree(real, ours)


APPLIED_ENV = st.lists(
    some({"name": st.sampled_from("ABC")}, value=WORDS), max_size=3, unique_by=lambda e: e["name"]
)
APPLIED_PORTS = st.lists(
    some({"containerPort": st.sampled_from([80, 81])}, protocol=st.sampled_from(["TCP", "UDP"])),
    max_size=2,
    unique_by=lambda p: (p["containerPort"], p.get("protocol", "TCP")),
)
APPLIED_CONTAINER = some(
    {"name": NAMES, "image": st.sampled_from(["i:1", "k:2"])},
    env=APPLIED_ENV,
    ports=APPLIED_PORTS,
    args=st.lists(WORDS, max_size=2),
    resources=some(
        requests=st.dictionaries(st.just("cpu"), st.sampled_from(["1", "2"]), max_size=1)
    ),
)
APPLIED = some(
    {"selector": st.just({"matchLabels": {"app": "a"}})},
    replicas=st.integers(0, 3),
    strategy=st.sampled_from([{"type": "Recreate"}, {"rollingUpdate": {"maxSurge": 1}}]),
    template=some(
        {"metadata": st.just({"labels": {"app": "a"}})},
        spec=some(
            {
                "containers": st.lists(
                    APPLIED_CONTAINER, min_size=1, max_size=3, unique_by=lambda c: c["name"]
                )
            },
            nodeSelector=st.dictionaries(st.sampled_from("xy"), WORDS, max_size=2),
            tolerations=st.lists(st.just({"key": "q", "operator": "Exists"}), max_size=1),
        ),
    ),
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ann", "bob", "update"]),
        st.booleans(),
        some(
            labels=st.dictionaries(st.sampled_from("lmn"), WORDS, max_size=2),
            finalizers=FINALIZERS.map(lambda f: sorted(set(f))),
        ),
        APPLIED,
    ),
    min_size=1,
    max_size=4,
)
_numbers = itertools.count()


@FUZZ
@given(steps=STEPS)
def test_sequences_of_applies_agree(twins, steps):
    name = f"applied-{next(_numbers)}"
    note(repr(steps))
    for manager, force, metadata, spec in steps:
        body = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {**metadata, "name": name},
            "spec": spec,
        }
        if manager == "update":
            body["spec"] = {"replicas": spec.get("replicas", 1), "paused": force}
            query = "?fieldManager=upd"
            answers = [c.patch("merge", f"{DEPLOYMENTS}/{name}", body, query) for c in twins]
        else:
            query = f"?fieldManager={manager}&force={str(force).lower()}"
            answers = [c.patch("apply", f"{DEPLOYMENTS}/{name}", body, query) for c in twins]
        real, ours = answers

        agree_applied(real, ours)


def agree_applied(real, ours):
    agree(real, ours)
    if real[0] in (200, 201):
        assert without_managers(real[1]) == without_managers(ours[1])
        assert managers(real[1]) == managers(ours[1])
    elif real[0] == 409:
        wanted, got = (sorted(c["field"] for c in a[1]["details"]["causes"]) for a in (real, ours))
        assert wanted == got
