"""Plan: what the provider is sent for one request: the very bytes that came, or the view of their conversation."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from protocol.context import Written
from protocol.errors import BadMessage, BudgetRefused, JettisonError, LogUnavailable, NotProvisioned, Unavailable
from protocol.ids import token
from protocol.jsonbytes import decode, encode
from protocol.service_messages import ContextMeta
from protocol.tools import READ_TOOL

from .bodies import Body
from .breaker import Breaker
from .cache_marks import marked, marks_beside
from .callers import Caller
from .canon import hash_of
from .dialects import dialect_of
from .headers import Header
from .keeper import Keeper
from .kept_request import KeptRequest
from .reasons import reason_of
from .thinking import Threads, raw_without_thinking, thoughts_in

log = logging.getLogger("jettison.gateway")

T = TypeVar("T")

NOTHING_ELSE_SECONDS = 30.0
"""Where there is nothing else to send: for a compaction that an agent asks for, a request that no window has room for
as it came, one that its provider refused as too long. SDKs wait for ten minutes."""

WAITS = "does not fit its model's window as it came: it waits for its view"

REACH_PAUSE_SECONDS = 0.1

NOT_REACHED = "NATS was not reached yet"

_NAMED = b'"' + READ_TOOL.encode() + b'"'
"""A tool of this name that an agent brings is its own."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is sent, and what is known of it."""

    body: bytes
    as_it_came: bool
    """The agent's own bytes: encoded as they were, and answered so."""
    kept: KeptRequest | None = None
    context: ContextMeta | None = None
    bypass: str = ""
    """Why nothing is managed; empty where it is."""
    away: bool = False
    """Because something is away, and not for what the request is."""
    too_long: bool = False
    """As it came its provider would refuse it, which SDKs do not ask again."""
    at: str = ""
    """Tenant and conversation of what is bypassed, as far as they became known."""
    request: Body | None = None
    shown: tuple[bytes, ...] = ()
    """The messages that are sent between its head and its tail."""
    thread: bytes = b""
    """What a bypassed conversation of Anthropic's is known by."""
    tools: bytes = b""
    """The tools with ours; empty where the model is given none of ours."""

    def with_more(self, messages: Sequence[bytes]) -> bytes:
        """Return the request with further *messages*, which its model and the gateway said since."""
        assert self.request is not None
        return self.request.written((*self.shown, *messages), tools=self.tools)

    @property
    def how(self) -> str:
        """Return the word for how the request is handled."""
        if self.kept is None:
            return "bypass"
        return "kept" if self.request is None or self.shown is self.request.messages else "view"

    @property
    def why(self) -> str:
        """Return why nothing is managed, as the agent and the operator are told it."""
        return self.bypass.encode("ascii", "replace").decode().replace("\n", " ")[:80]

    @property
    def headers(self) -> list[Header]:
        """Return the headers that tell the agent of it."""
        if self.kept is None:
            return [(b"x-jettison", f"bypass; {self.why}".encode())]
        out = [(b"x-jettison", self.how.encode())]
        out.append((b"x-jettison-conversation", str(self.kept.talk.at.conversation).encode()))
        if self.context is not None:
            out.append((b"x-jettison-version", str(self.context.version).encode()))
            out.append((b"x-jettison-view-tokens", str(self.context.tokens).encode()))
        return out


Work = Callable[[float], Coroutine[Any, Any, Plan]]
"""Within so many seconds."""


