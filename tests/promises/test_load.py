"""Load: any size, many events, long conversations, servers that stop and come back (promises 21-23, 26, 28, 30, 37)."""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import time
from collections.abc import AsyncIterator

import pytest
from nats.aio.msg import Msg

from actors.cli.session import started_stack
from actors.host.bootstrap import Runtime, runtime
from actors.host.embedded import EmbeddedStack
from actors.host.settings import Settings
from protocol import subjects
from protocol.client import Client
from protocol.ids import address, fresh_id
from protocol.limits import CLAIM_BYTES_MIN, ENVELOPE_BYTES_MAX, PAYLOAD_BYTES_MAX
from tests.conftest import Json, at_work, layer, settled
from tests.programs.bench.servers import resident_mb
from tests.promises.harness import environment, only_in_chaos, said_body, said_whole
from tests.runtime.test_outages import LOG, call_and_result
from tests.runtime.test_poison import freed, letter, letters
from tests.stack import LOOPBACK, ROOT, free_port, jettison_command

SIZES = sorted(
    {
        limit + off
        for limit in (CLAIM_BYTES_MIN, ENVELOPE_BYTES_MAX, 900_000, PAYLOAD_BYTES_MAX, 5_000_000)
        for off in (-200, -10, 0, 10)
    }
)


@pytest.fixture
async def apart(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Settings, EmbeddedStack]]:
    """Yield servers of their own, which may be killed."""
    async with started_stack(Settings(data=str(tmp_path_factory.mktemp("load")))) as both:
        yield both


@pytest.mark.slow
async def test_a_message_of_any_size_is_kept_whole_and_the_connection_stays(
    working: Runtime, client: Client, name: str
) -> None:
    talk = await client.open(name, policy=layer())
    spoken: list[Json] = []
    for number, size in enumerate(SIZES):
        turn: list[Json] = [{"role": "user", "content": f"{number} " + "u" * size}]
        turn += call_and_result(f"c{number}", f"{number} " + "r" * size)[1:]
        await talk.append(turn)
        spoken += turn
        assert not client.connection.is_closed
    context = await talk.context(patience=180)
    assert context.upto == len(spoken)
    assert context.tokens <= context.budget
    assert await said_whole(working, talk.at) == spoken


async def test_an_upload_that_was_damaged_parks_its_conversation_and_no_other(
    working: Runtime, client: Client, name: str
) -> None:
    talk, other = await client.open(name, policy=layer()), await client.open(f"other-{name}", policy=layer())
    large = call_and_result("a", LOG * 20)
    sha256 = await talk._uploads.put((LOG * 20).encode())
    await working.bucket.call(
        "PutObject",
        sha256,
        lambda s3, bucket: s3.put_object(Bucket=bucket, Key=f"{talk.at.tenant}/{sha256}", Body=b"bad"),
    )
    # the client knows that it is there: it was damaged after that, before a worker looks
    await talk.append(large)
    kept = await letter(working, talk.at)
    assert (kept.letter.reason, kept.letter.error) == ("damaged", "ArtifactDamaged")
    await freed(working, talk.at)
    await other.append([{"role": "user", "content": "hello"}])
    assert (await other.context(patience=180)).upto == 1


@pytest.mark.slow
@pytest.mark.parametrize("child", ["nats", "s3"])
@pytest.mark.parametrize("silent_seconds", [7.0, pytest.param(30.0, marks=only_in_chaos)])
async def test_a_server_that_is_silent_for_seconds_gives_no_dead_letter_and_no_loss(
    apart: tuple[Settings, EmbeddedStack], child: str, silent_seconds: float
) -> None:
    settings, stack = apart
    async with at_work(settings) as busy, Client.connect(settings.nats.url) as client:
        client.patience_seconds = silent_seconds + 30  # the agents wait as long as it takes
        talks = [await client.open(f"silent-{number}", policy=layer()) for number in range(6)]
        appending = [asyncio.create_task(talk.append(call_and_result("a", LOG))) for talk in talks]
        os.kill(stack.pids[child], signal.SIGSTOP)
        try:
            await asyncio.sleep(silent_seconds)  # the fault lasts
        finally:
            os.kill(stack.pids[child], signal.SIGCONT)
        await asyncio.gather(*appending)
        for talk in talks:
            assert (await settled(busy, talk.at)).messages == 3
            assert await letters(busy, talk.at) == []


async def all_idle(running: Runtime) -> None:
    """Wait until each actor waits for work, with a pull that is open."""
    jetstream = running.connection.jetstream()
    async with asyncio.timeout(180):
        for durable in (subjects.durable(actor, lane) for actor in subjects.ACTORS for lane in subjects.LANES):
            while not (await jetstream.consumer_info(subjects.WAKE_STREAM, durable)).num_waiting:
                await asyncio.sleep(0.02)


