"""The client against a running service: what it promises, what it refuses, and what strangers cannot break."""

import asyncio
import hashlib
import json
import random
from typing import Any

import pytest

from actors.host.bootstrap import Runtime
from actors.host.settings import Settings
from actors.services.read_back import said_messages
from protocol import codec
from protocol.client import Client, Conversation
from protocol.errors import BadId, BadMessage, BudgetRefused, NotFound, Rejected
from protocol.facts import Claim, ConversationOpened, MessagesAppended, SaidMessage, UsageReported
from protocol.formats import messages
from protocol.formats.validate import problems
from protocol.ids import Address, address, fresh_id
from protocol.service_call import ask
from protocol.service_messages import UploadAsked
from tests.conftest import SAMPLE, Json, chatter, layer, settled


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


async def test_what_was_appended_is_in_the_log_in_order(working: Runtime, client: Client, name: str) -> None:
    talk = await opened(client, name)
    wanted = chatter(40)
    last = 0
    for start in range(0, len(wanted), 7):
        seq = await talk.append(wanted[start : start + 7])
        assert seq > last
        last = seq
    assert await said(working, talk.at) == wanted
    assert await working.log.head(talk.at) >= last


async def test_concurrent_appends_of_one_conversation_keep_their_order(
    working: Runtime, client: Client, name: str
) -> None:
    talk = await opened(client, name)
    wanted = chatter(20)
    await asyncio.gather(*(talk.append([message]) for message in wanted))
    assert await said(working, talk.at) == wanted


async def test_a_key_stores_once_even_from_another_client(
    working: Runtime, client: Client, settings: Settings, name: str
) -> None:
    talk = await opened(client, name)
    # three envelopes: a key covers all of them
    wanted = [user(f"{index} " + random.Random(index).randbytes(25_000).hex()) for index in range(12)]
    await talk.append(wanted, key="order-1")
    await talk.append(wanted, key="order-1")
    async with Client.connect(settings.nats.url) as other:
        again = await opened(other, name)
        await again.append(wanted, key="order-1")
        await again.append([user("new")], key="order-2")
    assert await said(working, talk.at) == [*wanted, user("new")]
    assert (await settled(working, talk.at)).messages == 13


async def test_equal_messages_are_not_repeats(working: Runtime, client: Client, name: str) -> None:
    talk = await opened(client, name)
    await talk.append([user("ok")])
    await talk.append([user("ok")])
    assert await said(working, talk.at) == [user("ok"), user("ok")]


async def test_an_empty_append_changes_nothing(working: Runtime, client: Client, name: str) -> None:
    talk = await opened(client, name)
    before = await working.log.head(talk.at)
    await talk.append([])
    assert await said(working, talk.at) == []
    assert before


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


async def test_what_json_cannot_hold_exactly_is_refused_or_kept(working: Runtime, client: Client, name: str) -> None:
    talk = await opened(client, name)
    for value in (float("nan"), float("inf"), 2**70, {"a": {1: 2}}, ("t",), b"raw"):
        try:
            await talk.append([{**user("x"), "extra": value}])
        except BadMessage:
            continue
    context = await talk.context()
    assert problems(context.messages) == []


async def test_an_envelope_that_can_never_be_taken_does_not_block_the_next(
    working: Runtime, client: Client, name: str
) -> None:
    talk = await opened(client, name)
    with pytest.raises(Rejected):
        await talk.report_usage(input_tokens=1, view_hash="x" * 2_000_000)
    await talk.append([user("still here")])
    assert await said(working, talk.at) == [user("still here")]


@pytest.mark.parametrize("hostile", ["a.b", "*", ">", "ä😀", "\ud800", "..", " ", "x" * 3000, "a\r\nb", "e--YQ"])
async def test_hostile_ids_are_only_names(working: Runtime, client: Client, hostile: str) -> None:
    salt = fresh_id()
    talk = await client.open(f"{hostile}{salt}", tenant=f"{hostile}{salt}", model=hostile, policy=layer())
    await talk.append([user(salt)])
    assert (await talk.context()).messages == [user(salt)]
    assert await said(working, talk.at) == [user(salt)]


async def test_an_empty_id_is_refused(client: Client) -> None:
    with pytest.raises(BadId):
        await client.open("")
    with pytest.raises(BadId):
        await client.open("a", tenant="")


# Contexts -----------------------------------------------------------------------------------------------------------


async def test_a_small_talk_is_served_as_it_was_said(working: Runtime, client: Client, name: str) -> None:
    talk = await opened(client, name)
    wanted = [{"role": "system", "content": "Be kind."}, user("hi"), call("a"), result("a", "42")]
    await talk.append(wanted)
    context = await talk.context()
    assert context.messages == wanted
    assert (context.upto, context.level, context.squeezing) == (4, "none", False)


async def test_an_asked_budget_holds(working: Runtime, client: Client, name: str) -> None:
    talk = await opened(client, name)
    await talk.append(SAMPLE[:61])
    for budget, given in ((8_000, 8_000), (3_000, 3_000), (9_000, 9_000), (0, 12_000), (50_000, 12_000)):
        context = await talk.context(budget=budget)
        assert context.tokens <= context.budget == given
        assert problems(context.messages) == []


