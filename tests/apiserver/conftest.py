from collections.abc import AsyncIterator

import pytest

from tests.apiserver.api import Api


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    started = await Api.start()
    yield started
    await started.close()
