"""Which events an object's change amounts to."""

import pytest

from bayplan.engine.queue.changes import node_update_events, pod_update_events
from bayplan.testing import make_node, make_pod


def labels(events):
    return [event.label for event in events]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(
            make_pod().label(a="1"),
            make_pod().label(a="2"),
            ["UnschedulablePodUpdatePodLabel"],
            id="labels",
        ),
        pytest.param(
            make_pod().req(cpu="2"),
            make_pod().req(cpu="1500m"),
            ["UnschedulablePodUpdatePodScaleDown"],
            id="a request shrinks",
        ),
        pytest.param(
            make_pod().req(cpu="1", memory="1Gi"),
            make_pod().req(cpu="1"),
            ["UnschedulablePodUpdatePodScaleDown"],
            id="a request vanishes",
        ),
        pytest.param(
            make_pod().req(cpu="1"),
            make_pod().req(cpu="2"),
            ["UnschedulablePodUpdate"],
            id="a request grows",
        ),
        pytest.param(
            make_pod().gate("a", "b"),
            make_pod().gate("a"),
            ["UnschedulablePodUpdate"],
            id="one of two gates goes",
        ),
        pytest.param(
            make_pod().gate("a"),
            make_pod().label(x="y"),
            [
                "UnschedulablePodUpdatePodLabel",
                "UnschedulablePodUpdatePodSchedulingGatesEliminated",
            ],
            id="all gates go and labels change",
        ),
        pytest.param(
            make_pod(),
            make_pod().tolerate("k", operator="Exists"),
            ["UnschedulablePodUpdatePodToleration"],
            id="a toleration comes",
        ),
        pytest.param(
            make_pod(),
            make_pod().with_status(resourceClaimStatuses=[{"name": "x"}]),
            ["UnschedulablePodUpdatePodGeneratedResourceClaim"],
            id="a claim was made",
        ),
        pytest.param(
            make_pod().node("n"),
            make_pod().node("n").phase("Running"),
            ["AssignedPodUpdate"],
            id="only the status of an assigned pod",
        ),
    ],
)
def test_pod_update(old, new, expected):
    assert labels(pod_update_events(old.build(), new.build())) == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(make_node(), make_node(), [], id="a heartbeat wakes nobody"),
        pytest.param(make_node().cordon(), make_node(), ["NodeUpdateNodeTaint"], id="uncordoned"),
        pytest.param(make_node(), make_node().cordon(), [], id="cordoned"),
        pytest.param(
            make_node().taint("a"), make_node(), ["NodeUpdateNodeTaint"], id="a taint goes"
        ),
        pytest.param(
            make_node().capacity(cpu="1"),
            make_node().capacity(cpu="2"),
            ["NodeUpdateNodeAllocatable"],
            id="allocatable",
        ),
        pytest.param(
            make_node().capacity(cpu="1"),
            make_node().capacity(cpu="1000m"),
            [],
            id="the same amount in other words",
        ),
        pytest.param(
            make_node().label(a="1"),
            make_node().annotate({"x": "y"}).features("F"),
            [
                "NodeUpdateNodeLabel",
                "NodeUpdateNodeAnnotation",
                "NodeUpdateNodeDeclaredFeature",
            ],
            id="several at once",
        ),
        pytest.param(
            make_node().ready("False"),
            make_node().ready("True"),
            ["NodeUpdateNodeCondition"],
            id="conditions",
        ),
    ],
)
def test_node_update(old, new, expected):
    assert labels(node_update_events(old.build(), new.build())) == expected
