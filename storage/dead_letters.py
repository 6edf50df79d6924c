"""Dead letters on JetStream: one per actor and conversation, so their number is bounded by what can be waited for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import msgspec
from nats.aio.client import Client as NatsConnection
from nats.js.api import RawStreamMsg
from nats.js.errors import APIError

from protocol import subjects
from protocol.connection import TRANSIENT, publish, reason_of
from protocol.errors import UNREADABLE, LogUnavailable
from protocol.ids import fresh_id

from .documents import found_on
from .work_ports import DeadLetter, StoredLetter

GONE = (10043, 10057)
"""It was dropped, or a newer one came in its place: `sequence not found` where it lay outside of what is stored, else
`message delete failed`."""

READ_SECONDS = 5.0


class JetStreamDeadLetters:
    """`DeadLetters` on the stream `CTX_DLQ`."""

    def __init__(self, connection: NatsConnection) -> None:
        self._connection = connection
        self._jetstream = connection.jetstream(timeout=READ_SECONDS)

    async def put(self, letter: DeadLetter, *, headers: Mapping[str, str]) -> None:
        """See `DeadLetters.put`."""
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

    async def all(self) -> AsyncIterator[StoredLetter]:
        """See `DeadLetters.all`."""
        stream, letters, seq = subjects.DEAD_LETTER_STREAM, subjects.DEAD_LETTER_SUBJECTS, 0
        while message := await found_on(
            self._jetstream, stream, letters, what="the list of dead letters", seq=seq + 1, next=True
        ):
            seq = message.seq or 0
            stored = _letter_in(message)
            if stored is not None:
                yield stored

    async def drop(self, stored: StoredLetter) -> None:
        """See `DeadLetters.drop`."""
        try:
            await self._jetstream.delete_msg(subjects.DEAD_LETTER_STREAM, stored.revision)
        except (APIError, *TRANSIENT) as error:
            if getattr(error, "err_code", None) in GONE:
                return
            raise LogUnavailable(f"the letter could not be dropped: {reason_of(error)}") from None


def _letter_in(message: RawStreamMsg) -> StoredLetter | None:
    """Return the letter in a message; None where a stranger wrote it, who may not be listed as one of ours."""
    try:
        letter = msgspec.json.decode(message.data or b"", type=DeadLetter)
    except UNREADABLE:
        return None
    headers = message.headers or {}
    time = message.time.isoformat() if message.time else ""
    return StoredLetter(letter=letter, revision=message.seq or 0, time=time, trace=headers.get("traceparent", ""))
