"""Squeeze on the real path: whatever the endpoint answers, it is recorded, and the agent goes on."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec
import pytest

from actors.audit.replay import replay
from actors.host.bootstrap import Runtime
from actors.host.settings import Settings
from actors.squeeze.decide import Ask
from protocol.client import Client
from protocol.context import Context
from protocol.facts import (
    AccountSqueezed,
    CompactionDeclined,
    DigestSqueezed,
    DoneFact,
    HistorySummarized,
    StageFailed,
)
from protocol.formats.validate import problems
from protocol.ids import Address, fresh_id
from storage.ports import Record
from tests.conftest import SAMPLE, Json, at_work, done_facts, layer, settled
from tests.squeeze.summarizers import extractive
from tests.stack import Refusal, Scripted, ScriptedLlm, real_llm, scripted_llm

WINDOW_TOKENS = 6_000
GOOD = "The user asked to find out why orders are charged twice. Notes were shortened."


def good(body: Json) -> str:
    """Answer a request as a good model would."""
    system, history = (message["content"] for message in body["messages"])
    asked = Ask(id="", boundary=0, model="", system=system, user=history, tokens_max=0, prompt_hash="")
    return f"{GOOD}\n{extractive(asked)}"


@dataclass(frozen=True, kw_only=True)
class Squeezed:
    """One conversation that was squeezed, or was not, and what is known of it."""

    at: Address
    outcomes: list[DoneFact]
    records: list[Record]
    first: Context
    last: Context
    requests: int


@asynccontextmanager
async def at_work_with(settings: Settings, base_url: str) -> AsyncIterator[Runtime]:
    """Run the four actors with an LLM."""
    llm = msgspec.structs.replace(settings.llm, base_url=base_url)
    async with at_work(msgspec.structs.replace(settings, llm=llm)) as busy:
        yield busy


def policy(**squeeze: object) -> Json:
    asked = {"mode": "squeeze", "model": "scripted", "attempts": 2, "deadline_seconds": 120.0, **squeeze}
    # so low that the digest alone is above it: squeeze is always asked
    return layer(window=WINDOW_TOKENS, target={"low_water": 0.05, "min_gain": 0.01}, squeeze=asked)


async def squeezed(settings: Settings, client: Client, llm: ScriptedLlm, **squeeze: object) -> Squeezed:
    """Play a part of the sample until the first squeeze is over, then go on."""
    async with at_work_with(settings, llm.base_url) as busy:
        talk = await client.open(f"squeeze-{fresh_id()}", policy=policy(**squeeze))
        await talk.append(SAMPLE[:42])
        first = await talk.context(patience=180)
        await settled(busy, talk.at)
        await talk.append([{"role": "user", "content": "Go on, please."}])
        last = await talk.context(patience=180)
        # to the end: a slot that is left would be squeezed with the next test's model
        await settled(busy, talk.at)
        records = await busy.log.read(talk.at, after=0)
    for context in (first, last):
        assert problems(context.messages) == []
        assert context.tokens <= context.budget == WINDOW_TOKENS
    assert last.messages[-1]["content"] == "Go on, please."
    return Squeezed(
        at=talk.at, outcomes=outcomes(records), records=records, first=first, last=last, requests=len(llm.requests)
    )


def outcomes(records: Sequence[Record]) -> list[DoneFact]:
    return [
        fact
        for fact in done_facts(records)
        if isinstance(fact, DigestSqueezed | HistorySummarized)
        or (isinstance(fact, CompactionDeclined | StageFailed) and fact.stage == "squeeze")
    ]


async def test_an_accepted_answer_is_recorded_and_replay_asks_nobody(settings: Settings, client: Client) -> None:
    async with scripted_llm([good]) as llm:
        found = await squeezed(settings, client, llm)
        fact = found.outcomes[0]
        assert isinstance(fact, DigestSqueezed), fact
        assert [answer.startswith(GOOD) for answer in fact.answers] == [True]
        assert (fact.model, fact.attempts) == ("scripted", 1)
        assert (fact.input_tokens, fact.output_tokens) == (11, 7)
        assert fact.after_tokens < fact.before_tokens
        assert any(GOOD in str(message["content"]) for message in found.last.messages)
        asked = len(llm.requests)
        again = replay(found.at, found.records)
        assert again.divergence is None
        assert len(llm.requests) == asked
        assert len(found.outcomes) == asked, "one answer, one fact"


DECLINED: dict[str, Scripted] = {
    "empty": "",
    "blank": " \n\t ",
    "only thinking": "<think>I should shorten this",
    "cut by length": {"content": GOOD, "finish_reason": "length"},
    "filtered": {"content": GOOD, "finish_reason": "content_filter"},
    "a tool call": {"tool_calls": [{"id": "c1", "type": "function", "function": {"name": "run", "arguments": "{}"}}]},
    "longer than before": "blah " * 20_000,
    "a loop": "The order is looked at. " * 30,
}


@pytest.mark.parametrize("what", DECLINED)
async def test_a_bad_answer_is_declined_and_the_digest_stays(settings: Settings, client: Client, what: str) -> None:
    async with scripted_llm([DECLINED[what]]) as llm:
        found = await squeezed(settings, client, llm)
    fact = found.outcomes[0]
    assert isinstance(fact, CompactionDeclined), fact
    assert fact.reason
    assert GOOD not in str(found.last.messages)


FAILED: dict[str, Sequence[Scripted]] = {
    "garbage": [b"\x00\xffnot json"],
    "another document": [b'{"hello": 1}'],
    "a list": [b"[]"],
    "no body": [b""],
    "HTTP 500": [Refusal(status=500)],
    "HTTP 400": [Refusal(status=400)],
    "HTTP 401": [Refusal(status=401)],
}


@pytest.mark.parametrize("what", FAILED)
async def test_a_failing_endpoint_is_recorded(settings: Settings, client: Client, what: str) -> None:
    async with scripted_llm(FAILED[what]) as llm:
        found = await squeezed(settings, client, llm)
        fact = found.outcomes[0]
        assert isinstance(fact, StageFailed), fact
        tries = 1 if what in ("HTTP 400", "HTTP 401") else 2
        assert fact.attempts == tries
        assert found.requests == tries * len(found.outcomes)


async def test_an_endpoint_that_recovers_is_asked_again(settings: Settings, client: Client) -> None:
    async with scripted_llm([Refusal(status=500), good]) as llm:
        found = await squeezed(settings, client, llm, attempts=3)
    fact = found.outcomes[0]
    assert isinstance(fact, DigestSqueezed), fact
    assert fact.attempts == 2


async def test_a_slow_endpoint_ends_at_the_deadline(settings: Settings, client: Client) -> None:
    async with scripted_llm([30.0]) as llm:
        found = await squeezed(settings, client, llm, deadline_seconds=0.5)
    fact = found.outcomes[0]
    assert isinstance(fact, StageFailed), fact
    assert "0.5 s" in fact.error


async def test_an_endpoint_that_is_not_there_is_recorded(settings: Settings, client: Client) -> None:
    async with scripted_llm([GOOD]) as llm:
        pass
    found = await squeezed(settings, client, llm)
    assert isinstance(found.outcomes[0], StageFailed)


async def test_a_context_does_not_wait_for_a_slow_model(settings: Settings, client: Client) -> None:
    async with scripted_llm([600.0, "late"]) as llm, at_work_with(settings, llm.base_url) as busy:
        talk = await client.open(f"slow-{fresh_id()}", policy=policy(deadline_seconds=90.0))
        await talk.append(SAMPLE[:42])
        await talk.context(patience=180)
        for index in range(5):
            await talk.append([{"role": "user", "content": f"and {index}?"}])
            context = await talk.context(patience=180)
            assert context.messages[-1]["content"] == f"and {index}?"
            assert context.squeezing
            assert context.tokens <= context.budget
        async with asyncio.timeout(180):
            while not llm.requests:
                await asyncio.sleep(0.05)
        await llm.hang_up()
        await settled(busy, talk.at)
        declined = outcomes(await busy.log.read(talk.at, after=0))[0]
        assert isinstance(declined, CompactionDeclined)
        assert declined.attempts == 2


async def test_a_rate_limit_while_the_context_fits_is_no_failure(settings: Settings, client: Client) -> None:
    async with scripted_llm([Refusal(status=429, retry_after_seconds=3600.0)]) as llm:
        found = await squeezed(settings, client, llm)
    fact = found.outcomes[0]
    assert isinstance(fact, CompactionDeclined), fact
    assert (fact.reason, fact.attempts) == ("rate limited; the context still fits", 1)


async def test_an_endpoint_that_wants_other_arguments_gets_them(settings: Settings, client: Client) -> None:
    refusals = [
        Refusal(status=400, message="Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
        Refusal(status=400, message="Unsupported value: 'temperature' does not support 0."),
    ]
    async with scripted_llm([*refusals, good]) as llm:
        found = await squeezed(settings, client, llm)
        assert isinstance(found.outcomes[0], DigestSqueezed), found.outcomes[0]
        body = llm.requests[2].body
    assert "max_completion_tokens" in body
    assert not {"max_tokens", "temperature"} & body.keys()


async def test_history_is_summarized_and_replay_asks_nobody(settings: Settings, client: Client) -> None:
    too_long = Refusal(status=400, message="This model's maximum context length is 4096 tokens.")
    async with scripted_llm([too_long, good]) as llm:
        found = await squeezed(settings, client, llm, mode="summarize")
        fact = found.outcomes[0]
        assert isinstance(fact, HistorySummarized), fact
        assert [answer.startswith(GOOD) for answer in fact.answers] == [False] + [True] * (len(fact.answers) - 1)
        assert fact.answers[0] == ""
        assert fact.input_tokens == 11 * (len(fact.answers) - 1)
        asked = len(llm.requests)
        assert replay(found.at, found.records).divergence is None
        assert len(llm.requests) == asked


async def test_a_worker_without_a_model_declines(settings: Settings, client: Client) -> None:
    async with at_work(settings) as busy:
        talk = await client.open(f"none-{fresh_id()}", policy=policy())
        await talk.append(SAMPLE[:42])
        context = await talk.context(patience=180)
        assert context.tokens <= context.budget
        await settled(busy, talk.at)
        assert isinstance(outcomes(await busy.log.read(talk.at, after=0))[0], CompactionDeclined)


async def test_an_account_is_retold_or_shortened_by_numbers_and_an_endpoint_may_know_no_schema(
    settings: Settings, client: Client
) -> None:
    refused = Refusal(status=400, message="Invalid parameter: 'response_format' is not supported.")
    prose = " ".join(f"- In the {at}. step nothing was changed, and what was found is told below." for at in range(12))
    async with scripted_llm([refused, '{"leave_out": [1, 2, 3]}', prose]) as llm:
        async with at_work_with(settings, llm.base_url) as busy:
            outcomes_of = []
            for mode in ("select", "auto"):
                asked = {"mode": mode, "model": "scripted", "attempts": 1, "deadline_seconds": 120.0}
                budget = {"window": WINDOW_TOKENS, "reserve": 0}
                talk = await client.open(f"{mode}-{fresh_id()}", policy={"budget": budget, "squeeze": asked})
                await talk.append(SAMPLE[:42])
                await settled(busy, talk.at)
                records = await busy.log.read(talk.at, after=0)
                outcomes_of.append(outcomes(records)[0])
                assert replay(talk.at, records).divergence is None
        first, second, third = (request.body for request in llm.requests[:3])
    chosen, retold = outcomes_of
    assert isinstance(chosen, AccountSqueezed), chosen
    assert (bool(chosen.left), chosen.prose) == (True, "")
    assert first["response_format"]["json_schema"]["schema"]["required"] == ["leave_out"]
    assert not {"response_format"} & (second.keys() | third.keys())
    assert isinstance(retold, AccountSqueezed), retold
    assert retold.prose.endswith(f"]\n{prose}")


@pytest.mark.slow
async def test_a_real_small_model_names_steps_under_a_schema(
    installs: None, settings: Settings, client: Client
) -> None:
    with real_llm() as base_url:
        async with at_work_with(settings, base_url) as busy:
            asked = {"mode": "select", "model": "small", "window": 1_000, "attempts": 1, "deadline_seconds": 60.0}
            budget = {"window": WINDOW_TOKENS, "reserve": 0}
            talk = await client.open(f"real-{fresh_id()}", policy={"budget": budget, "squeeze": asked})
            await talk.append(SAMPLE[:30])
            await settled(busy, talk.at)
            found = outcomes(await busy.log.read(talk.at, after=0))
    # where hardly a step is left, no model is asked
    asked_for = [fact for fact in found if not (isinstance(fact, CompactionDeclined) and "too few" in fact.reason)]
    # a machine that is too slow for it fails by the deadline; what it answers in time is always a choice
    assert asked_for
    assert {type(fact) for fact in asked_for} <= {AccountSqueezed, StageFailed}, asked_for