@pytest.mark.slow
async def test_a_restarted_server_is_noticed_by_nobody_but_the_clock(
    apart: tuple[Settings, EmbeddedStack], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, stack = apart
    monkeypatch.setattr("storage.wakes.PULL_SECONDS", 3600.0)
    async with at_work(settings) as busy, Client.connect(settings.nats.url) as client:
        talk = await client.open("restarted", policy=layer())
        await talk.append([{"role": "user", "content": "before"}])
        await talk.context(patience=180)
        await all_idle(busy)
        tasks = len(asyncio.all_tasks())
        os.kill(stack.pids["nats"], signal.SIGKILL)
        appending = asyncio.create_task(talk.append([{"role": "user", "content": "while it is away"}]))
        asking = asyncio.create_task(talk.context(patience=180))
        # three seconds on a calm machine; a pull that is waited for in vain takes an hour
        async with asyncio.timeout(180):
            await appending
            await asking
            context = await talk.context(patience=180)
        assert [message["content"] for message in context.messages] == ["before", "while it is away"]
        assert (await settled(busy, talk.at)).messages == 2
        async with asyncio.timeout(180):
            while len(asyncio.all_tasks()) > tasks:  # no call that waits for an answer that never comes
                await asyncio.sleep(0.1)


async def test_a_service_that_was_killed_while_it_answered_is_asked_no_more(
    working: Runtime, client: Client, name: str
) -> None:
    swallowed: list[str] = []

    async def swallow(message: Msg) -> None:
        swallowed.append(message.subject)
        await subscription.unsubscribe()

    talk = await client.open(name)
    await talk.append([{"role": "user", "content": "hello"}])
    await settled(working, talk.at)
    subscription = await working.connection.subscribe(
        subjects.ask_filter("context"), queue=subjects.CONTEXT_GROUP, cb=swallow
    )
    for _ in range(200):  # which of the group is asked is chance
        assert (await talk.context(patience=180)).upto == 1
        if swallowed:
            break
    assert swallowed


async def test_a_worker_waits_for_a_store_that_is_down_and_says_so(settings: Settings) -> None:
    down = environment(settings, JETTISON_S3__ENDPOINT=f"http://{LOOPBACK}:{free_port()}")
    command = (*jettison_command(), "worker", "spill")
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, env=dict(down), stderr=asyncio.subprocess.PIPE)
    try:
        assert process.stderr is not None
        async with asyncio.timeout(180):
            told = b""
            while b"spill waits: S3 " not in (line := await process.stderr.readline()):
                told += line
                assert line, f"it ended: {told.decode()}"
        assert process.returncode is None
    finally:
        process.terminate()
        await process.communicate()
    assert process.returncode == 0


@only_in_chaos
@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_a_hundred_thousand_waiting_events_fill_one_slot_for_each_conversation_and_little_memory(
    apart: tuple[Settings, EmbeddedStack],
) -> None:
    settings, stack = apart
    async with runtime(settings, role="test") as idle:
        before = resident_mb(stack.pids["nats"])
        gate = asyncio.Semaphore(256)

        async def one(number: int) -> None:
            body = said_body(f"event {number}", count=number // 500 + 1)
            async with gate:
                await idle.log.say(address(f"c{number % 500}"), body, message_id=fresh_id(), headers={})

        for start in range(0, 100_000, 5_000):
            await asyncio.gather(*(one(number) for number in range(start, start + 5_000)))
        info = await idle.connection.jetstream().stream_info(subjects.WAKE_STREAM)
        assert info.state.messages <= 500
        assert resident_mb(stack.pids["nats"]) - before < 300
        assert (await idle.connection.jetstream().stream_info(subjects.LOG_STREAM)).state.messages == 100_000
        async with at_work(settings) as busy:
            assert (await settled(busy, address("c7"), seconds=120)).messages == 200
        assert resident_mb(os.getpid()) < 1_500


@only_in_chaos
@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_the_last_of_five_thousand_turns_costs_what_the_first_did(
    apart: tuple[Settings, EmbeddedStack],
) -> None:
    settings, _ = apart
    async with at_work(settings) as busy, Client.connect(settings.nats.url) as client:
        talk = await client.open("long", policy=layer())
        jetstream = busy.connection.jetstream()
        spent: list[float] = []
        written: list[int] = []
        for number in range(5_000):
            # CPU time: client, actors and service are one process here, and what else runs makes no turn cost more
            started = time.process_time()
            await talk.append(
                [
                    {"role": "user", "content": f"turn {number} " + "word " * 40},
                    {"role": "assistant", "content": f"answer {number}"},
                ]
            )
            await talk.context(patience=180)
            spent.append(time.process_time() - started)
            if number % 100 == 99:
                written.append((await jetstream.stream_info(subjects.LOG_STREAM)).state.bytes)
        first, last = statistics.median(spent[100:200]), statistics.median(spent[-100:])
        assert last <= 1.5 * first, (first, last)
        assert written[-1] - written[-2] <= 1.5 * (written[2] - written[1])


@only_in_chaos
@pytest.mark.slow
async def test_an_append_costs_no_more_than_three_raw_publishes(
    apart: tuple[Settings, EmbeddedStack],
) -> None:
    settings, _ = apart
    async with at_work(settings) as busy, Client.connect(settings.nats.url) as client:
        talk = await client.open("warm", policy=layer(window=100_000))
        for number in range(100):
            await talk.append([{"role": "user", "content": f"{number} " + "word " * 400}])
        await talk.context(patience=180)
        raw, turns = [], []
        for number in range(100):
            body = said_body(f"{number} " + "word " * 20, count=number + 1)
            started = time.perf_counter()
            await busy.log.say(address("floor", "raw"), body, message_id=fresh_id(), headers={})
            raw.append(time.perf_counter() - started)
            started = time.perf_counter()
            await talk.append([{"role": "user", "content": f"{number} " + "word " * 20}])
            turns.append(time.perf_counter() - started)
            await settled(busy, talk.at)
        # the agent's own call is one publish; what comes after it does not make it wait
        assert statistics.median(turns) <= 3 * statistics.median(raw), (
            statistics.median(turns),
            statistics.median(raw),
        )
