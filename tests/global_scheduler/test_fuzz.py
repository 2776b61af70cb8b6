"""Whatever the OpenAPI document allows, or does not, is answered; never with a 500."""

import asyncio
import os
from importlib.resources import files
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, settings

from bayplan.global_scheduler.files import must_load
from bayplan.global_scheduler.http import Api
from bayplan.global_scheduler.openapi import document
from bayplan.global_scheduler.placer import Placer
from bayplan.global_scheduler.plugins import in_tree_registry
from bayplan.global_scheduler.service import Allocations
from bayplan.store import MemoryStore
from tests.global_scheduler.fuzz import fuzz

EXAMPLES = int(os.environ.get("BAYPLAN_FUZZ", "25"))  # of each operation
SAMPLE = Path(str(files("bayplan.global_scheduler") / "sample"))


def small(part):
    """Bound lists and maps that have no bound: long ones find no more, and take long."""
    if isinstance(part, list):
        return [small(item) for item in part]
    if not isinstance(part, dict):
        return part
    made = {key: small(value) for key, value in part.items()}
    if "$ref" in made:
        made["$ref"] += "Small"
    if made.get("type") == "array":
        made.setdefault("maxItems", 2)
    if isinstance(made.get("additionalProperties"), dict):
        made.setdefault("maxProperties", 2)
    return made


def asking_little():
    """Return the document with requests of few items; answers stay as they are."""
    made = document()
    schemas = made["components"]["schemas"]
    schemas |= {f"{name}Small": small(schema) for name, schema in schemas.items()}
    for path in made["paths"].values():
        for operation in path.values():
            if "requestBody" in operation:
                operation["requestBody"] = small(operation["requestBody"])
    return made


schema = schemathesis.openapi.from_dict(asking_little())
schema.config.phases.update(phases=["fuzzing"])


@pytest.fixture(scope="module")
def url():
    import threading

    import uvicorn

    base = must_load(SAMPLE)
    started = threading.Event()
    found = {}

    async def serve():
        service = Allocations(
            MemoryStore(),
            base.inventory,
            Placer(base.policy, in_tree_registry()),
            clock=lambda: 1000.0,
        )
        await service.start()
        config = uvicorn.Config(Api(service), port=0, log_level="warning", access_log=False)
        server = uvicorn.Server(config)
        task = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        found["server"] = server
        found["port"] = server.servers[0].sockets[0].getsockname()[1]
        started.set()
        await task
        await service.stop()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert started.wait(60)
    yield f"http://127.0.0.1:{found['port']}"
    found["server"].should_exit = True
    thread.join(60)


@schema.parametrize()
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_request_is_answered_with_500(case, url):
    answer = case.call(base_url=url, timeout=60)

    assert answer.status_code < 500, answer.text
    case.validate_response(
        answer,
        checks=[
            schemathesis.checks.not_a_server_error,
            schemathesis.specs.openapi.checks.response_schema_conformance,
        ],
    )


async def test_nonsense_is_answered():
    """`python -m tests.global_scheduler.fuzz` sends more of it."""
    failures, seen = await fuzz(500, seed=3)

    assert [] == failures
    assert {200, 201, 400, 404} <= seen.keys(), "both sides of the line were tried"
