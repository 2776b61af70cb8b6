"""The OpenAPI document of the allocations API, and the page to try it on."""

from typing import Any

from bayplan import __version__
from bayplan.global_scheduler.request import FEW, MANY, MAX_FLAVORS, MAX_RESOURCES, MAX_TOGETHER
from bayplan.global_scheduler.stack import Spread

_NAME = {"type": "string", "minLength": 1, "maxLength": 64, "pattern": "^[a-zA-Z0-9_.-]+$"}
_ID = {
    "type": "string",
    "pattern": "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
}
_TEXT = {"type": "string"}
_MOVE = ("allocation", "from", "to")


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _list(item: dict[str, Any], **more: object) -> dict[str, Any]:
    return {"type": "array", "items": item, **more}


def _names() -> dict[str, Any]:
    return _list(_TEXT, maxItems=MANY)


def _object(properties: dict[str, Any], required: tuple[str, ...] = ()) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    return schema | ({"required": list(required)} if required else {})


def _query(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": schema}


_PAGE = [
    _query("limit", {"type": "integer", "minimum": 0, "maximum": 5000}),
    _query("continue", _TEXT),
]
_REST = {"continue": _TEXT, "remaining": {"type": "integer"}}


def _group() -> dict[str, Any]:
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
            "flavors": _list(flavor, minItems=1, maxItems=MAX_FLAVORS),
            "storage": {"type": "object", "additionalProperties": {"type": "integer"}},
            "need_eip": {"type": "boolean"},
            "count": {"type": "integer", "minimum": 1, "default": 1},
            "max_per_host": {"type": "integer", "minimum": 0, "default": 0},
        },
        ("name", "flavors"),
    )
    return _object(
        {
            "name": _NAME,
            "labels": {"type": "object", "additionalProperties": _NAME},
            "resources": _list(resource, minItems=1, maxItems=MAX_RESOURCES),
        },
        ("name", "resources"),
    )


def _selector() -> dict[str, Any]:
    operators = ["in", "notin", "=", "==", "!=", "exists", "!", "gt", "lt"]
    requirement = _object(
        {"key": _TEXT, "operator": {"enum": operators}, "values": _names()},
        ("key", "operator"),
    )
    return _object(
        {
            "geo_location": _object(dict.fromkeys(("country", "area", "province", "city"), _TEXT)),
            "regions": _list(
                _object({"region": _TEXT, "availability_zone": _names()}), maxItems=MANY
            ),
            "operator": _TEXT,
            "node_id": _TEXT,
            "strategy": _object(
                {
                    "location_strategy": {"enum": ["", "centralize", "discrete"]},
                    "region_strategy": {"enum": ["", "alone"]},
                }
            ),
            "residency": _object({"countries": _names(), "except_countries": _names()}),
            "latency": _list(
                _object({"to": _TEXT, "max_ms": {"type": "number"}}, ("to", "max_ms")),
                maxItems=FEW,
            ),
            "max_price": {"type": "number", "minimum": 0},
            "spread": _object(
                {
                    name: {"type": "integer", "minimum": 0, "default": 0}
                    for name in Spread.__struct_fields__
                }
            ),
            "stack_affinity": _list(requirement, maxItems=FEW),
            "stack_antiaffinity": _list(requirement, maxItems=FEW),
        }
    )


def _wanted() -> dict[str, Any]:
    selector = _selector()
    return _object(
        {
            "id": _ID,
            "resource_group": _group(),
            "selector": selector,
            "replicas": {"type": "integer", "minimum": 1, "default": 1},
            "domain_id": _TEXT,
            "priority": {"type": "integer", "default": 0},
            "preempt": {"type": "boolean", "default": False},
            "alternatives": _list(selector, maxItems=FEW),
            "starts_at": {"anyOf": [{"type": "number", "minimum": 0}, _TEXT]},
            "ends_at": {"anyOf": [{"type": "number", "minimum": 0}, _TEXT]},
        },
        ("resource_group",),
    )


def _why() -> dict[str, Any]:
    return _object(
        {
            "sites": {"type": "integer"},
            "funnel": _list({"type": "object"}),
            "replicas": {"type": "integer"},
            "fits": {"type": "integer"},
            "nearest": {"type": "object"},
            "relaxations": _list(_object({"change": _TEXT, "site": _TEXT})),
        },
        ("sites", "funnel", "replicas", "fits"),
    )


