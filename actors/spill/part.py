"""Part: what takes the place of one large part: a pointer, a preview without one, or what is left of a reading.

The wording is in `labels.py`, what is shown of a text in `pointer.py`; `decide.py` says of which parts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import msgspec

from actors.core.caps import POINTER_TOKENS, bytes_cap, is_medium, is_result, over_cap, pointer_room, repeats, tool_of
from actors.core.entry import ESTIMATE_BYTES_PER_TOKEN, EXACT_BYTES_MAX, IMAGE_TOKENS, Entry, PartSize
from actors.core.read_tool import is_read_tool
from actors.core.state import State
from actors.core.text.count import Count
from actors.core.text.error_text import error_text
from actors.core.text.kinds import Kind, kind_of
from actors.core.text.opened import opened
from actors.core.text.shorten.by_kind import IN_ORDER, NEWEST, WAYS, Ways
from protocol.facts import ToolOutputSpilled, ToolOutputTrimmed
from protocol.formats import messages
from protocol.formats.messages import MEDIA
from protocol.limits import ENVELOPE_BYTES_MAX
from protocol.policy import Policy, share_of

from .first_items import shown_first
from .labels import lead_media, lead_repeated, lead_stored
from .pointer import GAP_TOKENS, ends_of, shown_failure, shown_reading, shown_result, shown_words

REPEATED_TOKENS = 120
"""Of a result that is there already: enough to know it again."""

SHOWN_BYTES_MAX = 256 * 1024
"""Of one part, in the largest window too: it stands in a commit, and a commit is one frame."""

WORDS_SHARE = 0.4
"""Of its cap: what is shown of somebody's words, where results have it all."""

FITTING_TRIES = 3
"""Texts put together may have a few tokens more than their parts."""

MISSING_UPLOAD = "missing upload"
"""Why a part was trimmed whose announced upload never came; `verify` knows by it not to look for the upload."""

OWED_MAX = 8
"""Originals stored behind an outage by one step."""


class Large(msgspec.Struct, frozen=True, kw_only=True):
    """A part to be looked at, with the limits that hold when its message is admitted."""

    entry: Entry
    part: PartSize
    policy: Policy
    cap: int
    usable: int
    """Tokens that a view may have."""
    may_stay: bool
    """It may also stay as it is."""
    together: tuple[PartSize, ...] = ()
    """All parts that leave with it, itself among them: those of a result that is too large as a whole."""


def is_reading(large: Large) -> bool:
    """Tell an answer of the read tool: what comes from an artifact never becomes another one."""
    return large.part.kind == "text" and is_read_tool(tool_of(large.entry, large.part), large.policy)


def _is_words(large: Large) -> bool:
    """Tell what a user said from what a tool returned, or an assistant."""
    return large.part.kind == "text" and large.entry.role == "user" and not is_result(large.entry, large.part)


