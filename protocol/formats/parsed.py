"""Parsed: what the rules know of a message in any format: its role, its parts, its calls and results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args

import msgspec

from ..errors import BadMessage
from ..jsonbytes import encode_value

Profile = Literal["openai-chat", "openai-responses", "anthropic-messages"]
PROFILES: tuple[Profile, ...] = get_args(Profile)
CHAT, RESPONSES, ANTHROPIC = PROFILES

Role = Literal["system", "developer", "user", "assistant", "tool"]
ROLES: frozenset[str] = frozenset(get_args(Role))
INSTRUCTION_ROLES: frozenset[str] = frozenset(("system", "developer"))

PartKind = Literal["text", "arguments", "image", "audio", "file"]
MEDIA: frozenset[PartKind] = frozenset(("image", "audio", "file"))


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One leaf that may be replaced: where it is, what it is, and its text."""

    pointer: str
    kind: PartKind
    text: str


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One tool call; its arguments are a part of the message. `at` points to the id."""

    id: str
    name: str
    at: str


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One result; `id` is that of its call, `at` points to it; `failed` where its message says that the call did."""

    id: str
    at: str
    failed: bool = False


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """What the rules need to know of one message, beside its verbatim bytes.

    A message with results has the role `tool`, or `user` where the user speaks in it too. `fixed` are texts
    that are never changed: reasoning with its signature, and what this version does not know. `native` names the
    profiles that take the message as it is, as long as its neighbours are legal.
    """

    role: Role
    format: Profile
    parts: tuple[Part, ...]
    calls: tuple[Call, ...] = ()
    results: tuple[Result, ...] = ()
    name: str | None = None
    kind: str = ""
    """Where calls are of several kinds: which one it makes or answers."""
    fixed: tuple[str, ...] = ()
    native: tuple[Profile, ...] = ()
    beside: tuple[Part, ...] = ()
    """What costs tokens and is neither: a file that is named by its id, a block of an unknown type inside a result."""


def text_at(value: Mapping[str, Any], key: str, *, at: str) -> str:
    """Return the text under *key*; raises `BadMessage` where there is none."""
    text = value.get(key)
    if not isinstance(text, str):
        raise BadMessage(f"a part of type {value.get('type')!s:.40} needs text at {key}", at=at)
    return text


def id_at(value: Mapping[str, Any], key: str, *, at: str, what: str) -> str:
    """Return the id under *key*; raises `BadMessage` where it is missing or empty."""
    ident = value.get(key)
    if not (isinstance(ident, str) and ident):
        raise BadMessage(f"{what} needs the text {key}", at=f"{at}/{key}")
    return ident


def blocks_at(content: Any, *, at: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each block of a list with its pointer; raises `BadMessage` for what is no block."""
    if not isinstance(content, list):
        raise BadMessage(f"content must be text or a list of parts, not {type(content).__name__}", at=at)
    for index, block in enumerate(content):
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            raise BadMessage("a content part must be an object with a type", at=f"{at}/{index}")
        yield f"{at}/{index}", block


def opaque(value: Any) -> str:
    """Return a value as the text that a provider is assumed to read of it."""
    return value if isinstance(value, str) else encode_value(value).decode("utf-8", "surrogatepass")
