"""The unmodified kube-scheduler works on the embedded API server without knowing."""

import json
import ssl
import time
import urllib.request

import pytest

from bayplan.testing.servers import start_embedded

PODS, NODES = 500, 20
COLLECTION = "/api/v1/namespaces/default/pods"

pytestmark = pytest.mark.kube


class Asker:
    def __init__(self, server, token):
        self.server, self.token = server, token
        self.context = ssl._create_unverified_context()

    def __call__(self, method, path, body=None):
        data = json.dumps(body).encode() if body is not None else None
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.server + path, data, headers, method=method)
        with urllib.request.urlopen(request, context=self.context, timeout=60) as answer:
            return json.load(answer)


def test_kube_scheduler_places_500_pods():
    with start_embedded() as cluster:
        ask = Asker(cluster.server, cluster.token)
        for number in range(NODES):
            capacity = {"cpu": "64", "memory": "256Gi", "pods": "250"}
            status = {"capacity": capacity, "conditions": [{"type": "Ready", "status": "True"}]}
            ask("POST", "/api/v1/nodes", {"metadata": {"name": f"n{number}"}, "status": status})
        resources = {"requests": {"cpu": "100m", "memory": "100Mi"}}
        container = {"name": "c", "image": "registry.example/app:1", "resources": resources}
        for number in range(PODS):
            body = {"metadata": {"name": f"p{number}"}, "spec": {"containers": [container]}}
            ask("POST", COLLECTION, body)
        cluster.kube_scheduler()

        deadline = time.monotonic() + 120
        bound = []
        while len(bound) < PODS and time.monotonic() < deadline:
            time.sleep(0.5)
            bound = ask("GET", f"{COLLECTION}?fieldSelector=spec.nodeName!%3D")["items"]
        events = ask("GET", "/apis/events.k8s.io/v1/namespaces/default/events")["items"]
        lease = ask("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases")["items"]

    assert len(bound) == PODS
    per_node = [pod["spec"]["nodeName"] for pod in bound]
    assert {f"n{n}" for n in range(NODES)} == set(per_node), "no node is left out"
    assert "Scheduled" in {event["reason"] for event in events}
    assert ["kube-scheduler"] == [item["metadata"]["name"] for item in lease]
