"""Pods nominated to a node count before a filter can fail with an error there."""

from bayplan.engine.replay import decide

MISSING = 'device.attributes["gpu.example.com"].missing == "x"'


def node(name, pods):
    room = {"cpu": "4", "memory": "8Gi", "pods": pods}
    labels = {"kubernetes.io/hostname": name}
    return {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": room}}


def pod(name, priority, **more):
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return {"metadata": meta, "spec": {"priority": priority, "containers": [container]}, **more}


def devices(name):
    """A slice of a node, and what asks for a device by an attribute that it does not have."""
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": name, "pool": pool}
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    exactly["selectors"] = [{"cel": {"expression": MISSING}}]
    meta = {"name": "rc", "namespace": "default", "uid": "uid-rc"}
    requests = [{"name": "r", "exactly": exactly}]
    return {
        "deviceClasses": [{"metadata": {"name": "gpu"}, "spec": {}}],
        "resourceClaims": [{"metadata": meta, "spec": {"devices": {"requests": requests}}}],
        "resourceSlices": [
            {"metadata": {"name": "s"}, "spec": spec | {"devices": [{"name": "d"}]}}
        ],
    }


def decided(pods, priority):
    promised = {"phase": "Pending", "nominatedNodeName": "n"}
    waiting = pod("promised", priority, status=promised)
    asked = pod("asked", 5)
    asked["spec"]["resourceClaims"] = [{"name": "d", "resourceClaimName": "rc"}]
    objects = {"nodes": [node("n", pods)], "pods": [waiting], **devices("n")}
    return decide(objects, asked)


def test_a_node_that_is_promised_away_gives_no_error():
    found = decided("1", priority=10)

    assert {"n": ["Too many pods"]} == {
        name: status["reasons"] for name, status in found["nodes"].items()
    }
    assert found["message"].startswith("0/1 nodes are available: 1 Too many pods.")


def test_an_error_on_a_node_with_room_for_both_ends_the_attempt():
    assert "no such key: missing" in decided("2", priority=10)["error"]


def test_a_promise_to_a_less_important_pod_does_not_count():
    assert "no such key: missing" in decided("1", priority=1)["error"]
