"""Hearing: for a log that is no stream of NATS, hear what agents say, store it through the port, and confirm it.

An agent publishes what it says, and waits for the sequence that the stream answers with; it says again under the same
id what nobody confirmed. `actors/host/adapters.py` makes one where the log that it names is no stream.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from weakref import WeakValueDictionary

from nats.aio.client import Client as NatsConnection
from nats.aio.msg import Msg

from protocol import subjects
from protocol.connection import TRANSIENT
from protocol.errors import BadEnvelope, Unavailable
from protocol.ids import Address, fresh_id
from protocol.outages import Outage

from .ports import EventLog

log = logging.getLogger("jettison.hearing")

MESSAGE_ID = "Nats-Msg-Id"
AT_ONCE = 256
"""Messages that are stored at the same time; more wait in nats-py, which bounds them."""


class NatsHearing:
    """`Hearing` on the subjects `ctx.v1.log.*.*.said`, shared through a queue group; `stored` keeps what is heard.

    What one agent says is stored in its order if it waits for each answer, as our clients do.
    """

    def __init__(self, connection: NatsConnection, stored: EventLog) -> None:
        self._connection = connection
        self._stored = stored
        self._places: WeakValueDictionary[Address, asyncio.Lock] = WeakValueDictionary()
        self._outage = Outage(log.warning, "what agents say cannot be stored")

    async def run(self) -> None:
        """See `Hearing.run`."""
        room = asyncio.Semaphore(AT_ONCE)
        subscription = await self._connection.subscribe(subjects.SAID_SUBJECTS, subjects.HEARING_GROUP)
        try:
            async with asyncio.TaskGroup() as storing:
                async for message in subscription.messages:
                    await room.acquire()
                    storing.create_task(self._hear(message)).add_done_callback(lambda _: room.release())
        finally:
            with suppress(*TRANSIENT):
                await subscription.unsubscribe()

    async def _hear(self, message: Msg) -> None:
        try:
            at = subjects.address_of(message.subject)
        except BadEnvelope as error:
            # as a stream would refuse it: whoever said it waits for an answer
            return await self._answered(message, {"error": {"code": 400, "description": str(error)}})
        headers = dict(message.headers or {})
        message_id = headers.pop(MESSAGE_ID, "") or fresh_id()
        try:
            # a lock lets them in as they came
            async with self._places.setdefault(at, asyncio.Lock()):
                seq = await self._stored.say(at, message.data, message_id=message_id, headers=headers)
        except Unavailable as error:
            # no answer: who said it says it again
            return self._outage.failed(f"{error} (for {at})", who=at)
        except Exception:
            # of one message; nobody else's waits for it
            return log.exception("what was said to %s cannot be stored", at)
        self._outage.succeeded(who=at)
        await self._answered(message, {"stream": subjects.LOG_STREAM, "seq": seq})

    async def _answered(self, message: Msg, answer: Mapping[str, object]) -> None:
        if message.reply:
            with suppress(*TRANSIENT):
                await message.respond(json.dumps(answer).encode())
