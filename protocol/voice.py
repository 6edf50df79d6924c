"""Voice: how one handle speaks. What was not confirmed goes before anything newer, and is stored once."""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from dataclasses import dataclass, field
from typing import Protocol

import msgspec
from nats.aio.client import Client as NatsConnection

from . import cipher, codec, semconv, subjects
from .connection import publish
from .context import Written
from .envelopes import Repeatable, check_readable
from .erasure_marks import erasure_marks
from .errors import LogUnavailable, NotPermitted, Rejected
from .facts import MessagesAppended, SaidFact
from .foreseen import Foreseen
from .ids import Address, fresh_id
from .keys import JetStreamKeys, check_not_erased
from .prepared import Batches
from .service_call import Question, ask
from .service_messages import Answer, ContextAsked, PolicyAsked, SaidAt
from .tasks import aside
from .tracing import span, traced

DOUBTED_MAX = 8
"""For an agent that speaks through many outages, and never asks for a view."""

BELIEVED_SECONDS = 0.25
"""How long a look is believed that found no mark of an erasure. An erasure waits for longer between its mark and its
last look at the log (`audit.erasing`): it finds whatever was confirmed within this time."""

FRESH_SHARE = 0.5
"""Of that time may be over when something is sent, so that its confirmation most often comes within the rest."""

_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
"""Goes on while a machine is suspended; Linux' monotonic clock stands still, and a look of before would be believed.
Windows has neither, and its `time.monotonic` goes on."""


class Connected(Protocol):
    """What a conversation needs of its client: a connection, how long it tries, and the keys if it encrypts."""

    connection: NatsConnection
    patience_seconds: float
    keys: JetStreamKeys | None


