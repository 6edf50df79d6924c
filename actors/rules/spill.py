"""Spill: a part too big for the window becomes an artifact and a pointer.

Decides only. The worker stores the bytes before it appends the facts, so that no pointer ever dangles.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec

from protocol import messages
from protocol.facts import (
    CompactionDeclined,
    HookFired,
    MessageRepaired,
    ReminderInjected,
    StageFailed,
    ToolOutputSpilled,
    ToolOutputTrimmed,
)

from .entry import ESTIMATE_BYTES_PER_TOKEN, EXACT_BYTES_MAX, Count, Entry, PartSize, cap_tokens, over_cap, oversized
from .hooks import due_facts
from .kinds import Kind, kind_of
from .pointer import shown_result, shown_words
from .state import State

KEY_CHARS = 16
"""Of the SHA-256 in a pointer: 64 bits tell the artifacts of a tenant apart and cost a quarter of the tokens."""

POINTER_TOKENS = 110
"""Bound on a pointer without its preview."""


Fact = (
    ToolOutputSpilled
    | ToolOutputTrimmed
    | MessageRepaired
    | CompactionDeclined
    | HookFired
    | ReminderInjected
    | StageFailed
)


GAIN_MIN = 0.1
"""Share of a result of medium size that shortening must win; for less, reading it back costs more than it saves."""


class Spilled(msgspec.Struct, frozen=True, kw_only=True):
    """What spill decided: bytes to store first, then facts."""

    bodies: tuple[bytes, ...]
    facts: tuple[Fact, ...]


def claims(state: State) -> tuple[str, ...]:
    """Return the SHA-256 of the uploads that `spill` has to look into."""
    return tuple(part.sha256 for _, part, _ in _oversized(state) if part.sha256)


def spill(state: State, *, uploads: Mapping[str, str | None], count: Count) -> Spilled | None:
    """Return what moves every oversized part out of the window, and records the repairs; none if there is nothing.

    *uploads* holds the text of each of `claims`, none where it was never uploaded. A result of medium size
    that shortening makes hardly smaller stays as it is, and that is a fact too.
    """
    bodies: list[bytes] = []
    facts: list[Fact] = [*state.unrecorded, *due_facts(state, count=count)]
    declined: dict[int, Fact] = {}
    for entry, part, usable in _oversized(state):
        text = uploads[part.sha256] if part.sha256 else _text(entry, part)
        if text is None:
            facts.append(_missing(entry, part, count))
            continue
        body = text.encode("utf-8", "surrogatepass")
        fact = _fact(entry, part, text=text, body=body, room=_room(state, part, usable), state=state, count=count)
        if _is_medium(state, part, usable) and fact.text_tokens > part.tokens * (1 - GAIN_MIN):
            declined[entry.number] = _declined(entry)
            continue
        facts.append(fact)
        if not part.sha256:
            bodies.append(body)
    facts += declined.values()
    return Spilled(bodies=tuple(bodies), facts=tuple(facts)) if facts else None


def degraded(state: State, *, reason: str, count: Count) -> Spilled | None:
    """Return what `spill` would, but with previews only: for a store that stays down.

    Nothing is lost: an inline part is in the log, and an upload was stored before it was said.
    """
    facts: list[Fact] = [*state.unrecorded, *due_facts(state, count=count)]
    declined: dict[int, Fact] = {}
    for entry, part, usable in _oversized(state):
        text = "" if part.sha256 else _text(entry, part)
        lead = (
            f"[Shortened from {part.bytes:,} bytes; the store was not reachable. "
            f'Read the whole with read_artifact("messages:{entry.number}").]'
        )
        kind = kind_of(text)
        shown = _framed(part, lead, _body(entry, part, text, kind, _room(state, part, usable), state, count))
        tokens = count(shown)
        if _is_medium(state, part, usable) and tokens > part.tokens * (1 - GAIN_MIN):
            declined[entry.number] = _declined(entry)
            continue
        facts.append(
            ToolOutputTrimmed(
                number=entry.number,
                pointer=part.pointer,
                bytes=part.bytes,
                tokens=part.tokens,
                estimated=part.estimated,
                reason=reason,
                text=shown,
                text_tokens=tokens,
            )
        )
    facts += declined.values()
    return Spilled(bodies=(), facts=tuple(facts)) if facts else None


def _oversized(state: State) -> tuple[tuple[Entry, PartSize, int], ...]:
    """Return what has to leave, each with the tokens that are usable when its message is admitted."""
    if state.policy is None:
        return ()
    policy = state.policy
    return tuple((entry, part, usable) for entry, usable in state.coming for part in oversized(entry, policy, usable))


def _is_medium(state: State, part: PartSize, usable: int) -> bool:
    """Tell whether a part may also stay as it is."""
    assert state.policy is not None
    return not part.sha256 and not over_cap(part, state.policy, usable)


def _declined(entry: Entry) -> CompactionDeclined:
    reason = f"shortening wins less than {GAIN_MIN:.0%} of a part"
    return CompactionDeclined(boundary=entry.number, stage="spill", reason=reason)


def _fact(
    entry: Entry, part: PartSize, *, text: str, body: bytes, room: int, state: State, count: Count
) -> ToolOutputSpilled:
    exact = len(body) <= EXACT_BYTES_MAX
    tokens = count(text) if exact else len(body) // ESTIMATE_BYTES_PER_TOKEN
    sha256 = part.sha256 or hashlib.sha256(body).hexdigest()
    readable = part.kind in ("text", "arguments")
    kind = kind_of(text) if readable else "binary"
    named = kind if readable else part.kind
    lead = (
        f"[{'' if exact else 'About '}{tokens:,} tokens of {named} ({len(body):,} bytes, "
        f"{text.count(chr(10)) + 1:,} lines) are kept as an artifact; below is a part. Read more with "
        f'read_artifact("{sha256[:KEY_CHARS]}", lines="1-200") or a pattern; do not guess what is not shown.]'
    )
    shown = _framed(part, lead, _body(entry, part, text, kind, room, state, count) if readable else "")
    return ToolOutputSpilled(
        number=entry.number,
        pointer=part.pointer,
        sha256=sha256,
        bytes=len(body),
        tokens=tokens,
        estimated=not exact,
        kind=named,
        text=shown,
        text_tokens=count(shown),
    )


def _body(entry: Entry, part: PartSize, text: str, kind: Kind, room: int, state: State, count: Count) -> str:
    assert state.policy is not None
    if entry.role == "user":
        return shown_words(text, room=room, most=max(room, part.tokens - POINTER_TOKENS), count=count)
    return shown_result(text, kind, room=room, index=state.policy.spill.index, count=count)


def _missing(entry: Entry, part: PartSize, count: Count) -> ToolOutputTrimmed:
    shown = _framed(part, f"[This part of {part.bytes:,} bytes was announced but never uploaded.]", "")
    return ToolOutputTrimmed(
        number=entry.number,
        pointer=part.pointer,
        bytes=part.bytes,
        tokens=part.tokens,
        estimated=True,
        reason="missing upload",
        text=shown,
        text_tokens=count(shown),
    )


def _room(state: State, part: PartSize, usable: int) -> int:
    """Return the tokens for the part that is shown below a pointer's first line."""
    assert state.policy is not None
    wanted = state.policy.spill
    whole = int(cap_tokens(state.policy, usable) * wanted.preview)
    if _is_medium(state, part, usable):
        whole = min(whole, int(part.tokens * wanted.medium_keep))
    return max(0, whole - POINTER_TOKENS)


def _framed(part: PartSize, lead: str, shown: str) -> str:
    """Return the text that stands in the part's place; a call's arguments stay JSON."""
    text = f"{lead}\n{shown}" if shown else lead
    if part.kind == "arguments":
        return msgspec.json.encode({"spilled": text}).decode()
    return text


def _text(entry: Entry, part: PartSize) -> str:
    return messages.leaf(messages.decode(entry.raw), part.pointer)
