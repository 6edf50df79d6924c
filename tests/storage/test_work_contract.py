"""What every `DeadLetters`, `InProgress`, `LogChanges`, `StuckSlots`, `Announcer` and `Requests` promises."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import cast

import msgspec
import pytest

from actors.host.bootstrap import Runtime
from protocol import service_call, subjects
from protocol.connecting import connect
from protocol.ids import Address, address, fresh_id
from protocol.service_messages import Answer, ReadAsked
from storage.list_ports import Document, KeptList
from storage.memory import MemoryLog
from storage.memory_work import (
    MemoryAnnouncer,
    MemoryDeadLetters,
    MemoryInProgress,
    MemoryKeptList,
    MemoryLogChanges,
    MemoryRequests,
    MemoryStuckSlots,
    MemoryWakes,
)
from storage.ports import EventLog
from storage.streams import provision
from storage.sweep_ports import LogChanges, StuckSlots, SweepMark
from storage.work_ports import (
    Announcer,
    BegunWork,
    DeadLetter,
    DeadLetters,
    InProgress,
    Requests,
    Slot,
    StoredLetter,
    Wakes,
)

BOTH = ["memory", "nats"]
ASKED = ReadAsked(key="k")
TRACE = {"traceparent": "00-aa-bb-01"}


@pytest.fixture(params=BOTH)
def letters(request: pytest.FixtureRequest, running: Runtime) -> DeadLetters:
    return MemoryDeadLetters() if request.param == "memory" else running.dead_letters


@pytest.fixture(params=BOTH)
def in_progress(request: pytest.FixtureRequest, running: Runtime) -> InProgress:
    return MemoryInProgress() if request.param == "memory" else running.in_progress


@pytest.fixture(params=BOTH)
def kept_list(request: pytest.FixtureRequest, running: Runtime) -> KeptList:
    return MemoryKeptList() if request.param == "memory" else running.kept_list


@pytest.fixture(params=BOTH)
async def changed(request: pytest.FixtureRequest, running: Runtime) -> tuple[EventLog, LogChanges]:
    if request.param == "memory":
        log = MemoryLog()
        return log, MemoryLogChanges(log)
    return running.log, running.changes


def letter(at: Address, error: str = "KeyError") -> DeadLetter:
    return DeadLetter(
        actor="spill",
        tenant=at.tenant,
        conversation=at.conversation,
        reason="fault",
        error=error,
        detail="",
        attempts=5,
        deliveries=6,
    )


async def all_of(letters: DeadLetters, *places: Address) -> list[StoredLetter]:
    return [stored async for stored in letters.all() if stored.letter.at in places]


async def test_the_newest_letter_of_an_actor_and_conversation_is_kept(letters: DeadLetters, at: Address) -> None:
    assert await all_of(letters, at) == []
    await letters.put(letter(at), headers={})
    await letters.put(letter(at, "ValueError"), headers=TRACE)
    (found,) = await all_of(letters, at)
    assert (found.letter, found.trace) == (letter(at, "ValueError"), TRACE["traceparent"])


async def test_letters_come_oldest_first(letters: DeadLetters) -> None:
    places = [address(f"letter-{fresh_id()}") for _ in range(4)]
    for one in places:
        await letters.put(letter(one), headers={})
    assert [stored.letter.at for stored in await all_of(letters, *places)] == places
    await letters.put(letter(places[0]), headers={})
    assert [stored.letter.at for stored in await all_of(letters, *places)] == [*places[1:], places[0]]


async def test_a_dropped_letter_is_gone_and_a_newer_one_stays(letters: DeadLetters, at: Address) -> None:
    await letters.put(letter(at), headers={})
    (old,) = await all_of(letters, at)
    await letters.put(letter(at, "ValueError"), headers={})
    await letters.drop(old)
    (newer,) = await all_of(letters, at)
    assert newer.letter.error == "ValueError"
    for _ in range(2):
        await letters.drop(newer)
    assert await all_of(letters, at) == []


async def test_work_is_known_from_its_beginning_to_its_end(in_progress: InProgress, at: Address) -> None:
    assert await in_progress.find("spill", at) is None
    await in_progress.wipe("spill", at)
    begun = BegunWork(worker="w", vanished=1, asks_seconds=2.5)
    for one in (BegunWork(worker="v"), begun):
        await in_progress.put("spill", at, one)
    assert await in_progress.find("spill", at) == begun
    assert await in_progress.find("digest", at) is None
    await in_progress.wipe("spill", at)
    assert await in_progress.find("spill", at) is None


@pytest.fixture(params=BOTH)
def slots(request: pytest.FixtureRequest, running: Runtime) -> tuple[Wakes, StuckSlots]:
    if request.param == "memory":
        return MemoryWakes(), MemoryStuckSlots()
    return running.wakes, running.stuck_slots


async def test_slots_that_wait_are_taken_pause_or_were_done_are_not_stuck(slots: tuple[Wakes, StuckSlots]) -> None:
    wakes, stuck = slots
    taken, pausing, done = places = [address(f"slot-{number}-{fresh_id()}") for number in range(3)]
    for at in places:
        assert await wakes.wake("digest", at, headers={})
    assert await stuck.free() == 0, "they wait"
    giving = cast("AsyncGenerator[Slot, None]", wakes.slots("digest", credits=1_000))

    async def given(wanted: set[Address]) -> dict[Address, Slot]:
        found: dict[Address, Slot] = {}
        while found.keys() != wanted:
            slot = await anext(giving)
            if slot.at in wanted:
                found[slot.at] = slot
            else:
                await slot.done()
        return found

    async with aclosing(giving), asyncio.timeout(180):
        found = await given({*places})
        await found[pausing].later(1.0)
        await found[done].done()
        assert await stuck.free() == 0
        assert [await wakes.wake("digest", at, headers={}) for at in (taken, pausing)] == [False, False]
        assert await wakes.wake("digest", done, headers={})
        assert await stuck.free() == 0
        for slot in (found[taken], *(await given({pausing, done})).values()):
            await slot.done()
        assert await stuck.free() == 0


async def test_changes_come_in_order_and_from_the_beginning_once_for_each_side(
    changed: tuple[EventLog, LogChanges], running: Runtime
) -> None:
    log, changes = changed
    one, other = (address(f"changed-{fresh_id()}") for _ in range(2))
    start = await log.end() or await log.say(one, b"earlier", message_id=fresh_id(), headers={})
    first = await log.say(one, b"1", message_id=fresh_id(), headers={})
    second = await log.say(other, b"2", message_id=fresh_id(), headers={})
    third = await log.say(one, b"3", message_id=fresh_id(), headers={})
    done = await log.append(one, b"4", expected_seq=0, commit_id=fresh_id(), headers={})
    assert done

    async def after(seq: int, *, upto: int) -> list[tuple[int, Address]]:
        return [(found.seq, found.at) async for found in changes.after(seq, upto=upto) if found.at in (one, other)]

    assert await after(start, upto=done) == [(first, one), (second, other), (third, one), (done, one)]
    assert await after(first, upto=third) == [(second, other), (third, one)]
    assert await after(0, upto=done) == [(second, other), (third, one), (done, one)]
    assert await after(done, upto=done) == []
    tail = await changes.tail(first, most=2)
    assert [(found.seq, found.at) for found in tail] == [(second, other), (third, one)]
    for at in (one, other):
        # a log that nobody can read would hold up erasures in other tests
        await running.erasure.clear(at)


async def test_of_two_marks_on_the_same_one_the_first_is_kept(changed: tuple[EventLog, LogChanges]) -> None:
    _, changes = changed
    _, revision = await changes.mark()
    ours = SweepMark(seq=7, upto=9, unsettled=("default/a",))
    landed = await changes.put_mark(ours, expected=revision)
    assert landed
    assert await changes.put_mark(SweepMark(seq=8), expected=revision) == 0
    assert await changes.mark() == (ours, landed)
    assert await changes.put_mark(SweepMark(), expected=landed)


async def test_of_two_writers_of_a_document_the_first_is_kept_and_what_was_replaced_is_gone(
    kept_list: KeptList,
) -> None:
    one, other = f"d-{fresh_id()}", f"d-{fresh_id()}"
    assert await kept_list.find(one) is None
    first = await kept_list.put(one, b"1", expected=0)
    assert await kept_list.put(one, b"2", expected=0) == 0
    second = await kept_list.put(other, b"other", expected=0)
    third = await kept_list.put(one, b"3", expected=first)
    assert await kept_list.find(one) == Document(name=one, body=b"3", revision=third)
    newer = await kept_list.read(after=first)
    assert [(found.name, found.revision) for found in newer] == [(other, second), (one, third)]
    assert not any(found.revision == first for found in await kept_list.read())
    for _ in range(2):
        await kept_list.drop(one)
    assert await kept_list.find(one) is None
    assert await kept_list.put(one, b"4", expected=0)
    for name in (one, other):
        await kept_list.drop(name)


Heard = Callable[[], Awaitable[tuple[bytes, str]]]


@pytest.fixture(params=BOTH)
async def announced(
    request: pytest.FixtureRequest, running: Runtime, at: Address
) -> AsyncIterator[tuple[Announcer, Heard]]:
    """Yield an announcer, and the next thing that a listener hears of *at*: its bytes and its trace."""
    if request.param == "memory":
        announcer = MemoryAnnouncer()

        async def remembered() -> tuple[bytes, str]:
            _, _, body, headers = announcer.heard.pop(0)
            return body, headers["traceparent"]

        yield announcer, remembered
        return
    heard: asyncio.Queue[tuple[bytes, str]] = asyncio.Queue()

    async def listen(message: object) -> None:
        heard.put_nowait((message.data, message.headers["traceparent"]))  # type: ignore[attr-defined]

    subscriptions = [
        await running.connection.subscribe(subject, cb=listen)
        for subject in (subjects.ready(at), subjects.hook(at, "h"))
    ]
    await running.connection.flush()
    yield running.announcer, lambda: asyncio.wait_for(heard.get(), 180)
    for subscription in subscriptions:
        await subscription.unsubscribe()


async def test_who_listens_hears_what_is_told(announced: tuple[Announcer, Heard], at: Address) -> None:
    announcer, heard = announced
    await announcer.ready(at, b"ready", headers=TRACE)
    assert await heard() == (b"ready", TRACE["traceparent"])
    await announcer.call(at, "h", b"called", headers=TRACE)
    assert await heard() == (b"called", TRACE["traceparent"])


@dataclass
class Asking:
    """Who asks, and those who are asked: two of them, who share the questions."""

    requests: list[Requests]
    ask: Callable[[Address], Awaitable[bytes]]


@pytest.fixture(params=BOTH)
async def asking(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Asking]:
    if request.param == "memory":
        memory = MemoryRequests()

        async def ask(at: Address) -> bytes:
            return b"".join((await memory.ask("read", at, msgspec.json.encode(ASKED)))[1:])

        yield Asking([memory, memory], ask)
        return
    from actors.cli.session import started_stack
    from actors.host.settings import Settings
    from storage.announcing import NatsRequests

    # servers of their own: elsewhere a context service may answer
    async with started_stack(Settings(data=str(tmp_path_factory.mktemp("asked")))) as (ours, _):
        connection = await connect(ours.nats.url, name="asked")
        await provision(connection)

        async def ask_nats(at: Address) -> bytes:
            return (await service_call.ask(connection, at, "read", ASKED))[1]

        yield Asking([NatsRequests(connection), NatsRequests(connection)], ask_nats)
        await connection.close()


async def test_each_question_is_answered_once_with_all_frames_in_order(asking: Asking) -> None:
    served: list[str] = []

    async def serve(requests: Requests) -> None:
        async for request in requests.asked():
            served.append(str(request.at))
            await request.working()
            assert request.verb == "read"
            assert msgspec.json.decode(request.body, type=ReadAsked) == ASKED
            frames = [msgspec.json.encode(Answer(frames=2)), str(request.at).encode(), b"!" * 100_000]
            await request.answer(frames)

    serving = [asyncio.create_task(serve(one)) for one in asking.requests]
    places = [address(f"asked-{number}") for number in range(12)]
    async with asyncio.timeout(180):
        answers = await asyncio.gather(*(asking.ask(at) for at in places))
    assert answers == [str(at).encode() + b"!" * 100_000 for at in places]
    assert sorted(served) == sorted(map(str, places))
    for task in serving:
        task.cancel()
    await asyncio.gather(*serving, return_exceptions=True)
