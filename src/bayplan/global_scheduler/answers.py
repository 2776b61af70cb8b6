"""How allocations, sites and errors look in the HTTP API.

Success bodies are indented the way the original's framework indents them, so that the documented
demo prints the same text. Errors carry the documented `error_code` and `error_message`, and beside
them what the original left out: the fields that are wrong, or why each site was refused.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from bayplan.global_scheduler.fields import Problem
from bayplan.global_scheduler.ledger import Record
from bayplan.global_scheduler.placer import NoSite
from bayplan.global_scheduler.table import NO_POOL, SiteTable
from bayplan.global_scheduler.why import Why

INTERNAL = "GS.000001"
BAD_URI = "GS.000008"
BAD_BODY = "GS.000007"
NO_ACCESS = "GS.000005"
NO_SITE = "GS.050006"
NOT_FOUND = "GS.050003"
CONFLICT = "GS.050007"
QUOTA = "GS.050008"
UNAVAILABLE = "GS.050002"
SITES_SHOWN = 200
"""How many sites an error lists one by one; the counts always cover all."""


def render(value: object) -> bytes:
    """JSON with the original's indentation."""
    return msgspec.json.format(msgspec.json.encode(value), indent=1).replace(b"\n", b"\n ") + b"\n"


def allocation_body(record: Record) -> dict[str, Any]:
    """The documented answer; what the documentation does not know comes after it."""
    groups = []
    for group in record.groups:
        selected = {
            "node_id": group.selected.node_id,
            "region": group.selected.region,
            "availability_zone": group.selected.availability_zone,
        }
        if group.selected.cluster:
            selected["cluster"] = group.selected.cluster
        resources = [msgspec.to_builtins(resource) for resource in group.resources]
        groups.append({"name": group.name, "resources": resources, "selected": selected})
    body = {"id": record.id, "resource_groups": groups}
    return body | ({"preempted": list(record.preempted)} if record.preempted else {})


def full_body(record: Record) -> dict[str, Any]:
    """An allocation with its state, for looking it up."""
    body = allocation_body(record) | {"state": record.state}
    if record.expires:
        body["expires"] = round(record.expires, 3)
    wanted = record.allocation
    for name in ("priority", "starts_at", "ends_at"):
        if getattr(wanted, name):
            body[name] = getattr(wanted, name)
    if record.history:
        body["history"] = [{"at": round(one.at, 3), "what": one.what} for one in record.history]
    return body


def error_body(code: str, message: str, problems: Iterable[Problem] = ()) -> dict[str, Any]:
    """An error, with the fields that are wrong."""
    body: dict[str, Any] = {"error_code": code, "error_message": message}
    if listed := [{"field": problem.path, "problem": problem.text} for problem in problems]:
        body["details"] = listed
    return body


def bad_body(problems: list[Problem]) -> dict[str, Any]:
    """A request that cannot be taken."""
    text = "; ".join(str(problem) for problem in problems)
    return error_body(BAD_BODY, f"The request body parameter is illegal: {text}.", problems)


def no_site_body(why: NoSite) -> dict[str, Any]:
    """No feasible site: counts by reason over all sites, and the reason of each (of the first)."""
    body = error_body(NO_SITE, why.message)
    body["sites"] = why.sites
    body["reasons"] = dict(sorted(why.reasons.items()))
    body["by_site"] = dict(list(why.by_site.items())[:SITES_SHOWN])
    return body


def why_body(why: Why | None) -> dict[str, Any]:
    """The funnel and the nearest site, when they were asked for."""
    return {} if why is None else {"explain": msgspec.to_builtins(why)}


def site_body(table: SiteTable, row: int) -> dict[str, Any]:
    """One site with what is free."""
    site = table.sites[row]
    machines = {
        key: {
            "vcpus": {"total": int(pool.vcpus[row]), "free": int(pool.free_vcpus[row])},
            "memory": {"total": int(pool.memory[row]), "free": int(pool.free_memory[row])},
        }
        for key, pool in table.pools.items()
        if pool.vcpus[row] or pool.memory[row]
    }
    storage = {
        kind: {"total": int(column.total[row]), "free": int(column.free[row])}
        for kind, column in table.storage.items()
        if column.there[row]
    }
    pool = int(table.eip_pool[row])
    eips = None
    if pool != NO_POOL:
        eips = {
            "pool": table.eip_keys[pool],
            "total": int(table.eip_size[pool]),
            "free": int(table.eip_free[pool]),
        }
    return {
        "site_id": site.id,
        "region": site.region,
        "availability_zone": site.zone,
        "status": "Drained" if site.open and not table.open[row] else site.status,
        "machines": machines,
        "storage": storage,
        "eips": eips,
    }
