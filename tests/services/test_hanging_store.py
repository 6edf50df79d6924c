"""A store that hangs is told from a worker that is not there."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from actors.cli.session import started_stack
from actors.host.settings import Settings
from protocol.client import Client
from protocol.errors import ArtifactsUnavailable, NotReady
from storage.s3 import CALL_SECONDS
from tests.conftest import at_work, layer


async def test_a_store_that_hangs_is_named_and_so_is_a_worker_that_is_not_there(tmp_path: Path) -> None:
    large = [{"role": "user", "content": "a line of many\n" * 4_000}]
    async with started_stack(Settings(data=str(tmp_path))) as (ours, stack), Client.connect(ours.nats.url) as client:
        async with at_work(ours, ("cut",)):
            talk = await client.open("nobody", policy=layer())
            await talk.append(large)
            with pytest.raises(NotReady, match="spill has not worked"):
                await talk.context(patience=1)
        async with at_work(ours, ("spill", "digest", "cut")):
            talk = await client.open("hangs", policy=layer(spill={"on_store_error": "wait"}))
            await talk.append([{"role": "user", "content": "small"}])
            await talk.context()
            os.kill(stack.pids["s3"], signal.SIGSTOP)
            try:
                await talk.append(large)
                # in so short a wait nobody knows whether it is slow or down
                with pytest.raises(NotReady, match="S3, where it stores parts, is slow or down"):
                    await talk.context(patience=1)
                with pytest.raises(ArtifactsUnavailable, match="S3 does not answer"):
                    await talk.context(patience=CALL_SECONDS * 2)
            finally:
                os.kill(stack.pids["s3"], signal.SIGCONT)
