"""The client against a running service: what it promises, what it refuses, and what strangers cannot break."""

import hashlib
from typing import Any

import pytest

from actors.host.bootstrap import Runtime
from protocol.client import Client, Conversation
from protocol.errors import BadMessage, NotFound, Rejected
from protocol.facts import Claim, ConversationOpened, MessagesAppended, SaidMessage
from protocol.formats import messages
from protocol.formats.validate import problems
from protocol.ids import Address, address, fresh_id
from protocol.service_call import ask
from protocol.service_messages import UploadAsked
from tests.conftest import Json, layer
from tests.said import said_messages


def user(text: str) -> Json:
    return {"role": "user", "content": text}


def call(ident: str, name: str = "run") -> Json:
    function = {"name": name, "arguments": "{}"}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": ident, "type": "function", "function": function}],
    }


def result(ident: str, text: str) -> Json:
    return {"role": "tool", "tool_call_id": ident, "content": text}


async def opened(client: Client, name: str, **sections: Any) -> Conversation:
    return await client.open(name, policy=layer(**sections))


async def said(running: Runtime, at: Address) -> list[Json]:
    return [messages.decode(one.raw) for one in await said_messages(at, log=running.log)]


# Appending ----------------------------------------------------------------------------------------------------------


BAD_MESSAGES: dict[str, tuple[Any, str]] = {
    "no object": ("hello", "/0"),
    "no role": ({"content": "x"}, "/0/role"),
    "unknown role": ({"role": "wizard", "content": "x"}, "/0/role"),
    "a number as content": ({"role": "user", "content": 5}, "/0/content"),
    "an unknown part": ({"role": "user", "content": [{"type": "smell", "smell": "x"}]}, "/0/content/0/type"),
    "a result of nothing": ({"role": "tool", "content": "x"}, "/0/tool_call_id"),
    "a call of a user": ({**call("a"), "role": "user"}, "/0/tool_calls"),
    "bytes": ({"role": "user", "content": "x", "extra": {1, object()}}, "/0"),
    "a role that is a list": ({"role": ["user"], "content": "x"}, "/0/role"),
}


@pytest.mark.parametrize("what", BAD_MESSAGES)
async def test_a_bad_message_is_refused_before_anything_is_sent(
    working: Runtime, client: Client, name: str, what: str
) -> None:
    message, where = BAD_MESSAGES[what]
    talk = await opened(client, name)
    with pytest.raises(BadMessage) as refused:
        await talk.append([message, user("never")])
    assert refused.value.fields["at"] == where
    assert await said(working, talk.at) == []
    await talk.append([user("fine")])
    assert await said(working, talk.at) == [user("fine")]


@pytest.mark.parametrize("hostile", ["a.b", "*", ">", "ä😀", "\ud800", "..", " ", "x" * 3000, "a\r\nb", "e--YQ"])
async def test_hostile_ids_are_only_names(working: Runtime, client: Client, hostile: str) -> None:
    salt = fresh_id()
    talk = await client.open(f"{hostile}{salt}", tenant=f"{hostile}{salt}", model=hostile, policy=layer())
    await talk.append([user(salt)])
    assert (await talk.context()).messages == [user(salt)]
    assert await said(working, talk.at) == [user(salt)]


# Contexts -----------------------------------------------------------------------------------------------------------


async def test_nothing_said_is_a_clear_error(working: Runtime, client: Client, name: str) -> None:
    never = Conversation(client=client, at=address(name))
    with pytest.raises(NotFound, match="nothing was ever said"):
        await never.context()
    talk = await opened(client, name)
    with pytest.raises(NotFound, match="no message"):
        await talk.context()
    await talk.append([user("now")])
    assert (await talk.context()).messages == [user("now")]


async def test_a_policy_that_cannot_be_used_does_not_stop_the_talk(working: Runtime, client: Client, name: str) -> None:
    """Said by who did not ask the service: the actors go on without it."""
    talk = Conversation(client=client, at=address(name))
    await talk.say((ConversationOpened(name=name, policy=b'{"budget":{"window":100,"reserve":100}}'),))
    await talk.append([user("hi")])
    assert (await talk.context()).messages == [user("hi")]


# Large --------------------------------------------------------------------------------------------------------------


async def large(client: Client, running: Runtime, name: str, wanted: list[Json], text: str) -> None:
    talk = await opened(client, name)
    await talk.append(wanted)
    context = await talk.context(patience=180)
    assert problems(context.messages) == []
    assert context.tokens <= context.budget
    assert "kept as an artifact" in str(context.messages[-1]["content"])
    key = hashlib.sha256(text.encode()).hexdigest()
    assert await running.artifacts.get(talk.at.tenant, key) == text.encode()
    assert key[:16] in str(context.messages[-1]["content"])


async def test_a_result_of_five_megabytes_travels_by_claim_check(working: Runtime, client: Client, name: str) -> None:
    text = "\n".join(f"row {index} of a large result" for index in range(180_000))
    await large(client, working, name, [user("q"), call("a"), result("a", text)], text)


async def test_a_user_message_of_fifty_megabytes_travels_by_claim_check(
    working: Runtime, client: Client, name: str
) -> None:
    text = "all work and no play makes a long line\n" * 1_300_000
    await large(client, working, name, [user(text)], text)
    assert working.connection.is_connected
    assert client.connection.is_connected


async def test_a_claim_without_its_object_is_said_so(working: Runtime, client: Client, name: str) -> None:
    talk = await opened(client, name)
    claim = Claim(pointer="/content", sha256=hashlib.sha256(name.encode()).hexdigest(), bytes=1_000_000)
    fake = SaidMessage(raw=messages.encode(user("")), claims=(claim,))
    await talk.say((MessagesAppended(messages=(fake,)),))
    await talk.append([user("go on")])
    context = await talk.context()
    assert context.messages == [
        user("[This part of 1,000,000 bytes was announced but never uploaded.]"),
        user("go on"),
    ]


@pytest.mark.parametrize("sha256", ["../other/x", "0" * 63, "", "G" * 64, "A" * 64])
async def test_an_upload_is_named_by_its_hash_alone(client: Client, working: Runtime, name: str, sha256: str) -> None:
    talk = await opened(client, name)
    with pytest.raises(Rejected):
        await ask(client.connection, talk.at, "upload", UploadAsked(sha256=sha256), 5.0)


# Reading back -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lines", ["x", "5-2", "0-4", "-", "1-2-3", "-5", "9" * 5000])
async def test_a_bad_range_is_refused(working: Runtime, client: Client, name: str, lines: str) -> None:
    talk = await opened(client, name)
    await talk.append([user("q")])
    with pytest.raises(Rejected, match="range"):
        await talk.read_artifact(f"messages:{lines}")


@pytest.mark.parametrize("key", ["", "../x", "zz", "messages:7-9", "0123456789abcdef", "abc/def"])
async def test_what_is_not_there_is_not_found(working: Runtime, client: Client, name: str, key: str) -> None:
    talk = await opened(client, name)
    await talk.append([user("q")])
    with pytest.raises(NotFound):
        await talk.read_artifact(key)


async def test_a_pattern_that_is_no_pattern_is_refused(working: Runtime, client: Client, name: str) -> None:
    talk = await opened(client, name)
    await talk.append([user("q")])
    with pytest.raises(Rejected, match="RE2"):
        await talk.read_artifact("messages:1", pattern="(")
