"""Vectorised, scalar and reference answers of the volume plugins agree on random clusters."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayplan.plugins import node_volume_limits, volume_binding, volume_restrictions, volume_zone
from tests.plugins.volumes import (
    ask,
    assert_agrees,
    claims,
    make_handle,
    pods,
    storage_clusters,
    volumes,
)
from tests.reference import volumes as reference

PAIRS = {
    "VolumeRestrictions": (volume_restrictions, reference.VolumeRestrictions),
    "NodeVolumeLimits": (node_volume_limits, reference.NodeVolumeLimits),
    "VolumeBinding": (volume_binding, reference.VolumeBinding),
    "VolumeZone": (volume_zone, reference.VolumeZone),
}


@pytest.mark.parametrize("name", sorted(PAIRS))
@settings(max_examples=70, deadline=None, suppress_health_check=list(HealthCheck))
@given(world=storage_clusters(), pod=pods())
def test_all_forms_agree(name, world, pod):
    module, scalar = PAIRS[name]
    handle = make_handle(world)

    assert_agrees(module.new(None, handle), scalar(world, pod, {}), pod, handle, world)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(world=storage_clusters(), data=st.data())
def test_incremental_state_equals_state_from_scratch(world, data):
    """After changes of pods, claims, volumes and nodes the kept indexes say what fresh ones say."""
    handle = make_handle(world)
    kept = {name: module.new(None, handle) for name, (module, _) in PAIRS.items()}
    names = [state.name for state in world.nodes]
    for step in range(data.draw(st.integers(1, 6))):
        _change(data, handle, names, step)
        pod = data.draw(pods())
        for name, plugin in kept.items():
            fresh = PAIRS[name][0].new(None, handle)

            assert ask(fresh, pod, handle) == ask(plugin, pod, handle), name


CHANGES = ("add", "remove", "claim", "volume", "gone", "detach", "node")


def _change(data, handle, names, step):
    table, objects = handle.table, handle.objects
    what = data.draw(
        st.sampled_from(("add", "remove", "claim", "volume", "gone", "detach", "node"))
    )
    placed = list(table.all_pods())
    if what == "add":
        node = data.draw(st.sampled_from(names))
        table.add_pod(handle.info(data.draw(pods(f"new{step}", node, ephemeral=False))))
    elif what == "remove" and placed:
        table.remove_pod(data.draw(st.sampled_from(placed)))
    elif what == "claim":
        objects.put(
            data.draw(claims(data.draw(st.sampled_from(("c0", "c1"))), ["v0", "v1"], names))
        )
    elif what == "volume":
        objects.put(data.draw(volumes(data.draw(st.sampled_from(("v0", "v1", "v9"))), names)))
    elif what == "gone":
        objects.persistent_volumes.delete("v0")
    elif what == "detach":
        objects.volume_attachments.delete("a0")
    elif what == "node":
        objects.csi_nodes.delete(data.draw(st.sampled_from(names)))
