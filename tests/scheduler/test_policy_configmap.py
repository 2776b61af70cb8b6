"""The old Policy, kept in a ConfigMap of the cluster."""

import json

import pytest

from bayplan.errors import ConfigError
from bayplan.scheduler.flags import parse
from bayplan.scheduler.options import load_options
from bayplan.testing.servers import start_embedded

POLICY = {
    "kind": "Policy",
    "apiVersion": "v1",
    "priorities": [{"name": "LeastRequestedPriority", "weight": 7}],
    "extenders": [{"urlPrefix": "http://127.0.0.1:8080", "filterVerb": "filter"}],
}


@pytest.fixture(scope="module")
def cluster():
    with start_embedded() as running:
        yield running


def post(cluster, name, data):
    import ssl
    import urllib.request

    body = {"metadata": {"name": name}, "data": data}
    request = urllib.request.Request(
        f"{cluster.server}/api/v1/namespaces/kube-system/configmaps",
        data=json.dumps(body).encode(),
        headers={
            "Authorization": f"Bearer {cluster.token}",
            "Content-Type": "application/json",
        },
    )
    context = ssl._create_unverified_context()
    with urllib.request.urlopen(request, context=context, timeout=60) as answer:
        assert 201 == answer.status


def options(cluster, name):
    flags = [f"--kubeconfig={cluster.kubeconfig}", f"--policy-configmap={name}"]
    return load_options(parse(flags))


def test_the_policy_is_read_and_converted_with_a_warning(cluster):
    post(cluster, "policy", {"policy.cfg": json.dumps(POLICY)})

    found = options(cluster, "policy")

    assert "http://127.0.0.1:8080" == found.config.extenders[0].url_prefix
    assert str(cluster.kubeconfig) == found.config.client_connection.kubeconfig
    assert any("Policy" in text for text in found.warnings)


def test_a_missing_map_or_key_says_which(cluster):
    post(cluster, "empty", {"other": "x"})

    with pytest.raises(ConfigError, match='reading ConfigMap "kube-system/nowhere"'):
        options(cluster, "nowhere")
    with pytest.raises(ConfigError, match=r'no key "policy\.cfg"'):
        options(cluster, "empty")
