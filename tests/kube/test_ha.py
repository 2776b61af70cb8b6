"""Two API servers on one etcd and two schedulers: each is killed, frozen and started again."""

import asyncio
import contextlib
import itertools
import json
import os
import random
import signal
from collections import Counter
from datetime import datetime

import pytest

from bayplan.api import yaml
from bayplan.client import AlreadyExists, ClientError, connect, load_kubeconfig
from bayplan.client.resources import LEASES, NODES, PODS
from bayplan.testing.etcd import start_etcd
from bayplan.testing.ports import free_port
from bayplan.testing.servers import Process, bayplan_command
from tests.kube.world import node, pod

LEASE, RENEW, RETRY = 4, 3, 1  # seconds
KEPT = 2000  # pods
ROUNDS = 6  # at least
KILLS = int(os.environ.get("BAYPLAN_SCHEDULER_KILLS", "2"))  # of schedulers, at least
pytestmark = [pytest.mark.kube, pytest.mark.timeout(300 + 40 * KILLS)]


class Pair:
    """The four processes; scheduler n talks to API server n."""

    def __init__(self, folder, etcd):
        self.folder, self.etcd = folder, etcd
        self.ports = [free_port(), free_port()]
        self.processes = {}
        for n in range(2):
            self.start(f"apiserver-{n}")
        for n in range(2):
            self.start(f"scheduler-{n}")

    def kubeconfig(self, n):
        return self.folder / f"kubeconfig-{n}"

    def start(self, name):
        kind, _, number = name.partition("-")
        command = self._apiserver(int(number)) if kind == "apiserver" else self._scheduler(number)
        process = Process(command, self.folder / f"{name}.log")
        self.processes[name] = process
        if kind == "apiserver":
            process.wait_until(self.kubeconfig(number).exists)

    def _apiserver(self, n):
        return [
            *bayplan_command("apiserver"),
            "--store=etcd",
            f"--etcd-servers={self.etcd.url}",
            f"--data={self.folder / 'data'}",  # one token and one authority for both
            f"--bind=127.0.0.1:{self.ports[n]}",
            f"--kubeconfig-out={self.kubeconfig(n)}",
        ]

    def _scheduler(self, n):
        election = {
            "leaderElect": True,
            "leaseDuration": f"{LEASE}s",
            "renewDeadline": f"{RENEW}s",
            "retryPeriod": f"{RETRY}s",
        }
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": election,
            "clientConnection": {"kubeconfig": str(self.kubeconfig(n))},
        }
        path = self.folder / f"ksc-{n}.yaml"
        path.write_text(yaml.dump(config))
        return [*bayplan_command("scheduler"), "--config", str(path), "--secure-port=0"]

    def keep_up(self):
        """Start again what has ended, as a supervisor does."""
        for name, process in list(self.processes.items()):
            if not process.running:
                self.start(name)

    def close(self):
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.popen.send_signal(signal.SIGCONT)
            process.kill()


class Users:
    """Ask whichever API server answers, again and again."""

    def __init__(self, pair):
        self.pair = pair
        self.clients = [connect(load_kubeconfig(pair.kubeconfig(n)), qps=0) for n in range(2)]
        for client in self.clients:
            client.timeout = 3.0
        self.acknowledged, self.node_of = set(), {}

    async def ask(self, verb, *given):
        for attempt in range(100):
            with contextlib.suppress(ClientError, TimeoutError):
                return await getattr(self.clients[attempt % 2], verb)(*given)
            await asyncio.sleep(0.1)
        raise AssertionError(f"nobody answered: {verb}")

    async def create(self, resource, body, *namespace):
        for attempt in range(100):
            try:
                return await self.clients[attempt % 2].create(resource, body, *namespace)
            except AlreadyExists:
                return b""
            except (ClientError, TimeoutError):
                await asyncio.sleep(0.1)
        raise AssertionError("nobody answered")

    async def make_pods(self):
        """Create pods as long as this runs; the oldest go, so that a long run stays as it was."""
        for number in itertools.count():
            name, oldest = f"p{number}", f"p{number - KEPT}"
            await self.create(PODS, pod(name, cpu="10m"), "default")
            self.acknowledged.add(name)
            if oldest in self.acknowledged:
                self.acknowledged.remove(oldest)
                with contextlib.suppress(ClientError, TimeoutError):
                    await self.clients[number % 2].delete(PODS, oldest, "default", grace_period=0)
            await asyncio.sleep(0.02)

    async def pods(self):
        """Look at all pods; one that is bound stays where it is."""
        found = {}
        for item in json.loads(await self.ask("list", PODS))["items"]:
            uid, where = item["metadata"]["uid"], item["spec"].get("nodeName", "")
            assert self.node_of.get(uid, where) == where, f"{item['metadata']['name']} moved"
            if where:
                self.node_of[uid] = where
            found[item["metadata"]["name"]] = where
        return found

    async def leader(self):
        lease = json.loads(await self.ask("get", LEASES, "kube-scheduler", "kube-system"))
        return lease["spec"]["holderIdentity"]

    async def all_bound(self):
        async with asyncio.timeout(60):
            while not all((await self.pods()).values()):
                self.pair.keep_up()  # a scheduler that lost its lease on a busy machine has ended
                await asyncio.sleep(0.1)


@pytest.fixture
def pair(tmp_path):
    with start_etcd(tmp_path / "etcd") as etcd:
        made = Pair(tmp_path, etcd)
        yield made
        made.close()


@pytest.fixture
async def users(pair):
    made = Users(pair)
    yield made
    for client in made.clients:
        await client.transport.close()


