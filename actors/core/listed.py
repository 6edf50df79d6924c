"""Listed: what is kept of each conversation for lists, and how the records are put into chunks.

A chunk is written anew until it is full; then the next one begins. Of several records of a conversation the one that
is furthest in its log counts, so that nothing is searched for to be replaced, and chunks that hold mostly older ones
are merged. All of it follows from the log, which is the truth.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from protocol.ids import Address, Token

from .flow import next_actor
from .spent import Day
from .state import State

ROWS_MAX = 2_000
"""Records of a chunk: some 150 KB as they are kept."""

WEIGHT_MAX = 700_000
"""Bytes of a chunk at most, before it is made smaller: one message of NATS takes 1 MB."""

CHUNKS_SPARE = 8

NAME_CHARS = 200
"""Of a name; lists show no more."""


ERASED = "erased"
NOT_READ = "not read"
"""When it was looked at, which passes: who shows it looks again."""


class About(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """What is known of a conversation besides its address; it may quote it, and is kept encrypted."""

    name: str = ""
    model: str = ""
    version: int = 0
    messages: int = 0
    log_tokens: int = 0
    """Of all messages, as they were said."""
    tokens: int = 0
    """Of a view of it now."""
    usable: int = 0
    waits_for: str = ""
    fault: str = ""
    """`erased`, `damaged`, `no key`, `not read` or `dead letter`: nothing else is known then."""
    why: str = ""
    """Of a fault, a sentence of ours."""
    policy_hash: str = ""
    days: tuple[Day, ...] = ()
    idle_ms: int = 0
    """Of an archived one, when the log got what stands before the commit that says so."""

    @property
    def condition(self) -> str:
        """Return the condition of the conversation, in a word or two; empty for an ordinary one."""
        return self.fault or (f"waits for {self.waits_for}" if self.waits_for else "archived" if self.idle_ms else "")


class Named(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """The beginning of `About`: read in a third of the time, and all that is searched."""

    name: str = ""


class Listed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One conversation's record."""

    at: Address
    seq: int
    """Its place in the log."""
    at_ms: int
    """When the log got that, in milliseconds since 1970."""
    about: About


class Section(msgspec.Struct, frozen=True, kw_only=True, array_like=True, eq=False):
    """The records of one tenant in a chunk: places, and what the tenant's key for lists opens."""

    tenant: Token
    places: tuple[tuple[Token, int, int], ...]
    """Conversation, sequence, milliseconds."""
    closed: bytes
    """`About` of each, in the same order."""


class Chunk(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag="listed.1", tag_field="kind"):
    """Records as they are kept together."""

    sections: tuple[Section, ...] = ()


class ListHead(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag="list.1", tag_field="kind"):
    """What holds for all chunks: how far in the log they are, and which there are."""

    seqs: tuple[int, ...] = ()
    """Up to here in each partition of the log every conversation has its record."""
    at_ms: int = 0
    """When that was so, by the clock of who wrote it."""
    first: int = 1
    """The oldest chunk that counts."""
    last: int = 1
    """The one that is written to."""
    merged: int = 0
    """Chunks that the last merging left."""

    def seq(self, partition: int = 0) -> int:
        """Return how far the list goes in a *partition* of the log."""
        return self.seqs[partition] if partition < len(self.seqs) else 0

    def reached(self, seq: int, partition: int) -> tuple[int, ...]:
        """Return `seqs` with that of one *partition*."""
        seqs = [self.seq(one) for one in range(max(len(self.seqs), partition + 1))]
        seqs[partition] = seq
        return tuple(seqs)


def about(state: State) -> About:
    """Return the record that lists have of *state*."""
    if state.erased:
        return About(version=state.version, fault=ERASED)
    return About(
        name=state.terms.name[:NAME_CHARS],
        model=state.terms.model[:NAME_CHARS],
        version=state.version,
        messages=state.messages,
        log_tokens=state.spent.said_tokens,
        tokens=state.live_tokens,
        usable=state.usable_tokens if state.policy else 0,
        waits_for=next_actor(state) or "",
        policy_hash=state.terms.policy_hash[:16],
        days=state.spent.days,
        idle_ms=state.position.idle_ms if state.archived else 0,
    )


def merged(kept: Iterable[Listed], new: Iterable[Listed]) -> list[Listed]:
    """Return *kept* with *new*, of each conversation the furthest; of two at the same place the new one."""
    newest = {one.at: one for one in kept}
    for one in new:
        there = newest.get(one.at)
        if there is None or one.seq >= there.seq:
            newest.pop(one.at, None)  # at its end: a full chunk is cut off at its beginning
            newest[one.at] = one
    return list(newest.values())


def chunked(rows: Iterable[Listed]) -> Iterator[list[Listed]]:
    """Yield *rows* in chunks, each full but the last one; at least one."""
    chunk: list[Listed] = []
    weight = 0
    for one in rows:
        if chunk and (len(chunk) == ROWS_MAX or weight + _weight(one) > WEIGHT_MAX):
            yield chunk
            chunk, weight = [], 0
        chunk.append(one)
        weight += _weight(one)
    yield chunk


def _weight(row: Listed) -> int:
    """Return the most bytes that *row* takes."""
    about = row.about
    return 256 + 4 * (len(about.name) + len(about.model) + len(about.why)) + 64 * len(about.days)


def is_scattered(head: ListHead) -> bool:
    """Tell whether so many chunks were begun since the last merging that most of what is kept may be outdated."""
    return head.last - head.first + 1 > 2 * head.merged + CHUNKS_SPARE