@dataclass(kw_only=True)
class Planner:
    """Decides within a deadline; whatever keeps it from that, the agent's own bytes go on."""

    deadline_seconds: float
    keeper: Keeper | None = None
    """None before NATS was reached for the first time."""
    breaker: Breaker = field(default_factory=Breaker)
    _late: set[asyncio.Task[Any]] = field(default_factory=set)
    _threads: Threads = field(default_factory=Threads)

    async def plan(
        self, raw: bytes, body: Body, *, caller: Caller, headers: Mapping[str, str], counts: bool = False
    ) -> Plan:
        """Return the plan for a request. Raises `BudgetRefused` where no view of it can be small enough."""
        keeper = self.keeper
        thread = _thread_of(body, caller, headers) if body.api.name == "messages" else b""
        at = ""

        async def work(wait_seconds: float) -> Plan:
            nonlocal at
            assert keeper is not None
            until, passed = time.monotonic() + wait_seconds, self._threads.was_passed(thread)
            whole = await keeper.answers.whole(caller, body)
            store = False if counts else None
            kept = await keeper.kept(caller, whole, headers, store=store, passed=passed, until=until)
            at = str(kept.talk.at)
            if not keeper.pays(kept, whole):
                return _plan(raw, whole, keeper, kept, whole.messages)
            context = await keeper.view(kept, whole, wait_seconds=wait_seconds, counts=counts)
            if counts:
                keeper.mark_unsent(kept, context, "its tokens were counted")
            return _of_view(raw, whole, keeper, kept, context)

        plan = await self._within(raw, work, caller) if keeper else bypass(raw, NOT_REACHED, away=True)
        if plan.away and keeper and not counts and await keeper.is_too_long(caller, body):
            plan = await self._waited(raw, work, caller)
        if plan.bypass:
            plan = replace(plan, at=at)
        if not thread or counts or plan.too_long:
            return plan
        if plan.kept is not None:
            self._threads.managed(thread, changed=not plan.as_it_came)
            return plan
        self._threads.passed(thread)
        plan = replace(plan, thread=thread)
        if not self._threads.is_changed(thread):
            return plan
        return _unbound(body, plan) or plan

    def unbound(self, body: Body, plan: Plan) -> Plan | None:
        """Return *plan* without thoughts, after its provider refused them; None if there are none in it.

        Another gateway had shown its agent a view: from now on this one knows.
        """
        self._threads.mark_changed(plan.thread)
        return _unbound(body, plan)

    def as_came(self, raw: bytes, body: Body, plan: Plan, *, headers: Mapping[str, str]) -> Plan | None:
        """Return the plan to send a request as it came, after its provider missed thoughts in *plan*; None if it did.

        What is thought from now on is behind something that no view has.
        """
        if plan.as_it_came or plan.kept is None or self.keeper is None or body.changed or body.earlier:
            return None
        why = "its provider wants what was thought while tools run"
        if plan.context is not None:
            self.keeper.mark_unsent(plan.kept, plan.context, why)
        thread = _thread_of(body, plan.kept.caller, headers)
        self._threads.passed(thread)
        return replace(bypass(raw, why), at=str(plan.kept.talk.at), thread=thread)

    async def shorter(self, raw: bytes, body: Body, plan: Plan, *, told: str) -> Plan | None:
        """Return the plan after a provider refused *plan* as too long, with the words *told*; None if it stays."""
        kept, keeper = plan.kept, self.keeper
        if kept is None or keeper is None:
            return None
        body = plan.request or body
        before = plan.context.tokens if plan.context else 0

        async def work(wait_seconds: float) -> Plan:
            if not kept.beside:
                view_hash = plan.context.hash if plan.context else ""
                await kept.talk.report_overflow(view_hash=view_hash, message=told)
            less_than = before - 1 if before else 0
            context = await keeper.view(kept, body, wait_seconds=wait_seconds, less_than=less_than)
            return _of_view(raw, body, keeper, kept, context)

        try:
            found = await self._within(raw, work, kept.caller, seconds=NOTHING_ELSE_SECONDS)
        except BudgetRefused:
            return None
        same = found.shown is body.messages
        if found.context is None or same or (before and found.context.tokens >= before):
            return None
        return found

    async def compacted(self, raw: bytes, body: Body, *, caller: Caller, headers: Mapping[str, str]) -> Plan:
        """Return the plan after the conversation of *body* was compacted; a bypass where it was not."""
        keeper = self.keeper

        async def work(wait_seconds: float) -> Plan:
            assert keeper is not None
            whole = await keeper.answers.whole(caller, body)
            kept = await keeper.kept(caller, whole, headers, store=True)
            context = await keeper.compacted(kept, wait_seconds=wait_seconds)
            keeper.mark_changed(kept)
            return _plan(raw, whole, keeper, kept, whole.messages, context)

        if keeper is None:
            return bypass(raw, NOT_REACHED, away=True)
        return await self._within(raw, work, caller, seconds=NOTHING_ELSE_SECONDS)

    async def _waited(self, raw: bytes, work: Work, caller: Caller) -> Plan:
        """Do *work* for a request that cannot go on as it came, unless NATS is away: its agent is told so early."""
        if why := await self._unreached(caller):
            log.warning("a request does not fit its model's window as it came, and %s: it is answered with 503", why)
            return bypass(raw, why, away=True, too_long=True)
        log.warning("a request %s", WAITS)
        plan = await self._done(raw, work, caller, max(NOTHING_ELSE_SECONDS, self.deadline_seconds))
        if not plan.bypass:
            self.breaker.worked()
        return replace(plan, too_long=plan.away)

    async def _unreached(self, caller: Caller) -> str:
        """Return why NATS does not answer within the deadline; empty where it does."""
        keeper, why = self.keeper, reason_of(LogUnavailable(""))
        assert keeper is not None

        async def asked() -> str:
            nonlocal why
            until = time.monotonic() + self.deadline_seconds
            while time.monotonic() < until:
                try:
                    # a place that nobody has: the stream answers that there is none
                    await keeper.claims.places.read(token(caller.tenant), token("readyz"))
                except (LogUnavailable, NotProvisioned) as error:
                    why = reason_of(error)
                    await asyncio.sleep(REACH_PAUSE_SECONDS)
                else:
                    return ""
            return why

        # not cancelled at the deadline: a question to NATS ends by itself
        task = asyncio.create_task(asked())
        self._late.add(task)
        task.add_done_callback(self._ended)
        await asyncio.wait({task}, timeout=self.deadline_seconds)
        return task.result() if task.done() else why

    async def _within(self, raw: bytes, work: Work, caller: Caller, *, seconds: float = 0.0) -> Plan:
        """Do *work* within the deadline, or *seconds* where that is longer; not while what it needs is away."""
        if not self.breaker.lets_through():
            return bypass(raw, "what it needs was away a moment ago", away=True)
        try:
            plan = await self._done(raw, work, caller, max(seconds, self.deadline_seconds))
        except BudgetRefused:
            # all who were asked have answered
            self.breaker.worked()
            raise
        if plan.away:
            self.breaker.failed()
        elif not plan.bypass:
            self.breaker.worked()
        return plan

    async def _done(self, raw: bytes, work: Work, caller: Caller, seconds: float) -> Plan:
        """Do *work* within *seconds*; what is not done by then goes on by itself, and is not waited for.

        Beyond the deadline it is waited for only where NATS answers, which itself would be waited for longer.
        """
        task = asyncio.create_task(work(seconds))
        self._late.add(task)
        task.add_done_callback(self._ended)
        try:
            # not cancelled at the deadline: an append that was begun must come to its end
            try:
                await asyncio.wait({task}, timeout=self.deadline_seconds)
                why = "" if task.done() or seconds <= self.deadline_seconds else await self._unreached(caller)
                if not why:
                    await asyncio.wait({task}, timeout=seconds - self.deadline_seconds)
            except asyncio.CancelledError:
                # the agent has left
                task.add_done_callback(self._came_late)
                raise
            if task.done():
                return task.result()
            task.add_done_callback(self._came_late)
            return bypass(raw, why or "the deadline is over", away=True)
        except BudgetRefused:
            raise
        except (NotProvisioned, Unavailable) as error:
            # what becomes of it then is told by the line of the request
            log.warning("a request could not be managed: %s", error)
            return bypass(raw, reason_of(error), away=True)
        except JettisonError as error:
            log.info("a request could not be managed: %s", error)
            return bypass(raw, reason_of(error))
        except Exception:
            log.exception("a request could not be managed")
            return bypass(raw, "a fault of the gateway")

    def _came_late(self, task: asyncio.Task[Plan]) -> None:
        """Remember that nobody was sent what *task* made."""
        plan = None if task.cancelled() or task.exception() else task.result()
        if self.keeper and plan and plan.kept and plan.context:
            self.keeper.mark_unsent(plan.kept, plan.context, "its request went on, or ended, without it")

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._late.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.info("what was begun for a request ended with %s", type(error).__name__)


