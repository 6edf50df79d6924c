"""Managed: one request from the agent's bytes to the end of its answer."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import re
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import aiohttp
import msgspec
from starlette.types import Send

from protocol.errors import BudgetRefused, JettisonError, Rejected, Unavailable
from protocol.overflow import is_overflow
from protocol.tracing import extract, span, traced

from . import compacting, conversations
from .answers import is_named, must_be_known, reference_in, unstored
from .apis import Api
from .bodies import Body
from .callers import Caller, Callers
from .dialects import dialect_of
from .ends import BrokenOff, Ends
from .headers import forwarded, value_of
from .incoming import Incoming
from .kept_request import BYTES_PER_TOKEN
from .plan import Plan, Planner, bypass
from .reading import Reading, reads_in
from .relay import ended, pieces, refused, relayed
from .sessions import Sessions
from .told import TakenAsItCame, Told
from .upstream import Upstream
from .usage import Overheard, Usage

log = logging.getLogger("jettison.gateway")

RETRIES_MAX = 2
"""Shorter views of one request, after its provider refused one as too long."""

REFUSALS = (400, 413, 422)

THINKING_REFUSED = re.compile(rb"thinking.{0,80}bound to a different", re.DOTALL)
"""A thought stands behind something else than its call saw: not its agent's fault, who was shown it by a gateway."""
THINKING_WANTED = re.compile(
    rb"expected .{0,4}thinking.{0,60}found .{0,4}tool_use|must start with a thinking block"
    rb"|blocks? in the latest assistant message cannot be modified",
    re.DOTALL | re.IGNORECASE,
)
"""While tools run a thought belongs to its calls, and the log has none: it was left out behind what no view has."""

REFUSAL_BYTES_MAX = 256 * 1024
RETRY_AFTER_SECONDS = 5

TOO_LONG = "it does not fit its model's window as it came"
REFUSES = "its settings refuse to pass it on"
NOT_KNOWN = "its provider does not know what it goes on from"
"""Why what cannot be managed is not passed on."""

RESPONSES = "/v1/responses"

REPORTS_MAX = 1000
"""Reports that are still on their way; what comes beyond them is not reported."""


