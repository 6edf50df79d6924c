"""The past over NATS: an agent is told what the commands tell, of its own conversation."""

from __future__ import annotations

import asyncio
import hashlib
import runpy
import time

import pytest
from nats.aio.client import Client as NatsConnection

from actors.audit import erasing
from actors.audit.diff import diff
from actors.audit.versions import versions
from actors.audit.where import where
from actors.audit.why import why
from actors.host.bootstrap import Runtime
from protocol import codec, voice
from protocol.client import Client, Conversation
from protocol.errors import Erased, NotFound, Rejected
from protocol.facts import MessagesAppended, SaidMessage
from protocol.formats import messages
from protocol.history import Version
from protocol.ids import Address, fresh_id
from protocol.keys import check_not_erased
from storage.erasure import key_destroyed
from storage.jetstream import JetStreamLog
from tests.builders import assistant, result, user
from tests.conftest import layer, settled

LOG = "\n".join(f"line {number}: nothing to see" for number in range(2_000)) + "\nNEEDLE-4711"
"""Below what travels apart from its message."""

BELIEVED = voice.BELIEVED_SECONDS


class Clock:
    """A clock that stands still until the test moves it on: no busy machine makes a look older than it is."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


async def spoken(client: Client, name: str) -> Conversation:
    talk = await client.open(name, policy=layer())
    await talk.append([user("look"), assistant(None, "a"), result("a", LOG)])
    await talk.context()
    await talk.append([assistant("seen"), user("and now?")])
    await talk.context(budget=2_000)
    return talk


async def test_what_is_told_of_the_past_is_what_the_commands_tell(working: Runtime, client: Client, name: str) -> None:
    talk = await spoken(client, name)
    found = await talk.versions()
    records = await working.log.read(talk.at, after=0)
    assert found == list(versions(talk.at, records))
    assert isinstance(found[0], Version)
    assert await talk.versions(after=1, most=2, losses=True) == list(versions(talk.at, records, losses=True))[1:3]
    assert await talk.versions(after=len(found)) == []
    newest = found[-1].version
    compared = await talk.diff(1, newest, chars=64 * 1024)
    assert compared == diff(talk.at, records, older=1, newer=newest)
    short = await talk.diff(1, newest, chars=10)
    cut = [row.after for row in short.rows if "more characters]" in row.after]
    assert cut
    assert all(text.index(" […") == 10 for text in cut)
    told = await talk.why(3)
    assert told.history == why(talk.at, records, number=3).history
    assert any(event.fact == "ToolOutputSpilled" for event in told.history)
    brief = await talk.why(3, version=newest, chars=5)
    assert brief.text == f"{LOG[:5]} […{len(LOG) - 5:,} more characters]"
    assert await talk.where("NEEDLE-4711") == where(talk.at, records, text="NEEDLE-4711", uploads={})
    assert (await talk.where("no such text")).now == "absent"


async def test_a_text_is_found_in_what_was_uploaded_too(working: Runtime, client: Client, name: str) -> None:
    talk = await client.open(name, policy=layer())
    await talk.append([user(LOG + "x" * 70_000)])
    await talk.context()
    found = await talk.where("NEEDLE-4711")
    assert found.places[0].kind == "artifact"
    assert found.unsearched == ()


async def test_a_page_of_versions_is_the_oldest_or_the_newest_and_of_changes_alone(
    working: Runtime, client: Client, name: str
) -> None:
    talk = await spoken(client, name)
    every = await talk.versions(losses=True)
    last = every[-1].version
    assert await talk.versions(newest=True, most=2, losses=True) == every[-2:]
    assert await talk.versions(newest=True, most=2, before=last) == (await talk.versions())[-3:-1]
    assert await talk.versions(after=1, before=3) == (await talk.versions())[1:2]
    assert await talk.versions(newest=True, before=1) == []
    served = {"ContextServed"}
    assert [row.version for row in await talk.versions(changes=True)] == [
        row.version for row in every if row.facts.keys() != served
    ]
    assert any(row.facts.keys() == served for row in every)


async def test_what_was_said_is_searched_and_what_is_kept_is_listed(
    working: Runtime, client: Client, name: str
) -> None:
    talk = await spoken(client, name)
    found = await talk.search("NEEDLE-4711")
    (hit,) = found.hits
    assert (hit.number, found.messages, found.looked_at) == (3, 1, 5)
    assert hit.lines[-1] == (2002, "NEEDLE-4711", True)
    assert [one.number for one in (await talk.search("^(look|seen)$", regex=True, most=1)).hits] == [4]
    assert [one.number for one in (await talk.search("^(look|seen)$", regex=True, before=4)).hits] == [1]
    assert (await talk.search("needle pear")).each == (("needle", 1), ("pear", 0))
    (part,) = await talk.artifacts()
    assert (part.number, part.bytes) == (3, len(LOG))
    assert (await talk.read_artifact(part.key, lines="2001")) == "NEEDLE-4711"
    assert await talk.artifacts(before=3) == []


async def test_what_is_not_there_is_said_so(working: Runtime, client: Client, name: str) -> None:
    never = await client.open(name)
    talk = await spoken(client, f"{name}-b")
    for asking in (
        talk.diff(1, 99),
        talk.why(99),
        talk.why(1, version=99),
        never.why(1),
        never.search("x"),
        never.artifacts(),
    ):
        with pytest.raises(NotFound):
            await asking
    for wrong in (talk.where(""), talk.search(" "), talk.diff(1, 2, chars=-1), talk.erase(), talk.versions(after="x")):  # type: ignore[arg-type]
        with pytest.raises(Rejected):
            await wrong


async def test_an_agent_erases_where_it_may(working: Runtime, client: Client, name: str) -> None:
    talk = await spoken(client, name)
    found = await talk.erase(yes=True, by="its user")
    assert (found.address, found.messages, found.by) == (str(talk.at), 5, "its user")
    assert found.artifacts or found.shared, "others of the tenant may have said the same"
    with pytest.raises(Erased):
        await talk.context()
    large = f"{name} {'x' * 100_000}"
    late = (talk.append([user("LATE")]), talk.append([user("LATE")], key="k"), talk.append([user(large)]))
    for speaking in (*late, talk.set_budget(9_000)):
        with pytest.raises(Erased, match="was erased"):
            await speaking
    with pytest.raises(Erased, match="was erased"):
        await client.open(name)
    with pytest.raises(NotFound):
        await working.artifacts.find(talk.at.tenant, hashlib.sha256(large.encode()).hexdigest())
    assert await working.log.head(talk.at) == (await talk.versions())[-1].seq, "nothing landed"
    zombie = codec.Said(
        writer="w", count=1, facts=(MessagesAppended(messages=(SaidMessage(raw=messages.encode(user("LATE"))),)),)
    )
    await JetStreamLog(working.connection).say(talk.at, codec.encode_said(zombie), message_id=fresh_id(), headers={})
    reading = (talk.search("LATE"), talk.read_artifact("messages:1"), talk.artifacts(), talk.where("LATE"), talk.why(1))
    for asked in reading:
        with pytest.raises(Erased, match="was erased"):
            await asked
    assert [row.stage for row in await talk.versions()] == ["erase"]
    assert (await talk.erase(yes=True)).records == 1
    assert (await talk.erase(yes=True)).records == 0
    assert [row.stage for row in await talk.versions()] == ["erase"]


async def test_who_is_confirmed_long_after_its_look_is_told_of_an_erasure_in_between(
    working: Runtime, client: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = await client.open(name)
    publish = talk._voice._publish

    async def erased_meanwhile(said: codec.Said, patience: float) -> int:
        seq = await publish(said, patience)
        await key_destroyed(working.connection, talk.at)
        return seq

    monkeypatch.setattr(talk._voice, "_publish", erased_meanwhile)
    monkeypatch.setattr(voice, "BELIEVED_SECONDS", 0.0)
    with pytest.raises(Erased, match="was erased"):
        await talk.append([user("one")])
    await talk.erase(yes=True)  # to its end: workers would ask for what has no key again and again


async def test_what_was_confirmed_on_a_believed_look_an_erasure_finds(
    working: Runtime, client: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = await spoken(client, name)
    monkeypatch.setattr(voice, "BELIEVED_SECONDS", 1e9)
    landed = list[int]()

    async def who_looked_before_speaks(seconds: float) -> None:
        assert seconds > BELIEVED
        landed.append(await talk.append([user("LATE")]))

    monkeypatch.setattr(erasing, "sleep", who_looked_before_speaks)
    await talk.erase(yes=True)
    (tombstone,) = await working.log.read(talk.at, after=0)
    assert landed[0] > tombstone.seq, "it had come behind the tombstone"


async def test_an_append_looks_once_whether_it_was_erased(
    client: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(voice, "BELIEVED_SECONDS", 1e9)
    looks = list[Address]()

    async def counted(connection: NatsConnection, at: Address) -> bool:
        looks.append(at)
        return await check_not_erased(connection, at)

    monkeypatch.setattr("protocol.voice.check_not_erased", counted)
    talk = await client.open(name)
    talk.look_early()
    await talk.append([user("one")])
    await talk.append([user("two")], key="k")
    assert looks == [talk.at]


@pytest.mark.parametrize("says", [True, False], ids=["found none", "did not say"])
async def test_a_look_that_was_begun_before_is_the_only_one_that_who_speaks_waits_for(
    says: bool, client: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(voice, "BELIEVED_SECONDS", 0.0)
    talk = await client.open(name)
    order, answered = list[str](), asyncio.Event()

    async def looks(connection: NatsConnection, at: Address) -> bool:
        order.append("look")
        await answered.wait()
        return says

    publish = talk._voice._publish

    async def sends(said: codec.Said, patience: float) -> int:
        order.append("send")
        return await publish(said, patience)

    monkeypatch.setattr("protocol.voice.check_not_erased", looks)
    monkeypatch.setattr(talk._voice, "_publish", sends)
    talk.look_early()
    speaking = asyncio.ensure_future(talk.append([user("one")]))
    await asyncio.sleep(0)  # it waits for the look
    answered.set()
    await speaking
    assert order[:2] == ["look", "send"]


async def test_a_client_of_many_conversations_asks_for_all_at_once_and_is_told_of_each_erasure(
    working: Runtime, client: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = list[Address]()

    async def counted(connection: NatsConnection, at: Address) -> bool:
        looks.append(at)
        return await check_not_erased(connection, at)

    monkeypatch.setattr("protocol.voice.check_not_erased", counted)
    clock = Clock()
    monkeypatch.setattr(voice, "_now", clock)
    tenant = f"tenant-{fresh_id()[:8]}"
    talks = [await client.open(f"{name}-{number}", tenant=tenant) for number in range(4)]
    for number in range(4):
        if number == 2:
            looks.clear()  # from the second word on it is known what was newest when each looked
        clock.now += BELIEVED
        await asyncio.gather(*(talk.append([user("one")]) for talk in talks))
        for talk in talks:
            await settled(working, talk.at)  # its key is made at its first commit, and is newest then
    assert looks == [], "nothing of the tenant was erased meanwhile"
    await key_destroyed(working.connection, talks[2].at)
    clock.now += BELIEVED
    done = await asyncio.gather(*(talk.append([user("two")]) for talk in talks), return_exceptions=True)
    assert [type(one) for one in done] == [int, int, Erased, int]
    with pytest.raises(Erased, match="was erased"):
        await talks[2].append([user("three")])


async def test_it_asks_for_each_where_the_tenant_has_too_many_keys_or_nobody_may_ask_for_all(
    working: Runtime, client: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(voice, "BELIEVED_SECONDS", 0.0)
    monkeypatch.setattr("protocol.erasure_marks.KEYS_MAX", 0)
    tenant = f"tenant-{fresh_id()[:8]}"
    talks = [await client.open(f"{name}-{number}", tenant=tenant) for number in range(3)]
    await key_destroyed(working.connection, talks[0].at)
    for _ in range(2):
        done = await asyncio.gather(*(talk.append([user("two")]) for talk in talks), return_exceptions=True)
        assert [type(one) for one in done] == [Erased, int, int]


async def test_no_look_is_believed_that_is_older_than_the_connection(
    working: Runtime, client: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(voice, "BELIEVED_SECONDS", 1e9)
    talk = await client.open(name)
    await talk.append([user("one")])
    await key_destroyed(working.connection, talk.at)
    client.connection.stats["reconnects"] += 1
    with pytest.raises(Erased, match="was erased"):
        await talk.append([user("two")])
    await talk.erase(yes=True)


async def test_a_look_is_not_believed_for_the_time_that_the_machine_was_suspended(
    working: Runtime, client: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(voice, "BELIEVED_SECONDS", 600.0)
    talk = await client.open(name)
    await talk.append([user("one")])
    await key_destroyed(working.connection, talk.at)
    clock = time.clock_gettime
    # for an hour, in which the monotonic clock stood still
    monkeypatch.setattr(time, "clock_gettime", lambda which: clock(which) + 3600.0 * (which == time.CLOCK_BOOTTIME))
    with pytest.raises(Erased, match="was erased"):
        await talk.append([user("two")])
    await talk.erase(yes=True)


async def test_who_asks_again_subscribes_to_nothing_anew(working: Runtime, client: Client, name: str) -> None:
    talk = await client.open(name, policy=layer())
    await talk.append([user("one")])
    await talk.context()
    subscriptions = client.connection._sid
    await talk.context()
    assert client.connection._sid == subscriptions


async def test_a_look_is_timed_on_a_system_that_has_no_such_clock(
    client: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for attribute in ("CLOCK_BOOTTIME", "CLOCK_MONOTONIC", "clock_gettime"):
        monkeypatch.delattr(time, attribute)
    # as on Windows: imported there, and not only called
    there = runpy.run_path(voice.__file__, run_name="protocol.voice")
    monkeypatch.setattr(voice, "_CLOCK", there["_CLOCK"])
    talk = await client.open(name)
    await talk.append([user("one")])
    assert await talk.append([user("two")])