def _thread_of(body: Body, caller: Caller, headers: Mapping[str, str]) -> bytes:
    """Return the key that tells a conversation from others, where the log cannot be asked."""
    told = encode({"of": [caller.tenant, caller.partition, body.scope(headers)]})
    try:
        return hashlib.blake2b(told + hash_of(decode(body.messages[0])), digest_size=16).digest()
    except BadMessage:
        return b""


def _of_view(raw: bytes, body: Body, keeper: Keeper, kept: KeptRequest, context: Written) -> Plan:
    """Return the plan to send the view *context*; where it is what the agent sent, the agent's own bytes."""
    shown = list(context.raw)
    stored = len(body.messages) - kept.beside
    if not body.earlier and is_sent(shown, body.messages[:stored], kept.hashes[:stored]):
        return _plan(raw, body, keeper, kept, body.messages, context)
    keeper.mark_changed(kept)
    shown += body.messages[stored:]
    if body.api.name == "messages":
        shown = marked(shown, like=body.messages, elsewhere=marks_beside(body))
    return _plan(raw, body, keeper, kept, tuple(shown), context)


def is_sent(shown: Sequence[bytes], sent: Sequence[bytes], hashes: Sequence[bytes]) -> bool:
    """Tell whether a view is what its agent sent, thoughts too: what was left out of it must not go on."""
    if len(shown) != len(hashes):
        return False
    # most often the bytes are the same, or the first message already is another one
    return all(
        one == other or (hash_of(decode(one)) == known and thoughts_in(one) == thoughts_in(other))
        for one, other, known in zip(shown, sent, hashes, strict=True)
    )


