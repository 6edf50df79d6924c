"""Message texts: what a model reads of a message, with who said it: a tool may speak inside a user's message."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

import msgspec
from msgspec.structs import replace

from protocol.facts import Trust
from protocol.formats import messages

from .entry import Entry, result_of, said_by, shown_message
from .text.opened import opened
from .text.recent import Recent
from .text.secrets import without_secrets

READ_CHARS_MAX = 1_000_000
"""Of messages whose texts stay in memory, and as many before them: what two views of the default window hold. A
compaction reads a message up to six times."""

FRAME_CHARS = 200
"""What keeping a text takes beside its characters."""

_TYPED = re.compile(r"/content(?:/\d+(?:/text)?)?")
"""Where a message has what somebody typed."""

_LEAD = re.compile(r"\[(?:About )?[\d,]+ tokens of .+ are kept as an artifact; below is a part\. .+\]")
"""The first line of a pointer, as `actors/spill/labels.py` writes it."""


class MessageText(msgspec.Struct, frozen=True, kw_only=True):
    """One text, or the arguments of one call."""

    number: int
    trust: Trust
    text: str
    instructs: bool = False
    """It is an instruction, and not a user's."""
    call: str = ""
    """Id of the call that it is the arguments or the result of."""
    open: bool = False
    """Its secrets may be repeated."""
    tool: str = ""
    """Name of the tool whose arguments it is; empty for any other text."""
    failed: bool = False
    """It is the result of a call of which its message says that it failed."""
    is_typed: bool = True
    """It is a text, and not that of a document or of something found, which was given with it."""


def texts_of(entries: Iterable[Entry]) -> list[MessageText]:
    """Return the texts of *entries* as they are shown, in order."""
    out: list[MessageText] = []
    for entry in entries:
        out += _read.found(entry, _parts)
    return out


def redacted_texts(entries: Iterable[Entry]) -> list[MessageText]:
    """Return the texts of *entries* as an account may repeat them: with handles for secrets, if no operator shows them.

    A handle takes its place before anything is cut: half a secret has no shape.
    """
    out: list[MessageText] = []
    for entry in entries:
        out += _redacted.found(entry, _safe_parts)
    return out


def opened_text(part: MessageText) -> str:
    """Return the words of a result without envelopes, with handles also for secrets that the envelope had escaped."""
    text = opened(part.text, deep=True)
    return text if part.open or text == part.text else without_secrets(text, part.number)


def without_lead(text: str) -> str:
    """Return the part of a result that a pointer shows, without the line above it, which says what is not shown."""
    lead, _, shown = text.partition("\n")
    return shown if _LEAD.fullmatch(lead) else text


def _safe_parts(entry: Entry) -> tuple[MessageText, ...]:
    return tuple(map(_without_secrets, texts_of((entry,))))


def _without_secrets(part: MessageText) -> MessageText:
    text = part.text if part.open else without_secrets(part.text, part.number)
    return part if text is part.text else replace(part, text=text)


def _chars(parts: tuple[MessageText, ...]) -> int:
    return sum([len(part.text) + FRAME_CHARS for part in parts])


_read: Recent[Entry, tuple[MessageText, ...]] = Recent(READ_CHARS_MAX, weigh=_chars)
_redacted: Recent[Entry, tuple[MessageText, ...]] = Recent(READ_CHARS_MAX, weigh=_chars)


def _parts(entry: Entry) -> tuple[MessageText, ...]:
    parts: list[MessageText] = []
    calls = iter(zip(entry.call_ids, entry.call_names, strict=True))
    message = messages.parse(shown_message(entry))
    failed = frozenset(one.id for one in message.results if one.failed)
    for part in message.parts:
        if part.kind == "arguments":
            call, tool = next(calls, ("", ""))
            arguments = MessageText(
                number=entry.number, trust="assistant", text=part.text, call=call, open=entry.open, tool=tool
            )
            parts.append(arguments)
        elif part.kind == "text":
            parts.append(_said(entry, part, failed))
    return tuple(parts)


def _said(entry: Entry, part: messages.Part, failed: Collection[str]) -> MessageText:
    """Return a text that somebody said, or that a tool returned, of whose calls *failed* are known to."""
    role, result = said_by(entry, part.pointer), result_of(entry, part.pointer)
    return MessageText(
        number=entry.number,
        trust="tool" if role == "tool" else "assistant" if role == "assistant" else "user",
        text=part.text,
        instructs=role in messages.INSTRUCTION_ROLES,
        call=result.call if result else "",
        open=entry.open,
        failed=bool(failed) and result is not None and result.call in failed,
        is_typed=bool(_TYPED.fullmatch(part.pointer)),
    )
