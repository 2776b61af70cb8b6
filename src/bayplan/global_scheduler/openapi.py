"""The OpenAPI document of the allocations API, and the page to try it on."""

from typing import Any

from bayplan import __version__

_NAME = {"type": "string", "minLength": 1, "maxLength": 64, "pattern": "^[a-zA-Z0-9_.-]+$"}
_ID = {
    "type": "string",
    "pattern": "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
}
_TEXT = {"type": "string"}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _list(item: dict[str, Any], **more: object) -> dict[str, Any]:
    return {"type": "array", "items": item, **more}


def _object(properties: dict[str, Any], required: tuple[str, ...] = ()) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    return schema | ({"required": list(required)} if required else {})


def _schemas() -> dict[str, Any]:
    operators = ["in", "notin", "=", "==", "!=", "exists", "!", "gt", "lt"]
    requirement = _object(
        {"key": _TEXT, "operator": {"enum": operators}, "values": _list(_TEXT)},
        ("key", "operator"),
    )
    spot = _object(
        {
            "max_price": _TEXT,
            "spot_duration_hours": {"type": "integer", "minimum": 0},
            "spot_duration_count": {"type": "integer", "minimum": 1},
            "interruption_policy": _TEXT,
        }
    )
    flavor = _object({"flavor_id": _TEXT, "spot": spot}, ("flavor_id",))
    resource = _object(
        {
            "name": _NAME,
            "resource_type": _TEXT,
            "flavors": _list(flavor, minItems=1),
            "storage": {"type": "object", "additionalProperties": {"type": "integer"}},
            "need_eip": {"type": "boolean"},
            "count": {"type": "integer", "minimum": 1, "default": 1},
        },
        ("name", "flavors"),
    )
    group = _object(
        {
            "name": _NAME,
            "labels": {"type": "object", "additionalProperties": _NAME},
            "resources": _list(resource, minItems=1),
        },
        ("name", "resources"),
    )
    selector = _object(
        {
            "geo_location": _object(dict.fromkeys(("country", "area", "province", "city"), _TEXT)),
            "regions": _list(_object({"region": _TEXT, "availability_zone": _list(_TEXT)})),
            "operator": _TEXT,
            "node_id": _TEXT,
            "strategy": _object(
                {
                    "location_strategy": {"enum": ["", "centralize", "discrete"]},
                    "region_strategy": {"enum": ["", "alone"]},
                }
            ),
            "stack_affinity": _list(requirement),
            "stack_antiaffinity": _list(requirement),
        }
    )
    wanted = _object(
        {
            "id": _ID,
            "resource_group": group,
            "selector": selector,
            "replicas": {"type": "integer", "minimum": 1, "default": 1},
            "domain_id": _TEXT,
        },
        ("resource_group",),
    )
    selected = _object({"node_id": _TEXT, "region": _TEXT, "availability_zone": _TEXT})
    placed = _object({"id": _ID, "resource_groups": _list(_object({"selected": selected}))})
    why = _object(
        {
            "sites": {"type": "integer"},
            "funnel": _list({"type": "object"}),
            "replicas": {"type": "integer"},
            "fits": {"type": "integer"},
            "nearest": {"type": "object"},
        },
        ("sites", "funnel", "replicas", "fits"),
    )
    error = _object(
        {
            "error_code": _TEXT,
            "error_message": _TEXT,
            "details": _list(_object({"field": _TEXT, "problem": _TEXT})),
            "sites": {"type": "integer"},
            "reasons": {"type": "object", "additionalProperties": {"type": "integer"}},
            "by_site": {"type": "object", "additionalProperties": _TEXT},
            "explain": why,
        },
        ("error_code", "error_message"),
    )
    return {
        "AllocationRequest": _object({"allocation": wanted}, ("allocation",)),
        "AllocationAnswer": _object({"allocation": placed, "explain": why}, ("allocation",)),
        "AllocationList": _object({"allocations": _list(placed)}, ("allocations",)),
        "SiteList": _object({"sites": _list({"type": "object"})}, ("sites",)),
        "Error": error,
    }


