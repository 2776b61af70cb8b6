"""Measures extenders, both sides.

    python bench/extender.py server [--names 1000] [--calls 4000]
    python bench/extender.py client [--nodes 1000,5000] [--pods 300]

`server`: filter calls a second that our kit answers, over kept-alive loopback connections.
`client`: pods a second and CPU a pod with a local no-op extender (filter and prioritize), names
only and whole objects, for kube-scheduler (where `make kube-assets` has built it), for Bayplan
with ordinary calls, and for Bayplan with both verbs in one call, one after the other on the same
kube-apiserver. Client QPS limits are off (5000). The extender's CPU is told beside; on few cores
kube-apiserver and etcd, which cost the same for all, are the limit.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import signal
import tempfile
import time
from pathlib import Path

from bayplan.api import yaml


def _serve(port: "multiprocessing.Queue[int]", pairs: bool) -> None:
    from bayplan.extender import Extender
    from bayplan.extender.serve import Listen, serve

    app = Extender(name="no-op", pairs=pairs)

    @app.filter
    async def keep_all(names: list[str]) -> list[str]:
        return names

    @app.prioritize
    async def all_equal(names: list[str]) -> dict[str, int]:
        return dict.fromkeys(names, 1)

    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    serve(app, Listen(port=0), port.put)


class Extender:
    """The no-op extender in a process of its own; with `pairs` it takes both verbs at once."""

    def __init__(self, *, pairs: bool = True) -> None:
        self._pairs = pairs
        self.url = ""

    def __enter__(self) -> "Extender":
        port: multiprocessing.Queue[int] = multiprocessing.Queue()
        self._process = multiprocessing.Process(
            target=_serve, args=(port, self._pairs), daemon=True
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
        body = {"metadata": {"name": f"{prefix}-{n}"}, "spec": {"containers": [container]}}
        async with limit:
            await client.create(PODS, body, "default")

    await asyncio.gather(*(one(n) for n in range(count)))
    await client.close()


async def _bound(kubeconfig: Path, prefix: str, count: int, limit: float) -> tuple[int, float]:
    """Wait until all pods are bound, or the time is over; pods bound between first and last."""
    import msgspec

    from bayplan.client import connect, load_kubeconfig
    from bayplan.client.resources import PODS

    client = connect(load_kubeconfig(kubeconfig), qps=0)
    first = last = 0.0
    seen = begun = 0
    deadline = time.perf_counter() + limit
    while time.perf_counter() < deadline:
        listed = msgspec.json.decode(
            await client.list(PODS, "default", field_selector="spec.nodeName!=")
        )["items"]
        now = time.perf_counter()
        found = sum(item["metadata"]["name"].startswith(f"{prefix}-") for item in listed)
        if found and not first:
            first, begun = now, found
        if found > seen:
            seen, last = found, now
        if found >= count:
            break
        await asyncio.sleep(0.3)
    await client.close()
    return seen - begun, max(last - first, 1e-9)


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def client(nodes: int, pods: int, limit: float) -> list[dict[str, object]]:
    """Both schedulers, both forms, one kube-apiserver."""
    from bayplan.testing.servers import start_kube

    results = []
    with (
        Extender(pairs=False) as plain,
        Extender() as paired,
        start_kube() as cluster,
        tempfile.TemporaryDirectory() as folder,
    ):
        asyncio.run(_fill(cluster.kubeconfig, nodes))
        ways = {
            "kube-scheduler": (cluster.kube_scheduler, plain),
            "bayplan": (cluster.bayplan_scheduler, plain),
            "bayplan, one call": (cluster.bayplan_scheduler, paired),
        }
        for names in (True, False):
            for number, (way, (start, extender)) in enumerate(ways.items()):
                prefix = f"{'names' if names else 'objects'}-{number}"
                config = _config(Path(folder), cluster.kubeconfig, extender.url, names=names)
                asyncio.run(_create_pods(cluster.kubeconfig, prefix, pods))
                begun = extender.cpu
                process = start(config)
                bound, wall = asyncio.run(_bound(cluster.kubeconfig, prefix, pods, limit))
                cpu = _cpu(process.popen.pid)
                process.stop()
                results.append(
                    {
                        "bench": "extender-client",
                        "scheduler": way,
                        "nodes": nodes,
                        "form": "names" if names else "objects",
                        "pods_per_s": round(bound / wall, 1),
                        "cpu_ms_per_pod_with_start_up": round(cpu / max(bound, 1) * 1000, 2),
                        "extender_cpu_ms_per_pod": round((extender.cpu - begun) / pods * 1000, 2),
                        "bound": bound,
                    }
                )
                print(json.dumps(results[-1]), flush=True)
    for form in ("names", "objects"):
        rates = [float(str(r["pods_per_s"])) for r in results if r["form"] == form]
        ratios = [round(rate / max(rates[0], 1e-9), 2) for rate in rates[1:]]
        row = {"nodes": nodes, "form": form, "ratio": ratios[0], "ratio_one_call": ratios[1]}
        print(json.dumps(row), flush=True)
    return results


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
    parser.add_argument("--limit", type=float, default=120.0, help="seconds a scheduler may take")
    options = parser.parse_args()
    if options.what in ("server", "all"):
        print(json.dumps(server(options.names, options.calls)))
    if options.what in ("client", "all"):
        for nodes in options.nodes.split(","):
            client(int(nodes), options.pods, options.limit)


if __name__ == "__main__":
    main()
