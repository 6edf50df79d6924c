"""Told: what the gateway says of each request: a line, metrics, the attributes of its span. Never a word of it."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from opentelemetry.trace import get_current_span
from starlette.types import Message, Send

from actors.telemetry.gateway_metrics import OTHER, Counted, record_request
from protocol import semconv

from .apis import Api, Host
from .bodies import Body
from .plan import BYTES_PER_TOKEN, Plan
from .usage import Usage

log = logging.getLogger("jettison.gateway.requests")


_PLAIN_PATH = re.compile(r"/v1(/[a-z_]{1,24}){1,2}(?=/|\Z)")
"""As much of a path as names a route, and nobody's file or answer."""


@dataclass(kw_only=True)
class TakenAsItCame:
    """What is to be told of a request that nobody looks into: it is passed on, or refused."""

    api: Api | None
    host: Host
    method: str
    path: str
    began: float
    how: str = "pass"
    added_seconds: float = 0.0
    first_seconds: float = 0.0
    status: int = 0
    """As its agent got it."""
    received_bytes: int = 0
    returned_bytes: int = 0

    def hearing(self, send: Send) -> Send:
        """Return *send* that sees what the agent gets."""

        async def heard(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.status, self.first_seconds = message["status"], time.monotonic() - self.began
            self.returned_bytes += len(message.get("body", b""))
            await send(message)

        return heard

    async def taking(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield *chunks* of what the agent sends, counted."""
        async for chunk in chunks:
            self.received_bytes += len(chunk)
            yield chunk

    def asked(self) -> None:
        """Say that the provider is asked now."""
        self.added_seconds = time.monotonic() - self.began

    def end(self) -> None:
        """Tell it."""
        seconds = time.monotonic() - self.began
        plain = _PLAIN_PATH.match(self.path)
        route = f"{self.method:.8} {plain.group() if plain else '?'}"
        told = (self.host, self.how, self.status or "no answer", route, self.received_bytes, self.returned_bytes)
        log.info("%s %s %s %s: %d bytes in, %d out, %.0f ms in all", *told, seconds * 1000)
        record_request(
            Counted(
                api=self.api.name if self.api else OTHER,
                how=self.how,
                provider=self.host,
                model="",
                status=self.status,
                seconds=seconds,
                added_seconds=self.added_seconds,
                first_seconds=self.first_seconds,
                received_bytes=self.received_bytes,
                sent_bytes=self.received_bytes if self.added_seconds else 0,
                returned_bytes=self.returned_bytes,
            )
        )


@dataclass(kw_only=True)
class Told:
    """What is to be told of one request, as it becomes known."""

    api: Api
    body: Body | None
    plan: Plan
    began: float = field(default_factory=time.monotonic)
    added_seconds: float = 0.0
    """Until the provider was asked."""
    first_seconds: float = 0.0
    """Until it began to answer."""
    status: int = 0
    usage: Usage | None = None
    received_bytes: int = 0
    sent_bytes: int = 0
    """Of all questions to the provider that this one took."""
    returned_bytes: int = 0
    """Of the answer, as its agent got it."""

    @property
    def model(self) -> str:
        """Return what the agent calls the model; empty where it names none."""
        return self.body.model if self.body else ""

    def asked(self) -> None:
        """Say that the provider is asked now."""
        self.sent_bytes += len(self.plan.body)
        self.added_seconds = self.added_seconds or time.monotonic() - self.began

    def answering(self, status: int) -> None:
        """Say that the provider began to answer."""
        self.status, self.first_seconds = status, time.monotonic() - self.began

    def counting(self, send: Send) -> Send:
        """Return *send* that counts what the agent gets."""

        async def counted(message: Message) -> None:
            self.returned_bytes += len(message.get("body", b""))
            await send(message)

        return counted

    @property
    def saved_tokens(self) -> int:
        """Return about how many tokens less were sent than the agent had sent."""
        if self.body is None or self.plan.request is None:
            return 0
        sent = sum(map(len, self.plan.shown))
        return max(0, sum(map(len, self.body.messages)) - sent) // BYTES_PER_TOKEN

    def end(self) -> None:
        """Tell it."""
        seconds, usage, plan = time.monotonic() - self.began, self.usage, self.plan
        name = str(plan.kept.talk.at) if plan.kept else "-"
        log.info(
            "%s %s %s %s: %s tokens in, %s out, about %s saved, %.0f ms added, %.0f ms in all",
            self.api.name,
            plan.how,
            self.status or "no answer",
            name,
            f"{usage.input:,}" if usage else "?",
            f"{usage.output:,}" if usage else "?",
            f"{self.saved_tokens:,}",
            self.added_seconds * 1000,
            seconds * 1000,
        )
        record_request(
            Counted(
                api=self.api.name,
                how=plan.how,
                provider=self.api.host,
                model=self.model,
                status=self.status,
                seconds=seconds,
                added_seconds=self.added_seconds,
                first_seconds=self.first_seconds,
                received_bytes=self.received_bytes,
                sent_bytes=self.sent_bytes,
                returned_bytes=self.returned_bytes,
                saved_tokens=self.saved_tokens,
                input_tokens=usage.input if usage else 0,
                output_tokens=usage.output if usage else 0,
                cached_tokens=usage.cached if usage else 0,
            )
        )
        span = get_current_span()
        if plan.kept:
            span.set_attribute(semconv.GEN_AI_CONVERSATION_ID, str(plan.kept.talk.at.conversation))
        if usage:
            span.set_attribute(semconv.GEN_AI_USAGE_INPUT_TOKENS, usage.input)
            span.set_attribute(semconv.GEN_AI_USAGE_OUTPUT_TOKENS, usage.output)
        if self.model:
            span.set_attribute(semconv.GEN_AI_REQUEST_MODEL, self.model)
        span.set_attribute(semconv.GEN_AI_OPERATION_NAME, "chat")
        span.set_attribute(semconv.GEN_AI_PROVIDER_NAME, self.api.host)
        span.set_attribute(semconv.GATEWAY_HOW, plan.how)
        span.set_attribute(semconv.HTTP_RESPONSE_STATUS_CODE, self.status)