@dataclass(kw_only=True)
class Managed:
    """Answers the requests that have a conversation."""

    upstream: Upstream
    callers: Callers
    planner: Planner
    refuses: bool = False
    sessions: Sessions = field(default_factory=Sessions)
    _reports: set[asyncio.Task[Any]] = field(default_factory=set)

    async def answer(
        self, asked: Incoming, api: Api, read: Body | Rejected, caller: Caller, send: Send, *, counts: bool = False
    ) -> None:
        """Answer one request; *counts*: it only asks how many tokens it has. Raises `Unavailable`."""
        headers = _texts(asked)
        with span(f"gateway {api.name}", kind="server", parent=extract(headers)):
            try:
                read = await self._whole(asked, read)
                plan = await self._plan(asked, read, caller, headers, counts=counts)
            except BudgetRefused as error:
                if not counts:
                    await _told_no(asked, api, send, _too_long(api, error, window=self._window(caller, read)))
                    return
                plan = bypass(asked.body, "no view of it is small enough")
            except Rejected as error:
                plan = bypass(asked.body, str(error))
            if isinstance(read, Body) and plan.kept is None and caller.shared and asked.route == RESPONSES:
                # what goes on beside an answer must be kept
                kept = read if read.field("background") is True else unstored(read)
                plan = plan if kept is read else dataclasses.replace(plan, body=kept.written(), as_it_came=False)
            if isinstance(read, Body) and plan.kept is None and must_be_known(read, caller):
                await _told_no(asked, api, send, _away(api, plan, NOT_KNOWN) if plan.away else _unknown(api, read))
                return
            told = Told(
                api=api,
                body=read if isinstance(read, Body) else None,
                plan=plan,
                tenant=caller.tenant,
                began=asked.came,
                received_bytes=len(asked.body),
            )
            send = told.hearing(send)
            try:
                if plan.too_long or (plan.away and self.refuses and not counts):
                    await _away(api, plan, TOO_LONG if plan.too_long else REFUSES)(send)
                elif plan.kept and told.body and compacting.is_asked(asked.route, told.body):
                    await ended(self._compacted(asked, told.body, plan, send), api.host, send)
                else:
                    await ended(self._send(asked, told, send), api.host, send)
            finally:
                told.end()
                if not counts:
                    self.sessions.saw(told, client=headers.get("user-agent", ""))

    def _window(self, caller: Caller, read: Body | Rejected) -> int:
        """Return the tokens of the window that a request's model has; 0 where nobody names it."""
        if self.planner.keeper is None or isinstance(read, Rejected):
            return 0
        policies = self.planner.keeper.policies
        return policies.window or policies.window_of(caller.tenant, read.model)

    async def _whole(self, asked: Incoming, read: Body | Rejected) -> Body | Rejected:
        """Return a request with what stands before it in a conversation that its provider keeps."""
        if isinstance(read, Rejected) or _foreign(read) or not conversations.conversation_of(read):
            return read
        if self.planner.keeper is None or compacting.is_asked(asked.route, read):
            return read
        ask = partial(self._beside, asked)
        return await conversations.whole(read, ask, seconds=self.planner.deadline_seconds)

    def _beside(
        self, asked: Incoming, *, method: str, path: str, query: str = "", body: bytes = b""
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """Ask the provider something else, with what the caller showed."""
        headers = forwarded(asked.headers, without=(b"content-encoding", b"accept-encoding", b"content-type"))
        headers += [(b"accept-encoding", b"identity"), (b"content-type", b"application/json")]
        headers = self.callers.headers_for(headers, "openai")
        return self.upstream.asked("openai", method=method, path=path, query=query, headers=headers, body=body)

    async def _plan(
        self, asked: Incoming, read: Body | Rejected, caller: Caller, headers: dict[str, str], *, counts: bool
    ) -> Plan:
        if isinstance(read, Rejected):
            return bypass(asked.body, str(read))
        if why := _foreign(read):
            return bypass(asked.body, why)
        if compacting.is_asked(asked.route, read):
            read = msgspec.structs.replace(read, messages=compacting.without_trigger(read))
            return await self.planner.compacted(asked.body, read, caller=caller, headers=headers)
        return await self.planner.plan(asked.body, read, caller=caller, headers=headers, counts=counts)

    async def _compacted(self, asked: Incoming, body: Body, plan: Plan, send: Send) -> None:
        """Answer who asked for a compaction, without its provider."""
        kept, keeper, context = plan.kept, self.planner.keeper, plan.context
        assert kept is not None
        assert keeper is not None
        assert context is not None
        item = await keeper.answers.compaction(kept.caller, kept.head, kept.place)
        tokens = sum(map(len, body.messages)) // BYTES_PER_TOKEN, context.tokens
        await compacting.told(send, asked.route, body, item, tokens=tokens, headers=plan.headers)

    async def _send(self, asked: Incoming, told: Told, send: Send) -> None:
        """Ask the provider, with a shorter view where it refuses one as too long; what it says goes to the agent."""
        for attempt in range(RETRIES_MAX + 1):
            told.asked(len(told.plan.body))
            async with self._asked(asked, told.api, told.plan) as answer:
                said = await _refusal(answer)
                other = await self._other(asked, told, said) if said and attempt < RETRIES_MAX else None
                if other is None:
                    await self._returned(asked, answer, told, send, read=said)
                    return
                told.plan = other

    async def _other(self, asked: Incoming, told: Told, said: bytes) -> Plan | None:
        """Return the plan after a provider refused a request with *said*; None if that is its agent's to hear."""
        if told.body is None:
            return None
        if THINKING_REFUSED.search(said):
            return self.planner.unbound(told.body, told.plan)
        if THINKING_WANTED.search(said):
            return self.planner.as_came(asked.body, told.body, told.plan, headers=_texts(asked))
        if _overflows(said):
            words = said.decode("utf-8", "replace")
            return await self.planner.shorter(asked.body, told.body, told.plan, told=words)
        return None

    def _asked(
        self, asked: Incoming, api: Api, plan: Plan, body: bytes | None = None
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        # what we wrote is plain; what comes back must be readable, if it is to be listened to
        without = [] if plan.as_it_came else [b"content-encoding"]
        headers = forwarded(asked.headers, without=[*without, *([b"accept-encoding"] if plan.kept else [])])
        headers += [(b"accept-encoding", b"identity")] if plan.kept else []
        if trace := traced():
            # the provider's part of the trace is below ours
            headers = [(key, value) for key, value in headers if key.lower().decode("latin-1") not in trace]
            headers += [(key.encode(), value.encode()) for key, value in trace.items()]
        return self.upstream.asked(
            api.host,
            method=asked.method,
            path=asked.path,
            query=asked.query,
            headers=self.callers.headers_for(headers, api.host),
            body=plan.body if body is None else body,
        )

    async def _returned(
        self, asked: Incoming, answer: aiohttp.ClientResponse, told: Told, send: Send, *, read: bytes
    ) -> None:
        """Send the agent what the provider says, and listen to what it cost."""
        api, plan, keeper = told.api, told.plan, self.planner.keeper
        heard, ends = Overheard(), self._ends(asked, told, answer)
        if plan.tools and plan.kept and keeper and reads_in(answer):
            reading = Reading(
                api=api,
                dialect=dialect_of(api),
                keeper=keeper,
                kept=plan.kept,
                plan=plan,
                ask=lambda body: self._asked(asked, api, plan, body),
                heard=heard,
                ends=ends,
            )
            await reading.answered(answer, send)
            told.strange = reading.strange
        else:
            hears = heard if plan.kept else None
            await relayed(answer, send, added=plan.headers, heard=hears, read=read, ends=ends)
        told.usage = heard.usage
        if plan.kept and not plan.kept.beside and answer.status == 200 and told.usage:
            self._later(_reported(plan, told.usage))

    def _ends(self, asked: Incoming, told: Told, answer: aiohttp.ClientResponse) -> Ends | None:
        """Return the keeping of the answer for who will go on from it by its id; None where nobody may."""
        kept, keeper, request = told.plan.kept, self.planner.keeper, told.plan.request
        if kept is None or keeper is None or request is None or answer.status != 200 or not reads_in(answer):
            return None
        if request.conversation:
            add = conversations.added_to(request, partial(self._beside, asked))
            return Ends(add, seconds=conversations.ADD_SECONDS * 2)
        if kept.beside or told.body is None or not is_named(told.body):
            return None
        keep = partial(keeper.answers.keep, kept.caller, kept.head, kept.place, request)
        return Ends(keep, seconds=self.planner.deadline_seconds)

    def _later(self, report: Coroutine[Any, Any, None]) -> None:
        """Report without anybody waiting for it."""
        if len(self._reports) >= REPORTS_MAX:
            report.close()
            return
        task = asyncio.create_task(report)
        self._reports.add(task)
        task.add_done_callback(self._reports.discard)


async def _reported(plan: Plan, usage: Usage) -> None:
    """Report what a call cost; of its input, what stood beside the conversation when it was opened is known."""
    kept = plan.kept
    assert kept is not None
    try:
        await kept.talk.report_usage(
            input_tokens=max(0, usage.input - (kept.outside - kept.head.outside)),
            output_tokens=usage.output,
            cached_tokens=usage.cached,
            view_hash=plan.context.hash if plan.context else "",
        )
    except JettisonError as error:
        log.info("usage was not reported: %s", error)


def _texts(asked: Incoming) -> dict[str, str]:
    """Return the headers of a request as texts, their names in small letters."""
    return {key.decode("latin-1").lower(): value.decode("latin-1") for key, value in asked.headers}


def _foreign(body: Body) -> str:
    """Return why a request can only be answered as it came; empty where it can be managed."""
    several, named = body.field("n"), body.field("conversation")
    if isinstance(several, int) and several > 1:
        return "several answers are asked for"
    if body.field("background") is True:
        return "its provider answers in the background"
    both = named is not None and body.field("previous_response_id") is not None
    if body.continues_a_thread or both or (named is not None and not conversations.conversation_of(body)):
        return "what it goes on from cannot be told"
    return ""


async def _refusal(answer: aiohttp.ClientResponse) -> bytes:
    """Return the beginning of an answer that may say that the request was too long; nothing of any other.

    Raises `Unavailable` for one that breaks off.
    """
    if answer.status not in REFUSALS or value_of(answer.raw_headers, "content-encoding"):
        return b""
    told = bytearray()
    try:
        async for piece in pieces(answer):
            told += piece
            if len(told) > REFUSAL_BYTES_MAX:
                break
    except BrokenOff as error:
        raise Unavailable(str(error)) from None
    return bytes(told)


def _overflows(told: bytes) -> bool:
    try:
        error = msgspec.json.decode(told)["error"]
        return is_overflow(str(error.get("message", "")), code=str(error.get("code") or ""))
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError):
        return False


Say = Callable[[Send], Coroutine[Any, Any, None]]
"""Tells an agent no."""


async def _told_no(asked: Incoming, api: Api, send: Send, say: Say) -> None:
    """Answer a request without its provider, and tell its operator."""
    told = TakenAsItCame(
        api=api,
        host=api.host,
        method=asked.method,
        path=asked.route,
        began=asked.came,
        how="refused",
        received_bytes=len(asked.body),
    )
    try:
        await say(told.hearing(send))
    finally:
        told.end()


def _too_long(api: Api, error: BudgetRefused, *, window: int) -> Say:
    """Say that not even the smallest view fits, in the words by which agents know to compact themselves.

    They know of their window, and not of the part of it that is left for a view.
    """
    tokens, budget = (int(str(error.fields.get(name, 0))) for name in ("tokens", "budget"))
    tokens, budget = tokens + max(0, window - budget), max(window, budget)
    if api.host == "anthropic":
        message, code = f"prompt is too long: {tokens} tokens > {budget} maximum", None
    else:
        message = (
            f"This model's maximum context length is {budget} tokens. However, your messages have {tokens} tokens."
        )
        code = "context_length_exceeded"
    kind, headers = "invalid_request_error", [(b"x-jettison", b"refused")]
    return partial(refused, host=api.host, status=400, kind=kind, message=message, code=code, headers=headers)


def _unknown(api: Api, body: Body) -> Say:
    """Say that nobody knows what a request goes on from, in its provider's words."""
    code: str | None = None
    if previous := body.field("previous_response_id"):
        message, code = f"Previous response with id '{previous}' not found.", "previous_response_not_found"
    elif any(map(reference_in, body.messages)):
        message = "An item that the input refers to is not found: send the items themselves."
    else:
        message, code = "The compaction cannot be read.", "invalid_encrypted_content"
    kind, headers = "invalid_request_error", [(b"x-jettison", b"refused")]
    return partial(refused, host=api.host, status=400, kind=kind, message=message, code=code, headers=headers)


def _away(api: Api, plan: Plan, because: str) -> Say:
    """Say that nothing can be managed now, and why the request is not passed on."""
    headers = [*plan.headers, (b"retry-after", str(RETRY_AFTER_SECONDS).encode())]
    message = f"the gateway cannot manage this request now ({plan.bypass}), and {because}"
    return partial(refused, host=api.host, status=503, kind="overloaded_error", message=message, headers=headers)
