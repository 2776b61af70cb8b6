"""Commands of kubectl that make a change for real: what answers print for people to copy.

They are texts only; nothing here runs them. A pod that exists cannot be given another spec, so it
is made anew; an owner gets its template patched.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from typing import Any

from bayplan.api import Object, Pod

Ops = Iterable[dict[str, Any]]


def where(item: Object) -> str:
    """`-n NAMESPACE NAME`."""
    return f"-n {item.namespace} {item.name}"


def json_patch(ops: Ops, prefix: str = "") -> str:
    """The flags of `kubectl patch`; a template has no priority of its own, only a class."""
    body = [
        {**op, "path": f"{prefix}{op['path']}"}
        for op in ops
        if not (prefix and op["path"] == "/spec/priority")
    ]
    return f"--type=json -p {shlex.quote(json.dumps(body))}"


def patch_template(owner: Object, ops: Ops) -> str:
    """Patch the template of an owner with a patch of its pods."""
    return f"kubectl patch {owner.KIND.lower()} {where(owner)} {json_patch(ops, '/spec/template')}"


def anew(pod: Pod, ops: Ops) -> str:
    """Make a pod again, changed, and free of the node that it has."""
    away = [{"op": "remove", "path": "/spec/nodeName"}] if pod.spec.node_name else []
    return (
        f"kubectl get pod {where(pod)} -o json | kubectl patch --local -f - -o json "
        f"{json_patch([*ops, *away])} | kubectl replace --force -f -"
    )


def create(body: dict[str, Any], verb: str = "create") -> str:
    """Create (or apply) an object that is given as it is."""
    return f"echo {shlex.quote(json.dumps(body))} | kubectl {verb} -f -"
