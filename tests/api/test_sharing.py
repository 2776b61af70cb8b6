"""Pods that are alike share their parts, and say the same as before."""

from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace

from bayplan import api
from bayplan.api.requests import pod_resources
from bayplan.api.sharing import PodSharing
from bayplan.testing import make_pod
from bayplan.testing.strategies import pods


def decoded(name, node="n"):
    body = make_pod(name).label(app="web").req(cpu="1").near("app=web").node(node)
    body.with_status(
        conditions=[{"type": "Ready", "status": "True"}], containerStatuses=[{"name": "c0"}]
    )
    return api.decode(api.Pod, api.encode(body.build()))


def test_equal_parts_are_one_object():
    share = PodSharing()
    one, other = share(decoded("one")), share(decoded("other", "m"))

    assert ("default/one", "n") == (one.key, one.node_name)
    assert ("default/other", "m") == (other.key, other.node_name)
    assert one.spec.containers is other.spec.containers
    assert one.spec.affinity is other.spec.affinity
    assert one.labels is other.labels
    assert one.status.conditions is other.status.conditions
    assert () == one.status.container_statuses


def test_statuses_that_tell_about_resources_stay():
    pod = make_pod().with_status(
        containerStatuses=[{"name": "c0", "resources": {"requests": {"cpu": "2"}}}]
    )
    share = PodSharing()

    assert {"cpu": 2000} == pod_resources(share(pod.build())).used


def test_a_full_memory_starts_anew():
    share = PodSharing(limit=2)
    for number in range(5):
        pod = make_pod(f"p{number}").label(n=str(number)).build()

        assert pod == share(pod)


@settings(max_examples=50, suppress_health_check=list(HealthCheck))
@given(pods("p", "n"))
def test_nothing_but_container_statuses_is_lost(pod):
    status = replace(pod.status, container_statuses=())

    assert replace(pod, status=status) == PodSharing()(pod)
