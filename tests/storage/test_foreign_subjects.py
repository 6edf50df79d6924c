"""Foreign subjects: whoever may write a conversation's subject may write one that is no conversation's; nobody else's
work stops for it.

A server compares subjects by their dots alone, so what stands between them can be anything.
"""

import asyncio
from pathlib import Path

import nats.errors
import pytest
from nats.js.errors import NoStreamResponseError

from actors.host.settings import Settings
from protocol import subjects
from protocol.client import Client
from protocol.ids import address
from storage.gateway_sessions import JetStreamSessions
from storage.streams import drift, provision
from tests.conftest import at_work, chatter, settled
from tests.promises.harness import at_server, connected, one, told_by, with_own_bucket

NAMES = ("héé", "a/b", "x" * 300, "$name", "\x01", "ошибка", "=")


async def said_raw(port: int, subject: bytes) -> None:
    """Publish on a *subject* that no client would send."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b'CONNECT {"verbose":false}\r\nPUB ' + subject + b" 5\r\nhello\r\nPING\r\n")
    await writer.drain()
    await reader.readuntil(b"PONG")
    writer.close()


async def test_nobody_stops_for_what_is_said_on_a_subject_that_is_no_conversations(
    settings: Settings, tmp_path: Path
) -> None:
    async with one(tmp_path) as server:
        own = with_own_bucket(at_server(settings, server.url))
        agent = await connected(server.url)
        jetstream = agent.jetstream()
        for name in NAMES:
            await jetstream.publish(f"ctx.v1.log.default.{name}.said", b"a word")
        await said_raw(server.port, b"ctx.v1.log.default.\xff\xfe.said")
        for subject in ("ctx.v1.key.default.é", "ctx.v1.live.default.é.g", "ctx.v1.wake.digest.default.é"):
            await jetstream.publish(subject, b"{}")
        at = address("beside-them")
        async with at_work(own) as busy, Client.connect(server.url) as client:
            await busy.bucket.prepare()
            talk = await client.open(at.conversation)
            await talk.append(chatter(3))
            assert (await settled(busy, at)).messages == 6
            while not (await busy.sweeper().sweep(everything=True)).complete:
                await asyncio.sleep(0.1)
            end = await busy.log.end()
            assert {change.at async for change in busy.changes.after(0, upto=end)} == {at}
            assert {change.at for change in await busy.changes.tail(0, most=1_000)} == {at}
            # the strange ones stand first, and are no end
            assert [change.at for change in await busy.changes.tail(0, most=2)] == [at, at]
            assert await busy.log.addresses() == [at]
            assert await JetStreamSessions(busy.connection).newest(since_ms=0) == []
            while (await jetstream.stream_info(subjects.WAKE_STREAM)).state.messages:
                await asyncio.sleep(0.05)
        done = await told_by(own, "verify", "--all")
        assert done.returncode == 0, done.stderr
        assert f"nobody reads {len(NAMES) + 1} subjects" in done.stderr
        await agent.close()


async def test_who_asks_about_what_is_no_conversation_is_told_so(settings: Settings, tmp_path: Path) -> None:
    async with one(tmp_path) as server, at_work(at_server(settings, server.url), ["cut"]):
        agent = await connected(server.url)
        answer = await agent.request("ctx.v1.ask.context.default.héé", b"{}", timeout=180)
        assert "'héé' in a subject is not the safe form of an id" in answer.data.decode()
        await agent.close()


async def test_the_log_takes_what_agents_say_and_actors_do_and_nothing_else(tmp_path: Path) -> None:
    async with one(tmp_path) as server:
        agent = await connected(server.url)
        jetstream = agent.jetstream()
        wanted = (await jetstream.stream_info(subjects.LOG_STREAM)).config
        # as earlier versions had it
        await jetstream.update_stream(wanted.evolve(subjects=["ctx.v1.log.*.*.*", "ctx.v1.shard.*.log.*.*.*"]))
        await jetstream.publish("ctx.v1.log.default.a.context", b"")
        assert await drift(agent) != []
        await provision(agent)
        assert await drift(agent) == []
        with pytest.raises((NoStreamResponseError, nats.errors.NoRespondersError)):
            await jetstream.publish("ctx.v1.log.default.a.context", b"")
        await jetstream.publish(subjects.said(address("a")), b"")
        await agent.close()
