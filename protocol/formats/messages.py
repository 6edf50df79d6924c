"""Messages: kept verbatim as bytes, read through their parts, in any of the three formats.

A *part* is one leaf of a message that may be replaced: a text, a call's arguments, an image's URL. Its *pointer* is
a JSON pointer (RFC 6901) into the message. What the agent sent is never re-encoded; a view that replaces a part builds
a new message and leaves the stored one alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from ..errors import BadMessage
from ..jsonbytes import decode, decode_told, encode, is_plain, json_copy, without_surrogates
from ..limits import MESSAGE_BYTES_MAX
from . import anthropic, chat, responses
from .neutral import NeutralMessage, as_arguments, as_object
from .parsed import (
    ANTHROPIC,
    CHAT,
    INSTRUCTION_ROLES,
    MEDIA,
    PROFILES,
    RESPONSES,
    ROLES,
    Call,
    Message,
    Part,
    PartKind,
    Profile,
    Result,
    Role,
)

__all__ = [
    "ANTHROPIC",
    "CHAT",
    "INSTRUCTION_ROLES",
    "MEDIA",
    "PROFILES",
    "RESPONSES",
    "ROLES",
    "Call",
    "Message",
    "Part",
    "PartKind",
    "Profile",
    "Result",
    "Role",
    "check_known",
    "check_size",
    "decode",
    "decode_told",
    "encode",
    "format_of",
    "is_plain",
    "json_copy",
    "leaf",
    "parse",
    "read",
    "replaced",
    "takes",
    "with_leaves",
    "without_blocks",
    "without_surrogates",
]

_ITEM_TYPE = re.compile(r"reasoning|compaction|program|message|[a-z0-9]+(_[a-z0-9]+)+", re.ASCII)
"""Of an item of the Responses format; one that is not known yet is admitted, a word alone is somebody else's."""

_INPUT = re.compile(r"/content/\d+/input", re.ASCII)
"""Points to arguments that are an object and not its text."""