def _error() -> dict[str, Any]:
    return _object(
        {
            "error_code": _TEXT,
            "error_message": _TEXT,
            "details": _list(_object({"field": _TEXT, "problem": _TEXT})),
            "sites": {"type": "integer"},
            "reasons": {"type": "object", "additionalProperties": {"type": "integer"}},
            "by_site": {"type": "object", "additionalProperties": _TEXT},
            "explain": _why(),
        },
        ("error_code", "error_message"),
    )


def _schemas() -> dict[str, Any]:
    wanted, why = _wanted(), _why()
    selected = _object({"node_id": _TEXT, "region": _TEXT, "availability_zone": _TEXT})
    placed = _object({"id": _ID, "resource_groups": _list(_object({"selected": selected}))})
    return {
        "AllocationRequest": _object({"allocation": wanted}, ("allocation",)),
        "AllocationsRequest": _object(
            {"allocations": _list(wanted, minItems=1, maxItems=MAX_TOGETHER)}, ("allocations",)
        ),
        "Resize": _object(
            {"replicas": {"type": "integer", "minimum": 1, "maximum": 100000}}, ("replicas",)
        ),
        "Move": _object({"leave": _list(_TEXT, minItems=1)}, ("leave",)),
        "AllocationAnswer": _object({"allocation": placed, "explain": why}, ("allocation",)),
        "AllocationList": _object({"allocations": _list(placed)} | _REST, ("allocations",)),
        "Question": _object(
            {
                "lose": _list(_TEXT),
                "add": {"type": "object"},
                "place": _list(_ref("AllocationRequest")),
            }
        ),
        "Drain": _object({"drain": {"type": "object"}}, ("drain",)),
        "Plan": _object({"plan": {"type": "object"}}, ("plan",)),
        "Moves": _object(
            {
                "moves": _list(
                    _object(dict.fromkeys(_MOVE, _TEXT), _MOVE),
                    maxItems=100,
                )
            },
            ("moves",),
        ),
        "WhatIf": _object({"whatif": {"type": "object"}}, ("whatif",)),
        "StrandedList": _object({"stranded": _list({"type": "object"})}, ("stranded",)),
        "SiteList": _object({"sites": _list({"type": "object"})} | _REST, ("sites",)),
        "SiteAnswer": _object({"site": {"type": "object"}}, ("site",)),
        "Error": _error(),
    }


def _content(*names: str) -> dict[str, Any]:
    """A JSON body of one of these schemas."""
    schema = _ref(names[0]) if len(names) == 1 else {"anyOf": [_ref(name) for name in names]}
    return {"content": {"application/json": {"schema": schema}}}


def _body(*names: str) -> dict[str, Any]:
    return {"required": True, **_content(*names)}


def _answers(
    *, schema: str | tuple[str, ...] = (), ok: int = 200, errors: tuple[int, ...] = ()
) -> dict[str, Any]:
    names = (schema,) if isinstance(schema, str) else schema
    texts = {
        200: "done",
        201: "placed",
        204: "released",
        400: "the request is wrong",
        401: "a bearer token is needed",
        404: "there is no such allocation",
        409: "no site fits, a quota is used up, or the id or key was used for another request",
        413: "the body is too large",
        415: "the body is not JSON",
        503: "the store does not answer",
    }
    found = {str(ok): {"description": texts[ok]} | (_content(*names) if names else {})}
    for code in errors:
        found[str(code)] = {"description": texts[code]} | _content("Error")
    return found


_IDENTITY = {"name": "id", "in": "path", "required": True, "schema": _TEXT}
_EXPLAIN = {"name": "explain", "in": "query", "schema": {"type": "boolean"}}


def _create() -> dict[str, Any]:
    key = {
        "name": "Idempotency-Key",
        "in": "header",
        "schema": {"type": "string", "maxLength": 255},
    }
    queries = [
        {"name": "dry_run", "in": "query", "schema": {"type": "boolean"}},
        _EXPLAIN,
        {"name": "reserve", "in": "query", "schema": {"type": "boolean"}},
        {
            "name": "ttl_seconds",
            "in": "query",
            "schema": {"type": "number", "minimum": 0.001, "maximum": 86400},
        },
    ]
    return {
        "operationId": "createAllocation",
        "summary": "Place a stack, times replicas; reserve=true waits for a commit. "
        "Several as `allocations`: all or none",
        "parameters": [*queries, key],
        "requestBody": _body("AllocationRequest", "AllocationsRequest"),
        "responses": _answers(
            schema=("AllocationAnswer", "AllocationList"),
            ok=201,
            errors=(400, 401, 409, 413, 415, 503),
        )
        | {"200": _answers(schema="AllocationAnswer")["200"]},
    }


