"""`bayplan up`, `bayplan nodes` and `bayplan demo` as a person uses them."""

import json
import re
import signal
import ssl
import subprocess
import time
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from bayplan.cli.nodes import command as nodes_command
from bayplan.cli.nodes import parse_labels, parse_taints
from bayplan.cli.up import _status
from bayplan.client import load_kubeconfig
from bayplan.errors import ConfigError
from bayplan.testing import make_node, make_pod
from bayplan.testing.servers import Process, bayplan_command
from tests.engine.loop.helper import World

pytestmark = pytest.mark.xdist_group("up")
DEPLOYMENT = {
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "nginx"}]},
        },
    },
}


class Up:
    """A `bayplan up` on a data directory."""

    def __init__(self, folder: Path, *more: str) -> None:
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.unlink(missing_ok=True)
        words = ["up", f"--data={folder / 'data'}", "--bind=127.0.0.1:0"]
        words += [f"--kubeconfig-out={self.kubeconfig}", *more]
        self.process = Process(bayplan_command(*words), folder / f"up-{time.monotonic_ns()}.log")
        self.process.wait_until(lambda: "Ctrl-C" in self.process.last_words())

    def call(self, method: str, path: str, body: object = None) -> dict:
        return json.loads(self.read(path, method, body))

    def read(self, path: str, method: str = "GET", body: object = None) -> str:
        found = load_kubeconfig(self.kubeconfig)
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {found.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(found.server + path, data, headers, method=method)
        context = ssl._create_unverified_context()
        with urllib.request.urlopen(request, timeout=60, context=context) as answer:
            return answer.read().decode()

    def names(self, path: str) -> list[str]:
        return [item["metadata"]["name"] for item in self.call("GET", path)["items"]]

    def stop(self) -> int:
        self.process.popen.send_signal(signal.SIGINT)
        return self.process.wait(60)


def bayplan(*words: str) -> tuple[int, str, str]:
    done = subprocess.run(bayplan_command(*words), capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def eventually(check, seconds: float = 60.0):
    deadline = time.monotonic() + seconds
    while not (result := check()):
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.1)
    return result


def kubelet(up: Up, node: str) -> str:
    info = up.call("GET", f"/api/v1/nodes/{node}")["status"].get("nodeInfo") or {}
    return info.get("kubeletVersion", "")


def test_a_cluster_runs_a_deployment_and_comes_back_as_it_was(tmp_path):
    up = Up(tmp_path, "--nodes=2", "--emulated-version=1.36")
    try:
        assert ["node-1", "node-2"] == up.names("/api/v1/nodes")
        assert up.call("GET", "/version")["gitVersion"].startswith("v1.36.4+bayplan-")
        eventually(lambda: "v1.36.4" == kubelet(up, "node-1"))
        up.call("POST", "/apis/apps/v1/namespaces/default/deployments", DEPLOYMENT)

        def running():
            pods = up.call("GET", "/api/v1/namespaces/default/pods")["items"]
            return len(pods) == 3 and all(p["status"].get("phase") == "Running" for p in pods)

        eventually(running)
        code, out, err = bayplan(
            "nodes", "add", "2", "--shape=gpu", f"--kubeconfig={up.kubeconfig}"
        )
        assert (0, "2 nodes added\n") == (code, out), err
        _, again, _ = bayplan("nodes", "add", "--shape=gpu", f"--kubeconfig={up.kubeconfig}")
        assert "0 nodes added; 1 existed already: gpu-1; --prefix NAME makes others\n" == again
        pods = up.names("/api/v1/namespaces/default/pods")
    finally:
        code = up.stop()
    assert code == 0

    assert f"new cluster in {tmp_path / 'data'}: 2 nodes made" in up.process.last_words()
    found = f"stopping; `bayplan up --data {tmp_path / 'data'}` finds the cluster again"
    assert found in up.process.last_words()

    again = Up(tmp_path, "--nodes=10", "--authorization-mode=RBAC")
    try:
        assert "4 nodes found; --nodes 10 is for a new cluster" in again.process.last_words()
        page = again.read("/bayplan/scheduler/metrics")
        assert "scheduler_schedule_attempts_total" in page
        assert ["gpu-1", "gpu-2", "node-1", "node-2"] == again.names("/api/v1/nodes")
        assert pods == again.names("/api/v1/namespaces/default/pods")
        node = again.call("GET", "/api/v1/nodes/gpu-2")
        assert node["metadata"]["labels"]["topology.kubernetes.io/zone"] == "local-b"
        code, _, told = bayplan("nodes", "remove", "gpu2", f"--kubeconfig={again.kubeconfig}")
        assert (1, True) == (code, "did you mean gpu-2" in told)
        code, out, _ = bayplan("nodes", "remove", "--all", f"--kubeconfig={again.kubeconfig}")
        assert (0, "4 nodes removed\n") == (code, out)
    finally:
        again.stop()


def test_a_scheduler_beside_it_must_take_other_pods(tmp_path):
    up = Up(tmp_path, "--nodes=1", "--ui-bind=")
    words = [
        "scheduler",
        f"--kubeconfig={up.kubeconfig}",
        "--secure-port=0",
        "--leader-elect=false",
    ]
    same = subprocess.run(
        bayplan_command(*words), capture_output=True, text=True, timeout=120, check=False
    )
    other = tmp_path / "other.yaml"
    other.write_text(
        json.dumps(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "clientConnection": {"kubeconfig": str(up.kubeconfig)},
                "leaderElection": {"leaderElect": False},
                "profiles": [{"schedulerName": "second"}],
            }
        )
    )
    words = ["scheduler", f"--config={other}", "--secure-port=0"]
    beside = Process(bayplan_command(*words), tmp_path / "second.log")
    beside.wait_until(lambda: "caches are synced" in beside.last_words())
    beside.stop()
    up.stop()

    assert 1 == same.returncode
    assert 'schedules pods of "default-scheduler" itself' in same.stderr
    assert "another schedulerName" in same.stderr


