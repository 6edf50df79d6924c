"""Keeper: puts what is new of a request into the log of its conversation, once, and asks for the view of it.

First a place is claimed (compare-and-set), then messages are appended under a key that says which they are: a gateway
that dies in between, or two that are asked at once, store nothing twice and nothing of two conversations in one log.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from cachetools import LRUCache
from msgspec.structs import replace

from protocol import prepared
from protocol.cipher import Key
from protocol.client import Client, Conversation
from protocol.context import Context, Written
from protocol.errors import BudgetRefused, Erased, JettisonError, LogRegression, NotFound
from protocol.foreseen import Foreseen
from protocol.formats.cache_marks import without_marks
from protocol.ids import address, fresh_id, token
from protocol.jsonbytes import decode, decode_value, encode_value
from protocol.limits import UNSENT_MAX
from protocol.service_messages import ContextAsked, ContextMeta
from storage.gateway_sessions import GatewaySessions
from storage.ports import Keys

from . import identity
from .answers import STATE, Answers, closed, opened
from .bodies import Body
from .callers import Caller
from .canon import hash_of
from .claims import Claims, Search
from .dialects import dialect_of
from .identity import Batch, Head, Hidden
from .kept_request import KeptRequest, budget_of, pays
from .outside import OutsideTokens
from .policies import Policies
from .reasons import Unmanaged
from .size import has_more_tokens
from .thinking import thinks, without_thinking

log = logging.getLogger("jettison.gateway")

TALKS_MAX = 4096

COMPACTED_SHARE = 0.25
"""Of the usable tokens: what a history is made to have whose agent asks for it to be made shorter."""

HIDDEN_BYTES_MAX = 128 * 1024
"""Of the turns that one answer really took; of longer ones the log gets what the agent sends back."""

HASHES_MAX = 65_536

VIEWS_BYTES_MAX = 64 * 2**20
"""Of the last views of conversations: what the next one begins with as they do is not sent again."""

FORKS_PAUSE_SECONDS = 300.0
"""After a fork that was refused, or that nobody made: until then branches get their whole history appended."""

ASIDE_BYTES_MAX = 32 * 1024
"""Of a question beside what nobody knows that goes on as it came: titles are shorter, summaries of histories longer."""

ANSWERED = (b'"assistant"', b'_call"', b'"reasoning"')
"""One of them is in whatever a model said, in each API."""

MadeReady = dict[tuple[str, Batch], prepared.Batches]
"""What is to be said, by the conversation and the part of the request."""


@dataclass(kw_only=True)
class Keeper:
    """One of any number, with the same documents."""

    client: Client
    claims: Claims
    answers: Answers
    sessions: GatewaySessions | None
    """Where it is told what agents do."""
    keys: Keys
    policies: Policies
    outside: OutsideTokens = field(default_factory=OutsideTokens)
    _talks: LRUCache[str, Conversation] = field(default_factory=lambda: LRUCache(TALKS_MAX))
    _hashes: LRUCache[bytes, bytes] = field(default_factory=lambda: LRUCache(HASHES_MAX))
    _locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    _views: LRUCache[str, Written] = field(
        default_factory=lambda: LRUCache(VIEWS_BYTES_MAX, getsizeof=lambda one: sum(map(len, one.raw)))
    )
    _forks_from: float = 0.0

    async def kept(
        self,
        caller: Caller,
        body: Body,
        headers: Mapping[str, str],
        *,
        store: bool | None = None,
        passed: bool = False,
        until: float = math.inf,
    ) -> KeptRequest:
        """Put what is new of a request into its log; with *store* false nothing is, for one that only counts.

        By default it is, unless the agent says that it asks beside its conversation; with true in any case.
        *passed*: what is thought in it was made behind something else than the log's views. *until*: by the monotonic
        clock, when it is claimed no more.
        Raises `Rejected` where the request cannot be managed, `Unavailable`.
        """
        asked = dataclasses.replace(await self._search(caller, body, headers, store=store), until=until)
        lock = self._locks.setdefault(f"{caller.tenant}/{asked.place}", asyncio.Lock())
        ready: MadeReady = {}
        async with lock:
            head = await self.claims.claimed(asked, soon=partial(self._work_early, body, ready, passed))
            if head.origin is not None:
                head = await self._branched(asked, head, body)
            policy, layer = self.policies.of(asked.tenant, head, body)
            talk = await self._talk(asked.tenant, head.name, layer, body.model)
            kept = KeptRequest(
                head=head,
                caller=caller,
                place=asked.place,
                talk=talk,
                hashes=asked.hashes,
                beside=len(asked.hashes) - head.length,
                policy=policy,
                outside=asked.new.outside,
                alone=bool(head.waiting),
            )
            try:
                foreseen = await self._append(kept, body, ready, passed=passed, until=until)
            except Erased:
                await self.claims.forget(asked.tenant, asked.place, head.name)
                raise
            return dataclasses.replace(kept, foreseen=foreseen)

    async def _search(self, caller: Caller, body: Body, headers: Mapping[str, str], *, store: bool | None) -> Search:
        """Return the search for a request's conversation: where, and by which hashes."""
        secret, earlier = (await self._key(caller.tenant)).secret, body.earlier
        hashes, chain = body.hashed.of(body.messages, self._hash, secret=secret, earlier=earlier)
        ours = dialect_of(body.api).tool if body.takes_tool and self.policies.injects else b""
        outside = self.outside.tokens(body.instructions + ours, body.model)
        scope = body.scope(headers)
        if earlier:
            place, answered = earlier.place, earlier.length
        else:
            place = identity.place_of(f"{caller.partition}/{body.api.name}", scope, hashes[0], secret=secret)
            said = (at for at, raw in enumerate(body.messages, 1) if any(map(raw.__contains__, ANSWERED)))
            answered = next(said, 0)
        again = headers.get("x-stainless-retry-count", "0") != "0"
        forks = answered and time.monotonic() >= self._forks_from
        return Search(
            tenant=caller.tenant,
            place=token(place),
            chain=chain,
            hashes=(*(b"" for _ in range(body.skipped)), *hashes),
            tools=earlier.tools if earlier else body.has_tools or bool(store),
            beside=identity.is_beside(headers) if store is None else not store,
            alone=store is not False and sum(map(len, body.messages)) > ASIDE_BYTES_MAX,
            first=not (scope or again or answered),
            answered=answered if forks else body.skipped + len(hashes) + 1,
            whole=earlier is None,
            new=Head(name=_name(headers, body), length=0, chain=b"", logged=0, outside=outside, tools=body.has_tools),
        )

    async def view(
        self, kept: KeptRequest, body: Body, *, wait_seconds: float, less_than: int = 0, counts: bool = False
    ) -> Written:
        """Return the view of what is kept; *counts*: no model gets it, so what stands beside it needs no room.

        Where its question went out with what was appended, it is what that asked for, unless it must be *less_than*.
        Raises `Rejected` where another request goes on with the log, and as `Conversation.context`.
        """
        after = self._views.get(kept.head.name) if kept.alone else None
        try:
            if kept.foreseen and not less_than:
                asked = kept.foreseen.asked
            else:
                asked = self._question(kept, body, wait_seconds=wait_seconds, less_than=less_than, counts=counts)
            context = await self._asked_beside(kept) or await kept.talk.written(asked, after=after)
            unwritten = self.claims.unwritten(kept.head.name)
            unwritten.unsent = tuple(one for one in unwritten.unsent if one not in asked.unsent)
            if context.upto < kept.head.logged:
                raise LogRegression(
                    f"{kept.head.logged} messages are in the log of {kept.head.name}, and {context.upto} left"
                )
        except LogRegression:
            await self._forget(kept)
            raise
        if context.upto != kept.head.logged:
            self.mark_unsent(kept, context, "another request goes on with it")
            raise Unmanaged("another request goes on with its conversation", conversation=kept.head.name)
        self._views[kept.head.name] = context
        return context

    def _question(
        self, kept: KeptRequest, body: Body, *, wait_seconds: float, less_than: int = 0, counts: bool = False
    ) -> ContextAsked:
        """Return the question for the view of what is kept."""
        budget, unwritten = budget_of(kept, body, counts=counts), self.claims.unwritten(kept.head.name)
        if kept.beside and budget:
            # asked for twice in a row a budget would become the standing one, and an aside's is for it alone
            unwritten.aside = not unwritten.aside
            budget -= unwritten.aside
        if less_than:
            budget = min(budget or kept.policy.usable_tokens, less_than)
        # an agent waits for the compaction only where it has no room without it
        model, soon = "" if self.policies.window else body.model, not less_than
        return ContextAsked(budget=budget, model=model, wait_seconds=wait_seconds, soon=soon, unsent=unwritten.unsent)

    def _ask_beside(self, kept: KeptRequest, body: Body, *, until: float) -> Foreseen | None:
        """Ask for the view together with what is appended next, where it will be asked for and nobody else spoke."""
        after = self._views.get(kept.head.name)
        if after is None or kept.beside or until == math.inf or not self.pays(kept, body):
            return None
        asked = self._question(kept, body, wait_seconds=max(0.0, until - time.monotonic()))
        return kept.talk.ask_beside(asked, after)

    async def _asked_beside(self, kept: KeptRequest) -> Written | None:
        """Return the view that was asked for with what was appended; None where it has to be asked for now."""
        context = await kept.foreseen.written() if kept.foreseen else None
        if context is None or context.upto >= kept.head.logged:
            return context
        # a service of an earlier release does not wait for what is coming
        self.mark_unsent(kept, context, "it came before what was said with it")
        return None

    def pays(self, kept: KeptRequest, body: Body) -> bool:
        """Tell whether a view is asked for."""
        return pays(kept, body, changed=self.is_changed(kept))

    async def is_too_long(self, caller: Caller, body: Body) -> bool:
        """Tell whether a request surely does not fit its model's window as it came; to count it takes CPU time.

        An operator may give conversations less than the model takes, so the largest window that is told counts.
        """
        window = self.policies.window_of(caller.tenant, body.model)
        if not window:
            return False
        outside = self.outside.tokens(body.instructions, body.model)
        return await asyncio.to_thread(has_more_tokens, body, window, outside=outside)

    async def _forget(self, kept: KeptRequest) -> None:
        """Forget the conversation of what is kept, whose log lost its end: the agent's next request begins another."""
        log.warning("the log of %s lost its end: its agent's next request begins a new one", kept.head.name)
        await self.claims.forget(kept.caller.tenant, kept.place, kept.head.name)
        self._talks.pop(kept.head.name, None)
        self._views.pop(kept.head.name, None)

    async def compacted(self, kept: KeptRequest, *, wait_seconds: float) -> Context:
        """Return the view after a compaction to a share of its window: as much shorter as it can be."""
        try:
            await kept.talk.set_budget(int(kept.policy.usable_tokens * COMPACTED_SHARE))
            return await kept.talk.context(patience=wait_seconds)
        except BudgetRefused:
            return await kept.talk.context(budget=kept.policy.usable_tokens, patience=wait_seconds)
        finally:
            await kept.talk.set_budget(0)

    def mark_unsent(self, kept: KeptRequest, context: ContextMeta, why: str) -> None:
        """Remember that no model got a view that the log says was served: the next view's entry in it says so."""
        log.info("no model got the view of %s at version %d: %s", kept.talk.at, context.version, why)
        unwritten = self.claims.unwritten(kept.head.name)
        unwritten.unsent = tuple(dict.fromkeys((*unwritten.unsent, context.version)))[-UNSENT_MAX:]

    def mark_changed(self, kept: KeptRequest) -> None:
        """Remember that a view was sent that is not what the agent had sent."""
        self.claims.unwritten(kept.head.name).changed = True

    def is_changed(self, kept: KeptRequest) -> bool:
        """Tell whether one ever was."""
        return kept.head.changed or self.claims.unwritten(kept.head.name).changed

    def _hash(self, raw: bytes) -> bytes:
        # by their hash, since a history has megabytes; processors know this one, twice as fast as the others
        key = hashlib.sha256(raw).digest()
        found = self._hashes.get(key)
        if found is None:
            found = self._hashes[key] = hash_of(decode(raw))
        return found

    async def _branched(self, asked: Search, head: Head, body: Body) -> Head:
        """Begin the log of a branch as a fork; where that cannot be, return a conversation that begins anew."""
        assert head.origin is not None
        _, layer = self.policies.of(asked.tenant, head, body)
        try:
            parent = await self._talk(asked.tenant, head.origin.name, layer, body.model)
            fork = await parent.fork(head.name, upto=head.origin.point.logged, patience=0.0)
            more = identity.left_over(head, copied=fork.upto, key=asked.chain[head.origin.point.length])
            if more and more.start < body.skipped:
                raise ValueError("what the fork lacks is not in the request")
        except (JettisonError, ValueError) as error:
            log.info("a branch of %s has its history appended: %s", head.origin.name, error)
            if not isinstance(error, (NotFound, ValueError)):
                self._forks_from = time.monotonic() + FORKS_PAUSE_SECONDS
            await self.claims.forget(asked.tenant, asked.place, head.name)
            return await self.claims.claimed(dataclasses.replace(asked, answered=len(asked.chain)))
        self.claims.unwritten(head.name).begun = True
        self._talks[head.name] = fork
        return replace(head, origin=None, waiting=(*((more,) if more else ()), *head.waiting))

    async def _append(
        self, kept: KeptRequest, body: Body, ready: MadeReady, *, passed: bool, until: float
    ) -> Foreseen | None:
        """Append what waits to be; return the question for the view, where it was asked with the last of it."""
        foreseen = None
        # what is not in the request was answered, so it is there
        waiting = [one for one in kept.head.waiting if one.end > body.skipped]
        try:
            for batch in waiting:
                made = ready.get((kept.head.name, batch))
                said = [] if made else await self._said(kept, batch, body, passed=passed)
                if batch is waiting[-1]:
                    foreseen = self._ask_beside(kept, body, until=until)
                key = f"gateway/{batch.start}/{batch.key.hex()}"
                await (kept.talk.append_ready(made, key=key) if made else kept.talk.append(said, key=key))
                self.claims.unwritten(kept.head.name).landed = batch.end
        except BaseException:
            if foreseen:
                foreseen.give_up(lambda context: self.mark_unsent(kept, context, "what it shows was not confirmed"))
            raise
        return foreseen

    async def _said(self, kept: KeptRequest, batch: Batch, body: Body, *, passed: bool) -> list[dict[str, Any]]:
        """Return the messages of *batch* as they go into the log."""
        said: list[dict[str, Any]] = []
        at, given, head = batch.start, body.given, kept.head
        strips = self._strips(head, batch, passed=passed)
        if strips and any(map(thinks, given(batch.start, batch.end))):
            self.claims.unwritten(head.name).changed = True
        for start, end, turns in (*batch.real, (batch.end, batch.end, b"")):
            new = [without_marks(decode(raw)) for raw in given(at, start)]
            said += map(without_thinking, new) if strips else new
            said += await self._opened(kept.talk, turns) if turns else []
            at = end
        return said

    def _strips(self, head: Head, batch: Batch, *, passed: bool) -> bool:
        """Tell whether thoughts are left out: those in a conversation's first request knew nothing of our tool."""
        return passed or (batch.start == 0 and head.tools and self.policies.injects)

    async def hide(
        self, kept: KeptRequest, seen: Sequence[Mapping[str, Any]], real: Sequence[Mapping[str, Any]]
    ) -> None:
        """Keep the messages that an answer really was, until its agent sends back *seen*. Raises `Unavailable`."""
        turns = await closed(self.client, kept.talk.at, encode_value(list(real)))
        one = Hidden(seen=tuple(map(hash_of, seen)), turns=turns, messages=len(real))
        if not seen or len(turns) > HIDDEN_BYTES_MAX:
            return
        self.claims.unwritten(kept.head.name).changed = True

        def hidden(head: Head) -> Head | None:
            # one that went on meanwhile went on without this answer
            return identity.with_hidden(head, one) if head.length == kept.head.length else None

        await self.claims.change(kept.caller.tenant, kept.place, kept.head.name, hidden)

    async def _opened(self, talk: Conversation, kept: bytes) -> list[dict[str, Any]]:
        turns = await opened(self.client, talk.at, kept)
        return list(decode_value(turns)) if turns else []

    async def _talk(self, tenant: str, name: str, layer: dict[str, Any], model: str) -> Conversation:
        """Return the handle of a conversation, opened once in each process."""
        found = self._talks.get(name)
        if found is None:
            found = self._talks[name] = await self.client.open(name, tenant=tenant, model=model, policy=layer)
        return found

    def _work_early(self, body: Body, ready: MadeReady, passed: bool, head: Head) -> None:
        """While *head* is claimed: look whether it was erased, and make its new messages *ready* to be appended."""
        if talk := self._talks.get(head.name):
            talk.look_early()
        batch = head.waiting[-1] if head.waiting else None
        if batch is None or batch.real or batch.start < body.skipped or self._strips(head, batch, passed=passed):
            return

        def make() -> None:
            made = prepared.ready(body.given(batch.start, batch.end))
            if made is not None:
                ready[head.name, batch] = made

        loop = asyncio.get_running_loop()
        # behind the claim, which is sent at the end of this round
        loop.call_soon(loop.call_soon, make)

    async def _key(self, tenant: str) -> Key:
        return await self.keys.key(address(STATE, tenant))


def _name(headers: Mapping[str, str], body: Body) -> str:
    """Return a name that nobody else has: with the agent's own word at its beginning, where it says one."""
    return f"{headers.get('x-jettison-conversation') or body.api.name}-{fresh_id()[:12]}"
