"""Copied: what a header that anybody may write does, and to whom."""

import pytest

from actors.audit.erasing import tombstone
from actors.runtime.conversations import Conversations
from actors.runtime.copied import COPIED_HEADER
from protocol import codec
from protocol.errors import NotReady
from protocol.facts import ConversationOpened
from protocol.ids import Address, address
from storage.memory import MemoryLog, MemorySnapshots

VICTIM, OTHER = address("victim"), address("other")


async def said(log: MemoryLog, at: Address, number: int, headers: dict[str, str]) -> None:
    body = codec.encode_said(codec.Said(writer="w", count=number, facts=(ConversationOpened(name="x"),)))
    await log.say(at, body, message_id=f"{at}-{number}", headers=headers)


def conversations(log: MemoryLog) -> Conversations:
    return Conversations(log=log, snapshots=MemorySnapshots(), writer="memory")


async def test_a_forged_copy_holds_up_the_conversation_that_it_is_written_to_and_no_other() -> None:
    log = MemoryLog()
    await said(log, VICTIM, 1, {COPIED_HEADER: "100"})
    await said(log, OTHER, 1, {})
    with pytest.raises(NotReady, match="99 records of a copy are to come"):
        await conversations(log).load(VICTIM)
    assert (await conversations(log).load(OTHER)).seq


async def test_a_copy_of_which_an_erasure_has_overwritten_a_part_is_erased_and_does_not_wait_for_the_rest() -> None:
    log = MemoryLog()
    await said(log, VICTIM, 1, {COPIED_HEADER: "100"})
    stone = codec.encode_commit(tombstone(VICTIM, await log.read(VICTIM, after=0), by="test", at_ms=7))
    assert await log.append(VICTIM, stone, expected_seq=0, commit_id="erased", headers={})
    assert (await conversations(log).load(VICTIM)).erased


@pytest.mark.parametrize("count", ["9" * 5000, "-1", "ten", "١٠", ""])
async def test_what_is_no_number_of_records_holds_nothing_up(count: str) -> None:
    log = MemoryLog()
    await said(log, VICTIM, 1, {COPIED_HEADER: count})
    assert (await conversations(log).load(VICTIM)).seq


async def test_a_conversation_that_has_begun_is_not_held_up() -> None:
    log = MemoryLog()
    await said(log, VICTIM, 1, {})
    await said(log, VICTIM, 2, {COPIED_HEADER: "100"})
    assert (await conversations(log).load(VICTIM)).seq
