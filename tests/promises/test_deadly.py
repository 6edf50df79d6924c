"""A conversation that ends each process that works on it: it is found, given up, and the others go on (promise 24b)."""

from __future__ import annotations

import asyncio
import dataclasses
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from actors.cli.session import started_stack
from actors.host.bootstrap import Runtime, runtime
from actors.host.sandbox import ProcessSandbox
from actors.host.settings import Settings
from actors.runtime.quarantine import VANISHED_MAX
from actors.runtime.retries import ATTEMPTS_MAX
from protocol import subjects
from protocol.client import Client
from protocol.errors import Deadly
from protocol.ids import fresh_id
from protocol.subjects import LANES
from storage.in_progress import JetStreamInProgress
from storage.streams import consumer
from storage.work_ports import BegunWork, DeadLetter
from tests.conftest import at_work, settled
from tests.promises.deadly import EXIT_CODE
from tests.promises.harness import environment
from tests.protocol.test_client import user
from tests.runtime.test_poison import freed, letter, letters
from tests.stack import ROOT

ACK_WAIT_SECONDS = 1.0


@pytest.fixture(scope="module")
async def apart(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Settings]:
    """Yield servers of their own, whose slots come back after a second."""
    async with started_stack(Settings(data=str(tmp_path_factory.mktemp("deadly")))) as (ours, _):
        async with runtime(ours, role="test") as running:
            for lane in LANES:
                await running.connection.jetstream().add_consumer(
                    subjects.WAKE_STREAM, consumer("spill", lane).evolve(ack_wait=ACK_WAIT_SECONDS)
                )
        yield ours


@pytest.fixture
async def idle(apart: Settings) -> AsyncIterator[Runtime]:
    async with runtime(apart, role="test") as running:
        yield running


@dataclasses.dataclass
class Restarted:
    """A worker that is started again whenever it dies, as clusters do."""

    settings: Settings
    codes: list[int] = dataclasses.field(default_factory=list)
    """How each one ended."""

    async def run(self) -> None:
        while True:
            async with deadly(self.settings) as process:
                self.codes.append(await process.wait())


@asynccontextmanager
async def deadly(settings: Settings) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.promises.deadly", "worker"),
        cwd=ROOT,
        env=dict(environment(settings)),
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@asynccontextmanager
async def herd(settings: Settings) -> AsyncIterator[Restarted]:
    restarted = Restarted(settings)
    task = asyncio.create_task(restarted.run())
    try:
        yield restarted
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_conversation_that_ends_its_workers_is_given_up_and_the_others_go_on(
    apart: Settings, idle: Runtime
) -> None:
    async with Client.connect(apart.nats.url) as client, herd(apart) as worker:
        talk = await client.open(f"deadly-{fresh_id()}")
        others = [await client.open(f"other-{number}-{fresh_id()}") for number in range(4)]
        for one in (talk, *others):
            await one.append([user("hello")])
        kept = await letter(idle, talk.at, seconds=200)
        assert kept.letter == DeadLetter(
            actor="spill",
            tenant=talk.at.tenant,
            conversation=talk.at.conversation,
            reason="deadly",
            error="Deadly",
            detail=f"the process that did spill of {talk.at} and nothing else died: exit code {EXIT_CODE}",
            attempts=kept.letter.attempts,
            deliveries=kept.letter.deliveries,
            worker=kept.letter.worker,
        )
        # a slot that came again during a sandbox, which a busy machine makes longer than the ack wait, is tried too
        assert kept.letter.attempts >= ATTEMPTS_MAX
        assert worker.codes == [EXIT_CODE] * (VANISHED_MAX + 1), "no more workers died of it than it takes to suspect"
        await freed(idle, talk.at)
        for one in others:
            assert (await settled(idle, one.at)).messages == 1
            assert await letters(idle, one.at) == []
        assert (await idle.sweeper().sweep(everything=True)).parked == 1
        assert not idle.conversations.is_warm(talk.at), "who looks after lost wake-ups looks not at this one"
        async with at_work(apart, ["cut"]):
            with pytest.raises(Deadly, match="jettison dlq show"):
                await talk.context(patience=180)
        # said again it is tried apart at once, also by a worker that never heard of it
        async with deadly(apart) as stranger:
            await talk.append([user("still there?")])
            async with asyncio.timeout(180):
                while (await letter(idle, talk.at)).revision == kept.revision:
                    await asyncio.sleep(0.1)
            assert stranger.returncode is None
        assert len(worker.codes) == VANISHED_MAX + 1
    await idle.dead_letters.drop(await letter(idle, talk.at))
    # a version that does not die of it: tried apart first, acquitted, and forgotten
    await idle.wakes.wake("spill", talk.at, headers={})
    async with at_work(apart, ["spill"]):
        assert (await settled(idle, talk.at)).messages == 2
        async with asyncio.timeout(180):
            while await JetStreamInProgress(idle.connection).find("spill", talk.at) is not None:
                await asyncio.sleep(0.05)


@pytest.mark.slow
async def test_who_was_killed_with_others_again_and_again_is_acquitted(apart: Settings, idle: Runtime) -> None:
    begun = JetStreamInProgress(idle.connection)
    async with Client.connect(apart.nats.url) as client:
        talk = await client.open(f"innocent-{fresh_id()}")
        await talk.append([user("hello")])
        # as it stands after many workers were killed from outside while they had it
        await begun.put("spill", talk.at, BegunWork(worker="killed", vanished=1000))
        async with at_work(apart, ["spill"]):
            assert (await settled(idle, talk.at)).messages == 1
            async with asyncio.timeout(180):
                while await begun.find("spill", talk.at) is not None:
                    await asyncio.sleep(0.05)
    assert await letters(idle, talk.at) == []


async def test_a_sandbox_says_what_its_process_died_of_or_that_it_did_not(apart: Settings, idle: Runtime) -> None:
    sandbox = ProcessSandbox(settings=apart, module="tests.promises.deadly")
    async with Client.connect(apart.nats.url) as client:
        dying, living, endless = [await client.open(f"{how}-{fresh_id()}") for how in ("deadly", "living", "endless")]
    assert await sandbox.death("spill", dying.at) == f"exit code {EXIT_CODE}"
    assert await sandbox.death("spill", endless.at) == f"signal {signal.SIGKILL:d}", "ended by the kernel"
    assert await sandbox.death("spill", living.at) == "", "who forked those that died forks on"
    await sandbox.close()
    assert (await idle.conversations.load(living.at)).version == 1, "what it could do is done"