def test_demo_places_explains_and_ends():
    code, out, err = bayplan("demo", "--plain")

    assert code == 0, err
    first, _, out = out.partition("The first of these was done: first is now on north-1.")
    assert "1. uncordon north-1  ->  north-1" in first
    assert "= identical to what your scheduler says" in first
    rows = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert {"web-1", "web-6", "cache", "db-3", "train", "urgent", "giant"} <= set(rows)
    assert "north-gpu" in rows["train"]
    assert re.search(r"batch-\d +- +evicted for urgent", out)
    assert "giant cannot be scheduled: 0/6 nodes are available: 1 node(s) had untolerated" in out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["up", "--bind=nowhere"], "--bind"),
        (["up", "--bind=127.0.0.1:0", "--controllers=nope", "--data={tmp}"], "nope"),
        (["up", "--bind=127.0.0.1:0", "--config={tmp}/missing", "--data={tmp}"], "missing"),
        (["up", "--ui-bind=0.0.0.0:0", "--data={tmp}/new"], "use 127.0.0.1"),
        (["nodes", "add", "--shape=huge"], "use one of small"),
        (["nodes", "add", "--label=x", "--kubeconfig=/dev/null"], "key=value"),
        (["nodes", "remove"], "--all"),
    ],
)
def test_wrong_words_are_named(tmp_path, words, text):
    code, _, err = bayplan(*[word.format(tmp=tmp_path) for word in words])

    assert code == 2
    assert text in err.splitlines()[0]
    assert len(err.strip().splitlines()) == 2
    assert not list(tmp_path.iterdir())


def test_labels_and_taints_are_read_as_kubectl_does():
    assert {"a": "b", "c": ""} == parse_labels(("a=b", "c="))
    assert [
        {"key": "k", "value": "v", "effect": "NoSchedule"},
        {"key": "k", "effect": "NoExecute"},
    ] == parse_taints(("k=v:NoSchedule", "k:NoExecute"))
    with pytest.raises(ConfigError, match="EFFECT"):
        parse_taints(("k=v",))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--cpu", "lots"), '--cpu\': "lots" is no quantity'),
        (("--memory", "-1Gi"), '--memory\': "-1Gi" is no quantity'),
        (("--resource", "example.com/x=many"), '--resource\': "many" is no quantity'),
    ],
)
def test_an_amount_that_is_none_is_named_before_anything_is_asked(words, message):
    result = CliRunner().invoke(nodes_command, ["add", "1", *words])

    assert 2 == result.exit_code
    assert message in result.output


def test_the_status_line_counts_what_has_a_node_and_what_waits():
    small = make_node("a").capacity({"cpu": "2", "memory": "4Gi", "pods": "10"})
    world = World(small, make_pod("p").req(cpu="1"), make_pod("big").req(cpu="9"))
    world.run()
    live = SimpleNamespace(core=world.scheduler, sizes=lambda: {"nodes": 1, "pods": 2})

    shown = _status(SimpleNamespace(scheduler=live))

    assert "1 node · 1 pod placed · waiting: 1 unschedulable" == shown