def _plan(
    raw: bytes,
    body: Body,
    keeper: Keeper,
    kept: KeptRequest,
    shown: tuple[bytes, ...],
    context: ContextMeta | None = None,
) -> Plan:
    """Return the plan to send *shown*; the agent's own bytes, where they are its own messages and no tool is added."""
    tools = b""
    given = body.fields.get("tools", b"")
    if keeper.policies.injects and kept.head.tools and body.takes_tool and _NAMED not in given:
        tools = with_tool(given, dialect_of(body.api).tool)
    own = shown is body.messages and not tools and not body.changed
    return Plan(
        body=raw if own else body.written(shown, **({"tools": tools} if tools else {})),
        as_it_came=own,
        kept=kept,
        context=context,
        request=body,
        shown=shown,
        tools=tools,
    )


def with_tool(tools: bytes, definition: bytes) -> bytes:
    """Return the list of *tools*, as JSON, with one more at its end: what stands before it stays as it is."""
    inner = tools.strip().removeprefix(b"[").removesuffix(b"]").strip()
    return b"[" + inner + (b"," if inner else b"") + definition + b"]"


def _unbound(body: Body, plan: Plan) -> Plan | None:
    """Return *plan* without the model's thoughts; None if there are none in it."""
    shown = plan.shown or body.messages
    bare = tuple(map(raw_without_thinking, shown))
    if bare == shown:
        return None
    tools = {"tools": plan.tools} if plan.tools else {}
    return replace(plan, body=body.written(bare, **tools), as_it_came=False, shown=bare if plan.kept else ())


def bypass(raw: bytes, why: str, *, away: bool = False, too_long: bool = False) -> Plan:
    """Return the plan that nothing is managed."""
    return Plan(body=raw, as_it_came=True, bypass=why, away=away, too_long=too_long)
