"""The connection's own care: what the client library forgets."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import nats.errors
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nats.aio.client import Client as NatsConnection
from nats.aio.msg import Msg
from nats.js.errors import APIError

from actors.host.settings import Settings
from protocol.acked import Ack, NoConfirmation, acked
from protocol.connecting import PING_SECONDS, connect
from protocol.errors import NotProvisioned
from protocol.guarded import UNSENT_BYTES_MAX, Guarded, header_lines, prompt
from protocol.ids import fresh_id
from protocol.login import Login
from protocol.mailbox import answers
from protocol.tasks import heed_cancellation
from tests.promises.harness import Server, one
from tests.stack import free_port, listened_on


def stands_still(pid: int) -> bool:
    """Tell whether each thread of *pid* has met the signal that stops it: until then it may answer."""
    states = [task.read_text().rpartition(")")[2].split()[0] for task in Path(f"/proc/{pid}/task").glob("*/stat")]
    return set(states) == {"T"}


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
        await asyncio.wait_for(asyncio.shield(task), 180)
    assert rounds == 1


@given(st.lists(st.binary(max_size=12) | st.sampled_from((b"Nats-Msg-Id: a", b"A:b:c", b" B :\t1 ", b"C D: x", b":"))))
def test_headers_are_read_as_nats_py_reads_them(lines: list[bytes]) -> None:
    raw = b"\r\n".join(lines)
    assert header_lines(raw) == NatsConnection._parse_header_lines(raw)


async def test_a_server_that_takes_small_messages_only_is_refused_at_once(tmp_path: Path) -> None:
    port = free_port()
    server = Server(config=tmp_path / "small.conf", port=port, store=tmp_path / "store")
    server.config.write_text(
        f'listen: "127.0.0.1:{port}"\nmax_payload: 64KB\njetstream {{ store_dir: "{server.store}" }}\n'
    )
    server.start()
    try:
        listened_on(port)
        with pytest.raises(NotProvisioned, match=r"takes messages of 65,536 bytes.*set `max_payload: 1MB`"):
            await connect(server.url, name="test")
    finally:
        server.kill()


async def test_an_answer_that_nobody_waits_for_any_more_makes_nobody_deaf(tmp_path: Path) -> None:
    """A server that hung answers late; what it says after that is heard, and not only by the next connection."""
    async with one(tmp_path) as server:
        connection = await connect(server.url, name="test")
        heard = await connection.subscribe("x")
        await connection.flush()
        assert server.process is not None
        os.kill(server.process.pid, signal.SIGSTOP)
        while not stands_still(server.process.pid):
            await asyncio.sleep(0.01)
        try:
            with pytest.raises(TimeoutError):
                await connection.flush(0.2)  # type: ignore[arg-type]  # seconds, handed to asyncio.wait_for
        finally:
            os.kill(server.process.pid, signal.SIGCONT)
        await connection.publish("x", b"1")
        assert (await heard.next_msg(timeout=PING_SECONDS)).data == b"1"
        await connection.close()


async def test_one_of_several_servers_that_hangs_keeps_nobody_out(tmp_path: Path) -> None:
    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(hang, "127.0.0.1", 0) as hung, one(tmp_path) as server:
        port = hung.sockets[0].getsockname()[1]
        # who is asked first is drawn
        for _ in range(6):
            connection = await connect(f"nats://127.0.0.1:{port},{server.url}", name="test")
            await connection.close()


async def let_in(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, version: str = "2.12.0", *, answer: str = "PONG"
) -> None:
    said = {"server_id": "x", "version": version, "max_payload": 1 << 20, "headers": True, "jetstream": True}
    writer.write(f"INFO {json.dumps(said)}\r\n".encode())
    await reader.readuntil(b"PING\r\n")
    writer.write(f"{answer}\r\n".encode())


async def test_a_server_that_takes_nothing_any_more_is_left_and_holds_up_no_close(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    came: asyncio.Queue[None] = asyncio.Queue()
    gone = asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            await let_in(reader, writer)
            came.put_nowait(None)
            await gone.wait()
        writer.close()

    async def speak(connection: NatsConnection) -> None:
        while not gone.is_set():  # nats-py may keep a cancellation for itself
            with suppress(nats.errors.Error):
                await connection.publish("subject", b"x" * 900_000)
            await asyncio.sleep(0)

    monkeypatch.setattr("protocol.connecting.PING_SECONDS", 0.2)
    async with await asyncio.start_server(hang, "127.0.0.1", 0) as server, asyncio.timeout(180):
        connection = await connect(f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}", name="test")
        speaking = asyncio.create_task(speak(connection))
        try:
            for _ in range(2):
                await came.get()
            await connection.close()
        finally:
            gone.set()
            speaking.cancel()
            await asyncio.wait({speaking})


async def test_who_gives_up_while_nats_py_closes_leaves_nothing_open() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await let_in(reader, writer, answer="-ERR 'Authorization Violation'")
        await reader.read()
        writer.close()

    async def give_up(_: Exception) -> None:
        connecting.cancel()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        connection = Guarded(Login(), encrypts=False)
        port = server.sockets[0].getsockname()[1]
        connecting = asyncio.ensure_future(connection.connect(f"nats://127.0.0.1:{port}", error_cb=give_up))
        await asyncio.wait({connecting})
        assert connecting.cancelled()
        await connection.close()
        assert connection._transport._io_writer.is_closing()  # type: ignore[union-attr]


@asynccontextmanager
async def of_version(version: str) -> AsyncIterator[str]:
    """Answer as a nats-server of *version* does that somebody connects to; yield the URL."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            await let_in(reader, writer, version)
            await reader.read()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_a_server_that_is_too_old_is_refused_at_once() -> None:
    async with of_version("2.10.26") as url:
        with pytest.raises(NotProvisioned, match=r"is version 2\.10\.26, which is too old: 2\.11 or newer is needed"):
            await connect(url, name="test")