def _answers(*, schema: str = "", ok: int = 200, errors: tuple[int, ...] = ()) -> dict[str, Any]:
    texts = {
        200: "done",
        201: "placed",
        204: "released",
        400: "the request is wrong",
        401: "a bearer token is needed",
        404: "there is no such allocation",
        409: "no site fits, or the id or key was used for another request",
        413: "the body is too large",
        415: "the body is not JSON",
        503: "the store does not answer",
    }

    def body(name: str) -> dict[str, Any]:
        return {"content": {"application/json": {"schema": _ref(name)}}}

    found = {str(ok): {"description": texts[ok]} | (body(schema) if schema else {})}
    for code in errors:
        found[str(code)] = {"description": texts[code]} | body("Error")
    return found


def document() -> dict[str, Any]:
    """The whole OpenAPI document."""
    identity = {"name": "id", "in": "path", "required": True, "schema": _TEXT}
    key = {
        "name": "Idempotency-Key",
        "in": "header",
        "schema": {"type": "string", "maxLength": 255},
    }
    explain = {"name": "explain", "in": "query", "schema": {"type": "boolean"}}
    queries = [
        {"name": "dry_run", "in": "query", "schema": {"type": "boolean"}},
        explain,
        {"name": "reserve", "in": "query", "schema": {"type": "boolean"}},
        {
            "name": "ttl_seconds",
            "in": "query",
            "schema": {"type": "number", "minimum": 0.001, "maximum": 86400},
        },
    ]
    create = {
        "operationId": "createAllocation",
        "summary": "Place a stack, times replicas; reserve=true waits for a commit",
        "parameters": [*queries, key],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": _ref("AllocationRequest")}},
        },
        "responses": _answers(
            schema="AllocationAnswer", ok=201, errors=(400, 401, 409, 413, 415, 503)
        )
        | {"200": _answers(schema="AllocationAnswer")["200"]},
    }
    one = {
        "parameters": [identity],
        "get": {
            "operationId": "getAllocation",
            "parameters": [explain],
            "responses": _answers(schema="AllocationAnswer", errors=(400, 401, 404)),
        },
        "delete": {
            "operationId": "releaseAllocation",
            "responses": _answers(ok=204, errors=(401, 404, 503)),
        },
    }
    commit = {
        "parameters": [identity],
        "post": {
            "operationId": "commitAllocation",
            "responses": _answers(schema="AllocationAnswer", errors=(401, 404, 503)),
        },
    }
    listing = {
        "operationId": "listAllocations",
        "responses": _answers(schema="AllocationList", errors=(401,)),
    }
    sites = {
        "get": {"operationId": "listSites", "responses": _answers(schema="SiteList", errors=(401,))}
    }
    return {
        "openapi": "3.0.3",
        "info": {"title": "Bayplan global scheduler", "version": __version__},
        "paths": {
            "/v1/allocations": {"post": create, "get": listing},
            "/v1/allocations/{id}": one,
            "/v1/allocations/{id}/commit": commit,
            "/v1/sites": sites,
        },
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Bayplan global scheduler</title>
<style>
 body{font:15px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem}
 textarea{width:100%;height:20rem;font:13px ui-monospace,monospace}
 pre{background:#f4f4f4;padding:1rem;overflow:auto} label{margin-right:1rem}
 button{padding:.4rem 1rem}
</style>
<h1>Place a stack</h1>
<p>Posts to <code>/v1/allocations</code>. The API is described in
<a href="openapi.json">openapi.json</a>; see <a href="v1/sites">sites</a> and
<a href="v1/allocations">allocations</a>.</p>
<form id="form">
<textarea id="body" aria-label="request body">{"allocation": {
  "resource_group": {"name": "web", "resources": [
    {"name": "fe", "flavors": [{"flavor_id": "c6.large.2"}], "count": 1}]},
  "selector": {"strategy": {"location_strategy": "centralize"}},
  "replicas": 1}}</textarea>
<p><label><input type="checkbox" id="dry" checked> dry run</label>
<label>token <input id="token" type="password" autocomplete="off"></label>
<button>Place</button></p></form>
<pre id="answer">The answer appears here.</pre>
<script>
document.getElementById("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const headers = {"Content-Type": "application/json"};
  const token = document.getElementById("token").value;
  if (token) headers.Authorization = "Bearer " + token;
  const dry = document.getElementById("dry").checked ? "?dry_run=true" : "";
  const body = document.getElementById("body").value;
  const answer = await fetch("v1/allocations" + dry, {method: "POST", headers, body});
  document.getElementById("answer").textContent = answer.status + "\\n" + await answer.text();
});
</script></html>
"""
