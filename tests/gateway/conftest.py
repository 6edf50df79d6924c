"""What all tests of the gateway ask with."""

from collections.abc import AsyncIterator

import aiohttp
import pytest


@pytest.fixture(scope="session")
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as opened:
        yield opened
