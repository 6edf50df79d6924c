"""Render: messages of any format as one provider takes them. What is legal as it is stays byte for byte.

The pieces come in legal order: calls whole with their results behind them. What is put right here is what differs
between providers: who may speak when, where results stand, and what must not be empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..jsonbytes import encode
from . import chat, messages, responses
from .alternate import alternating
from .neutral import NeutralMessage, Resulted
from .parsed import CHAT, RESPONSES, Profile
from .pieces import Piece

__all__ = ["Piece", "piece", "render"]


def piece(raw: bytes) -> Piece:
    """Return a message as a piece. Raises `BadMessage`."""
    return Piece(raw=raw, native=messages.parse(messages.decode(raw)).native)


def render(pieces: Sequence[Piece], profile: Profile) -> tuple[bytes, ...]:
    """Return the messages of a request; for Anthropic a message of the role system may stand at the head."""
    if profile == CHAT:
        return tuple(_chat(pieces))
    if profile == RESPONSES:
        return tuple(_whole_reasoning(list(_items(pieces))))
    return tuple(alternating(pieces))


def _chat(pieces: Sequence[Piece]) -> list[bytes]:
    if all([CHAT in one.native for one in pieces]):
        return [one.raw for one in pieces]
    out: list[bytes] = []
    foreign: list[Piece] = []
    for one in pieces:
        if CHAT not in one.native:
            foreign.append(one)
            continue
        if foreign:
            out += _converted(foreign)
            foreign = []
        out.append(one.raw)
    return out + _converted(foreign)


def _converted(foreign: Sequence[Piece]) -> list[bytes]:
    """Return messages in a row that are not chat's own as such."""
    neutral: list[NeutralMessage] = []
    answering = False
    for one in foreign:
        message = messages.decode(one.raw)
        said = _read(one, message)
        item = said.role == "assistant" and messages.format_of(message) == RESPONSES
        if item and answering:
            # one answer of the model in several items is one message
            neutral[-1] = NeutralMessage(role="assistant", blocks=(*neutral[-1].blocks, *said.blocks))
        else:
            neutral.append(said)
        answering = item
    return list(map(encode, chat.write(neutral)))


def _read(one: Piece, message: dict[str, Any]) -> NeutralMessage:
    said = messages.read(message)
    results = tuple(block for block in said.blocks if isinstance(block, Resulted))
    return NeutralMessage(role=said.role, blocks=results) if one.between and results else said


def _items(pieces: Sequence[Piece]) -> Iterator[bytes]:
    kinds: dict[str, str] = {}
    for one in pieces:
        if RESPONSES in one.native:
            yield one.raw
            if b"_call" in one.raw or b"mcp_" in one.raw:
                kinds |= _call_kinds(messages.decode(one.raw))
            continue
        for item in responses.write(_read(one, messages.decode(one.raw))):
            kind = kinds.get(item.get("call_id", ""), "function_call")
            plain = item.get("type") != "function_call_output" or kind == "function_call"
            yield encode(item if plain else responses.aborted(kind, item))


def _call_kinds(item: dict[str, Any]) -> dict[str, str]:
    kind = item.get("type")
    return {item[responses.CALLS[kind]]: kind} if kind in responses.CALLS else {}


def _whole_reasoning(items: list[bytes]) -> list[bytes]:
    """Return *items* without reasoning that what it led to does not follow."""
    if not any(b'"reasoning"' in raw for raw in items):
        return items
    out: list[bytes] = []
    follows = False
    for raw in reversed(items):
        item = messages.decode(raw)
        if item.get("type") != "reasoning":
            follows = messages.parse(item).role == "assistant"
        elif not follows:
            continue
        out.append(raw)
    return out[::-1]
