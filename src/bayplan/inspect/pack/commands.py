"""A plan as commands for a shell; nothing here carries them out.

`kubectl` has no command for an eviction, so it is posted as it is; that call is the one that asks
disruption budgets. After each eviction the owner is waited for, so that the next step starts from
what the plan expects.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator

from bayplan.inspect.pack.answer import Plan, Step

WAIT = "--timeout=10m"
ROLLS = ("deployment", "statefulset", "daemonset")


def commands(plan: Plan) -> list[str]:
    """One line a command, with a comment on what is expected."""
    return ["set -e", *(line for step in plan.steps for line in _lines(step))]


def _lines(step: Step) -> Iterator[str]:
    if step.do in ("cordon", "uncordon"):
        yield f"kubectl {step.do} {' '.join(shlex.quote(name) for name in step.nodes)}"
        return
    namespace, _, name = step.pod.partition("/")
    if step.do == "place":
        yield f"# {step.pod} goes to {step.target} by itself"
        return
    body = json.dumps(
        {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
        }
    )
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
    yield f"# {step.owner or step.pod}: {step.source} -> {step.target}"
    yield f"echo {shlex.quote(body)} | kubectl create --raw {shlex.quote(path)} -f -"
    yield f"kubectl -n {namespace} wait --for=delete pod/{name} {WAIT}"
    kind, _, owner = step.owner.partition("/")
    if kind in ROLLS:
        yield f"kubectl -n {namespace} rollout status {kind}/{owner} {WAIT}"
    elif kind in ("replicaset", "replicationcontroller"):
        wanted = f"$(kubectl -n {namespace} get {kind}/{owner} -o 'jsonpath={{.spec.replicas}}')"
        what = f'--for=jsonpath="{{.status.readyReplicas}}={wanted}"'
        yield f"kubectl -n {namespace} wait {what} {kind}/{owner} {WAIT}"
