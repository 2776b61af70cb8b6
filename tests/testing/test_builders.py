"""Builders give the structs and bodies that they say, strategies give decodable clusters."""

from hypothesis import HealthCheck, given, settings

from bayplan import api
from bayplan.testing import (
    ZONE,
    make_claim,
    make_node,
    make_pod,
    make_resource_claim,
    make_slice,
    make_volume,
    request,
)
from bayplan.testing.strategies import clusters


def test_a_pod_with_everything():
    pod = (
        make_pod("p", "ns")
        .label(app="web")
        .req(cpu="1", ephemeral_storage="1Gi")
        .init(sidecar=True, memory="1Mi")
        .host_port(80, "UDP", "1.2.3.4")
        .tolerate("gpu", "NoSchedule")
        .require_node("zone in (a,b)", fields=("metadata.name=n1",))
        .near("app=web")
        .prefer_apart(5, "app!=db", namespaceSelector="team=a")
        .spread(2, selector="app=web", hard=False)
        .claim("data")
        .build()
    )

    assert ("ns/p", {"app": "web"}) == (pod.key, pod.labels)
    assert {"cpu": "1", "ephemeral-storage": "1Gi"} == pod.spec.containers[0].resources.requests
    assert pod.spec.init_containers[0].restartable
    assert "1.2.3.4" == pod.spec.containers[0].ports[0].host_ip
    affinity = pod.spec.affinity
    assert affinity.node_affinity.required.node_selector_terms[0].match_fields[0].values == ("n1",)
    assert ZONE == affinity.pod_affinity.required[0].topology_key
    assert 5 == affinity.pod_anti_affinity.preferred[0].weight
    assert "ScheduleAnyway" == pod.spec.topology_spread_constraints[0].when_unsatisfiable
    assert "data" == pod.spec.volumes[0].persistent_volume_claim.claim_name


def test_a_body_can_be_sent_and_read_back():
    builder = make_node("n").zone("z").taint("gpu", value="x").image("i", 5).cordon()

    assert builder.build() == api.convert(api.Node, builder.body())
    assert "Node" == builder.body()["kind"]


def test_storage_and_devices():
    assert "Bound" == make_claim("c").bound("v").build().status.phase
    assert "c" == make_volume("v").bound_to("c").build().spec.claim_ref.name
    claim = make_resource_claim("c").exactly("r", request("gpu", count=None)).build()
    assert "All" == claim.spec.devices.requests[0].exactly.allocation_mode
    assert "n" == make_slice("s", "dev", node="n").build().spec.node_name


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(clusters())
def test_clusters_survive_a_round_trip(cluster):
    for item in (*cluster.nodes, *cluster.pods, *cluster.services, *cluster.budgets):
        assert item == api.decode(type(item), api.encode(item))
