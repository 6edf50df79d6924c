"""Identity: which conversation a request goes on with. Pure: what is known comes in, what to do goes out.

A request is the truth: it holds all that its agent knows. A conversation is gone on with only where *all* that is in
its log stands at the beginning of the request; whatever else, an edit, a regenerated answer, a sub-agent, is one of its
own. So nothing can be in a view that is not in the request, whoever has the same session id, key or opening words.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from .canon import HASH_BYTES

HEADS_MAX = 64
"""Conversations with the same opening in the same scope that are known; the least recently used one is forgotten, and
what goes on with it is a new one."""

POINTS_MAX = 32
"""Ends of earlier requests at which a conversation can branch; of the older half every second one is forgotten."""

HIDDEN_MAX = 8
"""Answers of one conversation that a model gave after it had read back, and that their agent has not sent back yet."""

_SCOPE_HEADERS = (
    *("thread-id", "x-session-id", "x-session-affinity", "x-opencode-session", "x-litellm-session-id", "x-affinity"),
    *("session_id", "session-id"),
)
_SIDE_CLASSES = frozenset(("compaction", "auxiliary", "side_reply"))


class Hidden(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """An answer as its agent saw it, and the turns that it really took, which the log gets in its place."""

    seen: tuple[bytes, ...]
    """Hashes of the messages that it will send back, one below the other."""
    turns: bytes
    messages: int


class Batch(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """Messages of a request that were to be appended; whether they were is not known."""

    start: int
    end: int
    key: bytes
    """The chain at its end: appended under it twice, they are stored once."""
    real: tuple[tuple[int, int, bytes], ...] = ()
    """Which of them, from where to where, were hidden turns, and these."""


class Point(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """Where an earlier request of a conversation ended: another one can begin with all up to here."""

    length: int
    chain: bytes
    logged: int


class Origin(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """What a branch begins with: the conversation `name`, up to a point. Its log is a fork of the other's."""

    name: str
    point: Point


