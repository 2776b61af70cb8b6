"""Pod requests: containers add up, init containers peak, sidecars stay, the pod level replaces."""

import pytest

from bayplan.api import Pod, convert
from bayplan.api.requests import (
    Counting,
    has_own_status,
    is_extended,
    is_scalar,
    limits_to_requests,
    node_allocatable,
    pod_resources,
)
from bayplan.errors import DecodeError

MI = 1024 * 1024


def pod(containers, init=(), status=None, **spec):
    def container(number, item):
        requests = {k: v for k, v in item.items() if k != "sidecar"}
        body = {"name": f"c{number}", "resources": {"requests": requests}}
        return body | ({"restartPolicy": "Always"} if item.get("sidecar") else {})

    return convert(
        Pod,
        {
            "spec": {
                "containers": [container(i, c) for i, c in enumerate(containers)],
                "initContainers": [container(f"i{i}", c) for i, c in enumerate(init)],
                **spec,
            },
            "status": status or {},
        },
    )


@pytest.mark.parametrize(
    ("containers", "init", "fit"),
    [
        pytest.param(
            [{"cpu": 2, "memory": "1G"}, {"cpu": 1, "memory": "1G"}],
            [{"cpu": 2, "memory": "1G"}, {"cpu": 2, "memory": "3G"}],
            {"cpu": 3000, "memory": 3 * 10**9},
            id="the peak of init containers, not their sum",
        ),
        pytest.param(
            [{"cpu": 1}], [{"cpu": 1, "sidecar": 1}, {"cpu": 2}], {"cpu": 3000},
            id="a sidecar runs beside later init containers",
        ),
        pytest.param(
            [{"cpu": 1}], [{"cpu": 2}, {"cpu": 1, "sidecar": 1}], {"cpu": 2000},
            id="but not beside earlier ones",
        ),
        pytest.param(
            [{"cpu": "0.5m"}, {"cpu": "0.5m"}], [], {"cpu": 1}, id="sums are rounded once"
        ),
        pytest.param(
            [{"storage": 5, "foo": 1, "example.com/gpu": 0, "hugepages-2Mi": "2Mi"}], [],
            {"example.com/gpu": 0, "hugepages-2Mi": 2 * MI}, id="unknown names do not count",
        ),
    ],
)  # fmt: skip
def test_what_must_fit(containers, init, fit):
    assert fit == pod_resources(pod(containers, init)).fit


@pytest.mark.parametrize(
    ("containers", "init", "spec", "nonzero"),
    [
        ([{}, {}], [], {}, (200, 400 * MI)),
        ([{"cpu": "3m", "memory": 3}], [{}, {"cpu": "1m", "memory": 1}], {}, (100, 200 * MI)),
        ([{"cpu": "3m", "memory": 3}, {}], [{}], {}, (103, 200 * MI + 3)),
        (
            [{"cpu": 1, "memory": "1Mi"}, {}],
            [{"cpu": 3}],
            {"overhead": {"cpu": 1, "memory": "1Mi"}},
            (4000, 202 * MI),
        ),
        ([{"cpu": 0, "memory": 0}], [], {}, (0, 0)),
    ],
)
def test_missing_requests_are_filled_in_for_scoring(containers, init, spec, nonzero):
    resources = pod_resources(pod(containers, init, **spec))

    assert nonzero == resources.nonzero
    assert nonzero == resources.scored


def test_pod_level_requests_replace_the_sum_and_scoring_ignores_them():
    resources = pod_resources(
        pod([{"cpu": 2, "memory": "1Gi", "a.example/b": 1}], resources={"requests": {"cpu": 1}})
    )

    assert resources.fit == {"cpu": 1000, "memory": 1024 * MI, "a.example/b": 1}
    assert resources.scored == (2000, 1024 * MI)
    assert resources.nonzero == (1000, 1024 * MI)


def test_pod_level_requests_take_one_default_for_the_pod():
    resources = pod_resources(pod([{}, {}], resources={"requests": {"cpu": 1}}))

    assert resources.nonzero == (1000, 200 * MI)
    assert resources.scored == (200, 400 * MI)


