"""What a pod gets that its author left out."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.api.defaults import apply_defaults
from bayplan.api.defaults.volumes import default_pull_policy


def defaulted(**spec):
    pod = {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i:1"}], **spec},
    }
    apply_defaults("", "pods", pod)
    return pod["spec"]


def container(**fields):
    return defaulted(containers=[{"name": "c", "image": "i:1", **fields}])["containers"][0]


def test_a_minimal_pod_gets_every_default():
    assert {
        "containers": [
            {
                "name": "c",
                "image": "i:1",
                "imagePullPolicy": "IfNotPresent",
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "resources": {},
            }
        ],
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Always",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
    } == defaulted()


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        pytest.param("app", "Always", id="no tag means latest"),
        pytest.param("app:latest", "Always", id="latest"),
        pytest.param("host:5000/a/b", "Always", id="a port is not a tag"),
        pytest.param("app:1", "IfNotPresent", id="a tag"),
        pytest.param("app@sha256:" + "a" * 64, "IfNotPresent", id="a digest stands for itself"),
        pytest.param("app:latest@sha256:" + "a" * 64, "Always", id="the tag wins over the digest"),
        pytest.param("Upper/Case", "IfNotPresent", id="no valid reference"),
        pytest.param("a" * 64, "IfNotPresent", id="an identifier is no name"),
    ],
)
def test_pull_policy_follows_the_tag(image, policy):
    assert policy == default_pull_policy(image)


def test_limits_become_requests_where_none_is_given():
    limits = {"cpu": "0.5", "memory": "1.5Gi"}

    resources = container(resources={"limits": limits, "requests": {"cpu": "100m"}})["resources"]

    assert {"cpu": "500m", "memory": "1536Mi"} == resources["limits"]
    assert {"cpu": "100m", "memory": "1536Mi"} == resources["requests"]


def test_amounts_below_a_milli_are_rounded_up():
    assert {"cpu": "1m"} == container(resources={"requests": {"cpu": "0.0001"}})["resources"][
        "requests"
    ]


def test_requests_of_the_pod_are_the_sum_of_its_containers():
    spec = defaulted(
        containers=[
            {"name": "a", "image": "i:1", "resources": {"requests": {"cpu": "100m"}}},
            {"name": "b", "image": "i:1", "resources": {"requests": {"cpu": "200m"}}},
        ],
        initContainers=[{"name": "i", "image": "i:1", "resources": {"requests": {"cpu": "1"}}}],
        resources={"limits": {"cpu": "2", "memory": "1Gi"}},
    )

    assert {"cpu": "1", "memory": "1Gi"} == spec["resources"]["requests"]


def test_host_network_uses_the_container_ports():
    spec = defaulted(
        hostNetwork=True,
        containers=[{"name": "c", "image": "i:1", "ports": [{"containerPort": 80}]}],
    )

    assert [{"containerPort": 80, "protocol": "TCP", "hostPort": 80}] == spec["containers"][0][
        "ports"
    ]


def test_a_negative_grace_period_becomes_one_second():
    assert 1 == defaulted(terminationGracePeriodSeconds=-5)["terminationGracePeriodSeconds"]


def test_the_old_name_of_the_service_account_is_an_alias():
    spec = defaulted(serviceAccount="robot")

    assert ("robot", "robot") == (spec["serviceAccount"], spec["serviceAccountName"])


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        pytest.param({}, {"emptyDir": {}}, id="nothing given"),
        pytest.param(
            {"configMap": {"name": "c"}},
            {"configMap": {"name": "c", "defaultMode": 420}},
            id="mode",
        ),
        pytest.param(
            {"hostPath": {"path": "/"}}, {"hostPath": {"path": "/", "type": ""}}, id="type"
        ),
        pytest.param(
            {"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
            {
                "projected": {
                    "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}],
                    "defaultMode": 420,
                }
            },
            id="token",
        ),
    ],
)
def test_volume_defaults(volume, expected):
    assert [{"name": "v", **expected}] == defaulted(volumes=[{"name": "v", **volume}])["volumes"]


def test_probe_defaults():
    probe = container(readinessProbe={"httpGet": {"port": 80}})["readinessProbe"]

    assert {
        "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    } == probe


amounts = st.dictionaries(
    st.sampled_from(["cpu", "memory", "vendor.example/chip"]),
    st.sampled_from(["1", "0.5", "1.5Gi", "100m", "1e3", "0.00001"]),
)
containers = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from("abc")},
        optional={
            "image": st.sampled_from(["i", "i:1", "bad image"]),
            "resources": st.fixed_dictionaries(
                {}, optional={"limits": amounts, "requests": amounts}
            ),
            "ports": st.just([{"containerPort": 80}]),
            "livenessProbe": st.just({"grpc": {"port": 1}}),
        },
    ),
    max_size=3,
)


@given(containers, st.booleans(), st.booleans())
def test_defaulting_twice_is_defaulting_once(items, host_network, pod_level):
    spec = {"containers": items, "hostNetwork": host_network}
    if pod_level:
        spec["resources"] = {"limits": {"cpu": "4"}}
    pod = {"metadata": {"name": "p"}, "spec": spec}
    apply_defaults("", "pods", pod)
    once = copy.deepcopy(pod)

    apply_defaults("", "pods", pod)

    assert once == pod
