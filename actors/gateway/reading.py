"""Reading: a model follows pointers while its agent waits for one answer, and the agent sees nothing of it.

The model asks for `read_artifact`, the gateway answers, and the model goes on: all within the answer, or the stream,
that the agent has asked for. What really was said is kept for the log, in the place of what the agent will send back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
from starlette.types import Send

from actors.core.entry import ESTIMATE_BYTES_PER_TOKEN
from protocol.errors import JettisonError, Unavailable
from protocol.jsonbytes import encode

from .apis import Api, error_event
from .dialects import Dialect, Json, ToolCall
from .encodings import unfolding
from .ends import BrokenOff, Ends
from .headers import Header, returned, value_of
from .keeper import Keeper
from .kept_request import KeptRequest
from .plan import Plan
from .reasons import reason_of
from .relay import is_stream, pieces, said, started
from .splice import Splice, splice_of
from .sse import Event, Events, event_of
from .understood import answer_understood
from .usage import Overheard

log = logging.getLogger("jettison.gateway")

TURNS_MAX = 4
"""Of a model within one answer; in the last one it is told that it was the last."""

PING_SECONDS = 5.0
"""Between two signs of life to an agent, while its model's next turn has not begun."""

READ_SECONDS = 10.0
ANSWER_BYTES_MAX = 256 * 2**20

NO_MORE = "Error: this was the last read of this answer. Go on with what you know."

ROOM_CHARS_MIN = 1500
"""Of a result, where the window has no room left: the reserve for the answer has this much."""

NO_ROOM = "[The rest has no room in the window now: ask for a smaller part.]"

Ask = Callable[[bytes], AbstractAsyncContextManager[aiohttp.ClientResponse]]
"""Asks the provider again, with another body."""


