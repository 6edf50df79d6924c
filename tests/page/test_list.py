"""The page over many conversations: sorted, searched and counted as the list says, nothing of strangers' tenants."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from actors.core.listed import NOT_READ, About, Listed, ListHead
from actors.core.spent import Day
from actors.model_info.prices import price_of
from actors.page.known_list import KnownList, ListAsked
from actors.page.overview import Glances
from actors.runtime.conversations import Conversations
from actors.runtime.copied import COPIED_HEADER
from actors.runtime.listing import Listing
from protocol import codec
from protocol import policy as policies
from protocol.errors import LogUnavailable
from protocol.facts import ConversationArchived, ConversationOpened, PolicySet
from protocol.ids import address
from storage.list_ports import Document
from storage.memory import MemoryKeys, MemoryLog, MemorySnapshots
from storage.memory_work import MemoryKeptList, MemoryLogChanges
from tests.audit.recorded import small
from tests.builders import AT, Talk, user, words
from tests.page.many import LETTERS, crowded
from tests.page.shown import Html, client_of, shown


def rows() -> Iterator[Listed]:
    for number in range(1, 9):
        day = Day(day=20_000 + number % 2, first=1, calls=1, said_tokens=1000, sendable_tokens=800, served_tokens=300)
        told = About(
            name=f"Größe {number}", model="gpt-4o" if number < 5 else "unheard-of", version=number, tokens=number * 100,
            usable=(9 - number) * 1000, waits_for="digest" if number == 2 else "", days=(day,), policy_hash="p",
        )  # fmt: skip
        if number == 3:
            told = About(fault="damaged", why="a commit is missing")
        if number == 4:
            told = msgspec.structs.replace(told, idle_ms=3_000)
        at = address(f"größe-{number}", "acme" if number > 4 else "default")
        yield Listed(at=at, seq=number, at_ms=number * 1000, about=told)


@pytest.fixture
async def known() -> KnownList:
    log, listing = MemoryLog(), Listing(MemoryKeptList(), keys=MemoryKeys())
    assert await listing.record(list(rows()), seq=0)
    found = KnownList(listing, changes=MemoryLogChanges(log), log=log)
    await found.refresh()
    return found


@pytest.mark.parametrize(
    ("asked", "numbers"),
    [
        (ListAsked(), [8, 7, 6, 5, 4, 3, 2, 1]),
        (ListAsked(sort="pressure"), [8, 7, 6, 5, 4, 2, 1, 3]),
        (ListAsked(text="GRÖSSE 7"), [7]),
        (ListAsked(text="größe-3"), [3]),
        (ListAsked(condition="waiting"), [2]),
        (ListAsked(condition="unreadable"), [3]),
        (ListAsked(condition="archived"), [4]),
        (ListAsked(condition="ready"), [8, 7, 6, 5, 1]),
        (ListAsked(tenants={"acme"}), [8, 7, 6, 5]),
        (ListAsked(tenants=()), []),
        (ListAsked(policy="other"), []),
    ],
)
async def test_what_is_asked_for_is_shown(known: KnownList, asked: ListAsked, numbers: list[int]) -> None:
    found, total = await known.page(asked, first=0, most=50)
    assert [one.at_ms // 1000 for one in found] == numbers
    assert total == len(numbers)
    assert not any(one.stale for one in found)


async def test_costs_add_up_by_day_and_model_and_only_of_tenants_that_one_sees(known: KnownList) -> None:
    price = price_of("gpt-4o")
    assert price is not None
    days = await known.days(None, by="day")
    assert [(one.name, one.calls, one.said, one.served) for one in days] == [
        ("20001", 3, 3000, 900),
        ("20000", 4, 4000, 1200),
    ]
    assert sum(one.dollars_saved for one in days) == pytest.approx(3 * 500 * price.input)
    assert [(one.name, one.calls, one.unpriced) for one in await known.days({"acme"}, by="model")] == [
        ("unheard-of", 4, 4)
    ]
    assert await known.days((), by="day") == []


async def test_pages_of_thousands_are_reached_and_say_what_they_show() -> None:
    app, listing = await crowded(1_000)
    async with client_of(app) as browser:

        async def read(path: str) -> Html:
            answer = await browser.get(path)
            assert answer.status_code == 200, answer.text
            return Html(answer.text)

        first, last = await read("/"), await read("/?page=999")
        assert "1,005 conversations" in first.text("main")
        assert "Page 1 of 21" in first.text("main")
        assert "Page 21 of 21" in last.text("main")
        assert len(first.rows()) == 50
        assert len((await read(f"/?q={quote('返金')}")).rows()) == 50
        assert any("damaged of a test" in row for row in (await read("/?state=unreadable")).rows())
        letters = (await read("/letters")).text("main")
        assert all(actor in letters and error in letters for actor, _, error, _ in LETTERS)
        assert "Tokens without us" in (await read("/costs")).text("main")
        assert (await browser.get("/?state=no+such")).status_code == 400
        before = (await listing.head()).seqs
    assert before == (0,)


class Held(Listing):
    """A list whose parts behind the first are opened when they may be."""

    def __init__(self) -> None:
        super().__init__(MemoryKeptList(), keys=MemoryKeys())
        self.may = asyncio.Event()
        self.parts = 0

    async def told(self, document: Document) -> tuple[ListHead | None, list[Listed]]:
        if self.parts:
            await self.may.wait()
        self.parts += 1
        return await super().told(document)


async def test_a_list_that_takes_long_is_read_behind_the_page_which_says_how_far_it_is() -> None:
    held = Held()
    app, _ = await crowded(3_000, listing=held, wait_seconds=0.0)
    async with client_of(app) as browser:

        async def read(path: str) -> str:
            return Html((await browser.get(path)).text).text("main")

        async with asyncio.timeout(180):
            while "is being read: 33 %" not in (told := await read("/")):
                assert "There is none" not in told
                await asyncio.sleep(0)
        assert "conversations; the list is being read: 33 % of it is known" in told
        assert "This is not all: the list is being read: 33 % of it is known" in await read("/costs")
        assert "This is not all" in await read("/policies")
        held.may.set()
        async with asyncio.timeout(180):
            while "the list is being read" in (told := await read("/")):
                await asyncio.sleep(0)
        assert "3,005 conversations" in told
        assert "This is not all" not in await read("/costs")


async def test_who_changed_the_policy_is_told_with_the_keys_that_it_changed() -> None:
    talk = Talk(small(), at=AT)
    talk.play(user(words(20)))
    wider = msgspec.structs.replace(talk.state.policy, budget=msgspec.structs.replace(small().budget, window=5_000))  # type: ignore[type-var]
    fact = PolicySet(layer=b'{"budget":{"window":5000}}', keys=("budget.window",), by="Ada <ada@example.org>")
    talk.land(talk.sealed((fact,), adopt=policies.resolve([msgspec.to_builtins(wider)])))
    async with shown(talk) as site:
        page = await site.get(f"/c/{AT}/policy")
        told = page.text("main")
    assert "Changed in version" in told
    assert "by Ada <ada@example.org>" in told
    assert any(row.startswith("budget.window") and row.endswith("5000") for row in page.rows()), page.rows()


async def test_what_was_not_read_when_it_was_listed_is_looked_at_and_what_is_not_read_now_hides_no_other() -> None:
    log, written = MemoryLog(), address("written")
    for at, headers in ((AT, {}), (written, {COPIED_HEADER: "100"})):
        body = codec.encode_said(codec.Said(writer="w", count=1, facts=(ConversationOpened(name="there"),)))
        await log.say(at, body, message_id=str(at), headers=headers)
    listing = Listing(MemoryKeptList(), keys=MemoryKeys())
    assert await listing.record([Listed(at=AT, seq=1, at_ms=1, about=About(fault=NOT_READ))], seq=1)
    known = KnownList(listing, changes=MemoryLogChanges(log), log=log)
    await known.refresh()
    read = Conversations(log=log, snapshots=MemorySnapshots(), writer="test")
    found = await Glances(read, wait_seconds=60).rows((await known.page(ListAsked(), first=0, most=50))[0])
    assert {one.at: (one.name, one.unreadable) for one in found} == {AT: ("there", ""), written: ("", NOT_READ)}


class Away(MemoryLogChanges):
    """Changes that nobody tells until `answers`, and then nobody can."""

    def __init__(self, log: MemoryLog) -> None:
        super().__init__(log)
        self.answers = asyncio.Event()

    async def partitions(self) -> int:
        await self.answers.wait()
        raise LogUnavailable("the log does not answer")


async def test_a_failure_that_nobody_waits_for_any_more_is_a_line_and_no_surprise_at_the_end() -> None:
    log, told, loop = MemoryLog(), list[dict[str, Any]](), asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: told.append(context))
    try:
        away = Away(log)
        known = KnownList(Listing(MemoryKeptList(), keys=MemoryKeys()), changes=away, log=log, wait_seconds=0.0)
        await known.refresh()
        reading = known._reading
        assert reading is not None
        away.answers.set()
        await asyncio.wait({reading})
        del known, reading
        gc.collect()
    finally:
        loop.set_exception_handler(None)
    assert told == []


async def test_an_archived_conversation_says_so_and_where_its_log_is() -> None:
    talk = Talk(small())
    talk.play(user("look"))
    fact = ConversationArchived(
        at_ms=60_000, by="night", sha256="ab" * 32, bytes=700, records=2, last=talk.state.seq, idle_ms=1_000
    )
    talk.land(talk.sealed((fact,)))
    async with shown(talk) as page:
        assert "archived" in [one.text for one in (await page.get(f"/c/{AT}")).all("dd")]
        told = (await page.get(f"/c/{AT}/v/{talk.state.version}")).text("main")
        assert "Archived by night at 1970-01-01 00:01:00" in told
        assert f"its 2 new records are in the archive {'ab' * 32}" in told
    talk.append(user("are you there?"))
    async with shown(talk) as page:
        assert "archived" not in [one.text for one in (await page.get(f"/c/{AT}")).all("dd")]
