"""A conversation as its agent holds it: append what was said, get the view for the next call.

An append that returned is durable. One that raised `OutcomeUnknown` may still land; it is kept, sent
again before anything newer, and stored once.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec
from nats.aio.client import Client as NatsConnection

from . import cipher, codec, semconv, subjects
from .connection import publish
from .context import Context, context_of
from .envelopes import Repeatable, batches_of, check_readable
from .errors import BadMessage, LogUnavailable, NotPermitted, Rejected, Unavailable
from .facts import CompactionRequested, MessagesAppended, OverflowReported, SaidFact, SaidMessage, UsageReported
from .formats import messages
from .formats.cache_marks import Marks
from .ids import Address, fresh_id, written_address
from .keys import JetStreamKeys
from .overflow import counts_in
from .policy import converted
from .prepared import Uploads, check_counts, prepared
from .service_call import ask
from .service_messages import (
    WAIT_SECONDS,
    ContextAsked,
    ExpandAsked,
    Expanded,
    ForkAsked,
    Forked,
    OpenAsked,
    Opening,
    PolicyAsked,
    PolicyChanged,
    ReadAsked,
    Ready,
    RewindAsked,
    Rewound,
)
from .tools import image_content, read_asked
from .tracing import span, traced
from .warned import warn

log = logging.getLogger("jettison.client")

FORK_SECONDS = 60.0
"""For a fork: it is written record by record."""


class Connected(Protocol):
    """What a conversation needs of its client: a connection, how long it tries, and the keys if it encrypts."""

    connection: NatsConnection
    patience_seconds: float
    keys: JetStreamKeys | None


@dataclass(kw_only=True)
class Conversation:
    """One agent's history. Its calls are in order: a later one waits for an earlier one."""

    client: Connected
    at: Address
    upto: int = 0
    """Messages that it began with, where it is a fork."""
    _writer: str = field(default_factory=fresh_id)
    _count: int = 0
    _seq: int = 0
    _unconfirmed: list[codec.Said] = field(default_factory=list)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _asked: int = 0
    """The budget of the call before."""
    _standing: int = 0
    """The standing budget, as far as this handle knows."""
    _unchecked: OpenAsked | None = None
    """What no service has looked at yet."""
    _owed: Repeatable[codec.Said] = field(default_factory=Repeatable)
    """What was not confirmed to who said it, though it may have been to another call since."""
    _uploads: Uploads = field(init=False)
    _format: str = ""
    _marks: Marks = field(default_factory=Marks)
    """Where this agent wants its provider to keep what it read."""
    _broken_off: Repeatable[list[tuple[SaidMessage, ...]]] = field(default_factory=Repeatable)
    """What was confirmed of a large append whose later part was not."""

    def __post_init__(self) -> None:
        self._uploads = Uploads(self.client.connection, self.at)

    async def append(self, new: Iterable[Mapping[str, Any]], *, key: str = "", at_ms: int = 0) -> int:
        """Append messages in order; returned means durable. Returns the stream sequence of the last.

        Raises `BadMessage` before anything is sent, `OutcomeUnknown` when the server did not confirm; the
        same call again is then harmless. With a *key* it is so even from another process: what was
        appended under a key is stored once (of a conversation's last 256 keys and writers), and whatever
        comes under it later is taken for a repeat. Cooldowns in seconds go by *at_ms*, milliseconds since 1970; 0: now.
        """
        if isinstance(new, (Mapping, str, bytes)) or not isinstance(new, Iterable):
            raise BadMessage(f"append takes a list of messages, not one {type(new).__name__}", at="")
        said = []
        for index, message in enumerate(new):
            said.append(await prepared(index, message, uploads=self._uploads, declared=self._format))
            self._marks = self._marks.after(message)
        writer = "k-" + hashlib.sha256(f"{self.at}/{key}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
        batches = list(batches_of(said))
        if key:
            for index, batch in enumerate(batches, 1):
                facts = (MessagesAppended(messages=batch),)
                await self._send(codec.Said(writer=writer, count=index, facts=facts, at_ms=at_ms or _now_ms()))
        else:
            await self._say_batches(batches, at_ms)
        return self._seq

    async def _say_batches(self, batches: list[tuple[SaidMessage, ...]], at_ms: int) -> None:
        """Say all of *batches* but those that a call of the same messages said before it broke off."""
        confirmed = next((one for one in self._broken_off.taken() if batches[: len(one)] == one), [])
        for index in range(len(confirmed), len(batches)):
            try:
                await self.say((MessagesAppended(messages=batches[index]),), at_ms=at_ms)
            except BaseException:
                # the same call again goes on here: what was confirmed before must not be said twice
                self._broken_off.keep(batches[:index])
                raise

    async def check(self, wait_seconds: float) -> None:
        """Have the service look at what the conversation is opened with. Raises `BadPolicy`, `PolicyDiffers`."""
        if self._unchecked is None or self._unchecked == OpenAsked():
            return
        try:
            _, body = await ask(self.client.connection, self.at, "open", self._unchecked, wait_seconds)
        except NotPermitted as error:
            # an older configuration of NATS: what is refused stands in the log alone
            warn((f"nobody can look at the policies that this user opens conversations with: {error}",))
        except Unavailable as error:
            log.info("nobody looked at the policy of %s yet: %s", self.at, error)
            return
        else:
            warn(msgspec.json.decode(body, type=Opening).notes)
        self._unchecked = None

    async def set_policy(self, policy: Mapping[str, Any], *, by: str = "") -> PolicyChanged:
        """Change values of the conversation's policy from the next version on; what is not named stays.

        Raises `BadPolicy` for what cannot be used or is locked, `NotReady` where nobody serves or one may not ask.
        """
        converted(policy)
        asked = PolicyAsked(policy=dict(policy), upto_seq=self._seq, by=messages.without_surrogates(by))
        _, body = await ask(self.client.connection, self.at, "policy", asked)
        changed = msgspec.json.decode(body, type=PolicyChanged)
        warn(changed.notes)
        return changed

    async def set_budget(self, budget: int) -> None:
        """Make *budget* the standing one: that of every view from now on, and what is compacted to; 0: the policy's."""
        check_counts(budget=budget)
        await self.say((CompactionRequested(budget=budget, reason="set"),))
        self._standing = budget

    async def context(
        self, *, budget: int = 0, model: str = "", wait_seconds: float = WAIT_SECONDS, unfinished: bool = False
    ) -> Context:
        """Return the view for the next call, at most *budget* tokens (0: the standing budget, else the policy's).

        A budget below the standing one is for this call alone: a view is cut for it, which says what was left out, and
        nothing is compacted. The same one in two calls in a row becomes the standing one.
        With a *model* it also fits that model's window. Waits for storage and rules, never for an LLM; within an
        *unfinished* batch of calls it is for looking at alone. Raises `CallsOpen` there, `NotReady` when no worker
        answers in time, `BudgetRefused` with the smallest budget that works, `Erased`.
        """
        check_counts(budget=budget)
        await self.check(0.0)
        if budget == self._asked:
            await self._stand(budget)
        asked = ContextAsked(
            upto_seq=self._seq, budget=budget, model=model, wait_seconds=wait_seconds, unfinished=unfinished
        )
        answer, body = await ask(self.client.connection, self.at, "context", asked, wait_seconds)
        assert answer.context is not None
        self._asked, self._unchecked = budget, None
        if answer.context.repeated:
            await self._stand(budget)
        return context_of(answer.context, body, self._marks)

    async def _stand(self, budget: int) -> None:
        """Make what is asked for again and again the standing budget."""
        if budget in (0, self._standing):
            return
        # a log without room is no reason to refuse a view: the service may have one that was served before
        with suppress(Unavailable):
            await self.set_budget(budget)

    async def read_artifact(
        self, key: str, *, lines: str = "", bytes: str = "", pattern: str = "", context: int = 2, json_path: str = ""
    ) -> str:
        """Return a part of what a pointer names; bounded, says what is left. Many messages: an outline, a line each.

        Its lines or bytes `20-80` (from 1), the lines that match *pattern* with *context* lines around each,
        or what *json_path* finds. Raises `NotFound`, `Rejected`.
        """
        return await self._read(
            ReadAsked(key=key, lines=lines, bytes=bytes, pattern=pattern, context=context, json_path=json_path)
        )

    async def expand(self, *, messages: str = "", artifact: str = "") -> Expanded:
        """Put back into the view what has left it, until the next compaction: messages `4-9`, or a spilled artifact.

        A call comes with its results, so that `#4` is the account's step. Raises `BudgetRefused` with the tokens it
        would take, `NotFound`, `Rejected`.
        """
        asked = ExpandAsked(messages=messages, artifact=artifact)
        _, body = await ask(self.client.connection, self.at, "expand", asked)
        return msgspec.json.decode(body, type=Expanded)

    async def rewind(self, *, version: int = 0, upto: int = 0) -> Rewound:
        """Make the context that of an earlier *version* again, or of the newest one within the first *upto* messages.

        The log keeps what was said since. An operator must have allowed it. Raises `NotFound`, `Rejected`, `Erased`,
        `NotPermitted`.
        """
        asked = RewindAsked(version=version, upto=upto)
        _, body = await ask(self.client.connection, self.at, "rewind", asked)
        return msgspec.json.decode(body, type=Rewound)

    async def fork(
        self, conversation: str, *, version: int = 0, upto: int = 0, wait_seconds: float = FORK_SECONDS
    ) -> Conversation:
        """Begin *conversation* with the history of this one at a *version*, or at the newest within *upto* messages.

        Without either, at the newest version. A version is made by each `context()`, not by each message: `upto` of the
        handle that is returned says how many messages are in it. The same fork again is no other one. An operator must
        have allowed it. Raises `NotFound`, `BadId`, `Rejected` where another history stands, `Erased`, `NotPermitted`.
        """
        asked = ForkAsked(name=messages.without_surrogates(conversation), version=version, upto=upto)
        _, body = await ask(self.client.connection, self.at, "fork", asked, wait_seconds)
        made = msgspec.json.decode(body, type=Forked)
        return Conversation(
            client=self.client,
            at=written_address(made.address),
            upto=made.upto,
            _standing=self._standing,
            _format=self._format,
            _marks=self._marks,
        )

    async def answer_read(self, arguments: str) -> str:
        """Return the result of a model's call of `tools.READ_TOOL`; what it did wrong is told in words to it."""
        try:
            return await self._read(read_asked(arguments))
        except Rejected as error:
            return f"Error: {error}"

    async def answer_read_content(self, arguments: str) -> str | list[dict[str, Any]]:
        """Return the same, or for an image the content of a result that shows it, in the form of OpenAI chat."""
        try:
            asked = read_asked(arguments)
            found = await self._read(msgspec.structs.replace(asked, media=True))
        except Rejected as error:
            return f"Error: {error}"
        return image_content(found, asked.key) if found.startswith("data:image/") else found

    async def _read(self, asked: ReadAsked) -> str:
        _, body = await ask(self.client.connection, self.at, "read", asked)
        return body.decode("utf-8", "replace")

    async def report_usage(
        self, *, input_tokens: int, output_tokens: int = 0, cached_tokens: int = 0, view_hash: str = ""
    ) -> None:
        """Report the tokens that the provider counted for a served view."""
        check_counts(input_tokens=input_tokens, output_tokens=output_tokens, cached_tokens=cached_tokens)
        usage = UsageReported(
            input_tokens=input_tokens, output_tokens=output_tokens, cached_tokens=cached_tokens, view_hash=view_hash
        )
        await self.say((usage,))

    async def report_overflow(
        self, *, view_hash: str = "", requested_tokens: int = 0, limit_tokens: int = 0, message: str = ""
    ) -> None:
        """Tell that the provider refused a served view as too long; the next `context()` is a shorter one.

        Give its error's text, or the numbers themselves; where neither names any, more than we count is assumed.
        """
        check_counts(requested_tokens=requested_tokens, limit_tokens=limit_tokens)
        if not requested_tokens and not limit_tokens:
            requested_tokens, limit_tokens = counts_in(message)
        overflow = OverflowReported(
            view_hash=view_hash,
            requested_tokens=requested_tokens,
            limit_tokens=limit_tokens,
            message=messages.without_surrogates(message)[:2000],
        )
        await self.say((overflow,))

    async def ready(self) -> AsyncIterator[Ready]:
        """Yield each announcement that the view is ready, from now on."""
        subscription = await self.client.connection.subscribe(subjects.ready(self.at))
        try:
            async for message in subscription.messages:
                yield msgspec.json.decode(message.data, type=Ready)
        finally:
            await subscription.unsubscribe()

    async def say(self, facts: tuple[SaidFact, ...], *, at_ms: int = 0) -> int:
        """Publish one envelope, after all that was not confirmed before. Returns its stream sequence.

        Raises `Rejected` for values that no reader could take, before anything is sent.
        """
        async with self._lock:
            said = self._repeated(facts)
            if said is None:
                said = codec.Said(writer=self._writer, count=self._count + 1, facts=facts, at_ms=at_ms or _now_ms())
                check_readable(said)
                self._count += 1
                self._unconfirmed.append(said)
            try:
                return await self._flush()
            except BaseException:
                if said in self._unconfirmed:
                    self._owed.keep(said)
                raise

    def _repeated(self, facts: tuple[SaidFact, ...]) -> codec.Said | None:
        """Return the envelope that this call says once more, if it does."""
        mine = [one for one in self._unconfirmed if one.writer == self._writer]
        return next((one for one in (*self._owed.taken(), *mine) if one.facts == facts), None)

    async def _send(self, said: codec.Said) -> int:
        async with self._lock:
            # said again, it is the same one at a later time
            if all((one.writer, one.count) != (said.writer, said.count) for one in self._unconfirmed):
                self._unconfirmed.append(said)
            return await self._flush()

    async def _flush(self) -> int:
        """Publish what is not confirmed, in order. What an earlier call could not confirm goes first."""
        while self._unconfirmed:
            try:
                self._seq = max(self._seq, await self._publish(self._unconfirmed[0]))
            except (Rejected, NotPermitted):
                # it will never be taken: kept, it would stand in the way of all that comes after it
                self._owed.forget(self._unconfirmed.pop(0))
                raise
            del self._unconfirmed[0]
        return self._seq

    async def _publish(self, said: codec.Said) -> int:
        if self.client.connection.is_closed:
            raise LogUnavailable("this client is closed; connect again, nothing was sent")
        attributes = {semconv.MESSAGING_SYSTEM: "nats", semconv.GEN_AI_CONVERSATION_ID: self.at.conversation}
        with span(semconv.PUBLISH_SAID, kind="producer", attributes=attributes):
            body = codec.encode_said(said)
            if self.client.keys:
                body = cipher.record(body, key=await self.client.keys.key(self.at), at=self.at, side="said")
            return await publish(
                self.client.connection,
                subjects.said(self.at),
                body,
                headers={"Nats-Msg-Id": self._message_id(said), **traced()},
                deadline_seconds=self.client.patience_seconds,
            )

    def _message_id(self, said: codec.Said) -> str:
        """Return an id that repeats with the envelope and that no other tenant can guess."""
        return hashlib.sha256(f"{self._writer}/{said.writer}/{said.count}".encode()).hexdigest()[:32]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
