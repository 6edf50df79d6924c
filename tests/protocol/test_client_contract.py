"""The client's contract, kept by both: the one with an event loop, and its twin without."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import random
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from actors.host.bootstrap import Runtime
from actors.host.settings import Settings
from protocol import codec, sync
from protocol.client import Client, Conversation
from protocol.errors import BadId, BadMessage, BudgetRefused, Rejected
from protocol.facts import UsageReported
from protocol.formats.validate import problems
from tests.conftest import SAMPLE, chatter, settled
from tests.protocol.test_client import call, opened, result, said, user
from tests.sync_twin import INSIDE, TWIN, twin


class Threaded:
    """The twin as the tests call the other: each call on a thread, since this one's loop also serves."""

    def __init__(self, twin: Any) -> None:
        self._twin = twin

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._twin._client if name == "connection" else self._twin, name)
        if not callable(found):
            return found

        async def called(*given: Any, **named: Any) -> Any:
            answer = await asyncio.to_thread(found, *given, **named)
            return Threaded(answer) if isinstance(answer, sync.Conversation) else answer

        return called

    async def ready(self) -> AsyncIterator[Any]:
        """Yield what the twin's iterator yields."""
        announced = self._twin.ready()
        try:
            while True:
                yield await asyncio.to_thread(next, announced)
        finally:
            await asyncio.to_thread(announced.close)


@pytest.fixture(scope="module", params=["async", "sync"])
async def client(request: pytest.FixtureRequest, settings: Settings) -> AsyncIterator[Client]:
    if request.param == "async":
        async with Client.connect(settings.nats.url) as connected:
            yield connected
        return
    waiting = await asyncio.to_thread(sync.Client.connect, settings.nats.url)
    yield cast(Client, Threaded(waiting))
    await asyncio.to_thread(waiting.close)


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
    stored = await said(working, talk.at)
    if isinstance(client, Threaded):
        # each has a thread of its own, and nobody knows which of them begins first
        stored, wanted = (sorted(some, key=lambda message: str(message["content"])) for some in (stored, wanted))
    assert stored == wanted


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


async def test_an_empty_id_is_refused(client: Client) -> None:
    with pytest.raises(BadId):
        await client.open("")
    with pytest.raises(BadId):
        await client.open("a", tenant="")


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


async def test_a_second_handle_resumes_the_conversation(working: Runtime, client: Client, name: str) -> None:
    talk = await opened(client, name)
    await talk.append([user("one")])
    again = await client.open(name, model="gpt-4")
    await again.append([user("two")])
    context = await again.context()
    assert context.messages == [user("one"), user("two")]
    assert context.budget == 12_000, "the first opening counts"


async def test_ready_announces_the_state_of_the_next_view(working: Runtime, client: Client, name: str) -> None:
    talk = await opened(client, name)

    async def first_with(upto: int) -> int:
        async for ready in talk.ready():
            if ready.upto == upto:
                return ready.tokens
        raise AssertionError

    before = len(client.connection._subs)
    # what is published on the same connection comes after it
    listening = asyncio.create_task(first_with(3))
    async with asyncio.timeout(180):
        while len(client.connection._subs) == before:
            await asyncio.sleep(0)
    await talk.append(chatter(2)[:3])
    async with asyncio.timeout(180):
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
    assert await talk.answer_read({"key": "messages:1"}) == "--- message 1 (user) ---\nq"
    assert (await talk.answer_read("{")).startswith("Error: the arguments of read_artifact cannot be used")
    assert (await talk.answer_read(json.dumps({"key": "zz"}))).startswith(
        "Error: 'zz' is not an artifact's key, such as 6"
    )


async def test_its_past_and_its_policy_are_told_and_changed(working: Runtime, client: Client, name: str) -> None:
    talk = await opened(client, name)
    await talk.append([user("one")])
    first = await talk.context()
    await talk.append([user("two")])
    await talk.context()
    assert "spill.tokens" in (await talk.set_policy({"spill": {"tokens": 777}}, by="me")).keys
    await talk.set_budget(5_000)
    assert (await talk.context()).standing == 5_000
    branch = await talk.fork(f"{name}-b", upto=1)
    assert (branch.upto, (await branch.context()).messages) == (1, [user("one")])
    assert (await talk.rewind(version=first.version)).upto == 1
    assert (await talk.versions())[-1].version > first.version
    assert (await talk.why(1)).text == "one"
    assert (await talk.where("one")).now == "retained"
    assert [hit.number for hit in (await talk.search("one")).hits] == [1]
    assert await talk.artifacts() == []
    assert (await talk.expand(messages="1")).restored == ()
    assert (await talk.erase(yes=True)).messages == 2


# The twin alone -----------------------------------------------------------------------------------------------------


def test_both_have_the_same_names_and_arguments() -> None:
    pairs: list[tuple[type, type]] = [(Client, sync.Client), (Conversation, sync.Conversation)]
    for ours, theirs in pairs:
        names = {name for name, found in vars(ours).items() if callable(getattr(ours, name)) and name[0] != "_"}
        assert names - {*INSIDE} <= {name for name in vars(theirs) if name[0] != "_"}
        for name in names - {*INSIDE}:
            one, other = (inspect.signature(getattr(kind, name)) for kind in (ours, theirs))
            assert one.parameters == other.parameters, name
    assert TWIN.read_text(encoding="utf-8") == twin(), "run `.venv/bin/python -m tests.sync_twin`"


SCRIPT = """
import asyncio, contextlib, os, sys, threading
from protocol.adapters.adapter import Adapter
from protocol.adapters.atoms import Atom
from protocol.errors import LogUnavailable, Rejected
from protocol.sync import Client

url = sys.argv[1]
adapter = Adapter(url, framework="script")
said = [Atom(chat={"role": "user", "content": "hi"})]
assert adapter.run(adapter.view("adapted", said)).branch
left_open = Client.connect(url)
with Client.connect(url) as client:
    talk = client.open("script")
    talk.append([{"role": "user", "content": "hi"}])

    async def notebook():
        talk.append([{"role": "user", "content": "from a thread whose own loop runs"}])

    asyncio.run(notebook())
    child = os.fork()
    if not child:
        try:
            talk.append([{"role": "user", "content": "never"}])
        except Rejected as error:
            assert "connect in the child" in str(error), error
        with Client.connect(url) as other:
            other.open("script").append([{"role": "user", "content": "from the child"}])
        seen = []
        call = threading.Thread(target=lambda: seen.append(adapter.run(adapter.view("adapted", said))), daemon=True)
        call.start()
        call.join(120)
        assert seen and seen[0].branch, "a call of the adapter in the child never ended"
        adapter.close()
        sys.exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    talk.append([{"role": "user", "content": "the parent goes on"}])
    assert adapter.run(adapter.view("adapted", said)).branch
client.close()
client.close()
assert [one.name for one in threading.enumerate() if one.name == "jettison-client"] == ["jettison-client"]
# nobody closes what is left open, and a call that waits at the end keeps nobody
def wait():
    with contextlib.suppress(LogUnavailable):
        left_open.open("script").context(patience=60)


threading.Thread(target=wait, daemon=True).start()
print("ends")
"""


async def test_a_script_may_fork_run_a_loop_and_end_without_closing(working: Runtime, settings: Settings) -> None:
    root = str(Path(__file__).parents[2])
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SCRIPT, settings.nats.url), cwd=root, stdout=-1, stderr=-1
    )
    async with asyncio.timeout(180):
        out, err = await process.communicate()
    assert (process.returncode, out, err.decode()) == (0, b"ends\n", "")
