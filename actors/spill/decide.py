"""Spill: a part too big for the window becomes an artifact and a pointer.

Decides only. The worker stores the bytes before it appends the facts, so that no pointer ever dangles.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec

from actors.core.caps import (
    bytes_cap,
    is_result,
    over_cap,
    oversized,
    part_cap_tokens,
    pointer_room,
    repeats,
    tool_of,
)
from actors.core.entry import ESTIMATE_BYTES_PER_TOKEN, EXACT_BYTES_MAX, IMAGE_TOKENS, Entry, PartSize
from actors.core.hooks import due_facts
from actors.core.state import State
from actors.core.text.count import Count
from actors.core.text.error_text import error_text
from actors.core.text.kinds import Kind, kind_of
from protocol.facts import (
    CompactionDeclined,
    HookFired,
    MessageRepaired,
    ReminderInjected,
    StageFailed,
    ToolOutputSpilled,
    ToolOutputTrimmed,
)
from protocol.formats import messages
from protocol.formats.messages import MEDIA
from protocol.policy import Policy, share_of
from protocol.tools import READ_TOOL

from .labels import lead_media, lead_repeated, lead_stored, lead_unstored, refusal
from .pointer import GAP_TOKENS, ends_of, shown_failure, shown_reading, shown_result, shown_words

GAIN_MIN = 0.1
"""Share of a result that may stay that a pointer must win; for less, reading it back costs more than it saves."""

REPEATED_TOKENS = 120
"""Of a result that is there already: enough to know it again."""

FITTING_TRIES = 3
"""Texts put together may have a few tokens more than their parts."""

OWED_MAX = 8
"""Originals stored behind an outage by one step."""

MISSING_UPLOAD = "missing upload"
"""Why a part was trimmed whose announced upload never came; `verify` knows by it not to look for the upload."""

Fact = (
    ToolOutputSpilled
    | ToolOutputTrimmed
    | MessageRepaired
    | CompactionDeclined
    | HookFired
    | ReminderInjected
    | StageFailed
)


class Spilled(msgspec.Struct, frozen=True, kw_only=True):
    """What spill decided: bytes to store first, then facts."""

    bodies: tuple[bytes, ...]
    facts: tuple[Fact, ...]


class Large(msgspec.Struct, frozen=True, kw_only=True):
    """A part to be looked at, with the limits that hold when its message is admitted."""

    entry: Entry
    part: PartSize
    policy: Policy
    cap: int
    may_stay: bool
    """It may also stay as it is."""


def claims(state: State) -> tuple[str, ...]:
    """Return the SHA-256 of the uploads that `spill` has to look into."""
    return tuple(large.part.sha256 for large in _large(state) if large.part.sha256)


def spill(state: State, *, uploads: Mapping[str, str | None], count: Count) -> Spilled | None:
    """Return what moves every oversized part out of the window, and records the repairs; none if there is nothing.

    *uploads* holds the text of each of `claims`, none where it was never uploaded. A result that may stay and
    that a pointer makes hardly smaller stays as it is, and that is a fact too. What an outage left unstored is
    stored now; the model goes on to see the text that it saw.
    """
    bodies: list[bytes] = []
    facts: list[Fact] = [*state.heard.unrecorded, *due_facts(state, count=count)]
    declined: dict[int, Fact] = {}
    for large in _large(state):
        part = large.part
        text = uploads[part.sha256] if part.sha256 else _text(large.entry, part)
        if text is None:
            facts.append(_missing(part, large.entry.number, count))
            continue
        if _is_reading(large):
            facts.append(_trimmed_reading(large, text, count))
            continue
        body = text.encode("utf-8", "surrogatepass")
        fact = _fact(large, text, body, count)
        if large.may_stay and fact.text_tokens > part.tokens * (1 - GAIN_MIN):
            declined[large.entry.number] = _declined(large.entry)
            continue
        facts.append(fact)
        if not part.sha256:
            bodies.append(body)
    facts += declined.values()
    for original, owed in _owed(state):
        bodies += [original] if original is not None else []
        facts.append(owed)
    return Spilled(bodies=tuple(bodies), facts=tuple(facts)) if facts else None


def degraded(state: State, *, reason: str, count: Count) -> Spilled | None:
    """Return what `spill` would, but with previews only, or refusals: for a store that stays down.

    Nothing is lost: an inline part is in the log, and an upload was stored before it was said.
    """
    facts: list[Fact] = [*state.heard.unrecorded, *due_facts(state, count=count)]
    declined: dict[int, Fact] = {}
    for large in _large(state):
        entry, part = large.entry, large.part
        text = "" if part.sha256 else _text(entry, part)
        if _is_reading(large):
            facts.append(_trimmed_reading(large, text, count))
            continue
        refused = large.policy.spill.on_store_error == "refuse" and is_result(entry, part) and not large.may_stay
        if refused:
            # what a failed call said of its failure is short, and stays
            shown = _framed(part, refusal(bytes=part.bytes, tokens=part.tokens, cap=large.cap), error_text(text))
        else:
            kind = kind_of(text)
            shown = _pointer(large, text, kind, lead_unstored(number=entry.number, bytes=part.bytes), count)
        tokens = count(shown)
        if large.may_stay and tokens > part.tokens * (1 - GAIN_MIN):
            declined[entry.number] = _declined(entry)
            continue
        facts.append(_trimmed(part, entry.number, shown, count, reason=reason, owed=not refused))
    facts += declined.values()
    return Spilled(bodies=(), facts=tuple(facts)) if facts else None


def _large(state: State) -> tuple[Large, ...]:
    """Return what has to leave or may be made smaller."""
    policy = state.policy
    if policy is None:
        return ()
    return tuple(
        Large(
            entry=entry,
            part=part,
            policy=policy,
            cap=part_cap_tokens(entry, part, policy, usable),
            may_stay=not part.sha256 and not over_cap(entry, part, policy, usable),
        )
        for entry, usable in state.coming
        for part in oversized(entry, policy, usable)
    )


def _owed(state: State) -> list[tuple[bytes | None, ToolOutputSpilled]]:
    """Return the originals that an outage left unstored, each with the fact that keeps what is shown of it."""
    found: list[tuple[bytes | None, ToolOutputSpilled]] = []
    for entry in state.entries:
        if all(not one.owed for one in entry.shown):
            continue
        parts = {part.pointer: part for part in entry.parts}
        for one in entry.shown:
            if not one.owed or len(found) >= OWED_MAX:
                continue
            part = parts[one.pointer]
            body = None if part.sha256 else _text(entry, part).encode("utf-8", "surrogatepass")
            fact = ToolOutputSpilled(
                number=entry.number,
                pointer=one.pointer,
                sha256=part.sha256 if body is None else hashlib.sha256(body).hexdigest(),
                bytes=part.bytes,
                tokens=part.tokens,
                estimated=part.estimated,
                kind=part.kind,
                text=one.text,
                text_tokens=one.tokens,
            )
            found.append((body, fact))
    return found


def _is_reading(large: Large) -> bool:
    """Tell an answer of the read tool: what comes from an artifact never becomes another one."""
    return large.part.kind == "text" and tool_of(large.entry, large.part) == READ_TOOL


def _is_words(large: Large) -> bool:
    """Tell what a user said from what a tool returned, or an assistant."""
    return large.part.kind == "text" and large.entry.role == "user" and not is_result(large.entry, large.part)


def _declined(entry: Entry) -> CompactionDeclined:
    reason = f"shortening wins less than {GAIN_MIN:.0%} of a part"
    return CompactionDeclined(boundary=entry.number, stage="spill", reason=reason)


def _fact(large: Large, text: str, body: bytes, count: Count) -> ToolOutputSpilled:
    entry, part = large.entry, large.part
    exact = len(body) <= EXACT_BYTES_MAX
    sha256 = part.sha256 or hashlib.sha256(body).hexdigest()
    if part.kind in MEDIA:
        kind, tokens, exact = str(part.kind), IMAGE_TOKENS, True
        shown = lead_media(text, kind, sha256=sha256, bytes=len(body))
    else:
        found = kind_of(text)
        kind = found
        tokens = count(text) if exact else len(body) // ESTIMATE_BYTES_PER_TOKEN
        if repeats(entry, part, large.policy):
            lead = lead_repeated(kind, number=entry.same_as, sha256=sha256, tokens=tokens)
        else:
            lead = lead_stored(text, kind, sha256=sha256, bytes=len(body), tokens=tokens, exact=exact)
        shown = _pointer(large, text, found, lead, count)
    return ToolOutputSpilled(
        number=entry.number,
        pointer=part.pointer,
        sha256=sha256,
        bytes=len(body),
        tokens=tokens,
        estimated=not exact,
        kind=kind,
        text=shown,
        text_tokens=count(shown),
    )


def _pointer(large: Large, text: str, kind: Kind, lead: str, count: Count) -> str:
    """Return *lead* and below it as much of *text* as there is room for, counted as a whole."""
    part, index = large.part, large.policy.spill.index
    if _is_words(large):
        body = shown_words(text, index=index, count=count)
    elif large.entry.role == "tool" and (said := error_text(text)):
        body = shown_failure(text, said, kind, index=index, count=count)
    else:
        body = shown_result(text, kind, index=index, count=count)
    whole = _whole(large, text, lead, count)
    room = whole - count(lead) - 1
    for _ in range(FITTING_TRIES):
        if room <= 0:
            break
        shown = _framed(part, lead, body(room))
        excess = count(shown) - whole
        if excess <= 0:
            return shown
        room -= excess + 1
    return _framed(part, lead, "")


def _whole(large: Large, text: str, lead: str, count: Count) -> int:
    """Return the tokens for a pointer with what is shown below it; never more than the part has."""
    part, wanted = large.part, large.policy.spill
    most = bytes_cap(large.entry, part, large.policy)
    heavy = part.bytes > most
    # a cap in bytes says little by itself of what a pointer may cost in tokens
    cap = min(large.cap, most // ESTIMATE_BYTES_PER_TOKEN) if heavy else large.cap
    whole = pointer_room(cap, large.policy)
    if large.entry.role == "assistant":
        # the next step mostly follows from it, so that it keeps more than a tool's result
        whole = max(whole, min(cap, share_of(part.tokens, wanted.medium_keep)))
    elif _is_words(large):
        ends = sum(count(messages.without_surrogates(end)) for end in ends_of(text))
        whole = max(whole, count(lead) + ends + GAP_TOKENS + 2)
    if repeats(large.entry, part, large.policy):
        whole = min(whole, REPEATED_TOKENS)
    elif large.may_stay or (heavy and not _is_words(large)):
        whole = min(whole, share_of(part.tokens, wanted.medium_keep))
    return whole if part.sha256 else min(whole, part.tokens)


def _missing(part: PartSize, number: int, count: Count) -> ToolOutputTrimmed:
    shown = _framed(part, f"[This part of {part.bytes:,} bytes was announced but never uploaded.]", "")
    return _trimmed(part, number, shown, count, reason=MISSING_UPLOAD)


def _trimmed_reading(large: Large, text: str, count: Count) -> ToolOutputTrimmed:
    shown = shown_reading(text, room=large.cap, count=count)
    return _trimmed(large.part, large.entry.number, shown, count, reason="an answer of the read tool over its cap")


def _trimmed(
    part: PartSize, number: int, shown: str, count: Count, *, reason: str, owed: bool = False
) -> ToolOutputTrimmed:
    return ToolOutputTrimmed(
        number=number,
        pointer=part.pointer,
        bytes=part.bytes,
        tokens=part.tokens,
        estimated=part.estimated or bool(part.sha256),
        reason=reason,
        text=shown,
        text_tokens=count(shown),
        owed=owed,
    )


def _framed(part: PartSize, lead: str, shown: str) -> str:
    """Return the text that stands in the part's place; a call's arguments stay JSON."""
    text = f"{lead}\n{shown}" if shown else lead
    if part.kind == "arguments":
        return msgspec.json.encode({"spilled": text}).decode()
    return text


def _text(entry: Entry, part: PartSize) -> str:
    return messages.leaf(messages.decode(entry.raw), part.pointer)
