"""`bayplan scheduler` as a process: bad input, endpoints, reload, leader election, signals."""

import json
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request

import pytest

from bayplan.testing.ports import free_port
from bayplan.testing.servers import ServedCluster, bayplan_command, start_embedded

pytestmark = pytest.mark.xdist_group("scheduler-process")

QUICK = (
    "--leader-elect-lease-duration=5s",
    "--leader-elect-renew-deadline=4s",
    "--leader-elect-retry-period=300ms",
)
HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
INSECURE = ssl._create_unverified_context()


def call(
    cluster: ServedCluster, method: str, path: str, body: object = None, kind="application/json"
):
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {cluster.token}", "Content-Type": kind}
    request = urllib.request.Request(cluster.server + path, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=60, context=INSECURE) as answer:
        return json.load(answer)


def eventually(check, seconds: float = 60.0):
    deadline = time.monotonic() + seconds
    while True:
        try:
            if result := check():
                return result
        except (urllib.error.URLError, OSError, KeyError):
            pass
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def cluster():
    with start_embedded() as cluster:
        capacity = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        node = {"metadata": {"name": "n1"}, "status": {"capacity": capacity}}
        call(cluster, "POST", "/api/v1/nodes", node)
        yield cluster


def config(cluster: ServedCluster, path, *schedulers: str, **more) -> str:
    document = {
        **HEAD,
        "clientConnection": {"kubeconfig": str(cluster.kubeconfig)},
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": name} for name in schedulers],
        **more,
    }
    path.write_text(json.dumps(document))
    return str(path)


def make_pod(cluster: ServedCluster, name: str, scheduler: str) -> None:
    spec = {"schedulerName": scheduler, "containers": [{"name": "c", "image": "x"}]}
    pod = {"metadata": {"name": name}, "spec": spec}
    call(cluster, "POST", "/api/v1/namespaces/default/pods", pod)


def node_of(cluster: ServedCluster, name: str) -> str:
    pod = call(cluster, "GET", f"/api/v1/namespaces/default/pods/{name}")
    return pod["spec"].get("nodeName", "")


def run(*arguments: str) -> tuple[int, list[str]]:
    done = subprocess.run(
        [*bayplan_command("scheduler"), *arguments], capture_output=True, text=True, timeout=60
    )
    return done.returncode, done.stderr.strip().splitlines()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--config", "{tmp}/missing"], "missing"),
        (["--kubeconfig", "{tmp}/missing"], "for flag --kubeconfig"),
        (["--kubeconfig={kubeconfig}", "--tls-cert-file={tmp}/x"], "for flag --tls-cert-file"),
        (["--kubeconfig={kubeconfig}", "--secure-port=99999"], "port"),
        (["--no-such-flag"], "--no-such-flag"),
    ],
)
def test_a_wrong_command_line_is_told_with_where_to_read_on(cluster, tmp_path, arguments, text):
    words = [a.format(tmp=tmp_path, kubeconfig=cluster.kubeconfig) for a in arguments]

    code, (said, see) = run(*words)

    assert code == 2
    assert said.startswith("error: ")
    assert text in said
    assert see.startswith("see: ")
    assert see.endswith(" scheduler --help")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--config", "{tmp}/broken.yaml"], "broken.yaml"),
        (["--config", "{tmp}/unknown.yaml"], "profilez"),
        (["--config", "{tmp}/elsewhere.yaml"], 'clientConnection.kubeconfig: "nowhere" does not'),
        (["--kubeconfig", "{tmp}/broken.yaml"], "fix the file"),
        (["--kubeconfig={kubeconfig}", "--tls-cert-file={tmp}/a"], "--tls-private-key-file"),
        (["--kubeconfig={kubeconfig}", "--plugins={tmp}/no.py"], "check --plugins"),
    ],
)
def test_bad_input_ends_with_one_line_that_says_what_to_change(cluster, tmp_path, arguments, text):
    (tmp_path / "a").write_text("a")
    (tmp_path / "broken.yaml").write_text("a: [\n")
    (tmp_path / "unknown.yaml").write_text(json.dumps({**HEAD, "profilez": []}))
    elsewhere = {**HEAD, "clientConnection": {"kubeconfig": "nowhere"}}
    (tmp_path / "elsewhere.yaml").write_text(json.dumps(elsewhere))
    words = [a.format(tmp=tmp_path, kubeconfig=cluster.kubeconfig) for a in arguments]

    code, lines = run(*words)

    assert code == 1
    assert len(lines) == 1, lines
    assert lines[0].startswith("error: ")
    assert text in lines[0]


