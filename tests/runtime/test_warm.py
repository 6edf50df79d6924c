"""What a process keeps of its conversations is bounded in number and in size, and forgetting costs time only."""

import pytest

from actors.runtime import conversations
from actors.runtime.conversations import Conversations
from protocol import codec
from protocol.facts import MessagesAppended, SaidMessage
from protocol.formats import messages
from protocol.ids import address
from storage.memory import MemoryLog, MemorySnapshots
from tests.builders import user, words

TALKS = [address(f"talk-{number}") for number in range(4)]


@pytest.mark.parametrize(
    ("limit", "most", "warm"),
    [
        ("WARM_MAX", 2, [False, False, True, True]),
        ("WARM_TOKENS_MAX", 350, [False, True, True, True]),
        ("WARM_TOKENS_MAX", 50, [False, False, False, True]),
    ],
)
async def test_the_least_recent_are_forgotten_where_there_are_too_many_or_they_are_too_large(
    limit: str, most: int, warm: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversations, limit, most)
    log = MemoryLog()
    known = Conversations(log=log, snapshots=MemorySnapshots(), writer="w")
    for at in TALKS:
        said = (SaidMessage(raw=messages.encode(user(words(96)))),)
        body = codec.encode_said(codec.Said(writer="a", count=1, facts=(MessagesAppended(messages=said),)))
        await log.say(at, body, message_id=str(at), headers={})
        await known.load(at)
        await known.load(at)
    assert [known.is_warm(at) for at in TALKS] == warm
    assert [(await known.load(at)).messages for at in TALKS] == [1, 1, 1, 1]
