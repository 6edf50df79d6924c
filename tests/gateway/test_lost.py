"""An agent whose conversation's log lost its end: it has all that was said, so the gateway begins a new one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import aiohttp
import pytest
from multidict import CIMultiDictProxy

from actors.cli.session import started_stack
from actors.host.settings import Settings
from protocol import codec, subjects
from protocol.facts import UsageReported
from protocol.formats import messages
from protocol.ids import address, fresh_id
from storage.erasure import removed
from storage.ports import Record
from tests.conftest import at_work, settled
from tests.gateway.model import Json, Reply, StrictModel, words
from tests.gateway.provider import in_front_of, provider
from tests.said import said_messages

pytestmark = pytest.mark.slow

LOST = "bypass; the log of its conversation lost its end"
FASTER = "bypass; other requests were faster, too often"


def reported(records: Sequence[Record]) -> list[UsageReported]:
    said = (fact for one in records if one.side == "said" for fact in codec.decode_said(one.body).facts)
    return [fact for fact in said if isinstance(fact, UsageReported)]


async def test_an_agent_whose_log_lost_its_end_goes_on_in_a_new_one_with_all_that_was_said(
    tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    model = StrictModel(window=100_000, replies=lambda run, turn: Reply(text=f"{turn}."))
    history: list[Json] = [{"role": "system", "content": f"run {fresh_id()[:8]} "}]
    section: Json = {"mode": "manage", "window": 16_000, "deadline_seconds": 60.0}
    async with (
        # of its own: processes that remember the log stop at it for good
        started_stack(Settings(data=str(tmp_path))) as (settings, _),
        at_work(settings) as working,
        provider(model) as there,
        in_front_of(there, settings, **section) as url,
    ):

        async def turn() -> CIMultiDictProxy[str]:
            history.append({"role": "user", "content": f"{len(history)}: {words(600)}"})
            got = await session.post(f"{url}/v1/chat/completions", json={"model": "gpt-4o", "messages": history})
            history.append((await got.json())["choices"][0]["message"])
            return got.headers

        names = [(await turn())["x-jettison-conversation"] for _ in range(3)]
        at = address(names[-1])
        assert names == [str(at.conversation)] * 3
        # what each answer cost is reported when it was given: behind the end there must be nothing that is not lost
        while len(reported(await working.log.read(at, after=0))) < len(names):
            await asyncio.sleep(0.02)
        await settled(working, at)
        records = await working.log.read(at, after=0)
        await removed(working.connection, stream=subjects.LOG_STREAM, seqs=[one.seq for one in records[-4:]])
        told = []
        while (found := await turn())["x-jettison"] != "kept":
            told.append(found["x-jettison"])
            # who still writes down a view of before meets a log that has another end
            assert told[-1] == LOST or (told[-1], len(told)) == (FASTER, 1), told
        assert told[-1] == LOST
        assert found["x-jettison-conversation"] not in names
        anew = await said_messages(address(found["x-jettison-conversation"]), log=working.log)
    assert [messages.decode(one.raw) for one in anew] == history[1:-1]
