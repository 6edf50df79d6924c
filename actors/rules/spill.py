"""Spill: a part too big for the window becomes an artifact and a pointer.

Decides only. The worker stores the bytes before it appends the facts, so that no pointer ever dangles.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec

from protocol import messages
from protocol.facts import MessageRepaired, ToolOutputSpilled, ToolOutputTrimmed

from .entry import ESTIMATE_BYTES_PER_TOKEN, EXACT_BYTES_MAX, Count, Entry, PartSize, cap_tokens, oversized
from .preview import preview
from .state import State

KEY_CHARS = 16
"""Of the SHA-256 in a pointer: 64 bits tell the artifacts of a tenant apart and cost a quarter of the tokens."""

POINTER_TOKENS = 110
"""Bound on a pointer without its preview."""


class Spilled(msgspec.Struct, frozen=True, kw_only=True):
    """What spill decided: bytes to store first, then facts."""

    bodies: tuple[bytes, ...]
    facts: tuple[ToolOutputSpilled | ToolOutputTrimmed | MessageRepaired, ...]


def claims(state: State) -> tuple[str, ...]:
    """Return the SHA-256 of the uploads that `spill` has to look into."""
    return tuple(part.sha256 for _, part, _ in _oversized(state) if part.sha256)


def spill(state: State, *, uploads: Mapping[str, str | None], count: Count) -> Spilled | None:
    """Return what moves every oversized part out of the window, and records the repairs; none if there is nothing.

    *uploads* holds the text of each of `claims`, none where it was never uploaded.
    """
    bodies: list[bytes] = []
    facts: list[ToolOutputSpilled | ToolOutputTrimmed | MessageRepaired] = list(state.unrecorded)
    for entry, part, usable in _oversized(state):
        text = uploads[part.sha256] if part.sha256 else _text(entry, part)
        if text is None:
            facts.append(_missing(entry, part, count))
            continue
        body = text.encode("utf-8", "surrogatepass")
        if not part.sha256:
            bodies.append(body)
        facts.append(_fact(entry, part, text=text, body=body, room=_preview_tokens(state, usable), count=count))
    return Spilled(bodies=tuple(bodies), facts=tuple(facts)) if facts else None


def degraded(state: State, *, reason: str, count: Count) -> Spilled | None:
    """Return what `spill` would, but with previews only: for a store that stays down.

    Nothing is lost: an inline part is in the log, and an upload was stored before it was said.
    """
    facts: list[ToolOutputSpilled | ToolOutputTrimmed | MessageRepaired] = list(state.unrecorded)
    for entry, part, usable in _oversized(state):
        text = "" if part.sha256 else _text(entry, part)
        lead = (
            f"[Shortened from {part.bytes:,} bytes; the store was not reachable. "
            f'Read the whole with read_artifact("messages:{entry.number}").]'
        )
        shown = _framed(part, lead, preview(text, tokens_max=_preview_tokens(state, usable), count=count))
        facts.append(
            ToolOutputTrimmed(
                number=entry.number,
                pointer=part.pointer,
                bytes=part.bytes,
                tokens=part.tokens,
                estimated=part.estimated,
                reason=reason,
                text=shown,
                text_tokens=count(shown),
            )
        )
    return Spilled(bodies=(), facts=tuple(facts)) if facts else None


def kind_of(text: str) -> str:
    """Return what a text looks like: json, diff, trace, html, log or text."""
    start = text[:2000].lstrip()
    if start[:1] in ("{", "[") and _is_json(text):
        return "json"
    if start.startswith(("diff --git ", "--- a/")) or "\n@@ -" in start:
        return "diff"
    if "Traceback (most recent call last):" in start:
        return "trace"
    if start[:15].lower().startswith(("<!doctype html", "<html")):
        return "html"
    return "text"


def _oversized(state: State) -> tuple[tuple[Entry, PartSize, int], ...]:
    """Return what has to leave, each with the tokens that are usable when its message is admitted."""
    if state.policy is None:
        return ()
    policy = state.policy
    return tuple((entry, part, usable) for entry, usable in state.coming for part in oversized(entry, policy, usable))


def _fact(entry: Entry, part: PartSize, *, text: str, body: bytes, room: int, count: Count) -> ToolOutputSpilled:
    exact = len(body) <= EXACT_BYTES_MAX
    tokens = count(text) if exact else len(body) // ESTIMATE_BYTES_PER_TOKEN
    sha256 = part.sha256 or hashlib.sha256(body).hexdigest()
    kind = kind_of(text) if part.kind in ("text", "arguments") else part.kind
    lead = (
        f"[{'' if exact else 'About '}{tokens:,} tokens of {kind} ({len(body):,} bytes, "
        f"{text.count(chr(10)) + 1:,} lines) are kept as an artifact; below is a part. Read more with "
        f'read_artifact("{sha256[:KEY_CHARS]}", lines="1-200") or with a pattern; do not guess what is not shown.]'
    )
    readable = part.kind in ("text", "arguments")
    shown = _framed(part, lead, preview(text, tokens_max=room, count=count) if readable else "")
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


def _preview_tokens(state: State, usable: int) -> int:
    assert state.policy is not None
    whole = int(cap_tokens(state.policy, usable) * state.policy.spill.preview)
    return max(0, whole - POINTER_TOKENS)


def _framed(part: PartSize, lead: str, shown: str) -> str:
    """Return the text that stands in the part's place; a call's arguments stay JSON."""
    text = f"{lead}\n{shown}" if shown else lead
    if part.kind == "arguments":
        return msgspec.json.encode({"spilled": text}).decode()
    return text


def _text(entry: Entry, part: PartSize) -> str:
    return messages.leaf(messages.decode(entry.raw), part.pointer)


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return False
    return True