def spilled_part(
    large: Large, text: str, body: bytes, count: Count, *, files: Callable[[int, Count], str] | None = None
) -> ToolOutputSpilled:
    """Return the fact of a part that is stored; *files* names within some tokens what is stored beside it."""
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
        if files is not None:
            lead = "\n".join(filter(None, (lead, files(pointer_room(large.cap, large.policy) // 2, count))))
        fits = files is None and _fits(large, tokens, len(body))
        shown = text if fits else pointer_text(large, text, found, lead, count)
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


def _fits(large: Large, tokens: int, size: int) -> bool:
    """Tell an upload that is within its cap, or has none: it was too large for a message, and not for the window."""
    entry, policy = large.entry, large.policy
    if (
        not large.part.sha256
        or large.part.kind != "text"
        or size > ENVELOPE_BYTES_MAX
        or repeats(entry, large.part, policy)
    ):
        return False
    if policy.spill.users == "keep" and _is_words(large):
        return True
    part = msgspec.structs.replace(large.part, tokens=tokens, bytes=size, sha256="")
    return not over_cap(entry, part, policy, large.usable) and not is_medium(entry, part, policy, large.usable)


def _ways(policy: Policy) -> Ways:
    """Return the functions that shorten texts, by their kind."""
    if policy.spill.shown == "in_order":
        return IN_ORDER
    return NEWEST if policy.digest.rules_3 else WAYS


def pointer_text(large: Large, text: str, kind: Kind, lead: str, count: Count) -> str:
    """Return *lead* and below it as much of *text* as there is room for, counted as a whole."""
    part, index = large.part, large.policy.spill.index
    ways = _ways(large.policy)
    whole = _whole(large, text, lead, count)
    if large.policy.digest.rules_3 and is_result(large.entry, part):
        said = opened(text)
        text, kind = said, kind if said is text else kind_of(said)
    if _is_words(large):
        body = shown_words(text, index=index, count=count, ways=ways)
    elif large.entry.role == "tool" and (said := error_text(text)):
        body = shown_failure(text, said, kind, index=index, count=count, ways=ways)
    elif large.policy.spill.shown == "first" and is_result(large.entry, part):
        body = shown_first(text, tool_of(large.entry, part), count=count)
    else:
        body = shown_result(text, kind, index=index, count=count, ways=ways)
    room = whole - count(lead) - 1
    for _ in range(FITTING_TRIES):
        if room <= 0:
            break
        shown = framed(part, lead, body(room))
        size = len(shown.encode("utf-8", "surrogatepass"))
        if size > SHOWN_BYTES_MAX:
            room = room * SHOWN_BYTES_MAX // (size + size // 8)
            continue
        excess = count(shown) - whole
        if excess <= 0:
            return shown
        room -= excess + 1
    return framed(part, lead, "")


def _whole(large: Large, text: str, lead: str, count: Count) -> int:
    """Return the tokens for a pointer with what is shown below it; never more than the part has."""
    part, wanted = large.part, large.policy.spill
    most = bytes_cap(large.entry, part, large.policy)
    heavy = part.bytes > most
    # a cap in bytes says little by itself of what a pointer may cost in tokens
    cap = min(large.cap, most // ESTIMATE_BYTES_PER_TOKEN) if heavy else large.cap
    whole = pointer_room(cap, large.policy)
    if wanted.shown == "first" and _is_words(large):
        # the whole cap is for the first items of results; what somebody said is shown by its ends
        whole = max(POINTER_TOKENS, min(whole, share_of(cap, WORDS_SHARE)))
    if large.entry.role == "assistant":
        # the next step mostly follows from it, so that it keeps more than a tool's result
        whole = max(whole, min(cap, share_of(part.tokens, wanted.medium_keep)))
        if large.policy.digest.rules_3:
            # what is over its cap by little loses little
            whole = max(whole, 2 * cap - part.tokens)
    elif _is_words(large):
        ends = sum(count(messages.without_surrogates(end)) for end in ends_of(text))
        whole = max(whole, count(lead) + ends + GAP_TOKENS + 2)
    if repeats(large.entry, part, large.policy):
        whole = min(whole, REPEATED_TOKENS)
    elif large.may_stay or (heavy and not _is_words(large)):
        whole = min(whole, share_of(part.tokens, wanted.medium_keep))
    return whole if part.sha256 else min(whole, part.tokens)


def missing_part(part: PartSize, number: int, count: Count) -> ToolOutputTrimmed:
    """Return the fact that stands for an upload that never came."""
    shown = framed(part, f"[This part of {part.bytes:,} bytes was announced but never uploaded.]", "")
    return trimmed_part(part, number, shown, count, reason=MISSING_UPLOAD)


def trimmed_reading(large: Large, text: str, count: Count) -> ToolOutputTrimmed:
    """Return the fact that shortens an answer of the read tool."""
    shown = shown_reading(text, room=large.cap, count=count)
    return trimmed_part(large.part, large.entry.number, shown, count, reason="an answer of the read tool over its cap")


def trimmed_part(
    part: PartSize, number: int, shown: str, count: Count, *, reason: str, owed: bool = False
) -> ToolOutputTrimmed:
    """Return the fact that shows *shown* in the part's place, and stores nothing."""
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


def framed(part: PartSize, lead: str, shown: str) -> str:
    """Return the text that stands in the part's place; a call's arguments stay JSON."""
    text = f"{lead}\n{shown}" if shown else lead
    if part.kind == "arguments":
        return msgspec.json.encode({"spilled": text}).decode()
    return text


def text_of(entry: Entry, part: PartSize) -> str:
    """Return the text of *part* as it was said."""
    return messages.leaf(messages.decode(entry.raw), part.pointer)


def owed_parts(state: State) -> list[tuple[bytes | None, ToolOutputSpilled]]:
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
            body = None if part.sha256 else text_of(entry, part).encode("utf-8", "surrogatepass")
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
