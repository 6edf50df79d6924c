"""Alternate: messages as Anthropic takes them: two roles in turn, the user first, results before anything else.

A message that is legal as it is stays byte for byte; where messages of one role must become one, their blocks do.
What a conversation of Anthropic's says to the model behind others, in the role system, stands where it was said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from ..jsonbytes import decode, encode
from . import anthropic, messages
from .bound_reasoning import Prefixes
from .cache_marks import MARKS_KEPT, MARKS_MAX, marks_in, without_marks
from .neutral import Called, NeutralMessage, Text
from .parsed import ANTHROPIC, INSTRUCTION_ROLES
from .pieces import Piece

FILLER = "[The conversation begins here.]"
"""Said by nobody: a conversation with Anthropic begins with the user."""

FILLER_MESSAGE = encode({"role": "user", "content": [{"type": "text", "text": FILLER}]})

APART = ""
"""Role of what stands between the two roles as it was said, and is joined with nothing."""


class _Said(msgspec.Struct, kw_only=True):
    """Blocks of one role in a row, as JSON; `raw` is the one message that they all are, if they are."""

    role: str
    blocks: list[bytes]
    raw: bytes | None = None
    saw: str | None = None

    @property
    def whole(self) -> bytes:
        return self.raw or b'{"role":"%s","content":[%s]}' % (self.role.encode(), b",".join(self.blocks))


class _Raw(msgspec.Struct):
    content: list[msgspec.Raw]


class _Typed(msgspec.Struct):
    type: str


_RAW, _TYPED = msgspec.json.Decoder(_Raw), msgspec.json.Decoder(_Typed)


def alternating(pieces: Iterable[Piece]) -> Iterator[bytes]:
    """Yield the messages of a request, the instructions at the head as one message of the role system.

    Each of *pieces* is a message without lone surrogates.
    """
    decoded = [(one, decode(one.raw)) for one in pieces]
    head = 0
    while head < len(decoded) and _leads(*decoded[head]):
        head += 1
    system = _system([(one.raw, message) for one, message in decoded[:head]])
    said = _joined(_said(one, message) for one, message in decoded[head:])
    said = _joined(map(_without_loose_ends, said))
    if said and said[0].role != "user":
        said.insert(0, _filler())
    if any(one.saw is not None for one in said):
        said = list(_as_seen(said, system))
    if said and said[-1].role == "assistant":
        _trim_end(said[-1])
        said = [one for one in said if one.blocks]
    if decoded and not said:
        said.insert(0, _filler())
    if sum(marks_in(raw) for one in (*said, *system) for raw in one.blocks) > MARKS_MAX:
        _unmark([*said], MARKS_KEPT)
        _unmark([*system], 1)
    for one in (*system, *said):
        yield one.whole


def _filler() -> _Said:
    return _Said(role="user", blocks=[encode({"type": "text", "text": FILLER})])


def _leads(one: Piece, message: dict[str, Any]) -> bool:
    """Tell whether an instruction is one that is sent apart, and not one that stands where it was said."""
    return message.get("role") in INSTRUCTION_ROLES and ANTHROPIC not in one.native


def _system(pieces: list[tuple[bytes, dict[str, Any]]]) -> list[_Said]:
    """Return the instructions at the head as at most one message."""
    blocks: list[bytes] = []
    for _, message in pieces:
        content = message.get("content")
        if isinstance(content, list) and all(block.get("type") == "text" for block in content):
            blocks += [encode(block) for block in content if block["text"].strip()]
        else:
            texts = tuple(block for block in messages.read(message).blocks if isinstance(block, Text))
            blocks += map(encode, anthropic.write(NeutralMessage(role="system", blocks=texts)))
    if not blocks:
        return []
    raw, message = pieces[0]
    content = message.get("content")
    bare = message["role"] == "system" and message.keys() == {"role", "content"} and len(pieces) == 1
    kinds = [block["type"] for block in content] if isinstance(content, list) else []
    whole = isinstance(content, str) or kinds == ["text"] * len(blocks)
    return [_Said(role="system", blocks=blocks, raw=raw if bare and whole else None)]


def _said(one: Piece, message: dict[str, Any]) -> _Said:
    """Return a message as blocks of one of the two roles; those of its own format byte for byte."""
    content, native = message.get("content"), ANTHROPIC in one.native
    if native and message.get("role") == "system":
        return _Said(role=APART, blocks=[one.raw], raw=one.raw)
    if (native and isinstance(content, list)) or messages.format_of(message) == ANTHROPIC:
        return _own(one, message)
    said = messages.read(message)
    if said.role == "assistant":
        spoken = tuple(block for block in said.blocks if isinstance(block, (Text, Called)))
        said = NeutralMessage(role="assistant", blocks=spoken)
    elif said.role != "tool":
        said = NeutralMessage(role="user", blocks=said.blocks)
    blocks = list(map(encode, anthropic.write(said)))
    role = "assistant" if said.role == "assistant" else "user"
    return _Said(role=role, blocks=blocks, raw=one.raw if native else None)


def _own(one: Piece, message: dict[str, Any]) -> _Said:
    role = message["role"]
    given = [bytes(block) for block in _RAW.decode(one.raw).content]
    blocks: list[bytes] = []
    for block, value in zip(given, message["content"], strict=True):
        if anthropic.acceptable(value, role):
            blocks.append(block)
        elif (other := anthropic.repaired(value, role)) is not None:
            blocks.append(encode(other))
    if role == "system":
        # words of an instruction that cannot stand where it was said
        role, blocks = "user", [block for block in blocks if _type_of(block) == "text"]
    if one.between and role == "user":
        blocks = [block for block in blocks if _type_of(block) != "text"]
    untouched = ANTHROPIC in one.native and blocks == given and bool(blocks)
    if not blocks and role == "user":
        blocks = [encode({"type": "text", "text": anthropic.EMPTY})]
    return _Said(role=role, blocks=blocks, raw=one.raw if untouched else None, saw=one.saw)


def _joined(said: Iterable[_Said]) -> list[_Said]:
    """Return *said* with the roles taking turns, results first in each of the user's."""
    out: list[_Said] = []
    for one in said:
        if one.blocks:
            _join(out, one)
    for one in out:
        ordered = sorted(one.blocks, key=lambda raw: one.role == "user" and _type_of(raw) != "tool_result")
        if ordered != one.blocks:
            one.blocks, one.raw = ordered, None
    return out


