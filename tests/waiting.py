"""Waiting for a condition on a running cluster; a minute is far more than any of them takes."""

import asyncio

import msgspec

from bayplan.client.errors import NotFound


async def until(client, resource, name, holds, namespace="default"):
    """Wait until something holds for an object, and give the object."""
    async with asyncio.timeout(60):
        while True:
            found = msgspec.json.decode(await client.get(resource, name, namespace))
            if holds(found):
                return found
            await asyncio.sleep(0.02)


async def until_gone(client, resource, name, namespace="default"):
    async with asyncio.timeout(60):
        while True:
            try:
                await client.get(resource, name, namespace)
            except NotFound:
                return
            await asyncio.sleep(0.02)


async def wait_for(condition):
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)