class Head(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """How far one conversation goes: its first `length` messages, as agents send them, have the hash `chain`."""

    name: str
    length: int
    chain: bytes
    logged: int
    """Messages in its log, those of hidden turns too, once all of `waiting` is stored."""
    outside: int
    """Tokens of instructions and tools when it was opened."""
    tools: bool
    """Its model was given tools, so ours too; a request without any is none of its turns."""
    waiting: tuple[Batch, ...] = ()
    hidden: tuple[Hidden, ...] = ()
    changed: bool = False
    """A view of it was sent that is not what its agent had sent."""
    points: tuple[Point, ...] = ()
    """Oldest first."""
    origin: Origin | None = None
    """Of a branch, until it is known that its log was begun."""


class Earlier(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """What stands before a request that does not repeat it: so many messages at a place, with the hash `chain`."""

    place: str
    length: int
    chain: bytes
    tools: bool


class Known(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """The conversations of one scope with the same first message, the most recently used one last."""

    version: int = 1
    heads: tuple[Head, ...] = ()


class GoesOn(msgspec.Struct, frozen=True, kw_only=True):
    """With `head`, whose messages are all in the request; what is behind them is new. None is: it is asked again."""

    head: Head


class Begins(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation of its own."""


class Branches(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation of its own that begins as `head` did, up to `point`: something behind it was edited."""

    head: Head
    point: Point


class Aside(msgspec.Struct, frozen=True, kw_only=True):
    """A question beside the conversation `head`, which goes on without it: nothing of it is stored."""

    head: Head


Decision = GoesOn | Begins | Branches | Aside | None
"""None: a question beside a conversation that nobody knows."""


def decide(
    known: Known,
    chain: Sequence[bytes],
    *,
    tools: bool,
    beside: bool,
    first: bool,
    answered: int,
    alone: bool = False,
) -> Decision:
    """Return the decision on a request whose messages have the hashes *chain*; `chain[i]` covers the first `i` of them.

    *tools*: its model is given some. *beside*: the agent says that it only asks something. *first*: nothing tells that
    it was sent before. *alone*: asked beside what nobody knows, it is a conversation of its own. *answered*: messages
    up to its first answer; who shares fewer with another shares an opening.
    """
    n = len(chain) - 1
    found = [one for one in known.heads if 0 < one.length <= n and chain[one.length] == one.chain]
    # of several with all the same messages the one that waits longest
    head = max(found, key=lambda one: one.length, default=None)
    stored = not beside or (alone and head is None)
    if stored and (branch := _branch(known, chain, tools=tools, least=max(answered, head.length + 1 if head else 1))):
        return branch
    if head is None or (first and head.length == n):
        return Begins() if stored else None
    return Aside(head=head) if beside or (head.tools and not tools) else GoesOn(head=head)


def _branch(known: Known, chain: Sequence[bytes], *, tools: bool, least: int) -> Branches | None:
    """Return the longest beginning of at least *least* messages that a request shares with a conversation."""
    best: Branches | None = None
    for head in known.heads:
        for point in reversed(head.points if head.tools == tools else ()):
            if point.length < least:
                break
            if point.length < len(chain) and chain[point.length] == point.chain:
                best, least = Branches(head=head, point=point), point.length + 1
                break
    return best


def branched(head: Head, point: Point, *, name: str) -> Head:
    """Return the conversation *name* that begins as *head* did up to *point*."""
    points = tuple(one for one in head.points if one.length < point.length)
    origin = Origin(name=head.name, point=point)
    return replace(
        head,
        name=name,
        length=point.length,
        chain=point.chain,
        logged=point.logged,
        waiting=(),
        hidden=(),
        points=points,
        origin=origin,
    )


def left_over(head: Head, *, copied: int, key: bytes) -> Batch | None:
    """Return the batch that a branch needs behind the *copied* messages of its fork, up to its origin's point.

    None if nothing. Raises `ValueError` where hidden turns lie between, which nobody can give any more.
    """
    assert head.origin is not None
    point = head.origin.point
    more = point.logged - point.length
    if copied == point.logged:
        return None
    # a point before it with as many hidden messages as here: none lie between
    before = [one for one in head.points if one.logged <= copied and one.logged - one.length == more]
    if copied > point.logged or (more and not before):
        raise ValueError("the fork does not end where a request did")
    return Batch(start=copied - more, end=point.length, key=key)


def known_with(known: Known, head: Head) -> Known:
    """Return *known* with *head* as the most recently used one."""
    others = [one for one in known.heads if one.name != head.name]
    return replace(known, heads=(*others, head)[-HEADS_MAX:])


def known_without(known: Known, name: str) -> Known:
    """Return *known* without the conversation *name*."""
    return replace(known, heads=tuple(one for one in known.heads if one.name != name))


def grown(head: Head, chain: Sequence[bytes], hashes: Sequence[bytes]) -> Head:
    """Return *head* with all messages of a request that goes on with it; those that are new wait to be appended."""
    n = len(chain) - 1
    if head.length == n:
        return head
    real: list[tuple[int, int, bytes]] = []
    logged, hidden = head.logged + n - head.length, list(head.hidden)
    for at in range(head.length, n):
        one = next((one for one in hidden if tuple(hashes[at : at + len(one.seen)]) == one.seen), None)
        if one is not None and at + len(one.seen) <= n:
            hidden.remove(one)
            real.append((at, at + len(one.seen), one.turns))
            logged += one.messages - len(one.seen)
    batch = Batch(start=head.length, end=n, key=chain[n], real=tuple(real))
    return replace(
        head,
        length=n,
        chain=chain[n],
        logged=logged,
        waiting=(*head.waiting, batch),
        hidden=tuple(hidden),
        points=_pointed(head),
    )


def _pointed(head: Head) -> tuple[Point, ...]:
    """Return the points of *head* with its end among them."""
    if not head.length:
        return head.points
    points = (*head.points, Point(length=head.length, chain=head.chain, logged=head.logged))
    half = len(points) // 2
    return points if len(points) <= POINTS_MAX else (*points[:half:2], *points[half:])


def with_hidden(head: Head, one: Hidden) -> Head:
    """Return *head* that knows what an answer really was."""
    others = [other for other in head.hidden if other.seen != one.seen]
    return replace(head, hidden=(*others, one)[-HIDDEN_MAX:], changed=True)


def chain_of(
    hashes: Sequence[bytes], *, secret: bytes, earlier: Earlier | None = None, known: Sequence[bytes] = ()
) -> list[bytes]:
    """Return the hashes of the first 0, 1, 2, … messages; without *secret* nobody can tell what they are of.

    Those within what stands *earlier* are empty, which is the hash of nothing. *known* is the chain's beginning.
    """
    chain = [b""] * earlier.length + [earlier.chain] if earlier else [*known] or [b""]
    for one in hashes[max(0, len(known) - 1) :]:
        chain.append(hashlib.blake2b(chain[-1] + one, digest_size=HASH_BYTES, key=secret).digest())
    return chain


def place_of(partition: str, scope: str, first: bytes, *, secret: bytes) -> str:
    """Return where the conversations of a *scope* are kept whose first message is *first*."""
    told = json.dumps([partition, scope]).encode() + first
    return hashlib.blake2b(told, digest_size=HASH_BYTES, key=secret).hexdigest()


def scope_of(headers: Mapping[str, str], fields: Mapping[str, Any]) -> str:
    """Return an agent's word on which conversation it is; empty if there is none.

    It narrows where is looked, and proves nothing: sub-agents and side calls share their session's.
    """
    if named := headers.get("x-jettison-conversation"):
        return f"named/{named}"
    if session := headers.get("x-claude-code-session-id") or _session_in(fields.get("metadata")):
        return f"claude/{session}/{headers.get('x-claude-code-agent-id', 'main')}"
    for name in _SCOPE_HEADERS:
        if value := headers.get(name):
            return f"{name}/{value}"
    if conversation := fields.get("conversation"):
        return f"conversation/{conversation}"
    key = fields.get("prompt_cache_key")
    return f"cache/{key}" if isinstance(key, str) and key else ""


def is_beside(headers: Mapping[str, str]) -> bool:
    """Tell whether an agent says that a request is none of its turns: a title, a summary, an aside."""
    if headers.get("x-claude-code-request-class") in _SIDE_CLASSES:
        return True
    try:
        told = json.loads(headers.get("x-codex-turn-metadata", "{}"))
    except (ValueError, RecursionError):
        return False
    return isinstance(told, dict) and told.get("request_kind") == "compaction"


def _session_in(metadata: Any) -> str:
    """Return the session that Claude Code writes into `metadata.user_id`: JSON, or text in older versions."""
    user = metadata.get("user_id") if isinstance(metadata, dict) else None
    if not isinstance(user, str):
        return ""
    try:
        told = json.loads(user)
    except (ValueError, RecursionError):
        return user.rpartition("_session_")[2] if "_session_" in user else ""
    session = told.get("session_id") if isinstance(told, dict) else None
    return session if isinstance(session, str) else ""
