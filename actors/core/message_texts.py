"""Message texts: what a model reads of a message, with who said it: a tool may speak inside a user's message."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from protocol.facts import Trust
from protocol.formats import messages

from .entry import Entry, result_of, said_by, shown_message
from .text.secrets import without_secrets


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


def texts_of(entries: Iterable[Entry]) -> list[MessageText]:
    """Return the texts of *entries* as they are shown, in order."""
    return [one for entry in entries for one in _parts(entry)]


def telling_texts(entries: Iterable[Entry]) -> list[MessageText]:
    """Return the same as an account may repeat them: a handle in the place of each secret, unless an operator says so.

    A handle takes its place before anything is cut: half a secret has no shape.
    """
    found = texts_of(entries)
    return [one if one.open else replace(one, text=without_secrets(one.text, one.number)) for one in found]


def _parts(entry: Entry) -> list[MessageText]:
    parts = []
    calls = iter(zip(entry.call_ids, entry.call_names, strict=True))
    for part in messages.parse(shown_message(entry)).parts:
        if part.kind == "arguments":
            call, tool = next(calls, ("", ""))
            one = MessageText(number=entry.number, trust="assistant", text=part.text, call=call, tool=tool)
            parts.append(replace(one, open=entry.open))
        elif part.kind == "text":
            role = said_by(entry, part.pointer)
            trust: Trust = "tool" if role == "tool" else "assistant" if role == "assistant" else "user"
            result = result_of(entry, part.pointer)
            call = result.call if result else ""
            instructs = role in messages.INSTRUCTION_ROLES
            one = MessageText(number=entry.number, trust=trust, text=part.text, instructs=instructs, call=call)
            parts.append(replace(one, open=entry.open))
    return parts
