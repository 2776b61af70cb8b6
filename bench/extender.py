"""Measures extenders, both sides.

    python bench/extender.py server [--names 1000] [--calls 4000]
    python bench/extender.py client [--nodes 1000,5000] [--pods 300] [--delay 0]

`server`: filter calls a second that our kit answers, over kept-alive loopback connections.
`client`: pods a second and CPU a pod with a local no-op extender (filter and prioritize), names
only and whole objects, for kube-scheduler (where `make kube-assets` has built it), for Bayplan
with ordinary calls and with both verbs in one call, each in turn and about several pods at once,
one after the other on the same kube-apiserver. Client QPS limits are off (5000). With `--delay`
the extender takes so many milliseconds a call, as one does that is further away or thinks.
The extender's CPU is told beside; on few cores kube-apiserver and etcd, which cost the same for
all, are the limit: `servers_cpu_ms_per_pod` is theirs, and `most_pods_per_s` what the cores would
allow if nobody ever waited.

`--json docs/results/extender.json` keeps what the documentation shows.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from figures import keep, texts

from bayplan.api import yaml

if TYPE_CHECKING:
    from bayplan.testing.servers import KubeCluster, Process

SHOWN = {
    "filter_calls_per_s": "{:,} calls/s",
    "pods_per_s": "{:.0f} pods/s",
    "cpu_ms_per_pod_with_start_up": "{:.1f} ms",
    "extender_cpu_ms_per_pod": "{:.1f} ms",
    "servers_cpu_ms_per_pod": "{:.1f} ms",
    "most_pods_per_s": "{:,.0f} pods/s",
    "times_kube_scheduler": "{:.1f} ×",
}
"""What the documentation shows of a row."""


def _serve(port: "multiprocessing.Queue[int]", pairs: bool, delay: float) -> None:
    from bayplan.extender import Extender
    from bayplan.extender.serve import Listen, serve

    app = Extender(name="no-op", pairs=pairs)

    @app.filter
    async def keep_all(names: list[str]) -> list[str]:
        await asyncio.sleep(delay)
        return names

    @app.prioritize
    async def all_equal(names: list[str]) -> dict[str, int]:
        await asyncio.sleep(delay)
        return dict.fromkeys(names, 1)

    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    serve(app, Listen(port=0), port.put)


class Extender:
    """The no-op extender in a process of its own; with `pairs` it takes both verbs at once."""

    def __init__(self, *, pairs: bool = True, delay: float = 0.0) -> None:
        self._pairs = pairs
        self._delay = delay
        self.url = ""

    def __enter__(self) -> "Extender":
        port: multiprocessing.Queue[int] = multiprocessing.Queue()
        self._process = multiprocessing.Process(
            target=_serve, args=(port, self._pairs, self._delay), daemon=True
        )
        self._process.start()
        self.url = f"http://127.0.0.1:{port.get(timeout=30)}"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()

    @property
    def cpu(self) -> float:
        """Seconds so far."""
        return _cpu(self._process.pid or 0)


def server(names: int, calls: int, connections: int = 8) -> dict[str, object]:
    """Filter calls a second with names only."""
    import aiohttp

    from bayplan.extender import wire

    pod = json.dumps({"metadata": {"name": "p"}, "spec": {"containers": []}}).encode()
    body = wire.encode_args(pod, names=[f"node-{n}" for n in range(names)])

    async def load(url: str) -> float:
        left = [calls]

        async def worker(session: aiohttp.ClientSession) -> None:
            while left[0] > 0:
                left[0] -= 1
                async with session.post(f"{url}/filter", data=body) as answer:
                    await answer.read()
                    assert answer.status == 200

        async with aiohttp.ClientSession() as session:
            start = time.perf_counter()
            await asyncio.gather(*(worker(session) for _ in range(connections)))
            return time.perf_counter() - start

    with Extender() as extender:
        asyncio.run(load(extender.url))
        wall = asyncio.run(load(extender.url))
    return {"bench": "extender-server", "names": names, "filter_calls_per_s": round(calls / wall)}


async def _fill(kubeconfig: Path, nodes: int) -> None:
    from bayplan.client import connect, load_kubeconfig
    from bayplan.client.resources import NODES

    client = connect(load_kubeconfig(kubeconfig), qps=0)
    room = {"cpu": "4", "memory": "32Gi", "pods": "110"}
    limit = asyncio.Semaphore(32)

    async def one(n: int) -> None:
        labels = {
            "kubernetes.io/hostname": f"node-{n}",
            "topology.kubernetes.io/zone": f"zone-{n % 3}",
        }
        body = {
            "metadata": {"name": f"node-{n}", "labels": labels},
            "status": {
                "capacity": room,
                "allocatable": room,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
        async with limit:
            await client.create(NODES, body)

    await asyncio.gather(*(one(n) for n in range(nodes)))
    await client.close()


async def _create_pods(kubeconfig: Path, prefix: str, count: int) -> None:
    from bayplan.client import connect, load_kubeconfig
    from bayplan.client.resources import PODS

    client = connect(load_kubeconfig(kubeconfig), qps=0)
    requests = {"cpu": "100m", "memory": "500Mi"}
    limit = asyncio.Semaphore(32)

    async def one(n: int) -> None:
        container = {"name": "c", "image": "pause", "resources": {"requests": requests}}
        meta = {"name": f"{prefix}-{n}", "labels": {"run": prefix}}
        body = {"metadata": meta, "spec": {"containers": [container]}}
        async with limit:
            await client.create(PODS, body, "default")

    await asyncio.gather(*(one(n) for n in range(count)))
    await client.close()


async def _bound(kubeconfig: Path, prefix: str, count: int, limit: float) -> tuple[int, float]:
    """Wait until all pods are bound, or the time is over; pods bound between first and last.

    It watches: whoever asks from time to time sees nothing of a scheduler that is quick.
    """
    from bayplan.client import connect, load_kubeconfig
    from bayplan.client.resources import PODS

    client = connect(load_kubeconfig(kubeconfig), qps=0)
    first = last = 0.0
    seen = begun = 0
    events = client.watch(
        PODS, "default", label_selector=f"run={prefix}", field_selector="spec.nodeName!="
    )
    try:
        async with asyncio.timeout(limit):
            async for lines in events:
                found = sum(b'"type":"ADDED"' in line[:20] for line in lines)
                now = time.perf_counter()
                if found and not first:
                    first, begun = now, found
                if found:
                    seen, last = seen + found, now
                if seen >= count:
                    break
    except TimeoutError:
        pass
    await client.close()
    return seen - begun, max(last - first, 1e-9)


async def _delete_pods(kubeconfig: Path, prefix: str) -> None:
    """Later schedulers must not pay for the pods of those before them."""
    from bayplan.client import connect, load_kubeconfig

    client = connect(load_kubeconfig(kubeconfig), qps=0)
    options = json.dumps({"gracePeriodSeconds": 0}).encode()
    target = f"/api/v1/namespaces/default/pods?labelSelector=run%3D{prefix}"
    await client.request("DELETE", target, body=options)
    await client.close()


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def client(
    nodes: int, pods: int, limit: float, delay: float, forms: list[str], rounds: int
) -> list[dict[str, object]]:
    """Both schedulers, all forms, one kube-apiserver."""
    from bayplan.testing.servers import start_kube

    results: list[dict[str, object]] = []
    with (
        Extender(pairs=False, delay=delay) as plain,
        Extender(delay=delay) as paired,
        start_kube() as cluster,
        tempfile.TemporaryDirectory() as folder,
    ):
        asyncio.run(_fill(cluster.kubeconfig, nodes))
        ours = cluster.bayplan_scheduler
        in_turn, ahead = (f"--extender-calls-ahead={who}" for who in ("never", "always"))
        ways = {
            "kube-scheduler": (cluster.kube_scheduler, plain, ()),
            "bayplan": (ours, plain, (in_turn,)),
            "bayplan, ahead": (ours, plain, (ahead,)),
            "bayplan, one call": (ours, paired, (in_turn,)),
            "bayplan, one call, ahead": (ours, paired, (ahead,)),
        }
        for form in forms:
            found: dict[str, list[dict[str, object]]] = {way: [] for way in ways}
            for turn in range(rounds):
                for number, (way, (start, extender, flags)) in enumerate(ways.items()):
                    config = _config(
                        Path(folder), cluster.kubeconfig, extender.url, names=form == "names"
                    )
                    run = f"{form}-{turn}-{number}"
                    asyncio.run(_create_pods(cluster.kubeconfig, run, pods))
                    row = {"bench": "extender-client", "scheduler": way, "nodes": nodes}
                    row["form"] = f"{form} {delay * 1000:g} ms" if delay else form
                    begin = partial(start, config, *flags)
                    found[way].append(row | _one(cluster, begin, extender, run, pods, limit))
                    print(json.dumps(found[way][-1]), flush=True)
            results += _beside([_median(rows) for rows in found.values()])
    return results


def _one(
    cluster: "KubeCluster",
    start: "Callable[[], Process]",
    extender: Extender,
    run: str,
    pods: int,
    limit: float,
) -> dict[str, object]:
    """One scheduler, started for pods that wait for it."""
    servers = [one.popen.pid for one in cluster._processes[:2]]
    begun, before = extender.cpu, sum(map(_cpu, servers))
    process = start()
    bound, wall = asyncio.run(_bound(cluster.kubeconfig, run, pods, limit))
    cpu = _cpu(process.popen.pid)
    shared = (sum(map(_cpu, servers)) - before) / pods
    process.stop()
    asked = (extender.cpu - begun) / pods
    asyncio.run(_delete_pods(cluster.kubeconfig, run))
    whole = cpu / max(bound, 1) + asked + shared
    return {
        "pods_per_s": round(bound / wall, 1),
        "cpu_ms_per_pod_with_start_up": round(cpu / max(bound, 1) * 1000, 2),
        "extender_cpu_ms_per_pod": round(asked * 1000, 2),
        "servers_cpu_ms_per_pod": round(shared * 1000, 2),
        "most_pods_per_s": round((os.cpu_count() or 1) / whole),
        "bound": bound,
    }


def _median(rows: list[dict[str, object]]) -> dict[str, object]:
    """The middle of each figure over all rounds."""
    numbers = [
        key for key, value in rows[0].items() if key != "nodes" and isinstance(value, float | int)
    ]
    return rows[0] | {
        key: statistics.median(float(str(row[key])) for row in rows) for key in numbers
    }


def _beside(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """Tell how many times the rate of the first each one has."""
    for row in rows[1:]:
        times = float(str(row["pods_per_s"])) / max(float(str(rows[0]["pods_per_s"])), 1e-9)
        row["times_kube_scheduler"] = round(times, 2)
        told = ("nodes", "form", "scheduler", "pods_per_s", "times_kube_scheduler")
        print(json.dumps({key: row[key] for key in told}), flush=True)
    return rows


def _config(folder: Path, kubeconfig: Path, url: str, *, names: bool) -> Path:
    path = folder / "ksc.yaml"
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 5000},
        "extenders": [
            {
                "urlPrefix": url,
                "filterVerb": "filter",
                "prioritizeVerb": "prioritize",
                "weight": 1,
                "nodeCacheCapable": names,
                "httpTimeout": "30s",
            }
        ],
    }
    path.write_text(yaml.dump(document))
    return path


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", nargs="?", choices=["server", "client", "all"], default="all")
    parser.add_argument("--names", type=int, default=1000)
    parser.add_argument("--calls", type=int, default=4000)
    parser.add_argument("--nodes", default="1000,5000")
    parser.add_argument("--pods", type=int, default=300)
    parser.add_argument("--delay", type=float, default=0.0, help="milliseconds a call takes")
    parser.add_argument("--forms", default="names,objects")
    parser.add_argument("--rounds", type=int, default=1, help="the median of so many is told")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds a scheduler may take")
    parser.add_argument("--json", type=Path, help="keep the figures in this file")
    options = parser.parse_args()
    for rows in measure(options):
        if not options.json:
            continue
        part = " ".join(str(rows[0][key]) for key in ("bench", "nodes") if key in rows[0])
        part += f" {options.delay:g} ms" * bool(options.delay)
        figures: dict[str, str] = {}
        for row in rows:
            figures |= texts(row, ("bench", "nodes", "form", "scheduler"), SHOWN)
        keep(options.json, "bench/extender.py", part, figures)


def measure(options: argparse.Namespace) -> Iterator[list[dict[str, object]]]:
    """The rows of what was asked for, part by part."""
    if options.what in ("server", "all"):
        row = server(options.names, options.calls)
        print(json.dumps(row), flush=True)
        yield [row]
    if options.what in ("client", "all"):
        for nodes in options.nodes.split(","):
            forms, delay = options.forms.split(","), options.delay / 1000
            yield client(int(nodes), options.pods, options.limit, delay, forms, options.rounds)


if __name__ == "__main__":
    main()
