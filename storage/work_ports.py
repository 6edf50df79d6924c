"""What storage promises of work: who is woken, what failed, what is under way, and what is told and asked meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Literal, Protocol

import msgspec

from protocol.ids import Address, Token
from protocol.subjects import Actor, Lane, Verb


class Slot(Protocol):
    """One taken slot: no other worker of the same actor works on this conversation meanwhile."""

    @property
    def at(self) -> Address:
        """Return the conversation to work on."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the headers of the wake-up, with its trace."""

    @property
    def body(self) -> bytes:
        """Return the body of the wake-up that filled it; empty for an agent's message."""

    @property
    def deliveries(self) -> int:
        """Return the number of deliveries of the slot, from 1."""

    @property
    def lane(self) -> Lane:
        """Return the lane it came on: whether an agent waits."""

    async def done(self) -> None:
        """Free the slot; returns after the server confirmed. Raises `LogUnavailable`."""

    async def later(self, seconds: float) -> None:
        """Give the slot back, to be delivered again after *seconds*."""

    def release_credit(self) -> None:
        """Let another slot be taken in its place: the work only waits now, for a store or for another delivery."""

    async def hold(self) -> None:
        """Say that work goes on, so that the slot is not given to another worker."""


class Wakes(Protocol):
    """One slot per actor, conversation and lane: queue, lock and coalescing at once."""

    async def wake(
        self, actor: Actor, at: Address, *, body: bytes = b"", headers: Mapping[str, str], lane: Lane = "normal"
    ) -> bool:
        """Fill the slot; false if it is filled already, which is as good. Raises `LogUnavailable`, `Busy`."""
        ...

    async def partitions(self) -> int:
        """Return how many queues there are of each actor and lane; it grows only. Raises `LogUnavailable`."""
        ...

    def slots(self, actor: Actor, *, credits: int, lane: Lane = "normal", partition: int = 0) -> AsyncIterator[Slot]:
        """Yield slots of a *partition* as they are filled, at most *credits* unfinished at once.

        Ends only by cancellation or error.
        """
        ...

    async def untaken(self, actor: Actor) -> int:
        """Return the number of slots of the normal lane that no worker of *actor* came to. Raises `LogUnavailable`."""
        ...


Reason = Literal["fault", "unreadable", "damaged", "deadly"]
"""Whose fault it is: ours, a newer writer's, or that of what keeps the bytes; `deadly`: it ends the process."""


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


class StoredLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A letter as it is stored."""

    letter: DeadLetter
    revision: int
    time: str
    """When it was stored, RFC 3339, by the store's clock; empty where it has none."""
    trace: str = ""
    """`traceparent` of the wake-up."""


class DeadLetters(Protocol):
    """Wake-ups that were given up: the newest of each actor and conversation, until a person decides.

    All raise `LogUnavailable`.
    """

    async def put(self, letter: DeadLetter, *, headers: Mapping[str, str]) -> None:
        """Keep *letter* in place of an older one. *headers* carry the wake-up's trace."""
        ...

    def all(self) -> AsyncIterator[StoredLetter]:
        """Yield all letters, oldest first. Raises `NotProvisioned`."""
        ...

    async def drop(self, stored: StoredLetter) -> None:
        """Forget this letter; one that came in its place meanwhile stays. Twice is as good as once."""
        ...


class BegunWork(msgspec.Struct, frozen=True, kw_only=True):
    """One delivery that was begun, and not ended yet."""

    worker: str
    """Who began it."""
    vanished: int = 0
    """Deliveries before it that nobody ended, one after the other."""
    asks_seconds: float = 0.0
    """How long a model may be answering to it; 0: none is asked."""
    is_waited_for: bool = False
    """That answer was given its time already."""
    is_deadly: bool = False
    """A process that did the next delivery, and nothing else, died of it."""
    is_tried: bool = False
    """The next delivery is done by a process of its own: if nobody ends it, it was not this that its worker died of."""


class InProgress(Protocol):
    """What workers began and may not live to end: at most one delivery for each actor and conversation.

    It decides on patience only: if one is lost, a conversation is suspected later, or a model is asked once more.
    All raise `LogUnavailable`; where there is no room, `Busy`.
    """

    async def find(self, actor: Actor, at: Address) -> BegunWork | None:
        """Return the work that *actor* began for *at* and did not end, or None."""
        ...

    async def put(self, actor: Actor, at: Address, begun: BegunWork) -> None:
        """Write down that the work began, in place of what was written before."""
        ...

    async def wipe(self, actor: Actor, at: Address) -> None:
        """Write down that the work ended, however it did."""
        ...


class Announcer(Protocol):
    """What is told to whoever listens at this moment, and kept by nobody. Both raise `LogUnavailable`."""

    async def ready(self, at: Address, body: bytes, *, headers: Mapping[str, str]) -> None:
        """Say that the context of *at* is ready."""
        ...

    async def call(self, at: Address, hook: str, body: bytes, *, headers: Mapping[str, str]) -> None:
        """Call those who listen to *hook* of *at*; *hook* is a token that the policy checked."""
        ...


class Request(Protocol):
    """One question of an agent, which waits for its answer."""

    @property
    def verb(self) -> Verb:
        """Return the verb: context, upload, read or expand."""
        ...

    @property
    def at(self) -> Address:
        """Return the conversation that it is about."""
        ...

    @property
    def body(self) -> bytes:
        """Return the question."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Return its headers, with its trace."""
        ...

    async def working(self) -> None:
        """Send a sign of life to who asks; nobody hears it while the connection is being restored."""
        ...

    async def answer(self, frames: Sequence[bytes]) -> None:
        """Answer with *frames*, in order. Raises `LogUnavailable`."""
        ...


class Requests(Protocol):
    """What agents ask the context service."""

    def asked(self) -> AsyncIterator[Request]:
        """Yield the questions of agents; several who listen share them. Ends only by cancellation or error."""
        ...


class Hearing(Protocol):
    """Who hears what agents say, for a log that is no stream of NATS; a stream hears it by itself."""

    async def run(self) -> None:
        """Store and confirm what is said, until cancelled; several who run share it. Raises what ends all work.

        What the store does not take, since it is away, is confirmed to nobody; said again under its id it is stored.
        """
        ...