async def _disturb(pair, users, rng):
    """Kill or freeze one of the four; return its name if it was killed."""
    kind = rng.choices(("scheduler", "apiserver"), (3, 1))[0]
    name = f"{kind}-{rng.randrange(2)}"
    process = pair.processes[name]
    kills = rng.random() < 0.8
    if kills:
        process.kill()
        await asyncio.sleep(rng.random())
    else:  # silent for longer than its lease, with all connections open
        process.popen.send_signal(signal.SIGSTOP)
        await asyncio.sleep(LEASE + RETRY)
        process.popen.send_signal(signal.SIGCONT)
    pair.keep_up()
    await users.pods()
    return name if kills else ""


async def test_nothing_is_lost_while_each_part_dies_in_turn(pair, users):
    rng = random.Random(int(os.environ.get("BAYPLAN_SEED", "4")))
    for n in range(2):
        await users.create(NODES, node(f"n{n}", cpu="100", pods="10000"))
    load = asyncio.create_task(users.make_pods())

    killed = Counter()
    while killed.total() < ROUNDS or killed["scheduler"] < KILLS:
        killed[(await _disturb(pair, users, rng)).partition("-")[0]] += 1
    load.cancel()
    await asyncio.gather(load, return_exceptions=True)
    pair.keep_up()
    await users.all_bound()

    found = await users.pods()
    assert users.acknowledged <= found.keys()
    assert len(users.acknowledged) > 50


def leading_of(pair):
    """Return the name of the scheduler that says it leads."""
    return next(
        name
        for name, process in pair.processes.items()
        if "scheduler" in name and "successfully acquired" in process.last_words(100_000)
    )


async def test_the_other_scheduler_takes_over_within_the_lease(pair, users):
    await users.create(NODES, node("n", cpu="100"))
    await users.create(PODS, pod("first"), "default")
    await users.all_bound()
    first = await users.leader()
    leading = leading_of(pair)

    pair.processes[leading].kill()
    renewals = json.loads(await users.ask("get", LEASES, "kube-scheduler", "kube-system"))
    await users.create(PODS, pod("second"), "default")
    await users.all_bound()

    lease = json.loads(await users.ask("get", LEASES, "kube-scheduler", "kube-system"))["spec"]
    assert first != lease["holderIdentity"]
    waited = _seconds(lease["acquireTime"]) - _seconds(renewals["spec"]["renewTime"])
    assert LEASE - 1 <= waited <= LEASE + 3 * RETRY + 3


async def _watch(users, resource, after, seen):
    """Note the events of a watch that is resumed, at either server, wherever it ends."""
    for number in itertools.count():
        with contextlib.suppress(ClientError, TimeoutError, OSError):
            async for lines in users.clients[number % 2].watch(resource, resource_version=after):
                for event in map(json.loads, lines):
                    assert event["type"] != "ERROR", event
                    after = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        seen.append((event["type"], event["object"]))
        await asyncio.sleep(0.05)


async def _newest(users, resource):
    return json.loads(await users.ask("list", resource))["metadata"]["resourceVersion"]


async def _ended(*tasks):
    for task in tasks:
        task.cancel()
    for ended in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(ended, asyncio.CancelledError), ended


async def test_api_servers_are_upgraded_in_turn_without_a_gap(pair, users):
    """Each is asked to end and started again; writes, watches and bindings go on."""
    await users.create(NODES, node("n", cpu="1000", pods="10000"))
    seen = []
    watching = asyncio.create_task(_watch(users, PODS, await _newest(users, PODS), seen))
    load = asyncio.create_task(users.make_pods())
    for n in (0, 1):
        assert 0 == await asyncio.to_thread(pair.processes[f"apiserver-{n}"].stop)
        pair.kubeconfig(n).unlink()
        await users.pods()  # the other one answers
        await asyncio.to_thread(pair.start, f"apiserver-{n}")
    await _ended(load)
    await users.all_bound()
    found = await users.pods()
    async with asyncio.timeout(60):
        while not found.keys() <= {obj["metadata"]["name"] for _, obj in seen}:
            await asyncio.sleep(0.1)
    await _ended(watching)

    assert users.acknowledged <= found.keys()
    added = Counter(obj["metadata"]["name"] for kind, obj in seen if kind == "ADDED")
    assert found.keys() <= added.keys()
    assert {1} == set(added.values()), "once each"


async def test_a_scheduler_that_is_asked_to_end_hands_its_lease_over(pair, users):
    """The other one need not wait until the lease has run out."""
    await users.create(NODES, node("n", cpu="100"))
    await users.create(PODS, pod("first"), "default")
    await users.all_bound()
    first = await users.leader()
    leading = leading_of(pair)
    seen = []
    watching = asyncio.create_task(_watch(users, LEASES, await _newest(users, LEASES), seen))

    await asyncio.to_thread(pair.processes[leading].stop)
    await users.create(PODS, pod("second"), "default")
    await users.all_bound()
    second = await users.leader()
    async with asyncio.timeout(60):
        while second not in (holders := _holders(seen)):
            await asyncio.sleep(0.1)
    await _ended(watching)

    assert first != second
    assert ["", second] == holders[holders.index("") : holders.index("") + 2]


def _holders(seen):
    """Return who held the schedulers' lease, one after the other."""
    leases = [obj for _, obj in seen if obj["metadata"]["name"] == "kube-scheduler"]
    found = [obj["spec"].get("holderIdentity", "") for obj in leases]
    return [holder for holder, _ in itertools.groupby(found)]


def _seconds(moment):
    return datetime.fromisoformat(moment).timestamp()
