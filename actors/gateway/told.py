"""Told: what the gateway says of each request: a line, metrics, the attributes of its span. Never a word of it."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, fields

from opentelemetry.trace import get_current_span
from starlette.types import Message, Send

from actors.telemetry.gateway_metrics import OTHER, Counted, record_request
from protocol import semconv

from .apis import Api, Host
from .bodies import Body
from .kept_request import BYTES_PER_TOKEN
from .plan import Plan
from .usage import Usage

log = logging.getLogger("jettison.gateway.requests")


_PLAIN_PATH = re.compile(r"/v1(/[a-z_]{1,24}){1,2}(?=/|\Z)")
"""As much of a path as names a route, and nobody's file or answer."""


@dataclass(kw_only=True)
class _Heard:
    """What is counted of any request as it goes through."""

    began: float
    added_seconds: float = 0.0
    """Until the provider was asked."""
    first_seconds: float = 0.0
    """Until the agent got the beginning of an answer."""
    status: int = 0
    """As its agent got it; 0 where it got none."""
    received_bytes: int = 0
    sent_bytes: int = 0
    """Of all questions to the provider that this one took."""
    returned_bytes: int = 0

    def hearing(self, send: Send) -> Send:
        """Return *send* that sees what the agent gets."""

        async def heard(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.status, self.first_seconds = message["status"], time.monotonic() - self.began
            self.returned_bytes += len(message.get("body", b""))
            await send(message)

        return heard

    def asked(self, size: int) -> None:
        """Say that the provider is asked now, with *size* bytes."""
        self.sent_bytes += size
        self.added_seconds = self.added_seconds or time.monotonic() - self.began

    def _end(self, line: str, *words: object, api: str, how: str, provider: Host, model: str = "", **more: int) -> None:
        """Write *line* of *words*, with how long all took behind it, and count the request."""
        seconds = time.monotonic() - self.began
        log.info(f"{line}, %.0f ms in all", *words, seconds * 1000)
        ours = {one.name: getattr(self, one.name) for one in fields(_Heard) if one.name != "began"}
        record_request(Counted(api=api, how=how, provider=provider, model=model, seconds=seconds, **ours, **more))


@dataclass(kw_only=True)
class TakenAsItCame(_Heard):
    """What is to be told of a request that nobody looks into: it is passed on, or refused."""

    api: Api | None
    host: Host
    method: str
    path: str
    how: str = "pass"

    async def taking(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield *chunks* of what the agent sends on its way to the provider, counted."""
        async for chunk in chunks:
            self.received_bytes += len(chunk)
            self.sent_bytes += len(chunk)
            yield chunk

    def end(self) -> None:
        """Tell it."""
        plain = _PLAIN_PATH.match(self.path)
        route = f"{self.method:.8} {plain.group() if plain else '?'}"
        told = (self.host, self.how, self.status or "no answer", route, self.received_bytes, self.returned_bytes)
        api = self.api.name if self.api else OTHER
        self._end("%s %s %s %s: %d bytes in, %d out", *told, api=api, how=self.how, provider=self.host)


@dataclass(kw_only=True)
class Told(_Heard):
    """What is to be told of one request, as it becomes known."""

    api: Api
    body: Body | None
    plan: Plan
    tenant: str
    usage: Usage | None = None
    strange: str = ""
    """What was not understood of its answer, which therefore went on as it came."""

    @property
    def model(self) -> str:
        """Return the agent's name for the model; empty where it names none."""
        return self.body.model if self.body else ""

    @property
    def saved_tokens(self) -> int:
        """Return about how many tokens less were sent than the agent had sent."""
        if self.body is None or self.plan.request is None:
            return 0
        sent = sum(map(len, self.plan.shown))
        return max(0, sum(map(len, self.body.messages)) - sent) // BYTES_PER_TOKEN

    def end(self) -> None:
        """Tell it."""
        usage, plan = self.usage or Usage(), self.plan
        at = str(plan.kept.talk.at) if plan.kept else plan.at or f"{self.tenant}/-"
        if plan.bypass:
            did = f"{plan.why}; {self.received_bytes:,} bytes in, {self.returned_bytes:,} out"
        else:
            told = (f"{usage.input:,}", f"{usage.output:,}") if self.usage else ("?", "?")
            did = "{} tokens in, {} out, about {:,} saved".format(*told, self.saved_tokens)
        did += f"; its answer went on as it came: {self.strange}" if self.strange else ""
        status, added = self.status or "no answer", self.added_seconds * 1000
        self._end(
            "%s %s %s %s: %s, %.0f ms added",
            *(self.api.name, plan.how, status, at, did, added),
            api=self.api.name,
            how=plan.how,
            provider=self.api.host,
            model=self.model,
            saved_tokens=self.saved_tokens,
            input_tokens=usage.input,
            output_tokens=usage.output,
            cached_tokens=usage.cached,
        )
        span = get_current_span()
        if plan.kept:
            talk = plan.kept.talk
            span.set_attributes(semconv.of_conversation(talk.at.tenant, talk.at.conversation))
        if self.usage:
            span.set_attribute(semconv.GEN_AI_USAGE_INPUT_TOKENS, usage.input)
            span.set_attribute(semconv.GEN_AI_USAGE_OUTPUT_TOKENS, usage.output)
        if self.model:
            span.set_attribute(semconv.GEN_AI_REQUEST_MODEL, self.model)
        span.set_attribute(semconv.GEN_AI_OPERATION_NAME, "chat")
        span.set_attribute(semconv.GEN_AI_PROVIDER_NAME, self.api.host)
        span.set_attribute(semconv.GATEWAY_HOW, plan.how)
        span.set_attribute(semconv.HTTP_RESPONSE_STATUS_CODE, self.status)
