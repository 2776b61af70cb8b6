"""Secrets planted everywhere in every kind: none gets into a snapshot, and the rest stays."""

import gzip
from typing import get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.api import ObjectMeta
from bayplan.inspect import Cluster
from bayplan.inspect.kinds import KINDS
from bayplan.inspect.sources.scrub import scrubbed
from bayplan.inspect.sources.snapshot import write_snapshot
from bayplan.testing.builders import make_node, make_pod

SECRET = "hunter2-planted"
AMOUNT = str | int | float
KEPT = {"volume.kubernetes.io/selected-node": "node-7"}
HIDDEN = {
    "env": [{"name": "PASSWORD", "value": SECRET}],
    "managedFields": [{"fieldsV1": {SECRET: {}}}],
    "data": {"token": SECRET},
    "stringData": {"token": SECRET},
    "command": ["sh", "-c", SECRET],
    "args": [SECRET],
    "lifecycle": {"postStart": {"exec": {"command": [SECRET]}}},
}


def planted(hint, draw, depth=0):
    """A value of a type with every field set (or as many as are drawn), and secrets beside."""
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        body = dict(HIDDEN) if draw("hidden") else {}
        hints = get_type_hints(hint)
        names = zip(hint.__struct_fields__, hint.__struct_encode_fields__, strict=True)
        for name, shown in names:
            if depth < 9 and draw(name):
                value = planted(hints[name], draw, depth + 1)
                if value is not None:
                    body[shown] = value
        if hint is ObjectMeta:
            body["annotations"] = {"note": SECRET, SECRET: "x", **KEPT}
        return body
    origin, inner = get_origin(hint), get_args(hint)
    if origin is tuple:
        return [planted(inner[0], draw, depth + 1)] if depth < 9 else []
    if origin is dict and inner[1] is object:
        return {"opaque": {"driver": "d", "parameters": {"token": SECRET}}}
    if origin is dict:
        return {} if inner[1] == AMOUNT else {"k": planted(inner[1], draw, depth + 1)}
    for choice in inner:
        if isinstance(choice, type) and issubclass(choice, msgspec.Struct):
            return planted(choice, draw, depth)
    return None


def body_of(kind, draw):
    body = {}
    for struct in kind.structs:
        body |= planted(struct, draw)
    resource = kind.resource
    group = f"{resource.group}/" if resource.group else ""
    meta = planted(ObjectMeta, draw) | {"name": "thing", "uid": f"u-{resource.plural}"}
    meta.pop("namespace", None)
    meta.pop("deletionTimestamp", None)
    return body | {
        "apiVersion": group + resource.version,
        "kind": resource.kind,
        "reason": "FailedScheduling",  # other events are not kept
        "metadata": meta | ({"namespace": "default"} if resource.namespaced else {}),
    }


def saved(body, path, scrub):
    cluster = Cluster.from_objects([make_node("n").body(), make_pod("p").body(), body])
    assert not cluster.origin.unread, cluster.origin.unread[0].why
    write_snapshot(scrubbed(cluster) if scrub else cluster, path)
    return gzip.decompress(path.read_bytes())


@pytest.mark.parametrize("scrub", [False, True], ids=["saved", "scrubbed"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.resource.plural)
def test_no_secret_gets_into_a_snapshot_of_any_kind(kind, scrub, tmp_path):
    content = saved(body_of(kind, lambda name: True), tmp_path / "x.bayplan", scrub)

    assert SECRET.encode() not in content
    if kind.resource.kind != "Event" or not scrub:  # scrubbing leaves events out
        assert content.count(b"selected-node") >= 1


@settings(max_examples=150, deadline=None)
@given(kind=st.sampled_from(KINDS), data=st.data())
def test_whatever_else_is_set_no_secret_gets_in(kind, data, tmp_path_factory):
    coins = data.draw(st.lists(st.booleans(), min_size=40, max_size=40))
    turn = iter(range(10**9))
    body = body_of(kind, lambda name: coins[next(turn) % len(coins)])

    content = saved(body, tmp_path_factory.mktemp("s") / "x.bayplan", scrub=False)

    assert SECRET.encode() not in content


def test_a_claim_template_inside_a_pod_keeps_what_it_asks_for(tmp_path):
    template = {
        "metadata": {"annotations": {"note": SECRET}, "labels": {"app": "db"}},
        "spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}},
    }
    volumes = [{"name": "data", "ephemeral": {"volumeClaimTemplate": template}}]
    body = make_pod("db").with_spec(volumes=volumes).body()
    path = tmp_path / "x.bayplan"
    write_snapshot(Cluster.from_objects([make_node("n").body(), body]), path)

    (volume,) = Cluster.from_files(path).pod("db").spec.volumes
    assert "fast" == volume.ephemeral.volume_claim_template.spec.storage_class_name
    assert {"app": "db"} == volume.ephemeral.volume_claim_template.metadata.labels
    assert {} == volume.ephemeral.volume_claim_template.metadata.annotations
