"""The examples run as they stand, against the real service and an LLM that follows a script."""

import json
from typing import Any

from openai import AsyncOpenAI

from actors.host.bootstrap import Runtime
from actors.host.settings import Settings
from protocol import codec
from protocol.facts import UsageReported
from protocol.formats import messages
from protocol.formats.validate import problems
from protocol.ids import address
from tests.conftest import layer
from tests.examples.agent_loop import run_agent
from tests.said import said_messages
from tests.stack import scripted_llm

LINES = 4_000


def log_of(service: str) -> str:
    return "\n".join(f"{service} line {number}: all is well, says request {number * 7919}" for number in range(LINES))


def calls(ident: str, name: str = "log_of", **arguments: str) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"tool_calls": [{"id": ident, "type": "function", "function": function}]}


async def test_the_agent_loop_reads_back_answers_and_never_overflows(
    working: Runtime, settings: Settings, name: str
) -> None:
    reads = calls("c", "read_artifact", key="messages:3", pattern="orders line 1999:")
    script: list[dict[str, Any] | str] = [
        calls("a", service="orders"),
        calls("b", service="payments"),
        reads,
        "All is well.",
    ]
    async with (
        scripted_llm(script) as server,
        AsyncOpenAI(base_url=server.base_url, api_key="none") as llm,
    ):
        answer = await run_agent(
            "What do the logs say?",
            name=name,
            nats=settings.nats.url,
            llm=llm,
            model="gpt-4o",
            tools={"log_of": log_of},
            **layer(window=8_000),
        )
        sent = [request.body["messages"] for request in server.requests]
    assert answer == "All is well."
    assert len(sent) == 4
    assert [problems(view) for view in sent] == [[], [], [], []]
    assert "orders line 1999: all is well, says request 15830081" not in json.dumps(sent[:3])
    assert "orders line 1999: all is well, says request 15830081" in sent[3][-1]["content"]
    assert max(len(json.dumps(view)) for view in sent) < len(log_of("orders")) / 4
    said = [messages.decode(one.raw) for one in await said_messages(address(name), log=working.log)]
    assert [message["role"] for message in said] == ["user", *["assistant", "tool"] * 3, "assistant"]
    records = await working.log.read(address(name), after=0)
    facts = [fact for record in records if record.side == "said" for fact in codec.decode_said(record.body).facts]
    assert len([fact for fact in facts if isinstance(fact, UsageReported)]) == 4