def _join(out: list[_Said], one: _Said) -> None:
    """Put *one* behind *out*, into its last where that has the same role."""
    if out and out[-1].role == one.role != APART:
        # what the later one thought, it thought behind half a message
        blocks = one.blocks if one.saw is None else _without_thinking(one.blocks)
        out[-1] = _Said(role=one.role, blocks=[*out[-1].blocks, *blocks], saw=out[-1].saw)
    else:
        out.append(one)


def _as_seen(said: list[_Said], system: list[_Said]) -> list[_Said]:
    """Return *said* without reasoning that was made behind anything else than what stands before it now."""
    out: list[_Said] = []
    prefixes = Prefixes(one.whole for one in system)
    for one in said:
        if one.saw is not None and not prefixes.has(one.saw, (other.whole for other in out[len(prefixes) :])):
            one = _Said(role=one.role, blocks=_without_thinking(one.blocks))
        if not one.blocks:
            continue
        _join(out, one)
        prefixes.back_to(len(out) - 1)
    return _joined(out)


def _without_thinking(blocks: list[bytes]) -> list[bytes]:
    return [block for block in blocks if _type_of(block) not in anthropic.THINKING]


def _without_loose_ends(one: _Said) -> _Said:
    """Return the assistant's blocks without reasoning at the end: nothing came of it, and Anthropic refuses it."""
    blocks = one.blocks
    while one.role == "assistant" and blocks and _type_of(blocks[-1]) in anthropic.THINKING:
        blocks = blocks[:-1]
    return one if len(blocks) == len(one.blocks) else _Said(role=one.role, blocks=blocks, saw=one.saw)


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


def _unmark(said: list[_Said], kept: int) -> None:
    """Take all cache marks but the newest *kept* blocks' away."""
    for one in reversed(said):
        for at in range(len(one.blocks) - 1, -1, -1):
            marks = marks_in(one.blocks[at])
            if marks == 0:
                continue
            if marks <= kept:
                kept -= marks
                continue
            one.blocks[at], one.raw = encode(without_marks(decode(one.blocks[at]))), None


def _type_of(raw: bytes) -> str:
    return _TYPED.decode(raw).type
