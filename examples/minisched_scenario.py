"""The scenario of mini-kube-scheduler's README, in Python.

Run it with `make start`: a control plane is started, the scenario is run on it, and both end. As in
the original all nodes are unschedulable, so after three seconds pod1 is bound to no node yet; make
one of them schedulable and see. `bayplan scenario run examples/minisched_scenario.py` runs the
same function in virtual time, without waiting for the three seconds.
"""

from bayplan.sim import ScenarioClient


async def scenario(client: ScenarioClient) -> None:
    # create node0 ~ node9, but all nodes are unschedulable
    for i in range(9):
        suffix = str(i)
        await client.create(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": "node" + suffix},
                "spec": {"unschedulable": True},
            }
        )

    client.log("scenario: all nodes created")

    await client.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "pod1", "namespace": "default"},
            "spec": {"containers": [{"name": "container1", "image": "k8s.gcr.io/pause:3.5"}]},
        }
    )

    client.log("scenario: pod1 created")

    # wait to schedule
    await client.sleep(3)

    pod1 = await client.get("Pod", "pod1", "default")

    node = pod1["spec"].get("nodeName")
    if node:
        client.log("scenario: pod1 is bound to " + node)
    else:
        client.log("scenario: pod1 is bound to no node: all nodes are unschedulable")


if __name__ == "__main__":
    from bayplan.sim.start import main

    main(scenario)