def test_write_config_to(tmp_path):
    target = tmp_path / "out.yaml"

    code, lines = run(f"--write-config-to={target}")

    assert (0, []) == (code, lines)
    assert "schedulerName: default-scheduler" in target.read_text()


def test_endpoints_over_https_and_an_orderly_end(cluster, tmp_path):
    port, token = free_port(), tmp_path / "token"
    token.write_text("sesame\n")
    process = cluster.start(
        [
            *bayplan_command("scheduler"),
            "--config",
            config(cluster, tmp_path / "c.json", "endpoints"),
            f"--secure-port={port}",
            "--bind-address=127.0.0.1",
            f"--metrics-token-file={token}",
        ],
        "endpoints.log",
    )

    def get(path: str, bearer: str = "", body: object = None):
        request = urllib.request.Request(
            f"https://127.0.0.1:{port}{path}",
            headers={"Authorization": f"Bearer {bearer}"} if bearer else {},
            data=None if body is None else json.dumps(body).encode(),
        )
        try:
            with urllib.request.urlopen(request, timeout=60, context=INSECURE) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, ""

    eventually(lambda: get("/readyz")[0] == 200)
    make_pod(cluster, "endpoints", "endpoints")
    eventually(lambda: node_of(cluster, "endpoints"))
    wanted = 'scheduler_schedule_attempts_total{profile="endpoints",result="scheduled"} 1.0'
    eventually(lambda: wanted in get("/metrics", "sesame")[1])

    assert (200, "ok") == get("/healthz")
    assert get("/metrics")[0] == 401
    assert get("/metrics", "wrong")[0] == 401
    assert get("/metrics", cluster.token)[0] == 200
    shown = json.loads(get("/configz", "sesame")[1])["componentconfig"]
    assert shown["profiles"][0]["schedulerName"] == "endpoints"
    node = node_of(cluster, "endpoints")
    asked = {"changes": [{"change": "cordon", "nodes": node}]}
    assert get("/inspect/v1/whatif", "", asked)[0] == 401
    code, text = get("/inspect/v1/whatif", cluster.token, asked)
    assert (code, json.loads(text)["commands"]) == (200, [f"kubectl cordon {node}"])
    placed = {"pod": "default/endpoints"}
    assert node == json.loads(get("/inspect/v1/why", cluster.token, placed)[1])["node"]
    assert process.stop() == 0


def test_a_changed_file_is_taken_over_and_a_bad_one_refused(cluster, tmp_path):
    path = tmp_path / "c.json"
    words = [*bayplan_command("scheduler"), "--config", config(cluster, path, "first")]
    process = cluster.start([*words, "--secure-port=0"], "reload.log")
    make_pod(cluster, "reload-1", "first")
    make_pod(cluster, "reload-2", "second")
    eventually(lambda: node_of(cluster, "reload-1"))

    path.write_text("{}")
    process.popen.send_signal(signal.SIGHUP)
    eventually(lambda: "configuration refused" in process.last_words())
    make_pod(cluster, "reload-3", "first")
    eventually(lambda: node_of(cluster, "reload-3"))
    before = node_of(cluster, "reload-2")
    config(cluster, path, "first", "second")
    eventually(lambda: node_of(cluster, "reload-2"))

    assert before == ""
    assert process.stop() == 0


def test_another_lease_needs_another_process(cluster, tmp_path):
    """A new name under the old Lease would let two schedulers place the same pods."""
    path = tmp_path / "c.json"
    words = [*bayplan_command("scheduler"), "--config", config(cluster, path, "mine")]
    process = cluster.start([*words, "--secure-port=0"], "lease.log")
    make_pod(cluster, "lease-1", "mine")
    eventually(lambda: node_of(cluster, "lease-1"))
    make_pod(cluster, "lease-2", "theirs")

    config(cluster, path, "theirs", leaderElection={"resourceName": "theirs"})
    eventually(lambda: "leaderElection cannot change while" in process.last_words())
    make_pod(cluster, "lease-3", "mine")
    eventually(lambda: node_of(cluster, "lease-3"))

    assert node_of(cluster, "lease-2") == ""
    assert process.stop() == 0


