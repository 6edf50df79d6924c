"""Alternate: messages as Anthropic takes them: two roles in turn, the user first, results before anything else.

A message that is legal as it is stays byte for byte; where messages of one role must become one, their blocks do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from ..jsonbytes import decode, encode
from . import anthropic, messages
from .neutral import Called, Text, Turn
from .parsed import ANTHROPIC, INSTRUCTION_ROLES, Profile

FILLER = "[The conversation begins here.]"
"""Said by nobody: a conversation with Anthropic begins with the user."""

FILLER_MESSAGE = encode({"role": "user", "content": [{"type": "text", "text": FILLER}]})

CACHE_MARKS_MAX = 4
"""Blocks with `cache_control` in one request to Anthropic."""

CACHE_MARKS_KEPT = 2
"""The newest marks in the messages stay when there are too many: one for the system and one for the tools are left."""


class _Said(msgspec.Struct, kw_only=True):
    """Blocks of one role in a row, as JSON; `raw` is the one message that they all are, if they are."""

    role: str
    blocks: list[bytes]
    raw: bytes | None = None


class _Raw(msgspec.Struct):
    content: list[msgspec.Raw]


class _Typed(msgspec.Struct):
    type: str


def alternating(pieces: Iterable[tuple[bytes, tuple[Profile, ...]]]) -> Iterator[bytes]:
    """Yield the messages of a request, the instructions at the head as one message of the role system.

    Each of *pieces* is a message without lone surrogates and the profiles that take it as it is.
    """
    decoded = [(raw, native, decode(raw)) for raw, native in pieces]
    head = 0
    while head < len(decoded) and decoded[head][2].get("role") in INSTRUCTION_ROLES:
        head += 1
    system = _system([(raw, message) for raw, _, message in decoded[:head]])
    said = _joined(_said(raw, message, ANTHROPIC in native) for raw, native, message in decoded[head:])
    said = _joined(map(_without_loose_ends, said))
    if said and said[-1].role == "assistant":
        _trim_end(said[-1])
        said = [one for one in said if one.blocks]
    if decoded and (not said or said[0].role != "user"):
        said.insert(0, _Said(role="user", blocks=[encode({"type": "text", "text": FILLER})]))
    if sum(_marks(raw) for one in (*said, *system) for raw in one.blocks) > CACHE_MARKS_MAX:
        _unmark([*said], CACHE_MARKS_KEPT)
        _unmark([*system], 1)
    for one in (*system, *said):
        yield one.raw or b'{"role":"%s","content":[%s]}' % (one.role.encode(), b",".join(one.blocks))


def _system(pieces: list[tuple[bytes, dict[str, Any]]]) -> list[_Said]:
    """Return the instructions at the head as at most one message."""
    blocks: list[bytes] = []
    for _, message in pieces:
        content = message.get("content")
        if isinstance(content, list) and all(block.get("type") == "text" for block in content):
            blocks += [encode(block) for block in content if block["text"].strip()]
        else:
            texts = tuple(block for block in messages.read(message).blocks if isinstance(block, Text))
            blocks += map(encode, anthropic.write(Turn(role="system", blocks=texts)))
    if not blocks:
        return []
    raw, message = pieces[0]
    content = message.get("content")
    bare = message["role"] == "system" and message.keys() == {"role", "content"} and len(pieces) == 1
    kinds = [block["type"] for block in content] if isinstance(content, list) else []
    whole = isinstance(content, str) or kinds == ["text"] * len(blocks)
    return [_Said(role="system", blocks=blocks, raw=raw if bare and whole else None)]


def _said(raw: bytes, message: dict[str, Any], native: bool) -> _Said:
    """Return a message as blocks of one of the two roles; those of its own format byte for byte."""
    content = message.get("content")
    if (native and isinstance(content, list)) or messages.format_of(message) == ANTHROPIC:
        return _own(raw, message, native)
    turn = messages.read(message)
    if turn.role == "assistant":
        spoken = tuple(block for block in turn.blocks if isinstance(block, (Text, Called)))
        turn = Turn(role="assistant", blocks=spoken)
    elif turn.role != "tool":
        turn = Turn(role="user", blocks=turn.blocks)
    blocks = list(map(encode, anthropic.write(turn)))
    return _Said(role="assistant" if turn.role == "assistant" else "user", blocks=blocks, raw=raw if native else None)


def _own(raw: bytes, message: dict[str, Any], native: bool) -> _Said:
    role = message["role"]
    given = [bytes(block) for block in msgspec.json.decode(raw, type=_Raw).content]
    blocks: list[bytes] = []
    for block, value in zip(given, message["content"], strict=True):
        if anthropic.acceptable(value, role):
            blocks.append(block)
        elif (other := anthropic.repaired(value, role)) is not None:
            blocks.append(encode(other))
    untouched = native and blocks == given and bool(blocks)
    if not blocks and role == "user":
        blocks = [encode({"type": "text", "text": anthropic.EMPTY})]
    return _Said(role=role, blocks=blocks, raw=raw if untouched else None)


def _joined(said: Iterable[_Said]) -> list[_Said]:
    """Return *said* with the roles taking turns, results first in each of the user's."""
    out: list[_Said] = []
    for one in said:
        if not one.blocks:
            continue
        if out and out[-1].role == one.role:
            out[-1] = _Said(role=one.role, blocks=[*out[-1].blocks, *one.blocks])
        else:
            out.append(one)
    for one in out:
        ordered = sorted(one.blocks, key=lambda raw: one.role == "user" and _type_of(raw) != "tool_result")
        if ordered != one.blocks:
            one.blocks, one.raw = ordered, None
    return out


def _without_loose_ends(one: _Said) -> _Said:
    """Return the assistant's blocks without reasoning at the end: nothing came of it, and Anthropic refuses it."""
    blocks = one.blocks
    while one.role == "assistant" and blocks and _type_of(blocks[-1]) in anthropic.THINKING:
        blocks = blocks[:-1]
    return one if len(blocks) == len(one.blocks) else _Said(role=one.role, blocks=blocks)


def _trim_end(one: _Said) -> None:
    """Take the white space from the end of the last message: a beginning that the model continues must not end so."""
    while one.blocks and _type_of(one.blocks[-1]) in ("text", *anthropic.THINKING):
        block = decode(one.blocks[-1])
        text = block.get("text", "").rstrip()
        if text and text == block["text"]:
            return
        one.raw = None
        del one.blocks[-1]
        if text:
            one.blocks.append(encode(block | {"text": text}))


def _marks(raw: bytes) -> int:
    """Return the number of cache marks in a block, and in the blocks inside it."""
    return sum("cache_control" in block for block in _with_inner(decode(raw))) if b'"cache_control"' in raw else 0


def _unmark(said: list[_Said], kept: int) -> None:
    """Take all cache marks but the newest *kept* blocks' away."""
    for one in reversed(said):
        for at in range(len(one.blocks) - 1, -1, -1):
            marks = _marks(one.blocks[at])
            if marks == 0:
                continue
            if marks <= kept:
                kept -= marks
                continue
            block = decode(one.blocks[at])
            for marked in _with_inner(block):
                marked.pop("cache_control", None)
            one.blocks[at], one.raw = encode(block), None


def _with_inner(block: dict[str, Any]) -> list[dict[str, Any]]:
    inner = block.get("content") if block["type"] == "tool_result" else None
    return [block, *(one for one in inner if isinstance(one, dict))] if isinstance(inner, list) else [block]


def _type_of(raw: bytes) -> str:
    return msgspec.json.decode(raw, type=_Typed).type
