"""Models: one question, one answer, over any endpoint that speaks OpenAI's API."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import stamina
from cachetools import LRUCache

from actors.model_info.prices import cost_microdollars
from actors.telemetry.setup import llm_span
from protocol.errors import ModelUnavailable, Rejected
from protocol.overflow import is_overflow

from .questions import Ask, Completion

if TYPE_CHECKING:
    from openai import APIStatusError, AsyncOpenAI

RETRIED = frozenset((408, 409, 425, 429))
"""HTTP states that may pass by themselves, beside all from 500."""

DIALECTS_MAX = 256
"""Models whose endpoint's peculiarities one process remembers."""


class Model(Protocol):
    """Answer what squeeze asks."""

    async def answer(self, asked: Ask, *, deadline_seconds: float, attempts: int) -> Completion:
        """Return the model's answer, whatever its quality: the rule judges it. A request too long for it is one too.

        Raises `ModelUnavailable` after the attempts or the deadline (its field `rate_limited` says whether that was
        why), `Rejected` if asking again cannot help.
        """
        ...


class _Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """What an endpoint wants to be told; found out by its refusals."""

    limit: str = "max_tokens"
    """Name of the bound on the answer; newer models of OpenAI want `max_completion_tokens`; empty: none."""
    temperature: bool = True
    schema: bool = True
    """An answer that must meet a schema is asked for as `response_format`."""

    def after(self, refusal: str) -> _Dialect | None:
        """Return the dialect to try after *refusal*; None if it is about something else."""
        if self.limit and self.limit in refusal:
            wanted = "max_completion_tokens" if self.limit == "max_tokens" else ""
            return msgspec.structs.replace(self, limit=wanted)
        if self.temperature and "temperature" in refusal:
            return msgspec.structs.replace(self, temperature=False)
        if self.schema and ("response_format" in refusal or "schema" in refusal):
            return msgspec.structs.replace(self, schema=False)
        return None

    def arguments(self, asked: Ask) -> dict[str, Any]:
        """Return the arguments that differ between endpoints."""
        limit = {self.limit: asked.tokens_max} if self.limit else {}
        shape: dict[str, Any] = {}
        if asked.schema and self.schema:
            schema = {"name": "answer", "schema": msgspec.json.decode(asked.schema)}
            shape = {"response_format": {"type": "json_schema", "json_schema": schema}}
        return {**limit, **({"temperature": 0} if self.temperature else {}), **shape}


