"""The rows of tables say what those of the real kube-apiserver say.

A status made by hypothesis is written as a dry run with the answer as a table, on both servers.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from bayplan.testing.servers import start_embedded, start_kube
from tests.kube.twins import MEDIA, Connection

pytestmark = pytest.mark.kube
FUZZ = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
CONTAINERS = [{"name": "a", "image": "i"}, {"name": "b", "image": "j"}]
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "finalizers": ["example.com/hold"]},
    "spec": {
        "containers": CONTAINERS,
        "initContainers": [
            {"name": "i", "image": "x"},
            {"name": "s", "image": "x", "restartPolicy": "Always"},
        ],
        "readinessGates": [{"conditionType": "example.com/ok"}],
        "nodeName": "n",
    },
}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "j"},
    "spec": {
        "completions": 3,
        "template": {"spec": {"restartPolicy": "Never", "containers": CONTAINERS}},
    },
}


@pytest.fixture(scope="module")
def twins():
    with start_kube() as real, start_embedded(None, "--store=memory") as ours:
        pair = Connection(real), Connection(ours)
        for connection in pair:
            for path, body in (("/api/v1/nodes", NODE), (PODS, POD), (JOBS, JOB)):
                assert connection.ask("POST", path, body)[0] == 201
            gone = {**POD, "metadata": {**POD["metadata"], "name": "gone"}}
            assert connection.ask("POST", PODS, gone)[0] == 201
            assert connection.ask("DELETE", f"{PODS}/gone")[0] == 200
        yield pair
        for connection in pair:
            connection.close()


def optional(**fields):
    return st.fixed_dictionaries({}, optional=fields)


LONG_AGO = "2020-01-02T03:04:05Z"
REASONS = st.sampled_from(
    ["", "Completed", "Error", "OOMKilled", "PodInitializing", "CrashLoopBackOff"]
)
ENDED = st.fixed_dictionaries(
    {"exitCode": st.sampled_from([0, 1, 137])},
    optional={
        "reason": REASONS,
        "signal": st.sampled_from([0, 9]),
        "finishedAt": st.just(LONG_AGO),
    },
)
STATE = st.one_of(
    st.fixed_dictionaries({"running": st.just({})}),
    st.fixed_dictionaries({"waiting": optional(reason=REASONS)}),
    st.fixed_dictionaries({"terminated": ENDED}),
)
REQUIRED = {"image": st.just("i"), "imageID": st.just("i")}


def container_status(name):
    return st.fixed_dictionaries(
        {
            "name": st.just(name),
            "ready": st.booleans(),
            "restartCount": st.integers(0, 3),
            "state": STATE,
            **REQUIRED,
        },
        optional={
            "started": st.booleans(),
            "lastState": st.fixed_dictionaries({"terminated": ENDED}),
        },
    )


CONDITION = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["Ready", "Initialized", "PodScheduled", "example.com/ok"]),
        "status": st.sampled_from(["True", "False"]),
    },
    optional={"reason": st.sampled_from(["SchedulingGated", "X"])},
)
POD_STATUS = optional(
    phase=st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"]),
    reason=st.sampled_from(["Evicted", "NodeLost"]),
    podIPs=st.just([{"ip": "10.1.2.3"}]),
    conditions=st.lists(CONDITION, max_size=3, unique_by=lambda c: c["type"]),
    containerStatuses=st.tuples(container_status("a"), container_status("b")).map(list),
    initContainerStatuses=st.tuples(container_status("i"), container_status("s")).map(list),
)


def row(connection, path, status):
    """The one row that a dry run of a status patch gives."""
    headers = {"Accept": TABLE}
    code, table = connection.ask(
        "PATCH", f"{path}/status?dryRun=All", {"status": status}, MEDIA["merge"], headers
    )
    note(f"{code} {table.get('message', '')}")
    if code != 200:
        return code, None, None
    cells = [re.sub(r"^(\d+[smhdy])+$", "<age>", str(cell)) for cell in table["rows"][0]["cells"]]
    return code, cells, table["rows"][0].get("conditions")


@FUZZ
@given(status=POD_STATUS, name=st.sampled_from(["p", "gone"]))
def test_rows_of_pods_agree(twins, status, name):
    note(repr(status))

    real, ours = (row(connection, f"{PODS}/{name}", status) for connection in twins)

    assert real == ours


NODE_STATUS = optional(
    conditions=st.lists(
        st.fixed_dictionaries(
            {
                "type": st.sampled_from(["Ready", "MemoryPressure"]),
                "status": st.sampled_from(["True", "False", "Unknown"]),
            }
        ),
        max_size=2,
        unique_by=lambda c: c["type"],
    ),
    addresses=st.lists(
        st.fixed_dictionaries(
            {
                "type": st.sampled_from(["InternalIP", "ExternalIP", "Hostname"]),
                "address": st.sampled_from(["10.0.0.1", "1.2.3.4"]),
            }
        ),
        max_size=2,
        unique_by=lambda a: (a["type"], a["address"]),
    ),
)


@FUZZ
@given(status=NODE_STATUS)
def test_rows_of_nodes_agree(twins, status):
    real, ours = (row(connection, "/api/v1/nodes/n", status) for connection in twins)

    assert real == ours
