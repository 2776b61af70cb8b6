"""Builds the suite of requests about defaults, validation and immutability of all kinds.

Each step creates or changes one object; valid ones show what the server writes by itself, wrong
ones which causes it names. `steps()` is recorded from the real server into `validation.json.gz`
(`python -m tests.conformance.api.validation_suite SERVER TOKEN`), and checked against ours.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

from tests.conformance.api.validation_cases import (
    apps,
    batch,
    bounds,
    core,
    networking,
    nodes,
    others,
    pods,
    services,
    storage,
    updates,
)

Step = dict[str, Any]
NAMESPACE = "checks"
HERE = Path(__file__).parent


def namespace_step(name: str) -> Step:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    return {"id": f"setup/{name}", "method": "POST", "path": "/api/v1/namespaces", "body": body}


def steps() -> list[Step]:
    """Return all steps, in the order in which they must run."""
    out = [namespace_step(name) for name in (NAMESPACE, "limits", "bounded")]
    for module in (
        pods,
        core,
        nodes,
        services,
        apps,
        batch,
        storage,
        networking,
        others,
        bounds,
        updates,
    ):
        out += module.steps(NAMESPACE)
    for step in out:
        step.setdefault("compare", {})["message"] = "all"
        # Endpoints warn of their own age on every request, which is not about what is sent.
        if not step["id"].startswith("endpoints"):
            step.setdefault("compare", {})["warnings"] = True
    names = [step["id"] for step in out]
    assert len(names) == len(set(names)), sorted({n for n in names if names.count(n) > 1})
    return out


def main() -> None:
    """Record the suite: SERVER TOKEN."""
    from tests.conformance.api.replay import record

    server, token = sys.argv[1:3]
    recorded = record(steps(), server, token)
    with gzip.GzipFile(HERE / "validation.json.gz", "wb", mtime=0) as out:
        out.write(json.dumps({"steps": recorded}, separators=(",", ":")).encode())


if __name__ == "__main__":
    main()