@dataclass(kw_only=True)
class Reading:
    """One answer in which a model may read back."""

    api: Api
    dialect: Dialect
    keeper: Keeper
    kept: KeptRequest
    plan: Plan
    ask: Ask
    heard: Overheard
    """Hears what the provider said of its first turn, which the view was for."""
    ends: Ends | None = None
    strange: str = ""
    """What of the answer was not understood, which therefore went on as it came; empty where all was."""
    _real: list[Json] = field(default_factory=list)
    _seen: list[Json] = field(default_factory=list)
    _turns: int = 0

    async def answered(self, answer: aiohttp.ClientResponse, send: Send) -> None:
        """Send the answer that begins with *answer*. Raises `Unavailable` for one of several that breaks off."""
        if is_stream(answer):
            await started(send, answer.status, self._headers(answer))
            await self._streamed(answer, send)
            await said(send, b"", more=False)
        else:
            await self._whole(answer, send)

    def _headers(self, answer: aiohttp.ClientResponse) -> list[Header]:
        return [*returned(answer.raw_headers, without=(b"content-length", b"content-encoding")), *self.plan.headers]

    async def _whole(self, answer: aiohttp.ClientResponse, send: Send) -> None:
        raw = await _all(answer)
        self.heard.hear(raw)
        body = self._understood(raw)
        while (turn := self.dialect.turn_in(body)) is not None and await self._reads(turn):
            async with self.ask(self._next_body()) as following:
                answer, raw = following, await _all(following)
            if answer.status != 200:
                # a refusal is the agent's as it is; of what was read before it, nothing is kept
                break
            body = self._understood(raw)
        else:
            if self._turns and turn is not None:
                await self._hidden()
                raw = encode(self.dialect.with_turn(body, self.dialect.joined(self._seen)))
            if self.ends is not None:
                await _heard_whole(self.ends, raw)
        await started(send, answer.status, self._headers(answer))
        await said(send, raw, more=False)

    async def _streamed(self, answer: aiohttp.ClientResponse, send: Send) -> None:
        splice = splice_of(self.api)
        try:
            await self._turn(answer, splice, send, first=True)
            while splice.whole and await self._reads(splice.turn):
                splice.next_turn()
                async with _kept_alive(self.ask(self._next_body()), send) as following:
                    if following.status != 200:
                        # the stream has begun: its readers take this for the error that it is
                        message = f"the provider refused to go on: {following.status}"
                        await said(send, error_event(message=message, refusal=await _all(following)))
                        return
                    await self._turn(following, splice, send, first=False)
            if self._turns and not splice.strange:
                await self._hidden()
            for piece in splice.ended():
                if self.ends is not None:
                    await self.ends.hear(event_of(piece).data)
                await said(send, piece)
        except BrokenOff as error:
            await said(send, error_event(message=str(error)))
        except JettisonError:
            await said(send, error_event(message="the provider's answer broke off"))
        finally:
            self.strange = splice.strange

    async def _turn(self, answer: aiohttp.ClientResponse, splice: Splice, send: Send, *, first: bool) -> None:
        """Send what goes on at once of one turn."""
        events, begun = Events(), False
        async for piece in _plain(answer):
            held = list[bytes]()
            try:
                for event in events.fed(piece):
                    if first:
                        self.heard.hear(event.data)
                    held += await self._heard(event, splice)
                    if held and not begun:
                        begun, first_out = True, b"".join(held)
                        # before it is sent: a connection that breaks off there sends it no second time
                        held.clear()
                        await said(send, first_out)
            finally:
                # what came together goes on together, behind the turn's first: a piece costs more to send than to read
                if held:
                    await said(send, b"".join(held))
        if rest := events.rest():
            # an event without a blank line at its end: what was held back stands before it
            await said(send, b"".join(await self._heard(event_of(rest), splice)))

    async def _heard(self, event: Event, splice: Splice) -> list[bytes]:
        """Return the bytes that go on at once of *event*; an answer's end is heard where it goes on as it came."""
        out = list(splice.heard(event))
        for piece in out if splice.strange and self.ends is not None else ():
            assert self.ends is not None
            await self.ends.hear(event_of(piece).data)
        return out

    def _understood(self, raw: bytes) -> Json:
        """Return a whole answer; an empty one where it is not understood."""
        body, self.strange = answer_understood(self.api.name, raw)
        return {} if self.strange else body

    async def _reads(self, turn: Json) -> bool:
        """Answer the gateway's own calls of *turn*; tell whether the model goes on, and not the agent."""
        calls = self.dialect.calls(turn)
        ours = [one for one in calls if one.is_ours]
        if not ours and not self._turns:
            return False
        self._turns += 1
        self._seen.append(self.dialect.without_ours(turn))
        self._real += self.dialect.messages(turn)
        if ours:
            last = self._turns >= TURNS_MAX - 1
            told = await asyncio.gather(*(self._read(one, last=last) for one in ours))
            told = [self._fitting(text, share=len(ours)) for text in told]
            self._real += self.dialect.results(zip((one.id for one in ours), told, strict=True))
        return bool(ours) and len(ours) == len(calls) and self._turns < TURNS_MAX

    async def _read(self, call: ToolCall, *, last: bool) -> str:
        try:
            async with asyncio.timeout(READ_SECONDS):
                text = await self.kept.talk.answer_read(call.arguments)
        except (JettisonError, TimeoutError) as error:
            return f"Error: it cannot be read now ({reason_of(error)}). Go on without it."
        return f"{text}\n\n{NO_MORE}" if last else text

    def _fitting(self, text: str, *, share: int) -> str:
        """Return as much of *text* as the window has room for, where *share* results come at once."""
        usable, context = self.kept.policy.usable_tokens, self.plan.context
        sent = sum(map(len, self.plan.shown)) // ESTIMATE_BYTES_PER_TOKEN
        used = min(sent, context.tokens) if context else sent
        used += sum(len(encode(one)) for one in self._real) // ESTIMATE_BYTES_PER_TOKEN
        room = max(ROOM_CHARS_MIN, (usable - used) * ESTIMATE_BYTES_PER_TOKEN // share)
        return text if len(text) <= room else f"{text[:room]}\n{NO_ROOM}"

    def _next_body(self) -> bytes:
        return self.plan.with_more(tuple(map(encode, self._real)))

    async def _hidden(self) -> None:
        try:
            await self.keeper.hide(self.kept, self.dialect.messages(self.dialect.joined(self._seen)), self._real)
        except JettisonError as error:
            # the log gets what the agent sends back, which is true too
            log.warning("what a model read back is not in the log of %s: %s", self.kept.head.name, error)


@asynccontextmanager
async def _kept_alive(
    asking: AbstractAsyncContextManager[aiohttp.ClientResponse], send: Send
) -> AsyncIterator[aiohttp.ClientResponse]:
    """Yield the answer that is asked for; until it begins, the agent gets comments, which its readers pass over."""
    entering = asyncio.create_task(asking.__aenter__())
    try:
        while not (await asyncio.wait({entering}, timeout=PING_SECONDS))[0]:
            await said(send, b": ping\n\n")
    except BaseException:
        entering.cancel()
        await asyncio.gather(entering, return_exceptions=True)
        raise
    answer = entering.result()
    try:
        yield answer
    finally:
        await asking.__aexit__(None, None, None)


async def _plain(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Yield the answer's body as it was before any encoding."""
    unfolds = unfolding(value_of(answer.raw_headers, "content-encoding"), bytes_max=ANSWER_BYTES_MAX)
    async for piece in pieces(answer):
        yield unfolds.piece(piece)


async def _all(answer: aiohttp.ClientResponse) -> bytes:
    """Return the whole body. Raises `Unavailable` where it breaks off: nothing of it was told to the agent yet."""
    try:
        return b"".join([piece async for piece in _plain(answer)])
    except BrokenOff as error:
        raise Unavailable(str(error)) from None


async def _heard_whole(ends: Ends, raw: bytes) -> None:
    """Keep a whole answer. Raises `Unavailable` where it must be and is not: nothing of it was told yet."""
    try:
        await ends.whole(raw)
    except BrokenOff as error:
        raise Unavailable(str(error)) from None


def reads_in(answer: aiohttp.ClientResponse) -> bool:
    """Tell whether a model may read back in *answer*: it is one, and can be listened to."""
    encoding = value_of(answer.raw_headers, "content-encoding")
    return answer.status == 200 and encoding in ("", "identity", "gzip", "deflate", "zstd")
