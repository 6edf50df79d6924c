"""Models: one question, one answer, over any endpoint that speaks OpenAI's API."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import stamina
import stamina.instrumentation

from protocol.errors import ModelUnavailable, Rejected

from .rules.squeeze import Answer, Ask
from .telemetry import llm_span

if TYPE_CHECKING:
    from openai import AsyncOpenAI


class Model(Protocol):
    """Answer what squeeze asks."""

    async def answer(self, asked: Ask, *, deadline_seconds: float, attempts: int) -> Answer:
        """Return the model's answer, whatever its quality: the rule judges it.

        Raises `ModelUnavailable` after the attempts or the deadline, `Rejected` if asking again cannot help.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """Where the model is. The key is a secret: it comes from the environment or a file, never from TOML."""

    base_url: str = ""
    api_key: str = ""


class OpenAiModel:
    """`Model` through the `openai` package, which is imported at the first question (it takes a second)."""

    def __init__(self, settings: ModelSettings) -> None:
        self._settings = settings
        # its default hook logs through structlog, where that is installed, to stdout
        stamina.instrumentation.set_on_retry_hooks(())
        self._client: AsyncOpenAI | None = None

    async def answer(self, asked: Ask, *, deadline_seconds: float, attempts: int) -> Answer:
        """See `Model.answer`."""
        try:
            async with asyncio.timeout(deadline_seconds):
                async for attempt in stamina.retry_context(
                    on=ModelUnavailable, attempts=attempts, wait_initial=0.5, wait_max=5.0, timeout=None
                ):
                    with attempt:
                        return await self._once(asked, attempt.num)
        except TimeoutError:
            raise ModelUnavailable(f"no answer within {deadline_seconds:g} s", attempts=attempts) from None
        raise AssertionError("the last attempt either returns or raises")

    async def _once(self, asked: Ask, attempt: int) -> Answer:
        import openai

        client = self._connected()
        try:
            with llm_span(asked.model) as span:
                reply = await client.chat.completions.create(
                    model=asked.model,
                    messages=[
                        {"role": "system", "content": asked.system},
                        {"role": "user", "content": asked.user},
                    ],
                    max_tokens=asked.tokens_max,
                    temperature=0,
                )
                if not getattr(reply, "choices", None):
                    raise ModelUnavailable("the endpoint answered without a choice", attempts=attempt)
                choice = reply.choices[0]
                usage = reply.usage
                answer = Answer(
                    text=choice.message.content or "",
                    finish_reason=choice.finish_reason or "",
                    tool_calls=bool(choice.message.tool_calls),
                    input_tokens=usage.prompt_tokens if usage else 0,
                    output_tokens=usage.completion_tokens if usage else 0,
                    attempts=attempt,
                )
                span.answered(
                    input_tokens=answer.input_tokens,
                    output_tokens=answer.output_tokens,
                    finish_reason=answer.finish_reason,
                )
                return answer
        except (openai.APIConnectionError, openai.RateLimitError, openai.InternalServerError) as error:
            raise ModelUnavailable(type(error).__name__, attempts=attempt) from None
        except openai.APIStatusError as error:
            raise Rejected(f"the endpoint refused: HTTP {error.status_code}", attempts=attempt) from None
        except (openai.OpenAIError, ValueError, AttributeError) as error:
            # a body that is no chat completion at all; another attempt may meet a healthy server
            raise ModelUnavailable(f"unreadable answer ({type(error).__name__})", attempts=attempt) from None

    async def close(self) -> None:
        """Close the connections to the endpoint."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    def _connected(self) -> AsyncOpenAI:
        if self._client is None:
            from openai import AsyncOpenAI

            self._client = AsyncOpenAI(
                base_url=self._settings.base_url or None,
                api_key=self._settings.api_key or "none",
                max_retries=0,
            )
        return self._client
