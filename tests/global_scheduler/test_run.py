"""The whole process: files that change, a store that lasts."""

import asyncio
import json

import httpx
import pytest

from bayplan.errors import ConfigError
from bayplan.global_scheduler.run import Options, running
from tests.global_scheduler.test_http import BODY, JSON, SAMPLE


@pytest.fixture
def conf(tmp_path):
    folder = tmp_path / "conf"
    folder.mkdir()
    for source in SAMPLE.iterdir():
        (folder / source.name).write_bytes(source.read_bytes())
    return folder


def options(conf, **changes):
    return Options(conf, **({"host": "127.0.0.1", "port": 0, "reread_seconds": 0.02} | changes))


async def wait_for(condition):
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.01)


async def test_a_changed_file_is_read_again_and_a_broken_one_is_not_taken(conf):
    async with running(options(conf, store="memory")) as scheduler:
        sites = json.loads((conf / "sites.json").read_text())
        sites["sites"].append(sites["sites"][0] | {"id": "site2", "az": "az2"})
        (conf / "sites.json").write_text(json.dumps(sites))
        await wait_for(lambda: scheduler.service.table.count == 2)

        (conf / "sites.json").write_text("{")
        await asyncio.sleep(0.2)

        assert 2 == scheduler.service.table.count


async def test_allocations_over_http_survive_a_restart(conf):
    async with running(options(conf)) as scheduler, httpx.AsyncClient() as client:
        url = f"http://127.0.0.1:{scheduler.port}/v1/allocations"
        created = (await client.post(url, content=BODY, headers=JSON)).json()["allocation"]
        free = (await client.get(f"http://127.0.0.1:{scheduler.port}/v1/sites")).json()
    async with running(options(conf)) as scheduler, httpx.AsyncClient() as client:
        base = f"http://127.0.0.1:{scheduler.port}/v1"
        found = (await client.get(f"{base}/allocations/{created['id']}")).json()["allocation"]

        assert created | {"state": "committed"} == found
        assert free == (await client.get(f"{base}/sites")).json()


async def test_a_port_that_is_taken_is_named(conf):
    async with running(options(conf, store="memory")) as scheduler:
        taken = options(conf, store="memory", port=scheduler.port)
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{scheduler.port}"):
            async with running(taken):
                pass
