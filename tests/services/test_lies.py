"""Lies: numbers and texts that no record can hold, from one agent, end nothing that other agents need."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actors.host.settings import Settings
from protocol import codec
from protocol.client import Client
from protocol.facts import CompactionRequested, MessageRepaired
from protocol.ids import address, fresh_id
from protocol.limits import UPLOAD_BYTES_MAX
from tests.conftest import at_work, chatter, done_facts, settled
from tests.promises.harness import at_server, one, told_by, with_own_bucket

LARGE = 2**64 - 1
TEXTS = json.dumps({"role": "user", "content": [{"type": "text", "text": ""} for _ in range(12)]}).encode()
"""A message of twelve texts that all travel by claim check."""

LIES: dict[str, list[Any]] = {
    "window": [["ConversationOpened.1", "a", "gpt-4o", json.dumps({"budget": {"window": 10**30}}).encode()]],
    "seconds": [["ConversationOpened.1", "a", "gpt-4o", b'{"cooldown":{"seconds":"inf"}}']],
    "half-a-letter": [
        ["ConversationOpened.1", "a", "gpt-4o", b'{"hooks":[{"id":"a","do":{"kind":"inject","text":"\\ud800"}}]}']
    ],
    "key": [["ConversationOpened.1", "a", "gpt-4o", b'{"\\ud800":1}']],
    "model": [["ConversationOpened.1", "a", "gpt-9" + "-000" * 50_000 + "x"]],
    "claims": [["MessagesAppended.1", [[TEXTS, [[f"/content/{at}/text", "a" * 64, LARGE] for at in range(12)]]]]],
    "claims-at-the-bound": [
        ["MessagesAppended.1", [[TEXTS, [[f"/content/{at}/text", "b" * 64, UPLOAD_BYTES_MAX] for at in range(12)]]]]
    ],
    "usage": [["UsageReported.1", LARGE, LARGE, LARGE, "x"], ["OverflowReported.1", "", LARGE, LARGE, ""]],
    "budget": [["CompactionRequested.1", LARGE, ""]],
}
HELLO = ["MessagesAppended.1", [[b'{"role":"user","content":"hello"}', []]]]


def lie(facts: list[Any], *, count: int = 1, at_ms: int = 0) -> bytes:
    return msgspec.msgpack.encode(["said.1", fresh_id(), count, [*facts, HELLO], at_ms])


async def test_workers_and_sweepers_go_on_and_others_are_served(settings: Settings, tmp_path: Path) -> None:
    async with one(tmp_path) as server:
        own = with_own_bucket(at_server(settings, server.url))
        async with at_work(own) as busy, Client.connect(server.url) as client:
            await busy.bucket.prepare()
            for name, facts in LIES.items():
                await busy.log.say(address(name), lie(facts), message_id=fresh_id(), headers={})
            for count, at_ms in ((LARGE, 0), (-(2**63), 0), (1, LARGE), (1, -(2**63))):
                body = lie([], count=count, at_ms=at_ms)
                await busy.log.say(address("counts"), body, message_id=fresh_id(), headers={})
            talk = await client.open("beside-them")
            await talk.append(chatter(3))
            assert (await settled(busy, address("beside-them"))).messages == 6
            while not (swept := await busy.sweeper().sweep(everything=True)).complete:
                await asyncio.sleep(0.1)
            assert swept.looked_at == len(LIES) + 2
        done = await told_by(own, "verify", "--all")
        assert done.returncode == 0, done.stdout
        assert f"verified {len(LIES) + 2} of {len(LIES) + 2} conversations" in done.stderr


@pytest.mark.parametrize("name", ["window", "seconds", "half-a-letter"])
async def test_what_an_agent_asks_for_and_no_policy_can_hold_is_left_out_and_told(
    settings: Settings, tmp_path: Path, name: str
) -> None:
    async with one(tmp_path) as server, at_work(at_server(settings, server.url)) as busy:
        at = address(name)
        await busy.log.say(at, lie(LIES[name]), message_id=fresh_id(), headers={})
        state = await settled(busy, at)
        assert state.messages == 1
        facts = done_facts(await busy.log.read(at, after=0))
        assert any(isinstance(one, MessageRepaired) and one.detail.startswith("policy: ") for one in facts)


async def test_a_claim_that_names_nothing_hides_no_message(settings: Settings, tmp_path: Path) -> None:
    async with one(tmp_path) as server:
        own = at_server(settings, server.url)
        async with at_work(own) as busy, Client.connect(server.url) as client:
            claims = [["/nope/~2/\x00", "a" * 64, 70_000], ["/content/9/text", "a" * 64, 70_000]]
            facts = [["MessagesAppended.1", [[b'{"role":"user","content":"a valve leaks"}', claims]]]]
            await busy.log.say(address("pointer"), lie(facts), message_id=fresh_id(), headers={})
            await settled(busy, address("pointer"))
            talk = await client.open("pointer")
            assert "a valve leaks" in await talk.read_artifact("messages:1")


async def test_who_asks_for_a_view_before_anything_was_said_is_told_so(settings: Settings, tmp_path: Path) -> None:
    async with one(tmp_path) as server:
        own = at_server(settings, server.url)
        async with at_work(own) as busy:
            wish = msgspec.msgpack.encode(["said.1", fresh_id(), 1, [["CompactionRequested.1", 5, ""]], 0])
            await busy.log.say(address("nothing"), wish, message_id=fresh_id(), headers={})
            answer = await busy.connection.request("ctx.v1.ask.context.default.nothing", b"{}", timeout=180)
            assert b"there is no message in default/nothing yet" in answer.data


@pytest.mark.parametrize("number", [sys.maxsize, LARGE, -(2**63)])
def test_numbers_in_a_log_are_read_as_they_always_were(number: int) -> None:
    """A budget of `sys.maxsize` means none, and a clock of nanoseconds is wrong, but no reason to lose a message."""
    facts = [["CompactionRequested.1", number, ""], ["UsageReported.1", number, number, number, ""]]
    said = codec.decode_said(lie(facts, at_ms=number))
    assert (said.at_ms, len(said.facts)) == (number, 3)
    assert said.facts[0] == CompactionRequested(budget=number)


async def test_who_wants_no_limit_may_say_so(settings: Settings, tmp_path: Path) -> None:
    async with (
        one(tmp_path) as server,
        at_work(at_server(settings, server.url)) as busy,
        Client.connect(server.url) as client,
    ):
        talk = await client.open("no-limit", budget=sys.maxsize)
        await talk.append(chatter(3))
        await talk.set_budget(sys.maxsize)
        assert (await talk.context(budget=sys.maxsize)).messages
        assert (await settled(busy, talk.at)).messages == 6