def test_a_pod_level_name_that_pods_cannot_ask_for_changes_nothing():
    asked = {"requests": {"ephemeral-storage": 1}}

    assert pod_resources(pod([{"cpu": 1}], resources=asked)).fit == {"cpu": 1000}


def resized(condition=()):
    return {
        "containerStatuses": [
            {
                "name": "c0",
                "resources": {"requests": {"cpu": "2"}},
                "allocatedResources": {"cpu": "1500m"},
            }
        ],
        "conditions": list(condition),
    }


def test_a_resized_pod_uses_the_most_of_spec_and_status():
    resources = pod_resources(pod([{"cpu": 3}], status=resized()))

    assert resources.used == {"cpu": 3000}
    assert resources.fit == {"cpu": 3000}


@pytest.mark.parametrize(
    ("given", "allocated", "own"),
    [
        ({"cpu": "3"}, {"cpu": "3"}, False),
        ({"cpu": "3"}, None, False),
        (None, {"cpu": "3"}, False),
        (None, None, False),
        ({"cpu": "4"}, {"cpu": "3"}, True),
        ({"cpu": "3"}, {"cpu": "2"}, True),
        ({"cpu": "3", "memory": "1"}, {"cpu": "3"}, True),
    ],
)
def test_a_status_that_says_what_was_asked_for_changes_nothing(given, allocated, own):
    status = {"name": "c0"}
    if given is not None:
        status["resources"] = {"requests": given}
    if allocated is not None:
        status["allocatedResources"] = allocated
    plain = pod([{"cpu": "3"}])
    running = pod([{"cpu": "3"}], status={"containerStatuses": [status], "phase": "Running"})

    assert has_own_status(running) is own
    for by_container in (False, True):
        counting = Counting(by_container=by_container)
        same = pod_resources(running, counting) == pod_resources(plain, counting)
        assert same or own


def test_an_infeasible_resize_leaves_the_spec_out():
    waiting = {"type": "PodResizePending", "reason": "Infeasible"}
    resources = pod_resources(pod([{"cpu": 3}], status=resized([waiting])))

    assert resources.used == {"cpu": 2000}


def test_equal_pods_share_their_requests():
    assert pod_resources(pod([{"cpu": 1}])) is pod_resources(pod([{"cpu": 1}]))


@pytest.mark.parametrize(
    ("name", "extended", "scalar"),
    [
        ("example.com/gpu", True, True),
        ("kubernetes.io/x", False, True),
        ("requests.example.com/gpu", False, False),
        ("hugepages-1Gi", False, True),
        ("attachable-volumes-aws-ebs", False, True),
        ("storage", False, False),
        ("example.com/", False, False),
    ],
)
def test_resource_names(name, extended, scalar):
    assert extended == is_extended(name)
    assert scalar == is_scalar(name)


def test_node_allocatable():
    offered = {"cpu": "1.5", "memory": "1Ki", "pods": 110, "storage": 5, "a.example/b": "1k"}

    assert node_allocatable(offered) == {
        "cpu": 1500, "memory": 1024, "pods": 110, "a.example/b": 1000,
    }  # fmt: skip


def test_limits_become_requests_where_there_are_none():
    body = pod([{}]).spec.containers[0].resources
    body = type(body)(requests={"cpu": 1}, limits={"cpu": 2, "memory": 3})

    assert limits_to_requests(body) == {"cpu": 1, "memory": 3}


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: pod([{}, {"cpu": "1x"}]), r"spec.containers\[1\].resources.requests\[cpu\]"),
        (lambda: pod([{}], init=[{"memory": ""}]), r"container ci0: requests\[memory\]"),
        (lambda: pod([{}], overhead={"cpu": "abc"}), r"spec.overhead\[cpu\]"),
    ],
)
def test_an_impossible_quantity_names_the_field(make, field):
    with pytest.raises(DecodeError, match=field):
        pod_resources(make())


def test_an_impossible_quantity_of_a_node_names_the_field():
    with pytest.raises(DecodeError, match=r"status.allocatable\[cpu\]: parsing quantity"):
        node_allocatable({"cpu": "four"})
