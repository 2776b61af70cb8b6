"""`/metrics/resources` shows what pods ask for and may use, as kube-scheduler does."""

from bayplan.scheduler.resources import resources_page
from bayplan.testing.builders import make_pod
from tests.scheduler.test_live_metrics import samples


def page(*pods):
    return samples(resources_page(pod.build() for pod in pods).decode())


def limited(name, **limits):
    containers = [{"name": "c", "image": "x", "resources": {"limits": limits}}]
    return make_pod(name).with_spec(containers=containers)


def test_requests_carry_their_units():
    found = page(make_pod("a").req(cpu="1500m", memory="1Gi").node("n1").priority(7))

    assert found["kube_pod_resource_request", "cores"] == 1.5
    assert found["kube_pod_resource_request", "bytes"] == 2**30
    assert found["kube_pod_resource_request", "n1"] == 1.5 + 2**30
    assert ("kube_pod_resource_request", "7") in found


def test_overhead_counts_only_where_there_is_a_limit():
    found = page(limited("a", cpu="2").overhead(cpu="250m", memory="1Mi"))

    assert found["kube_pod_resource_limit", "cores"] == 2.25
    assert ("kube_pod_resource_limit", "bytes") not in found


def test_pods_that_are_over_are_left_out():
    found = page(make_pod("a").req(cpu="1").node("n").phase("Succeeded"))

    assert not [key for key in found if key[0] == "kube_pod_resource_request"]