class OpenAiModel:
    """`Model` through the `openai` package, which is imported at the first question (it takes a second)."""

    def __init__(self, *, base_url: str, api_key: str) -> None:
        self._base_url, self._api_key = base_url, api_key
        self._client: AsyncOpenAI | None = None
        self._dialects: LRUCache[str, _Dialect] = LRUCache(DIALECTS_MAX)

    async def answer(self, asked: Ask, *, deadline_seconds: float, attempts: int) -> Completion:
        """See `Model.answer`."""
        ends = asyncio.get_running_loop().time() + deadline_seconds
        tried, limited = 0, False
        try:
            async with asyncio.timeout_at(ends):
                async for attempt in stamina.retry_context(
                    on=_pause_until(ends), attempts=attempts, wait_initial=0.5, wait_max=5.0, timeout=None
                ):
                    with attempt:
                        tried = attempt.num
                        try:
                            return await self._once(asked, tried)
                        except ModelUnavailable as error:
                            limited = bool(error.fields.get("rate_limited"))
                            raise
        except TimeoutError:
            reason = f"no answer within {deadline_seconds:g} s"
            raise ModelUnavailable(reason, attempts=tried, rate_limited=limited) from None
        raise AssertionError("the last attempt either returns or raises")

    async def _once(self, asked: Ask, attempt: int) -> Completion:
        # in a thread: on the loop, no turn of this process would give a sign of life for seconds (measured)
        openai = await asyncio.to_thread(_openai)
        try:
            while True:
                dialect = self._dialects.get(asked.model, _Dialect())
                try:
                    return await self._said(asked, dialect, attempt)
                except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                    if _too_long(error):
                        return Completion(too_long=True, attempts=attempt)
                    other = dialect.after(f"{error.param} {error.message}")
                    if other is None:
                        raise
                    self._dialects[asked.model] = other
        except openai.APIConnectionError as error:
            raise ModelUnavailable(type(error).__name__, attempts=attempt) from None
        except openai.APIStatusError as error:
            if _too_long(error):
                return Completion(too_long=True, attempts=attempt)
            raise _failure(error, attempt) from None
        except (openai.OpenAIError, ValueError, AttributeError, TypeError) as error:
            # a body that is no chat completion at all; another attempt may meet a healthy server
            raise ModelUnavailable(f"unreadable answer ({type(error).__name__})", attempts=attempt) from None

    async def _said(self, asked: Ask, dialect: _Dialect, attempt: int) -> Completion:
        with llm_span(asked.model) as span:
            client = await self._connected()
            reply = await client.chat.completions.create(
                model=asked.model,
                messages=[{"role": "system", "content": asked.system}, {"role": "user", "content": asked.user}],
                **dialect.arguments(asked),
            )
            if not getattr(reply, "choices", None):
                raise ModelUnavailable("the endpoint answered without a choice", attempts=attempt)
            choice, usage = reply.choices[0], reply.usage
            sent, said = _whole(usage and usage.prompt_tokens), _whole(usage and usage.completion_tokens)
            details = usage.prompt_tokens_details if usage else None
            cached = _whole(details and details.cached_tokens)
            cost = cost_microdollars(asked.model, input_tokens=sent, cached_tokens=cached, output_tokens=said)
            answer = Completion(
                text=choice.message.content if isinstance(choice.message.content, str) else "",
                finish_reason=str(choice.finish_reason or ""),
                tool_calls=bool(choice.message.tool_calls),
                input_tokens=sent,
                output_tokens=said,
                attempts=attempt,
                cost_microdollars=cost,
            )
            span.answered(
                input_tokens=answer.input_tokens,
                output_tokens=answer.output_tokens,
                finish_reason=answer.finish_reason,
                cost_microdollars=answer.cost_microdollars,
            )
            return answer

    async def close(self) -> None:
        """Close the connections to the endpoint."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def _connected(self) -> AsyncOpenAI:
        if self._client is None:
            made = await asyncio.to_thread(self._made)
            # another turn may have been faster
            self._client = self._client or made
        return self._client

    def _made(self) -> AsyncOpenAI:
        made: AsyncOpenAI = _openai().AsyncOpenAI(
            base_url=self._base_url or None,
            api_key=self._api_key or "none",
            max_retries=0,
        )
        assert made.chat.completions is not None, "imports the second half of the package"
        return made


def _openai() -> Any:
    import openai

    return openai


def _pause_until(ends: float) -> Callable[[Exception], bool | float]:
    """Return stamina's judge of errors: whether to try again, and after how many seconds if the endpoint said so."""

    def pause(error: Exception) -> bool | float:
        if not isinstance(error, ModelUnavailable):
            return False
        told = error.fields.get("retry_after_seconds")
        if not isinstance(told, float):
            return True
        # to wait for what comes too late helps nobody
        return told if told < ends - asyncio.get_running_loop().time() else False

    return pause


def _failure(error: APIStatusError, attempt: int) -> ModelUnavailable | Rejected:
    status = error.status_code
    if error.code == "insufficient_quota" or (status not in RETRIED and status < 500):
        return Rejected(f"the endpoint refused: HTTP {status}", attempts=attempt)
    said = f"{type(error).__name__}: HTTP {status}"
    told = _retry_after(error)
    return ModelUnavailable(said, attempts=attempt, rate_limited=status == 429, retry_after_seconds=told)


def _retry_after(error: APIStatusError) -> float | None:
    """Return the seconds that the endpoint asks for; dates are not read, the usual pause is as good."""
    try:
        told = float(error.response.headers.get("retry-after", ""))
    except ValueError:
        return None
    return told if 0 <= told < float("inf") else None


def _too_long(error: APIStatusError) -> bool:
    return error.status_code in (400, 413, 422) and is_overflow(error.message, code=str(error.code or error.type or ""))


def _whole(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0
