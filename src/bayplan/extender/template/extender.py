"""Places pods near their data: a node that carries the pod's `data` label wins.

Run it:    bayplan extender extender:app --bind 127.0.0.1:8888
Check it:  bayplan extender check http://127.0.0.1:8888
"""

from bayplan.extender import Extender

# ahead: these functions keep nothing between calls, so Bayplan may ask about several pods at once
app = Extender(name="data-locality", ahead=True)


@app.filter
def not_in_maintenance(pod, nodes):
    """Reject nodes that are labelled for maintenance, with a reason that users will read."""
    return {
        node.metadata.name: "node(s) were in maintenance"
        for node in nodes
        if node.metadata.labels.get("maintenance") == "true"
    }


@app.prioritize
def near_the_data(pod, nodes):
    """Score 10 where the node has the data that the pod names, 0 elsewhere."""
    wanted = pod.metadata.labels.get("data")
    return {
        node.metadata.name: 10 if wanted and node.metadata.labels.get("data") == wanted else 0
        for node in nodes
    }