async def test_a_server_of_somebodys_own_build_is_taken() -> None:
    async with of_version("dev") as url:
        await (await connect(url, name="test")).close()


async def test_what_is_published_comes_whole_and_in_order_to_who_waits_and_to_who_does_not(settings: Settings) -> None:
    """Also what the network does not take at once, and what is said at once with it."""
    connection = await connect(settings.nats.url, name="test")
    subject = f"test.order.{fresh_id()}"
    at_once: list[bytes] = []
    by_a_task: list[bytes] = []

    async def wait(message: Msg) -> None:
        await asyncio.sleep(0)
        by_a_task.append(message.data)

    await connection.subscribe(subject, cb=prompt(lambda message: at_once.append(message.data)))
    await connection.subscribe(subject, cb=wait)
    sizes = (1, 4 * UNSENT_BYTES_MAX, 1, 900_000, 17)
    said = [str(index).encode().zfill(size) for index in range(6) for size in sizes]
    async with asyncio.timeout(180):
        await asyncio.gather(*(connection.publish(subject, body) for body in said))
        while len(by_a_task) < len(said):
            await asyncio.sleep(0.01)
    await connection.close()
    assert at_once == said
    assert by_a_task == said


async def test_an_answer_that_does_not_come_is_a_timeout_and_forgotten(settings: Settings) -> None:
    connection = await connect(settings.nats.url, name="test")
    subject = f"test.silent.{fresh_id()}"
    asked = await connection.subscribe(subject)
    with pytest.raises(nats.errors.TimeoutError):
        await connection.request(subject, b"?", timeout=0.01)
    await connection.publish((await asked.next_msg(timeout=180)).reply, b"late")
    answering = asyncio.ensure_future(connection.request(subject, b"?", timeout=180))
    await (await asked.next_msg(timeout=180)).respond(b"in time")
    assert (await answering).data == b"in time"
    assert not connection._resp_map
    await connection.close()


async def test_only_what_names_a_place_in_a_stream_is_a_confirmation(settings: Settings) -> None:
    connection = await connect(settings.nats.url, name="test")
    subject = f"test.stored.{fresh_id()}"

    async def said(answer: bytes) -> Ack:
        async def confirm(message: Msg) -> None:
            await message.respond(answer)

        subscription = await connection.subscribe(subject, cb=confirm)
        try:
            return await acked(connection, subject, b"", headers={}, seconds=180)
        finally:
            await subscription.unsubscribe()

    for none in (b"{}", b'{"seq": 0}', b'{"stream": "x"}'):
        with pytest.raises(NoConfirmation):
            await said(none)
    with pytest.raises(APIError, match="full"):
        await said(b'{"error": {"code": 507, "err_code": 1, "description": "full"}, "seq": 0}')
    assert await said(b'{"seq": 7, "stream": "x"}') == Ack(seq=7)
    await connection.close()


async def test_who_waits_for_an_answer_of_a_connection_that_closes_waits_no_more(settings: Settings) -> None:
    connection = await connect(settings.nats.url, name="test")
    async with answers(connection) as arrived:
        waiting = asyncio.ensure_future(arrived.next(seconds=600))
        await asyncio.sleep(0)
        await connection.close()
        await asyncio.sleep(0)
        assert waiting.done()
        assert isinstance(waiting.exception(), nats.errors.ConnectionClosedError)


async def test_who_cannot_take_a_message_makes_nobody_deaf(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    connection = await connect(settings.nats.url, name="test")
    subject = f"test.taken.{fresh_id()}"
    taken: list[int] = []
    await connection.subscribe(subject, cb=prompt(lambda message: taken.append(int(message.data))))
    for body in (b"no number", b"2"):
        await connection.publish(subject, body)
        with suppress(nats.errors.FlushTimeoutError):
            await connection.flush(60)
    assert taken == [2]
    assert f"a message on {subject} was not taken" in caplog.text
    await connection.close()


async def test_what_is_flushed_is_behind_all_that_was_published() -> None:
    said: asyncio.Queue[bytes] = asyncio.Queue()

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            await let_in(reader, writer)
            while True:
                said.put_nowait(await reader.readuntil(b"PING\r\n"))
                writer.write(b"PONG\r\n")
        writer.close()

    async with await asyncio.start_server(hear, "127.0.0.1", 0) as server, asyncio.timeout(180):
        connection = await connect(f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}", name="test")
        await connection.publish("x", b"1")
        await connection.flush(180)
        heard = [said.get_nowait() for _ in range(said.qsize())]
        await connection.close()
    assert b"PUB x" in b"".join(heard)