@dataclass(kw_only=True)
class Voice:
    """One writer of a conversation; what it says is in order."""

    client: Connected
    at: Address
    seq: int = 0
    """Of the newest thing that it said."""
    count: int = 0
    newest: SaidAt | None = None
    """The newest thing that was confirmed."""
    doubted: tuple[SaidAt, ...] = ()
    """What was confirmed before a connection broke off, and no service has found in the log since: the log may have
    been put back from an older copy."""
    _connected: int = 0
    """How often the connection had been made anew when this was last looked at."""
    _writer: str = field(default_factory=fresh_id)
    _unconfirmed: list[codec.Said] = field(default_factory=list)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _owed: Repeatable[codec.Said] = field(default_factory=Repeatable)
    """What was not confirmed to who said it, though it may have been to another call since."""
    _broken_off: Repeatable[Batches] = field(default_factory=Repeatable)
    """What was confirmed of a large append whose later part was not."""
    _unmarked: float = -math.inf
    """When the newest look began that found no mark of an erasure."""
    _newest_mark: int = -1
    """Of its tenant, before its own look found none of this conversation; -1: it is not known."""
    _looking: asyncio.Task[None] | None = None
    """A look that was begun before anybody spoke."""
    _beside: Foreseen | None = None
    """What is asked at the moment in which the next messages are sent under a key."""

    async def say(self, facts: tuple[SaidFact, ...], *, at_ms: int, patience: float) -> int:
        """Publish one envelope, after all that was not confirmed before. Returns its stream sequence.

        Raises `Rejected` for values that no reader could take, and `Erased`, before anything is sent; `Erased` also
        where it was erased in this very moment, and its confirmation took long: what was sent may lie behind its
        tombstone then, and is told to nobody.
        """
        async with self._lock:
            await self._check_may_speak()
            said = self._repeated(facts)
            if said is None:
                said = codec.Said(writer=self._writer, count=self.count + 1, facts=facts, at_ms=at_ms or now_ms())
                check_readable(said)
                self.count += 1
                self._unconfirmed.append(said)
            try:
                return await self._flush(patience)
            except BaseException:
                if said in self._unconfirmed:
                    self._owed.keep(said)
                raise

    async def say_batches(self, batches: Batches, *, at_ms: int, patience: float) -> None:
        """Say all of *batches* but those that a call of the same messages said before it broke off."""
        confirmed = next((one for one in self._broken_off.taken() if batches[: len(one)] == one), [])
        for index in range(len(confirmed), len(batches)):
            try:
                await self.say((MessagesAppended(messages=batches[index]),), at_ms=at_ms, patience=patience)
            except BaseException:
                # the same call again goes on here: what was confirmed before must not be said twice
                self._broken_off.keep(batches[:index])
                raise

    async def say_under(self, key: str, batches: Batches, *, at_ms: int, patience: float) -> None:
        """Say *batches* as the writer that *key* is: whoever says anything under it again repeats it."""
        writer = "k-" + hashlib.sha256(f"{self.at}/{key}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
        beside, self._beside = self._beside, None
        for index, batch in enumerate(batches, 1):
            facts = (MessagesAppended(messages=batch),)
            said = codec.Said(writer=writer, count=index, facts=facts, at_ms=at_ms or now_ms())
            check_readable(said)
            async with self._lock:
                await self._check_may_speak()
                # said again, it is the same one at a later time
                if all((one.writer, one.count) != (said.writer, said.count) for one in self._unconfirmed):
                    self._unconfirmed.append(said)
                await self._flush(patience, beside if index == len(batches) else None)

    def ask_beside(self, asked: ContextAsked, after: Written) -> Foreseen:
        """Ask for a view at the moment in which the next messages are sent under a key."""
        self._beside = Foreseen(
            asking=lambda coming: self.ask("context", coming, coming.wait_seconds), asked=asked, after=after
        )
        return self._beside

    def look_early(self) -> None:
        """Begin the look that comes before anything is said, for who will speak in a moment and has to wait first."""
        if self._looking is None or self._looking.done():
            # most often nobody waits for it any more when it has ended; who speaks looks again, and is told
            self._looking = aside(self._check_not_erased(within=BELIEVED_SECONDS * FRESH_SHARE))

    async def _check_may_speak(self) -> None:
        """Raise `Erased` before something is sent. NATS is asked once, whether it answers or not."""
        looking = self._looking
        if looking is None or looking.done():
            return await self._check_not_erased(within=BELIEVED_SECONDS * FRESH_SHARE)
        await asyncio.wait({looking})  # and not cancelled with who waits
        looking.result()

    async def _check_not_erased(self, *, within: float) -> None:
        """Raise `Erased`, unless a look that began *within* so many seconds found no mark of an erasure."""
        self._reconnected()
        began = _now()
        if began - self._unmarked < within:
            return
        connection = self.client.connection
        seen = await erasure_marks(connection, self.at.tenant).seen(connection, self, within=within, clock=_now)
        if seen is not None and seen.newest == self._newest_mark:
            # nothing of this tenant was marked between that look of ours and this question
            self._unmarked = max(self._unmarked, seen.began)
        elif await check_not_erased(connection, self.at):
            self._unmarked, self._newest_mark = began, -1 if seen is None else seen.newest

    def _repeated(self, facts: tuple[SaidFact, ...]) -> codec.Said | None:
        """Return the envelope that this call says once more, if it does."""
        mine = [one for one in self._unconfirmed if one.writer == self._writer]
        return next((one for one in (*self._owed.taken(), *mine) if one.facts == facts), None)

    async def _flush(self, patience: float, beside: Foreseen | None = None) -> int:
        """Publish what is not confirmed, in order. What an earlier call could not confirm goes first."""
        while self._unconfirmed:
            said = self._unconfirmed[0]
            if beside and len(self._unconfirmed) == 1:
                # its task begins once this waits for its confirmation: the question is behind it on the same
                # connection, and goes out with it
                beside.begin(SaidAt(seq=0, writer=said.writer, count=said.count))
            connected = self._reconnected()
            try:
                seq = await self._publish(said, patience)
                # an erasure leaves its mark, waits, then looks what is in the log: it finds this, or it is seen here
                await self._check_not_erased(within=BELIEVED_SECONDS)
            except (Rejected, NotPermitted):
                # it will never be taken: kept, it would stand in the way of all that comes after it
                self._owed.forget(self._unconfirmed.pop(0))
                raise
            del self._unconfirmed[0]
            self.seq = max(self.seq, seq)
            broke_off = self._reconnected() != connected
            self.newest = SaidAt(seq=seq, writer=said.writer, count=said.count)
            if broke_off:  # it may have been confirmed before
                self._doubt()
        return self.seq

    async def ask(self, verb: subjects.Verb, asked: Question, wait_seconds: float) -> tuple[Answer, bytes]:
        """Ask a service, which must have heard all of this where that matters. Raises as `service_call.ask`."""
        self._reconnected()
        doubted = self.doubted
        if isinstance(asked, ContextAsked | PolicyAsked):
            asked = msgspec.structs.replace(asked, upto_seq=self.seq, said=self.newest, doubted=doubted)
        answered = await ask(self.client.connection, self.at, verb, asked, wait_seconds)
        if isinstance(asked, ContextAsked | PolicyAsked):
            self.doubted = tuple(one for one in self.doubted if one not in doubted)
        return answered

    def _reconnected(self) -> int:
        """Return how often the connection was made anew; what was learned and said before it was last is doubted."""
        connected = reconnects(self.client)
        if connected != self._connected:
            self._connected = connected
            self._unmarked, self._newest_mark = -math.inf, -1
            self._doubt()
        return connected

    def _doubt(self) -> None:
        if self.newest and self.newest not in self.doubted:
            # the oldest ones: what came later in the log is gone with them
            self.doubted = (*self.doubted, self.newest)[:DOUBTED_MAX]

    async def _publish(self, said: codec.Said, patience: float) -> int:
        if self.client.connection.is_closed:
            raise LogUnavailable("this client is closed; connect again, nothing was sent")
        about = semconv.of_conversation(self.at.tenant, self.at.conversation)
        attributes = {semconv.MESSAGING_SYSTEM: "nats", **about}
        with span(semconv.PUBLISH_SAID, kind="producer", attributes=attributes):
            body = codec.encode_said(said)
            if self.client.keys:
                body = cipher.record(body, key=await self.client.keys.key(self.at), at=self.at, side="said")
            return await publish(
                self.client.connection,
                subjects.said(self.at),
                body,
                headers={"Nats-Msg-Id": self._message_id(said), **traced()},
                deadline_seconds=patience,
            )

    def _message_id(self, said: codec.Said) -> str:
        """Return an id that repeats with the envelope and that no other tenant can guess."""
        return hashlib.sha256(f"{self._writer}/{said.writer}/{said.count}".encode()).hexdigest()[:32]


def reconnects(client: Connected) -> int:
    """Return how often the connection of *client* broke off and stood again."""
    return int(client.connection.stats["reconnects"])


def now_ms() -> int:
    """Return the time by this machine's clock: milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def _now() -> float:
    """Return seconds by a clock that goes on while the machine is suspended."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)
