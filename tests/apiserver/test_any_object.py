"""Whatever is sent: decoding, patching, applying and showing it never crash."""

import contextlib
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayplan.api.patch import PatchError, apply_merge_patch, apply_strategic_merge, clone
from bayplan.api.schema import FieldTypeError, catalog, decode, problems, type_for
from bayplan.apiserver.apply import ApplyConflict, ApplyRejected, server_side_apply, track_update
from bayplan.apiserver.tables import render
from tests.apiserver.objects import objects

NOW = "2026-01-01T00:00:00Z"
MOMENT = datetime(2026, 1, 2, tzinfo=UTC)
KINDS = sorted(
    tuple(key.rsplit("/", 1))
    for key, name in catalog().kinds.items()
    if "metadata" in type_for(*key.rsplit("/", 1)).fields
    and not name.startswith("meta.")
    and not key.endswith(("List", "Review"))
)
MANY = settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.parametrize(("version", "kind"), KINDS)
@MANY
@given(data=st.data())
def test_decoding_refuses_or_gives_a_canonical_object(version, kind, data):
    type_ = type_for(version, kind)
    sent = data.draw(objects(version, kind, wrong=True))
    kept = clone(sent)
    problems(type_, sent)
    try:
        obj, _ = decode(sent, type_)
    except FieldTypeError as error:
        assert kind in str(error)
        return

    assert sent == kept
    again, dropped = decode(obj, type_)
    assert again == obj
    assert not dropped


@pytest.mark.parametrize(("version", "kind"), KINDS)
@MANY
@given(data=st.data())
def test_every_object_can_be_shown_and_tracked(version, kind, data):
    type_ = type_for(version, kind)
    obj, _ = decode(data.draw(objects(version, kind)), type_)
    other, _ = decode(data.draw(objects(version, kind)), type_)
    group = version.rpartition("/")[0]

    table = render(SimpleNamespace(group=group, kind=kind), [obj], now=MOMENT)
    assert len(table["columnDefinitions"]) == len(table["rows"][0]["cells"])
    created = track_update(None, obj, "one", "Update", NOW)
    track_update(created, other, "two", "Update", NOW)


@pytest.mark.parametrize(("version", "kind"), KINDS)
@MANY
@given(data=st.data())
def test_every_patch_applies_or_is_refused(version, kind, data):
    type_ = type_for(version, kind)
    obj, _ = decode(data.draw(objects(version, kind)), type_)
    patch = data.draw(objects(version, kind, wrong=True))

    apply_merge_patch(obj, patch)
    with contextlib.suppress(PatchError):
        apply_strategic_merge(obj, patch, type_)
    live = track_update(None, obj, "one", "Update", NOW)
    with contextlib.suppress(ApplyConflict, ApplyRejected):
        server_side_apply(live, patch, manager="two", force=True, kind=type_, now=NOW)
