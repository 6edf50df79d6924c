"""The page stays usable whatever its conversations are like: long, huge, or slow to read."""

from __future__ import annotations

import asyncio
import time

import pytest

from actors.page.escape import SHOWN_CHARS
from actors.page.version_pages import FULL_LINES_SHOWN, LINE_CHARS_SHOWN
from protocol.facts import ContextServed, MessagesAppended, SaidMessage
from protocol.formats import messages
from protocol.ids import Address, address
from storage.memory import MemoryArtifacts, MemoryLog
from storage.ports import Record
from tests.audit.recorded import recorded, serve
from tests.builders import Talk, assistant, policy, system, user, words
from tests.page.shown import Html, app_over, client_of, fill, shown

VERSIONS = 10_000
RENDER_SECONDS_MAX = 1.0
"""Of the processor, which others may be using too."""

LINE = "A" * 300_000
LINES = "\n".join(f"line {number}" for number in range(20_000))
DEADLINE_SECONDS = 180.0


async def test_ten_thousand_versions_are_shown_within_a_second() -> None:
    talk = Talk(policy(8000))
    talk.play(user(words(20)))
    fact = ContextServed(
        upto=1, budget=8000, profile="openai-chat", view_hash=talk.view().hash, tokens=24, level="none"
    )
    while talk.state.version < VERSIONS:
        talk.land(talk.sealed((fact,)))
    async with shown() as site:
        site.log._records[talk.at] = talk.records
        await site.get(f"/c/{talk.at}")
        for path in ("", "?page=50", "/v/9999", "/diff?a=1&b=10000", "/why/1", "/chart.json", "/where?text=word"):
            began = time.process_time()
            answer = await site.client.get(f"/c/{talk.at}{path}")
            spent = time.process_time() - began
            assert answer.status_code == 200
            assert spent < RENDER_SECONDS_MAX, f"{path or 'timeline'} took {spent:.2f} s"


@pytest.fixture(scope="module")
def huge() -> Talk:
    """Return a conversation with texts that a browser would lay out for minutes."""
    roomy = policy(4_000_000, spill={"share": 1.0, "tokens": 3_000_000, "bytes": 50_000_000, "medium": 1.0})
    talk = Talk(roomy, at=address("huge", "tests"))
    for message in (system("be"), user(LINE), assistant(LINES)):
        # as a client without uploads says it
        talk.say(MessagesAppended(messages=(SaidMessage(raw=messages.encode(message)),)))
        talk.settle()
        serve(talk)
    return talk


async def test_no_page_has_more_of_a_text_than_a_browser_can_show(huge: Talk) -> None:
    newest = huge.state.version
    async with shown(huge) as site:
        for path in (f"/v/{newest}", f"/v/{newest}?as=sent", "/why/2", "/why/3", "/artifact/messages:2"):
            page = await site.get(f"/c/{huge.at}{path}")
            assert all(len(one.text) <= SHOWN_CHARS + 10 for one in page.all("pre")), path
        told = (await site.get(f"/c/{huge.at}/why/2")).text("main")
        one = await site.get(f"/c/{huge.at}/diff?a={newest - 2}&b={newest - 1}&full=1")
        other = await site.get(f"/c/{huge.at}/diff?a={newest - 1}&b={newest}&full=1")
    assert f"{len(LINE):,} characters; open" in told
    assert f"{len(LINE) - SHOWN_CHARS:,} more characters: read the rest" in told
    assert [len(line) for line in added(one)] == [len(f"+{'A' * (LINE_CHARS_SHOWN - 1)} … 296,001 more characters\n")]
    assert added(other) == [f"+line {number}\n" for number in range(FULL_LINES_SHOWN)]
    assert f"{LINES.count(chr(10)) + 1 - FULL_LINES_SHOWN:,} more lines are not shown." in other.text("main")


def added(page: Html) -> list[str]:
    return [span.text for span in page.all("span") if span.attributes.get("class") == "ins"]


class Held(MemoryLog):
    """A log in which one conversation is not read before it may."""

    def __init__(self, held: Address) -> None:
        super().__init__()
        self.held = held
        self.may = asyncio.Event()
        self.reads = 0

    async def read(self, at: Address, *, after: int, time: str = "") -> list[Record]:
        if at == self.held:
            self.reads += 1
            await self.may.wait()
        return await super().read(at, after=after, time=time)


async def test_the_list_does_not_wait_for_a_conversation_that_takes_long() -> None:
    slow = Talk(policy(2000), at=address("slow", "tests"))
    slow.play(user(words(100)))
    log, artifacts = Held(slow.at), MemoryArtifacts()
    for talk in (recorded(), slow):
        log.may.set()
        await fill(log, artifacts, talk)
    log.may.clear()
    log.reads = 0
    async with client_of(app_over(log, artifacts, wait=0.2)) as client:
        first = Html((await client.get("/")).text)
        second = Html((await client.get("/")).text)
        asked = log.reads
        log.may.set()
        async with asyncio.timeout(DEADLINE_SECONDS):
            while "being read" in (text := (await client.get("/")).text):
                await asyncio.sleep(0.02)
    for page in (first, second):
        known, waiting = sorted(page.rows(), key=lambda row: "slow" in row)
        assert waiting == f"{slow.at} – its log is being read …"
        assert known.split()[0] == str(recorded().at)
        assert [one.attributes["http-equiv"] for one in page.all("meta") if "http-equiv" in one.attributes]
    assert asked == 1
    (row,) = [row for row in Html(text).rows() if "slow" in row]
    assert f"{slow.state.live_tokens:,}" in row
    assert "http-equiv" not in text
