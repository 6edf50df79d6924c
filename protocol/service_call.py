"""Service call: a question to the context service, until somebody answers it."""

from __future__ import annotations

import asyncio
import random
import time

import msgspec
from nats.aio.client import Client as NatsConnection

from . import semconv, subjects
from .arguments import question_of
from .connection import TRANSIENT
from .errors import ArtifactsUnavailable, Busy, CallsOpen, LogUnavailable, NotReady, Unavailable
from .history import ArtifactsAsked, DiffAsked, EraseAsked, SearchAsked, VersionsAsked, WhereAsked, WhyAsked
from .ids import Address
from .mailbox import answers
from .service_messages import (
    WAIT_SECONDS,
    WORKING,
    Answer,
    ContextAsked,
    ExpandAsked,
    ForkAsked,
    OpenAsked,
    PolicyAsked,
    ReadAsked,
    RewindAsked,
    UploadAsked,
    raised,
)
from .tracing import span, traced

SERVICE_PAUSE_SECONDS = 0.2
"""Between two questions while nobody serves contexts."""

SILENCE_SECONDS = 3.0
"""A service that says nothing for so long is asked no more, but another one: six of its signs of life are missing."""

ALIVE_SECONDS = 1.0
"""For NATS' own answer, before a service is blamed."""

HistoryAsked = ArtifactsAsked | DiffAsked | EraseAsked | SearchAsked | VersionsAsked | WhereAsked | WhyAsked
ChangeAsked = ExpandAsked | ForkAsked | PolicyAsked | RewindAsked
Question = ContextAsked | OpenAsked | ReadAsked | UploadAsked | ChangeAsked | HistoryAsked


async def ask(
    connection: NatsConnection,
    at: Address,
    verb: subjects.Verb,
    asked: Question,
    wait_seconds: float = WAIT_SECONDS,
) -> tuple[Answer, bytes]:
    """Ask until somebody answers or the wait is over: a service may be starting, full, or killed meanwhile.

    Raises what the service raised, `NotReady` if there is none, `Unavailable` if none says anything.
    """
    ends = time.monotonic() + wait_seconds
    about = semconv.of_conversation(at.tenant, at.conversation)
    with span(f"ask {verb}", kind="client", attributes=about) as current:
        headers = traced()
        while True:
            try:
                answer, body = await _ask_once(connection, at, verb, question_of(asked), headers)
                if answer.context is not None and answer.context.compacted:
                    current.set_attribute(semconv.GEN_AI_CONVERSATION_COMPACTED, True)
                return answer, body
            except (_Silent, NotReady, Busy, ArtifactsUnavailable, CallsOpen) as error:
                left = ends - time.monotonic()
                # only a view is waited for as long as its agent says; a service does so for a minute at a time
                is_told = isinstance(error, ArtifactsUnavailable | CallsOpen) or error.fields.get("actor")
                if left <= 0 or (is_told and not isinstance(asked, ContextAsked)):
                    if isinstance(error, _Silent):
                        await _check_alive(connection)
                        raise Unavailable(str(error)) from None
                    raise
            if isinstance(asked, ContextAsked):
                asked = msgspec.structs.replace(asked, wait_seconds=left)
            await asyncio.sleep(SERVICE_PAUSE_SECONDS * random.uniform(0.5, 1.5))


async def _ask_once(
    connection: NatsConnection, at: Address, verb: subjects.Verb, body: bytes, headers: dict[str, str]
) -> tuple[Answer, bytes]:
    """Ask one service."""
    if connection.is_closed:
        raise LogUnavailable("this client is closed; connect again")
    try:
        async with answers(connection) as arrived:
            await connection.publish(subjects.ask(verb, at), body, reply=arrived.inbox, headers=headers)
            first = await arrived.next(seconds=SILENCE_SECONDS)
            while (status := (first.headers or {}).get("Status")) == WORKING:
                first = await arrived.next(seconds=SILENCE_SECONDS)
            if status == "503":
                raise NotReady("nobody serves contexts; start `jettison up` or `jettison worker cut`")
            answer = msgspec.json.decode(first.data, type=Answer)
            if answer.fault is not None:
                raise raised(answer.fault)
            frames = [(await arrived.next(seconds=SILENCE_SECONDS)).data for _ in range(answer.frames)]
            return answer, b"".join(frames)
    except TRANSIENT as error:
        raise _Silent(f"no answer to {verb} ({type(error).__name__}); is the service running?") from None


async def _check_alive(connection: NatsConnection) -> None:
    """Raise `LogUnavailable` where NATS itself is what says nothing."""
    if not connection.is_connected:  # nats-py's flush would return at once, as if it had been answered
        raise LogUnavailable("NATS does not answer: the connection was lost, and is tried again all the time")
    try:
        await connection.flush(ALIVE_SECONDS)  # type: ignore[arg-type]  # seconds, handed to asyncio.wait_for
    except TRANSIENT as error:
        raise LogUnavailable(f"NATS does not answer ({type(error).__name__}): it hangs, or cannot be reached") from None


class _Silent(Unavailable):
    """A service took a question and says nothing: it was killed, or cannot be reached."""
