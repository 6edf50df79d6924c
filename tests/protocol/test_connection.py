"""The connection's own care: what the client library forgets."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from protocol.connection import heed_cancellation


async def test_a_loop_whose_cancellation_was_swallowed_still_ends() -> None:
    rounds = 0

    async def loop() -> None:
        nonlocal rounds
        while True:
            rounds += 1
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(60)
            heed_cancellation()

    task = asyncio.create_task(loop())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(asyncio.shield(task), 30)
    assert rounds == 1
