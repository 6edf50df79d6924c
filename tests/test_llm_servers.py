"""The two LLM servers of the tests, asked through the client that the service uses."""

from collections.abc import Iterator

import openai
import pytest

from tests.stack import Refusal, real_llm, scripted_llm


@pytest.fixture(scope="module")
def llama(installs: None) -> Iterator[str]:
    with real_llm() as base_url:
        yield base_url


def client(base_url: str, *, retries: int = 0, timeout: float = 180.0) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=base_url, api_key="none", max_retries=retries, timeout=timeout)


async def asked(base_url: str, text: str = "Say hello.", *, retries: int = 0, timeout: float = 180.0) -> str:
    async with client(base_url, retries=retries, timeout=timeout) as llm:
        reply = await llm.chat.completions.create(
            model="any", messages=[{"role": "user", "content": text}], max_tokens=16, temperature=0
        )
        return reply.choices[0].message.content or ""


async def test_the_real_model_answers_and_counts_tokens(llama: str) -> None:
    async with client(llama) as llm:
        reply = await llm.chat.completions.create(
            model="any", messages=[{"role": "user", "content": "Say hello."}], max_tokens=8, temperature=0
        )
    assert reply.choices[0].message.content
    assert reply.usage is not None
    assert reply.usage.prompt_tokens > 0
    assert 0 < reply.usage.completion_tokens <= 8


async def test_the_real_model_refuses_what_does_not_fit(llama: str) -> None:
    with pytest.raises(openai.BadRequestError, match="exceeds the available context size"):
        await asked(llama, "word " * 9000)


async def test_a_scripted_text_comes_back_and_the_request_is_kept() -> None:
    async with scripted_llm(["first", "second"]) as llm:
        assert [await asked(llm.base_url, text) for text in ("a", "b", "c")] == ["first", "second", "second"]
    assert [request.body["messages"][0]["content"] for request in llm.requests] == ["a", "b", "c"]
    assert llm.requests[0].headers["authorization"] == "Bearer none"


async def test_a_script_overrides_the_finish_reason_the_tool_calls_and_the_usage() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    async with (
        scripted_llm([{"content": "cut", "finish_reason": "length", "usage": usage}, {"tool_calls": [call]}]) as script,
        client(script.base_url) as llm,
    ):
        cut = await llm.chat.completions.create(model="m", messages=[])
        called = await llm.chat.completions.create(model="m", messages=[])
    assert (cut.choices[0].finish_reason, cut.choices[0].message.content) == ("length", "cut")
    assert cut.usage is not None
    assert cut.usage.total_tokens == 3
    assert called.choices[0].finish_reason == "tool_calls"
    assert [each.id for each in called.choices[0].message.tool_calls or ()] == ["c1"]


async def test_a_scripted_429_says_when_to_retry() -> None:
    async with scripted_llm([Refusal(status=429, retry_after_seconds=0.1), "at last"]) as llm:
        with pytest.raises(openai.RateLimitError) as refused:
            await asked(llm.base_url)
        assert refused.value.response.headers["retry-after"] == "0.1"
        assert await asked(llm.base_url) == "at last"


async def test_a_scripted_429_is_retried_by_a_client_that_retries() -> None:
    async with scripted_llm([Refusal(status=429, retry_after_seconds=0.1), "at last"]) as llm:
        assert await asked(llm.base_url, retries=1) == "at last"


async def test_a_scripted_500_is_a_server_error() -> None:
    async with scripted_llm([Refusal(status=500)]) as llm:
        with pytest.raises(openai.InternalServerError):
            await asked(llm.base_url)


async def test_a_scripted_garbage_body_arrives_as_garbage() -> None:
    async with scripted_llm([b"<html>not json"]) as llm:
        with pytest.raises((openai.APIError, ValueError, AttributeError)):
            await asked(llm.base_url)


async def test_a_scripted_delay_outlasts_an_impatient_client_and_not_a_patient_one() -> None:
    async with scripted_llm([0.5]) as llm:
        with pytest.raises(openai.APITimeoutError):
            await asked(llm.base_url, timeout=0.1)
        assert await asked(llm.base_url) == "late"


async def test_an_answer_that_is_never_awaited_does_not_hold_up_the_end() -> None:
    async with scripted_llm([3600.0]) as llm:
        with pytest.raises(openai.APITimeoutError):
            await asked(llm.base_url, timeout=0.1)