async def test_a_budget_that_nothing_fits_is_refused_by_type(working: Runtime, client: Client, name: str) -> None:
    talk = await opened(client, name)
    await talk.append([{"role": "system", "content": "rule " * 400}, user("question " * 400)])
    with pytest.raises(BudgetRefused) as refused:
        await talk.context(budget=5)
    assert refused.value.fields
    assert (await talk.context(budget=12_000)).messages[-1]["role"] == "user"


async def test_nothing_said_is_a_clear_error(working: Runtime, client: Client, name: str) -> None:
    never = Conversation(client=client, at=address(name))
    with pytest.raises(NotFound, match="nothing was ever said"):
        await never.context()
    talk = await opened(client, name)
    with pytest.raises(NotFound, match="no message"):
        await talk.context()
    await talk.append([user("now")])
    assert (await talk.context()).messages == [user("now")]


async def test_a_second_handle_resumes_the_conversation(working: Runtime, client: Client, name: str) -> None:
    talk = await opened(client, name)
    await talk.append([user("one")])
    again = await client.open(name, model="gpt-4")
    await again.append([user("two")])
    context = await again.context()
    assert context.messages == [user("one"), user("two")]
    assert context.budget == 12_000, "the first opening counts"


async def test_a_policy_that_cannot_be_used_does_not_stop_the_talk(working: Runtime, client: Client, name: str) -> None:
    """Said by who did not ask the service: the actors go on without it."""
    talk = Conversation(client=client, at=address(name))
    await talk.say((ConversationOpened(name=name, policy=b'{"budget":{"window":100,"reserve":100}}'),))
    await talk.append([user("hi")])
    assert (await talk.context()).messages == [user("hi")]


async def test_ready_announces_the_state_of_the_next_view(working: Runtime, client: Client, name: str) -> None:
    talk = await opened(client, name)

    async def first_with(upto: int) -> int:
        async for ready in talk.ready():
            if ready.upto == upto:
                return ready.tokens
        raise AssertionError

    before = len(client.connection._subs)
    listening = asyncio.create_task(first_with(3))
    async with asyncio.timeout(60):
        while len(client.connection._subs) == before:
            await asyncio.sleep(0)
    await client.connection.flush()
    await talk.append(chatter(2)[:3])
    async with asyncio.timeout(60):
        assert await listening > 100


async def test_reported_usage_is_in_the_log(working: Runtime, client: Client, name: str) -> None:
    talk = await opened(client, name)
    await talk.append([user("hi")])
    context = await talk.context()
    await talk.report_usage(input_tokens=123, output_tokens=4, cached_tokens=100, view_hash=context.hash)
    records = await working.log.read(talk.at, after=0)
    facts = [fact for record in records if record.side == "said" for fact in codec.decode_said(record.body).facts]
    usage = UsageReported(input_tokens=123, output_tokens=4, cached_tokens=100, view_hash=context.hash)
    assert [fact for fact in facts if isinstance(fact, UsageReported)] == [usage]


# Large --------------------------------------------------------------------------------------------------------------


async def large(client: Client, running: Runtime, name: str, wanted: list[Json], text: str) -> None:
    talk = await opened(client, name)
    await talk.append(wanted)
    context = await talk.context(wait_seconds=60)
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


async def test_lines_and_patterns_of_an_artifact_are_read_back(working: Runtime, client: Client, name: str) -> None:
    talk = await opened(client, name)
    text = "\n".join(f"line {number}" for number in range(1, 20_001))
    await talk.append([user("q"), call("a"), result("a", text)])
    await talk.context()
    key = hashlib.sha256(text.encode()).hexdigest()[:16]
    assert await talk.read_artifact(key, lines="20-22") == "line 20\nline 21\nline 22"
    assert await talk.read_artifact(key, lines="7") == "line 7"
    found = await talk.read_artifact(key, pattern=r"^line 19999$")
    assert found.split("\n") == [f"{number}:line {number}" for number in (19997, 19998, 19999, 20000)]
    assert await talk.read_artifact(key, pattern="nowhere") == "[no line matches]"
    assert await talk.read_artifact(key, lines="30000-30001") == "[there are only 20,000 lines]"
    assert await talk.read_artifact(key, bytes="1-6") == "line 1"
    assert len(await talk.read_artifact(key)) < 20_000
    assert await talk.read_artifact("messages:1-1") == "--- message 1 (user) ---\nq"
    assert (await talk.read_artifact("messages:1-3", lines="1-2")).startswith("--- message 1 (user) ---\nq")


async def test_a_models_own_call_of_the_read_tool_is_answered(working: Runtime, client: Client, name: str) -> None:
    talk = await opened(client, name)
    text = json.dumps({"orders": [{"id": number, "note": "so far so good"} for number in range(4000)]})
    await talk.append([user("q"), call("a"), result("a", text)])
    await talk.context()
    key = hashlib.sha256(text.encode()).hexdigest()[:16]
    asked = json.dumps({"key": key, "json_path": "$.orders[?@.id==77].note"})
    assert await talk.answer_read(asked) == '"so far so good"'
    assert await talk.answer_read(json.dumps({"key": "messages:1"})) == "--- message 1 (user) ---\nq"
    assert (await talk.answer_read("{")).startswith("Error: the arguments of read_artifact cannot be used")
    assert (await talk.answer_read(json.dumps({"key": "zz"}))).startswith("Error: 'zz' is not an artifact's key")


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
