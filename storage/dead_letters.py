"""Dead letters: wake-ups that were given up, each with its reason, kept until a person decides.

One letter per actor and conversation, the newest; so their number is bounded by what can be waited for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Literal

import msgspec
from nats.aio.client import Client as NatsConnection
from nats.js.api import RawStreamMsg
from nats.js.errors import APIError, NotFoundError

from protocol import subjects
from protocol.connection import STREAM_NOT_FOUND, TRANSIENT, publish
from protocol.errors import LogUnavailable, NotFound, NotProvisioned
from protocol.ids import Address, Token, fresh_id
from protocol.subjects import Actor

GONE = (10043, 10057)
"""It was dropped, or a newer one came in its place: `sequence not found` where it lay outside of what is stored, else
`message delete failed`."""

READ_SECONDS = 5.0

Reason = Literal["fault", "unreadable", "damaged", "deadly"]
"""Whose fault it is: ours, a newer writer's, or that of what keeps the bytes; `deadly`: its turn ends the process."""


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """Why a wake-up of *actor* for a conversation was given up. It quotes nothing that was said there."""

    actor: Actor
    tenant: Token
    conversation: Token
    reason: Reason
    error: str
    """The error's type."""
    detail: str
    """Its sentence, where it is one of ours; others may quote the conversation."""
    attempts: int
    """Failures that the worker saw itself."""
    deliveries: int
    """How often the server gave the slot to somebody."""
    version: int = 0
    """Of the last state that could be loaded, with its hash and its place in the log; 0: none."""
    hash: str = ""
    seq: int = 0
    worker: str = ""

    @property
    def at(self) -> Address:
        """Return the conversation."""
        return Address(tenant=self.tenant, conversation=self.conversation)


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A letter as it is stored."""

    letter: DeadLetter
    revision: int
    time: str
    """When it was stored, RFC 3339, by the server's clock."""
    trace: str = ""
    """`traceparent` of the wake-up."""


class JetStreamDeadLetters:
    """The letters on the stream `CTX_DLQ`."""

    def __init__(self, connection: NatsConnection) -> None:
        self._connection = connection
        self._jetstream = connection.jetstream(timeout=READ_SECONDS)

    async def put(self, letter: DeadLetter, *, headers: Mapping[str, str]) -> None:
        """Keep *letter* in place of an older one. *headers* carry the wake-up's trace. Raises `LogUnavailable`."""
        about = {
            "Jettison-Reason": letter.reason,
            "Jettison-Error": letter.error,
            "Jettison-Attempts": str(letter.attempts),
            "Jettison-Version": str(letter.version),
        }
        await publish(
            self._connection,
            subjects.dead_letter(letter.actor, letter.at),
            msgspec.json.encode(letter),
            headers={**headers, **about, "Nats-Msg-Id": fresh_id()},
            deadline_seconds=READ_SECONDS,
        )

    async def all(self) -> AsyncIterator[Kept]:
        """Yield all letters, oldest first. Raises `NotProvisioned`, `LogUnavailable`."""
        seq = 0
        while True:
            message = await self._get(seq=seq + 1, subject=subjects.DEAD_LETTER_SUBJECTS, next=True)
            if message is None:
                return
            seq = message.seq or 0
            kept = _kept(message)
            if kept is not None:
                yield kept

    async def find(self, actor: Actor, at: Address) -> Kept:
        """Return the letter of *actor* for *at*. Raises `NotFound` if there is none."""
        message = await self._get(subject=subjects.dead_letter(actor, at))
        kept = _kept(message) if message else None
        if kept is None:
            raise NotFound(f"there is no dead letter of {actor} for {at}", actor=actor, address=str(at))
        return kept

    async def drop(self, kept: Kept) -> None:
        """Forget this letter; one that came in its place meanwhile stays."""
        try:
            await self._jetstream.delete_msg(subjects.DEAD_LETTER_STREAM, kept.revision)
        except (APIError, *TRANSIENT) as error:
            if getattr(error, "err_code", None) in GONE:
                return
            raise LogUnavailable(f"the letter could not be dropped: {type(error).__name__}") from None

    async def _get(self, *, subject: str, seq: int | None = None, next: bool | None = None) -> RawStreamMsg | None:
        try:
            return await self._jetstream.get_msg(subjects.DEAD_LETTER_STREAM, seq=seq, subject=subject, next=next)
        except NotFoundError as error:
            if error.err_code == STREAM_NOT_FOUND:
                raise NotProvisioned(
                    "the dead letters' stream does not exist on this server; run `jettison provision`"
                ) from None
            return None
        except (APIError, *TRANSIENT) as error:
            raise LogUnavailable(f"the dead letters cannot be read: {type(error).__name__}") from None


def _kept(message: RawStreamMsg) -> Kept | None:
    """Return the letter in a message; none where a stranger wrote it, who may not be listed as one of ours."""
    try:
        letter = msgspec.json.decode(message.data or b"", type=DeadLetter)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    headers = message.headers or {}
    time = message.time.isoformat() if message.time else ""
    return Kept(letter=letter, revision=message.seq or 0, time=time, trace=headers.get("traceparent", ""))
