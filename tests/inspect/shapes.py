"""Clusters that more than one test asks about."""

from bayplan.testing.builders import make_node, make_pod


def missing_driver():
    """A pod whose volume needs a driver that its node lacks: 1.36 takes it, 1.37 does not."""
    node = make_node("node-0").capacity(cpu=4, memory="8Gi", pods=20).body()
    driver = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": {"name": "csi.example.com"},
        "spec": {"preventPodSchedulingIfMissing": True},
    }
    storage = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "later"},
        "provisioner": "csi.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "default"},
        "spec": {
            "storageClassName": "later",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    csi_node = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": "node-0"},
        "spec": {"drivers": []},
    }
    pod = make_pod("data").req(cpu="1")
    pod.with_spec(volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
    return [node, csi_node, driver, storage, claim, pod.body()]