def format_of(message: Mapping[str, Any]) -> Profile:
    """Return the format of *message*, told by its shape; a bare text, the same in all, counts as OpenAI chat."""
    kind, content = message.get("type"), message.get("content")
    if isinstance(kind, str) and "role" not in message and _ITEM_TYPE.fullmatch(kind):
        return RESPONSES
    types = [block.get("type") for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    own = [kind for kind in types if isinstance(kind, str)]
    if any(map(anthropic.is_own, own)):
        return ANTHROPIC
    if not responses.TYPES.isdisjoint(own) or kind in ("additional_tools", "configuration_update"):
        return RESPONSES
    if kind != "message":
        return CHAT
    # an answer of Anthropic's has this type too
    return ANTHROPIC if "stop_reason" in message or "text" in own else RESPONSES


def parse(message: Mapping[str, Any]) -> Message:
    """Return the parts of a message; unknown fields are allowed and kept verbatim.

    Raises `BadMessage`, whose field `at` is the JSON pointer of what is wrong.
    """
    found = format_of(message)
    if found == RESPONSES:
        return responses.parse(message)
    role = message.get("role")
    if not isinstance(role, str) or role not in ROLES:
        raise BadMessage(f"role must be one of {', '.join(sorted(ROLES))}, not {role!r:.40}", at="/role")
    own = anthropic.parse if found == ANTHROPIC else chat.parse
    return own(message, cast(Role, role))


def check_known(message: Mapping[str, Any], found: Profile | None = None) -> None:
    """Raise `BadMessage` for what only the API knows that it was written for: its conversation declares none.

    *found* is the format of *message* where that is known.
    """
    found, role = found or format_of(message), message.get("role")
    if found == ANTHROPIC and role not in ("user", "assistant"):
        raise BadMessage(f"a message of role {role} cannot hold such blocks", at="/role")
    unknown = next(chat.unknown_parts(message), None) if found == CHAT else None
    if unknown is not None:
        at, part = unknown
        raise BadMessage(f"content part type {part['type']!r:.40} of role {role} is not known", at=f"{at}/type")


def takes(profile: str, message: Mapping[str, Any]) -> bool:
    """Tell whether *profile* is sent *message* as it is because its conversation declares that format.

    What is told of it by its shape alone is in `Message.native`.
    """
    found, content = format_of(message), message.get("content")
    blocks = content if isinstance(content, list) else []
    types = {str(block.get("type")) for block in blocks if isinstance(block, dict)}
    if profile == CHAT:
        return found == CHAT and not types <= chat.TYPES and message.get("tool_calls") != []
    if profile != ANTHROPIC or "role" not in message:
        return False
    if not types.isdisjoint(anthropic.OTHERS):
        return False
    if message["role"] == "system":
        return anthropic.instructs(message)
    bare = message.keys() == {"role", "content"} and message["role"] in ("user", "assistant")
    return found == CHAT and bare and not types <= {"text"}


def read(message: Mapping[str, Any]) -> NeutralMessage:
    """Return the content of a message, apart from its format; it must be one that `parse` takes."""
    formats: Mapping[Profile, Any] = {CHAT: chat, RESPONSES: responses, ANTHROPIC: anthropic}
    said: NeutralMessage = formats[format_of(message)].read(message)
    return said


def check_size(raw: bytes) -> None:
    """Raise `BadMessage` for a message that no model can be meant to read."""
    if len(raw) > MESSAGE_BYTES_MAX:
        raise BadMessage(
            f"a message of {len(raw):,} bytes is over the limit of {MESSAGE_BYTES_MAX:,}; send a reference",
            at="",
            bytes=len(raw),
        )


def replaced(message: Mapping[str, Any], texts: Mapping[str, str]) -> dict[str, Any]:
    """Return a copy of *message* with the parts at the pointers of *texts* replaced.

    A block with an image, a sound or a file becomes a text block; a string stays a string; an image that is no
    block leaves.
    """
    media = {part.pointer for part in parse(message).parts if part.kind in MEDIA} & texts.keys()
    copy = with_leaves(message, {pointer: text for pointer, text in texts.items() if pointer not in media})
    for pointer in media:
        steps, place = _block_at(pointer)
        if place < 0:
            # a screenshot stands alone, where no text may
            del _target(copy, steps[:-1])[steps[-1]]
            continue
        block = _target(copy, steps[: place + 1])
        words = "input_text" if block["type"] in responses.TYPES else "text"
        _target(copy, steps[:place])[int(steps[place])] = {"type": words, "text": texts[pointer]}
    return copy


def _block_at(pointer: str) -> tuple[list[str], int]:
    """Return the steps of *pointer* and which of them is its block's number; -1 where it is in none."""
    steps = pointer.split("/")[1:]
    return steps, max((index for index, step in enumerate(steps) if step.isdigit()), default=-1)


def without_blocks(message: dict[str, Any], pointers: Iterable[str]) -> dict[str, Any]:
    """Return *message*, changed in place, without the blocks of the parts at *pointers*; what is no block stays."""
    blocks: set[tuple[str, ...]] = set()
    for pointer in pointers:
        steps, place = _block_at(pointer)
        if place >= 0:
            blocks.add(tuple(steps[: place + 1]))
    # from behind, so that the places of the others stay theirs
    for *path, last in sorted(blocks, key=lambda steps: [int(one) if one.isdigit() else -1 for one in steps])[::-1]:
        del _target(message, path)[int(last)]
    return message


def with_leaves(message: Mapping[str, Any], texts: Mapping[str, str]) -> dict[str, Any]:
    """Return a copy of *message* with other texts at the pointers of *texts*; the parts around them stay."""
    copy: dict[str, Any] = json_copy(dict(message))
    for pointer, text in texts.items():
        *path, last = pointer.split("/")[1:]
        _target(copy, path)[last] = as_object(text) if _INPUT.fullmatch(pointer) else text
    return copy


def leaf(message: Mapping[str, Any], pointer: str) -> str:
    """Return the text at *pointer*; of arguments that are an object, their JSON."""
    target = _target(message, pointer.split("/")[1:])
    if _INPUT.fullmatch(pointer):
        return as_arguments(target)
    assert isinstance(target, str), pointer
    return target


def _target(value: Any, steps: list[str]) -> Any:
    for step in steps:
        value = value[int(step)] if isinstance(value, list) else value[step]
    return value
