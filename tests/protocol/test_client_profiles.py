"""The client and a provider profile: what `context` returns goes to that provider as it is."""

from __future__ import annotations

from typing import Any

from actors.host.bootstrap import Runtime
from protocol.client import Client
from tests.builders import system, user, words

RULES = [{"type": "text", "text": "Never guess.", "cache_control": {"type": "ephemeral"}}]
ASKED = {
    "role": "assistant",
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "tool_use", "id": "t1", "name": "look", "input": {"path": "/a"}},
        {"type": "tool_use", "id": "t2", "name": "look", "input": {"path": "/b"}},
    ],
}


def told(ident: str, content: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": ident, "content": content}


async def test_anthropic_gets_its_system_apart_and_a_large_result_of_several_as_a_pointer(
    working: Runtime, client: Client, name: str
) -> None:
    layer = {
        "shape": {"profile": "anthropic-messages"},
        "budget": {"window": 4000, "reserve": 0},
        "spill": {"share": 0.15},
    }
    talk = await client.open(name, policy=layer)
    answered = user([told("t1", "found"), told("t2", words(2000)), {"type": "text", "text": "and now?"}])
    await talk.append([system("") | {"content": RULES}, user("Why?"), ASKED, answered])
    context = await talk.context()
    assert (context.profile, context.system) == ("anthropic-messages", RULES)
    assert context.messages[:2] == [user("Why?"), ASKED]
    first, second, third = context.messages[2]["content"]
    assert (first, third) == (answered["content"][0], answered["content"][2])
    assert second["tool_use_id"] == "t2"
    assert "read_artifact" in second["content"]
