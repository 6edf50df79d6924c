"""Wrong arguments: each is an error of ours that names it and what would be right, before anything is sent."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from openai.types.chat import ChatCompletionMessage

from actors.host.bootstrap import Runtime
from actors.host.settings import Settings
from protocol.client import Client, Conversation
from protocol.errors import BadId, BadMessage, BadPolicy, Rejected
from tests.conftest import layer
from tests.protocol.test_client import call, said, user

Wrong = tuple[type[Rejected], str]


async def connected(url: Any, **given: Any) -> None:
    async with Client.connect(url, **given):
        raise AssertionError("connected")


CONNECTS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "nothing": (None, {}, r"connect takes the URL of NATS such as nats://.*, not None"),
    "a list": (["nats://a"], {}, r"with commas between, not an object of the type list"),
    "an empty text": ("", {}, "has no host"),
    "a port in words": ("nats://localhost:many", {}, "no port that is a number"),
    "another kind": ("http://localhost:4222", {}, "of another kind"),
    "no name": ("nats://localhost", {"name": None}, "name is a str, and cannot be None"),
    "no keys": ("nats://localhost", {"keys": "folder"}, r"keys takes FolderKeys\(folder=…\), not str"),
    "a patience in words": ("nats://localhost", {"patience": "long"}, "patience is a number of seconds such as 30"),
    "no login": (
        "nats://localhost",
        {"pasword": "x"},
        "connect has no argument pasword; as whom one comes: user",
    ),
    "a number as user": ("nats://localhost", {"user": 5}, "user is a text"),
    "a number as file": ("nats://localhost", {"ca_file": 5}, "ca_file is the path of a file"),
    "a text as flag": ("nats://localhost", {"tls_first": "yes"}, "tls_first is True or False"),
}


@pytest.mark.parametrize("what", CONNECTS)
async def test_connect_says_what_it_takes(what: str) -> None:
    url, given, told = CONNECTS[what]
    with pytest.raises(Rejected, match=told):
        await connected(url, **given)


OPENS: dict[str, tuple[dict[str, Any], Wrong]] = {
    "no name": ({"conversation": None}, (BadId, "conversation must be a non-empty text such as .*, not None")),
    "a number as tenant": ({"tenant": 5}, (BadId, "tenant must be a non-empty text")),
    "a number as model": ({"model": 5}, (Rejected, "model is a str, and cannot be 5")),
    "a text as policy": ({"policy": "holmes"}, (BadPolicy, r"policy is a dict such as .*, not 'holmes'")),
    "an unknown key": ({"policy": {"spil": {}}}, (BadPolicy, "spil")),
    "a budget in words": ({"budget": "32k"}, (Rejected, "budget is a number of tokens such as 16000, .* '32k'")),
    "true as budget": ({"budget": True}, (Rejected, "budget is a number of tokens")),
    "a number as format": ({"format": 5}, (Rejected, "format is a str")),
    "an unknown format": ({"format": "chat"}, (Rejected, "format is one of")),
    "one tool": ({"tools": {"name": "run"}}, (Rejected, "tools is a list of definitions, not one dict")),
    "a number as tools": ({"tools": 5}, (Rejected, "tools is a list of definitions")),
    "a tool without a name": ({"tools": [{}]}, (Rejected, "an object with a name")),
}


@pytest.mark.parametrize("what", OPENS)
async def test_open_says_what_it_takes(client: Client, what: str) -> None:
    given, (kind, told) = OPENS[what]
    with pytest.raises(kind, match=told):
        await client.open(**({"conversation": "never"} | given))


Calls = Callable[[Any], Coroutine[Any, Any, Any]]
CALLS: dict[str, tuple[Calls, Wrong]] = {
    "append nothing": (lambda talk: talk.append(None), (BadMessage, "append takes a list of messages, not None")),
    "append one": (lambda talk: talk.append(user("x")), (BadMessage, r"not one dict: append\(\[message\]\)")),
    "append a text": (lambda talk: talk.append("hi"), (BadMessage, r"not one str: append\(\[message\]\)")),
    "append an SDK's one": (
        lambda talk: talk.append(ChatCompletionMessage(role="assistant", content="x")),
        (BadMessage, r"not one ChatCompletionMessage: append\(\[message\]\)"),
    ),
    "append objects": (lambda talk: talk.append([object()]), (BadMessage, "message 1 must be an object, not an obj")),
    "append under a number": (lambda talk: talk.append([], key=5), (Rejected, "key is a str")),
    "append at a time in words": (lambda talk: talk.append([], at_ms="now"), (Rejected, "at_ms is a whole number")),
    "append for ever": (lambda talk: talk.append([], patience="ever"), (Rejected, "patience is a number of seconds")),
    "a budget in words": (lambda talk: talk.context(budget="16k"), (Rejected, "tokens such as 16000, .* '16k'")),
    "a budget of half a token": (lambda talk: talk.context(budget=0.5), (Rejected, "number of tokens")),
    "a patience below 0": (lambda talk: talk.context(patience=-1), (Rejected, "patience is a number of seconds")),
    "an endless patience": (lambda talk: talk.context(patience=float("inf")), (Rejected, "patience is a number")),
    "a number as model": (lambda talk: talk.context(model=5), (Rejected, "model is a str, and cannot be 5")),
    "unfinished in words": (lambda talk: talk.context(unfinished="no"), (Rejected, "unfinished is True or False")),
    "no policy": (lambda talk: talk.set_policy(None), (BadPolicy, "policy is a dict such as")),
    "an object in a policy": (lambda talk: talk.set_policy({"spill": {"tokens": object()}}), (BadPolicy, "spill.tok")),
    "set by a number": (lambda talk: talk.set_policy({}, by=5), (Rejected, "by is a str")),
    "no standing budget": (lambda talk: talk.set_budget(None), (Rejected, "budget is a number of tokens")),
    "read a number": (lambda talk: talk.read_artifact(5), (Rejected, "key is a str such as 'messages:4'")),
    "read lines by number": (lambda talk: talk.read_artifact("#1", lines=7), (Rejected, "lines is a str such as")),
    "read with a text as context": (lambda talk: talk.read_artifact("#1", context="2"), (Rejected, "context is a who")),
    "expand a number": (lambda talk: talk.expand(messages=4), (Rejected, "a str such as '4-9', and cannot be 4")),
    "look for a number": (lambda talk: talk.where(5), (Rejected, "text is a str such as")),
    "rewind to a text": (lambda talk: talk.rewind(version="1"), (Rejected, "version is a whole number")),
    "fork to nothing": (lambda talk: talk.fork(None), (BadId, "conversation must be a non-empty text")),
    "fork at a text": (lambda talk: talk.fork("x", upto="1"), (Rejected, "upto is a whole number")),
    "usage in words": (lambda talk: talk.report_usage(input_tokens="many"), (Rejected, "input_tokens is a number of")),
    "usage of no view": (
        lambda talk: talk.report_usage(input_tokens=1, view_hash=5),
        (Rejected, "view_hash is a str"),
    ),
    "overflow without words": (lambda talk: talk.report_overflow(message=None), (Rejected, "message is a str")),
}


@pytest.mark.parametrize("what", CALLS)
async def test_a_call_says_what_it_takes(client: Client, what: str, name: str) -> None:
    wrong, (kind, told) = CALLS[what]
    with pytest.raises(kind, match=told):
        await wrong(await client.open(name))


async def test_a_standing_budget_that_looks_like_thousands_is_warned_of(
    client: Client, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "jettison"):
        talk = await client.open(name, budget=37)
        await talk.set_budget(39)
        await talk.set_budget(0)
        await talk.set_budget(500)
    told = [one.getMessage() for one in caplog.records if "a standing budget" in one.getMessage()]
    assert [one[:31] for one in told] == ["a standing budget of 37 tokens ", "a standing budget of 39 tokens "]


async def test_objects_of_sdks_are_taken_as_they_are(working: Runtime, client: Client, name: str) -> None:
    talk: Conversation = await client.open(name, policy=layer())
    # it takes a second and a half to import, which each tester would pay for
    from anthropic.types import Message

    chat = ChatCompletionMessage.model_validate({**call("a"), "refusal": None, "reasoning_content": "hm"})
    asked = {"type": "tool_use", "id": "b", "name": "run", "input": {"dry": None}}
    usage = {"input_tokens": 1, "output_tokens": 2}
    answer = Message.model_validate(
        {"id": "m", "type": "message", "role": "assistant", "model": "claude", "content": [asked]}
        | {"stop_reason": "tool_use", "stop_sequence": None, "usage": usage}
    )
    await talk.append([user("go"), chat, {"role": "assistant", "content": answer.content}])
    wanted = {**call("a"), "reasoning_content": "hm"}
    wanted.pop("content")
    assert await said(working, talk.at) == [user("go"), wanted, {"role": "assistant", "content": [asked]}]


async def test_a_client_is_awaited_or_entered_and_closed_as_often_as_one_likes(settings: Settings, name: str) -> None:
    client = await Client.connect(settings.nats.url, patience=7)
    assert client.patience_seconds == 7
    async with client:
        await (await client.open(name)).append([user("hi")])
    assert client.connection.is_closed
    await client.close()
    async with Client.connect(settings.nats.url) as other:
        await other.close()
    assert other.connection.is_closed