def _one() -> dict[str, Any]:
    one = {
        "parameters": [_IDENTITY],
        "get": {
            "operationId": "getAllocation",
            "parameters": [_EXPLAIN],
            "responses": _answers(schema="AllocationAnswer", errors=(400, 401, 404)),
        },
        "delete": {
            "operationId": "releaseAllocation",
            "responses": _answers(ok=204, errors=(401, 404, 503)),
        },
    }
    one["patch"] = {
        "operationId": "resizeAllocation",
        "summary": "More or fewer replicas; those that stay are not moved",
        "requestBody": _body("Resize"),
        "responses": _answers(
            schema="AllocationAnswer", errors=(400, 401, 404, 409, 413, 415, 503)
        ),
    }
    return one


def _move() -> dict[str, Any]:
    return {
        "parameters": [_IDENTITY],
        "post": {
            "operationId": "moveAllocation",
            "summary": "Place the replicas on some sites elsewhere",
            "requestBody": _body("Move"),
            "responses": _answers(
                schema="AllocationAnswer", errors=(400, 401, 404, 409, 413, 415, 503)
            ),
        },
    }


def _drain() -> dict[str, Any]:
    return {
        "parameters": [_IDENTITY],
        "post": {
            "operationId": "drainSite",
            "summary": "Take nothing more on a site and move what is there, by rank",
            "responses": _answers(schema="Drain", errors=(401, 404, 503)),
        },
        "delete": {
            "operationId": "reopenSite",
            "responses": _answers(ok=204, errors=(401, 404, 503)),
        },
    }


def _rebalance() -> dict[str, Any]:
    count = {"type": "integer", "minimum": 1, "maximum": 100, "default": 20}
    return {
        "get": {
            "operationId": "planRebalance",
            "summary": "Moves that even out what sites have left; nothing is changed",
            "parameters": [{"name": "moves", "in": "query", "schema": count}],
            "responses": _answers(schema="Plan", errors=(400, 401)),
        },
        "post": {
            "operationId": "rebalance",
            "summary": "Carry out moves of a plan",
            "requestBody": _body("Moves"),
            "responses": _answers(schema="Moves", errors=(400, 401, 413, 415, 503)),
        },
    }


def document() -> dict[str, Any]:
    """The whole OpenAPI document."""
    commit = {
        "parameters": [_IDENTITY],
        "post": {
            "operationId": "commitAllocation",
            "responses": _answers(schema="AllocationAnswer", errors=(401, 404, 503)),
        },
    }
    listing = {
        "operationId": "listAllocations",
        "parameters": [*_PAGE, *(_query(name, _TEXT) for name in ("site", "domain_id"))],
        "responses": _answers(schema="AllocationList", errors=(400, 401)),
    }
    sites = {
        "get": {
            "operationId": "listSites",
            "parameters": _PAGE,
            "responses": _answers(schema="SiteList", errors=(400, 401)),
        }
    }
    site = {
        "parameters": [_IDENTITY],
        "get": {
            "operationId": "getSite",
            "summary": "A site with what of each flavor it has, holds and has room for",
            "responses": _answers(schema="SiteAnswer", errors=(401, 404)),
        },
    }
    whatif = {
        "operationId": "whatIf",
        "summary": "What would become of all allocations; nothing is changed",
        "requestBody": _body("Question"),
        "responses": _answers(schema="WhatIf", errors=(400, 401, 404, 413, 415)),
    }
    stranded = {
        "get": {
            "operationId": "listStranded",
            "summary": "What is free on listed hosts and fits no flavor",
            "responses": _answers(schema="StrandedList", errors=(401,)),
        }
    }
    return {
        "openapi": "3.0.3",
        "info": {"title": "Bayplan global scheduler", "version": __version__},
        "paths": {
            "/v1/allocations": {"post": _create(), "get": listing},
            "/v1/allocations/{id}": _one(),
            "/v1/allocations/{id}/commit": commit,
            "/v1/allocations/{id}/move": _move(),
            "/v1/sites": sites,
            "/v1/sites/{id}": site,
            "/v1/sites/{id}/drain": _drain(),
            "/v1/rebalance": _rebalance(),
            "/v1/stranded": stranded,
            "/v1/whatif": {"post": whatif},
        },
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }
