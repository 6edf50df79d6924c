"""Patience: without being told anything, an agent's calls go on through a restart of ten seconds."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from actors.cli.session import started_stack
from actors.host.settings import Settings
from protocol.client import Client
from tests.builders import user
from tests.conftest import at_work
from tests.promises.harness import only_in_chaos

RESTART_SECONDS = 10.0


@only_in_chaos
async def test_calls_go_on_through_ten_seconds_without_nats_and_without_workers(tmp_path: Path) -> None:
    async with started_stack(Settings(data=str(tmp_path))) as (ours, stack), Client.connect(ours.nats.url) as client:
        talk = await client.open("patient")
        async with at_work(ours):
            await talk.append([user("one")])
            os.kill(stack.pids["nats"], signal.SIGSTOP)
            calls = [asyncio.create_task(talk.append([user("two")])), asyncio.create_task(talk.context())]
            try:
                await asyncio.sleep(RESTART_SECONDS)
            finally:
                os.kill(stack.pids["nats"], signal.SIGCONT)
            await asyncio.gather(*calls)
        asking = asyncio.create_task(talk.context())
        await asyncio.sleep(RESTART_SECONDS)
        assert not asking.done()
        async with at_work(ours):
            assert (await asking).messages == [user("one"), user("two")]