def test_a_plugin_file_is_used_and_one_that_raises_fails_its_pods_only(cluster, tmp_path):
    (tmp_path / "mine.py").write_text(
        "class Mine:\n"
        "    name = 'Mine'\n"
        "    def filter_node(self, state, pod, node):\n"
        "        if pod.metadata.name.startswith('bad'):\n"
        "            raise RuntimeError('boom')\n"
        "PLUGINS = {'Mine': lambda args, handle: Mine()}\n"
    )
    profiles = [
        {"schedulerName": "plugged", "plugins": {"multiPoint": {"enabled": [{"name": "Mine"}]}}}
    ]
    path = config(cluster, tmp_path / "c.json", profiles=profiles)
    words = ["--config", path, "--secure-port=0", f"--plugins={tmp_path / 'mine.py'}"]
    process = cluster.start([*bayplan_command("scheduler"), *words], "plugged.log")
    make_pod(cluster, "bad-plugged", "plugged")
    make_pod(cluster, "good-plugged", "plugged")

    eventually(lambda: node_of(cluster, "good-plugged"))

    def condition():
        pod = call(cluster, "GET", "/api/v1/namespaces/default/pods/bad-plugged")
        return next(c for c in pod["status"].get("conditions", [{}]) if c.get("message"))

    shown = eventually(condition)
    assert "Mine" in shown["message"]
    assert shown["reason"] == "SchedulerError"
    assert process.stop() == 0


LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


def holder(cluster: ServedCluster, name: str) -> str:
    return call(cluster, "GET", f"{LEASES}/{name}")["spec"].get("holderIdentity", "")


def test_a_standby_takes_over_when_the_leader_dies(cluster, tmp_path):
    election = {"leaderElection": {"leaderElect": True, "resourceName": "failover"}}
    path = config(cluster, tmp_path / "c.json", "failover", **election)
    words = [*bayplan_command("scheduler"), "--config", path, "--secure-port=0", *QUICK]
    first = cluster.start(words, "leader.log")
    leader = eventually(lambda: holder(cluster, "failover"))
    second = cluster.start(words, "standby.log")
    make_pod(cluster, "failover-1", "failover")
    eventually(lambda: node_of(cluster, "failover-1"))

    first.kill()
    make_pod(cluster, "failover-2", "failover")
    eventually(lambda: node_of(cluster, "failover-2"))

    assert holder(cluster, "failover") != leader
    assert second.stop() == 0
    assert holder(cluster, "failover") == ""


STUCK = """
import pathlib, threading

class Stuck:
    name = "Stuck"

    def filter_node(self, state, pod, node):
        pathlib.Path(__file__ + ".asked").touch()
        threading.Event().wait()

PLUGINS = {"Stuck": lambda args, handle: Stuck()}
"""


@pytest.mark.parametrize("stuck", [False, True])
def test_a_lost_lease_ends_the_process_with_1(cluster, tmp_path, stuck):
    """Also while a plugin waits in a thread, which nobody can end."""
    plugin = tmp_path / "stuck.py"
    plugin.write_text(STUCK)
    name = f"stolen-{stuck}".lower()
    election = {"leaderElection": {"leaderElect": True, "resourceName": name}}
    path = config(cluster, tmp_path / "c.json", name, **election)
    if stuck:
        document = json.loads((tmp_path / "c.json").read_text())
        enabled = {"multiPoint": {"enabled": [{"name": "Stuck"}]}}
        document["profiles"][0]["plugins"] = enabled
        (tmp_path / "c.json").write_text(json.dumps(document))
    words = [*bayplan_command("scheduler"), "--config", path, "--secure-port=0", *QUICK]
    process = cluster.start([*words, "--plugins", str(plugin)], f"{name}.log")
    eventually(lambda: holder(cluster, name))
    if stuck:
        make_pod(cluster, "stuck", name)
        eventually(plugin.with_name("stuck.py.asked").exists)

    patch = {"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 600}}
    call(cluster, "PATCH", f"{LEASES}/{name}", patch, "application/merge-patch+json")

    assert process.wait(60) == 1
    assert "leaderelection lost" in process.last_words()
