"""A plan as commands for a shell; nothing here carries them out.

`kubectl` has no command for an eviction, so it is posted as it is; that call is the one that asks
disruption budgets. After each eviction the owner is waited for, so that the next step starts from
what the plan expects.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from bayplan.inspect.pack.answer import Plan, Step

WAIT = "--timeout=10m"
EVICTION = (
    '{"apiVersion": "policy/v1", "kind": "Eviction", '
    '"metadata": {"name": "%s", "namespace": "%s"}}\\n'
)
ROLLS = ("deployment", "statefulset", "daemonset")


def commands(plan: Plan) -> list[str]:
    """One line a command, with a comment on what is expected."""
    found = ["set -e"]
    seen: set[str] = set()
    for step in plan.steps:
        found += _lines(step, again=step.pod in seen)
        seen |= {step.pod} if step.stopover else set()
    return found


def _lines(step: Step, *, again: bool = False) -> Iterator[str]:
    """`again`: the pod was moved before, and what was made in its place has a name of its own."""
    if step.do in ("cordon", "uncordon"):
        yield f"kubectl {step.do} {' '.join(shlex.quote(name) for name in step.nodes)}"
        return
    namespace, _, name = step.pod.partition("/")
    if step.do == "place":
        yield f"# {step.pod} goes to {step.target} by itself"
        return
    kind, _, owner = step.owner.partition("/")
    yield f"# {step.owner or step.pod}: {step.source} -> {step.target}"
    if again and kind != "statefulset":
        there = (
            f"--field-selector spec.nodeName={step.source} --sort-by=.metadata.creationTimestamp"
        )
        newest = f"grep '^pod/{owner}-' | tail -1 | cut -d/ -f2"
        yield f"POD=$(kubectl -n {namespace} get pods {there} -o name | {newest})"
    else:
        yield f"POD={name}"
    path = f'"/api/v1/namespaces/{namespace}/pods/$POD/eviction"'
    yield f"printf '{EVICTION}' \"$POD\" {namespace} | kubectl create --raw {path} -f -"
    yield f'kubectl -n {namespace} wait --for=delete "pod/$POD" {WAIT}'
    if kind in ROLLS:
        yield f"kubectl -n {namespace} rollout status {kind}/{owner} {WAIT}"
    elif kind in ("replicaset", "replicationcontroller"):
        wanted = f"$(kubectl -n {namespace} get {kind}/{owner} -o 'jsonpath={{.spec.replicas}}')"
        what = f'--for=jsonpath="{{.status.readyReplicas}}={wanted}"'
        yield f"kubectl -n {namespace} wait {what} {kind}/{owner} {WAIT}"
