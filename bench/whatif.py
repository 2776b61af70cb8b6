"""What-if at size: `python bench/whatif.py [NODES PODS TRIES]` prints CPU times as JSON."""

import json
import sys
import time
from contextlib import suppress

from bayplan.inspect import Cluster
from bayplan.inspect.whatif.each import each
from bayplan.testing.builders import make_node, make_pod

TEMPLATES = 100


def cluster(nodes, pods):
    """Equal nodes in three zones, pods of a hundred replica sets spread over them."""
    objects = [
        make_node(f"node-{i:05}").zone(f"z{i % 3}").capacity(cpu=32, memory="128Gi", pods=110)
        for i in range(nodes)
    ]
    for i in range(pods):
        kind = i % TEMPLATES
        pod = make_pod(f"app{kind}-{i}").req(cpu=f"{(kind % 8 + 1) * 100}m", memory="512Mi")
        pod.label(app=f"app{kind}").owner("ReplicaSet", f"app{kind}", uid=f"rs{kind}")
        objects.append(pod.with_spec(nodeName=f"node-{i % nodes:05}"))
    return Cluster.from_objects(item.build() for item in objects)


def timed(work):
    start = time.process_time()
    work()
    return round(time.process_time() - start, 3)


class Enough(Exception):
    """So many tries were measured."""


def main():
    nodes, pods, tries = (int(arg) for arg in (sys.argv[1:] or (5000, 100_000, 500)))
    asked = cluster(nodes, pods)
    found = {"nodes": nodes, "pods": pods, "engine": timed(lambda: asked.engine)}
    found["drain"] = timed(lambda: asked.what_if("drain=node-00000"))

    def stop(done, _):
        if done >= tries:
            raise Enough

    def some():
        with suppress(Enough):
            each(asked, "node", progress=stop)

    seconds = timed(some)
    found |= {"each": min(tries, nodes), "ms_each": round(seconds / min(tries, nodes) * 1000, 2)}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
