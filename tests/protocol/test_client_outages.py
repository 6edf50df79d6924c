"""The client when the way to NATS fails: an append is stored once, however often it had to be said."""

import asyncio
import math
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from actors.cli.session import started_stack
from actors.host.bootstrap import Runtime, runtime
from actors.host.settings import Settings
from protocol.client import Client
from protocol.errors import NotReady, OutcomeUnknown, Unavailable
from tests.conftest import at_work, chatter, settled
from tests.protocol.test_client import opened, said, user
from tests.stack import LOOPBACK

# nats-py drops a connection that is cut while it is being made without closing it
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <StreamWriter:ResourceWarning")


class Proxy:
    """A TCP proxy that can hold back what the server says, or drop everybody."""

    def __init__(self, port: int) -> None:
        self.url = ""
        self.answers = asyncio.Event()
        self.answers.set()
        self.holds_after = math.inf
        """Bytes to the server after which its answers are held back."""
        self._carried = 0
        self._port = port
        self._open: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()

    def begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection, and know of it until it has ended."""
        task = asyncio.create_task(self.serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection both ways until either end leaves."""
        there, back = await asyncio.open_connection(LOOPBACK, self._port)
        self._open |= {writer, back}
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._carry(reader, back, held=False))
                group.create_task(self._carry(there, writer, held=True))
        finally:
            for end in (writer, back):
                end.close()
                self._open.discard(end)

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, held: bool) -> None:
        with suppress(OSError):
            while data := await source.read(65_536):
                if held:
                    await self.answers.wait()
                else:
                    self._carried += len(data)
                    if self._carried > self.holds_after:
                        self.holds_after = math.inf
                        self.answers.clear()
                sink.write(data)
                await sink.drain()
        sink.close()

    def drop(self) -> None:
        """Cut every connection."""
        for end in tuple(self._open):
            end.transport.abort()

    async def end(self) -> None:
        """Cut every connection, and wait until both its ways have ended."""
        self.drop()
        serving = tuple(self._serving)
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


@asynccontextmanager
async def proxied(settings: Settings) -> AsyncIterator[Proxy]:
    proxy = Proxy(int(settings.nats.url.rpartition(":")[2]))
    server = await asyncio.start_server(proxy.begin, LOOPBACK, 0)
    try:
        proxy.url = f"nats://{LOOPBACK}:{server.sockets[0].getsockname()[1]}"
        yield proxy
    finally:
        server.close()
        await proxy.end()


async def test_an_append_whose_outcome_is_unknown_is_stored_once(
    working: Runtime, settings: Settings, name: str
) -> None:
    async with proxied(settings) as proxy, Client.connect(proxy.url) as client:
        talk = await opened(client, name)
        client.patience_seconds = 0.5
        proxy.answers.clear()
        with pytest.raises(OutcomeUnknown, match="harmless"):
            await talk.append([user("once")])
        with pytest.raises(OutcomeUnknown):
            await talk.append([user("once")])
        proxy.answers.set()
        client.patience_seconds = 30.0
        await talk.append([user("once")])
        await talk.append([user("next")])
        context = await talk.context()
    assert context.messages == [user("once"), user("next")]
    assert await said(working, talk.at) == [user("once"), user("next")]


async def test_what_is_not_confirmed_goes_before_what_is_newer(working: Runtime, settings: Settings, name: str) -> None:
    async with proxied(settings) as proxy, Client.connect(proxy.url) as client:
        talk = await opened(client, name)
        client.patience_seconds = 0.3
        proxy.answers.clear()
        with pytest.raises(OutcomeUnknown):
            await talk.append([user("first")])
        proxy.answers.set()
        client.patience_seconds = 40
        await talk.append([user("second")])
    assert await said(working, talk.at) == [user("first"), user("second")]


async def test_a_connection_that_is_cut_again_and_again_loses_and_repeats_nothing(
    working: Runtime, settings: Settings, name: str
) -> None:
    wanted = chatter(8, words=200)
    async with proxied(settings) as proxy, Client.connect(proxy.url) as client:
        talk = await opened(client, name)
        for index, message in enumerate(wanted):
            appending = asyncio.create_task(talk.append([message]))
            for _ in range(2):
                # at another moment of each: before it is sent, on its way, before its answer, while it connects
                await asyncio.sleep(0.002 * index)
                proxy.drop()
            await appending
    assert await said(working, talk.at) == wanted
    assert (await settled(working, talk.at)).messages == len(wanted)


async def test_a_killed_server_loses_and_repeats_nothing(tmp_path: Path, name: str) -> None:
    wanted = chatter(60)
    async with (
        started_stack(Settings(data=str(tmp_path))) as (ours, stack),
        at_work(ours) as busy,
        Client.connect(ours.nats.url) as client,
    ):
        talk = await opened(client, name)
        for index, message in enumerate(wanted):
            if index in (30, 80):
                os.kill(stack.pids["nats"], signal.SIGKILL)
            await talk.append([message])
        context = await talk.context(patience=180)
        assert context.upto == len(wanted)
        assert await said(busy, talk.at) == wanted
        assert (await settled(busy, talk.at)).messages == len(wanted)


async def test_without_a_worker_the_error_says_so(tmp_path: Path, name: str) -> None:
    async with (
        started_stack(Settings(data=str(tmp_path))) as (ours, _),
        runtime(ours, role="test") as alone,
        Client.connect(ours.nats.url) as client,
    ):
        talk = await opened(client, name)
        await talk.append([user("hi")])
        async with asyncio.timeout(180):
            with pytest.raises(NotReady, match="nobody serves"):
                await talk.context(patience=0.5)
        assert await said(alone, talk.at) == [user("hi")]
        # who serves, but has nobody who spills, says whom it waits for
        async with at_work(ours, ("cut",)):
            with pytest.raises(NotReady, match="spill has not worked"):
                await talk.context(patience=0.5)
        # and what was said meanwhile is not lost
        async with at_work(ours):
            assert (await talk.context()).messages == [user("hi")]


async def test_an_answer_that_does_not_come_is_bad_luck(working: Runtime, settings: Settings, name: str) -> None:
    async with proxied(settings) as proxy, Client.connect(proxy.url) as client:
        talk = await opened(client, name)
        await talk.append([user("hi")])
        proxy.answers.clear()
        async with asyncio.timeout(180):
            with pytest.raises(Unavailable, match="NATS does not answer"):
                await talk.context(patience=0)
        proxy.answers.set()
        assert (await talk.context()).messages == [user("hi")]
