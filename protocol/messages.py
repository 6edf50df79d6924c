"""OpenAI chat messages: kept verbatim as bytes, read through their parts.

A *part* is one string leaf of a message that costs tokens: a text, a call's arguments, an image's URL.
Its *pointer* is a JSON pointer (RFC 6901) into the message. What the agent sent is never re-encoded;
a view that replaces a part builds a new message and leaves the stored one alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal, cast

import msgspec

from .errors import BadMessage
from .limits import MESSAGE_BYTES_MAX, MESSAGE_DEPTH_MAX

Role = Literal["system", "developer", "user", "assistant", "tool"]
ROLES: frozenset[str] = frozenset(("system", "developer", "user", "assistant", "tool"))
INSTRUCTION_ROLES: frozenset[str] = frozenset(("system", "developer"))

PartKind = Literal["text", "arguments", "image", "audio", "file"]

_LEAVES: dict[str, tuple[PartKind, tuple[str, ...]]] = {
    "text": ("text", ("text",)),
    "refusal": ("text", ("refusal",)),
    "image_url": ("image", ("image_url", "url")),
    "input_audio": ("audio", ("input_audio", "data")),
    "file": ("file", ("file", "file_data")),
}
"""Content part type -> what it is and where its string leaf lies (openai 3.52 type list)."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One string leaf: where it is, what it is, and its text."""

    pointer: str
    kind: PartKind
    text: str


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One tool call of an assistant message; its arguments are a part of the message."""

    id: str
    name: str


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """What the rules need to know of one message, beside its verbatim bytes."""

    role: Role
    parts: tuple[Part, ...]
    calls: tuple[Call, ...] = ()
    result_of: str | None = None
    name: str | None = None


def encode(message: Mapping[str, Any]) -> bytes:
    """Return *message* as JSON bytes, keys in the caller's order, surrogates escaped.

    Raises `BadMessage` for values that JSON cannot hold.
    """
    try:
        # the standard library's: msgspec would write NaN as null and bytes as base64, and change what was said
        text = json.dumps(message, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadMessage(f"a message must be made of JSON values: {error}"[:300], at="") from None
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(message, separators=(",", ":")).encode("ascii")


def decode(raw: bytes) -> dict[str, Any]:
    """Return the message that *raw* holds; the inverse of `encode`. Raises `BadMessage`."""
    try:
        value = msgspec.json.decode(raw)
    except (ValueError, UnicodeDecodeError):
        # msgspec refuses the escapes of lone surrogates; the standard library keeps them
        try:
            value = json.loads(raw.decode("utf-8", "surrogatepass"), parse_constant=_no_constant)
        except (ValueError, UnicodeDecodeError, RecursionError) as error:
            raise BadMessage("a message is not JSON", at="", reason=str(error)[:200]) from None
    except RecursionError:
        raise BadMessage("a message is nested too deeply", at="") from None
    if not isinstance(value, dict):
        raise BadMessage(f"a message must be an object, not {type(value).__name__}", at="")
    # what is in strings is counted too: a bound that is cheap, and only where it fails one is exact
    if raw.count(b"{") + raw.count(b"[") > MESSAGE_DEPTH_MAX and _depth(value) > MESSAGE_DEPTH_MAX:
        raise BadMessage("a message is nested too deeply", at="")
    return value


def is_plain(raw: bytes) -> bool:
    """Tell whether every JSON reader takes *raw*: text in UTF-8, no lone surrogates, not even escaped ones."""
    if raw.isascii() and b"\\ud" not in raw and b"\\uD" not in raw:
        return True
    try:
        msgspec.json.decode(raw)
    except (ValueError, UnicodeDecodeError):
        return False
    return True


def without_surrogates(text: str) -> str:
    """Return *text* as UTF-8 can hold it: pairs joined, lone surrogates replaced by U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def parse(message: Mapping[str, Any]) -> Message:
    """Return the parts of an OpenAI chat message; unknown fields are allowed and kept verbatim.

    Raises `BadMessage`, whose field `at` is the JSON pointer of what is wrong.
    """
    role = message.get("role")
    if not isinstance(role, str) or role not in ROLES:
        raise BadMessage(f"role must be one of {', '.join(sorted(ROLES))}, not {role!r:.40}", at="/role")
    calls = _calls(message)
    result_of = message.get("tool_call_id") if role == "tool" else None
    if role == "tool" and not (isinstance(result_of, str) and result_of):
        raise BadMessage("a tool message needs the tool_call_id that it answers", at="/tool_call_id")
    name = message.get("name")
    parts = (*_content_parts(message.get("content"), role), *_argument_parts(message))
    return Message(
        role=cast(Role, role),
        parts=parts,
        calls=calls,
        result_of=result_of,
        name=name if isinstance(name, str) else None,
    )


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

    An image, audio or file part becomes a text part; a string stays a string.
    """
    copy: dict[str, Any] = json_copy(dict(message))
    for pointer, text in texts.items():
        steps = pointer.split("/")[1:]
        if steps[0] == "content" and len(steps) > 2 and steps[2] not in ("text", "refusal"):
            copy["content"][int(steps[1])] = {"type": "text", "text": text}
            continue
        target: Any = copy
        for step in steps[:-1]:
            target = target[int(step)] if isinstance(target, list) else target[step]
        target[steps[-1]] = text
    return copy


def with_leaves(message: Mapping[str, Any], texts: Mapping[str, str]) -> dict[str, Any]:
    """Return a copy of *message* with other strings at the pointers of *texts*; the parts around them stay."""
    copy: dict[str, Any] = json_copy(dict(message))
    for pointer, text in texts.items():
        *path, last = pointer.split("/")[1:]
        target: Any = copy
        for step in path:
            target = target[int(step)] if isinstance(target, list) else target[step]
        target[last] = text
    return copy


def leaf(message: Mapping[str, Any], pointer: str) -> str:
    """Return the string at *pointer*."""
    target: Any = message
    for step in pointer.split("/")[1:]:
        target = target[int(step)] if isinstance(target, list) else target[step]
    assert isinstance(target, str), pointer
    return target


def json_copy(value: Any) -> Any:
    """Return a deep copy of a JSON value (ten times faster than `copy.deepcopy`)."""
    if isinstance(value, dict):
        return {key: json_copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [json_copy(item) for item in value]
    return value


def _content_parts(content: Any, role: str) -> Iterator[Part]:
    if content is None:
        return
    if isinstance(content, str):
        yield Part(pointer="/content", kind="text", text=content)
        return
    if not isinstance(content, list):
        raise BadMessage(f"content must be text or a list of parts, not {type(content).__name__}", at="/content")
    for index, part in enumerate(content):
        at = f"/content/{index}"
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            raise BadMessage("a content part must be an object with a type", at=at)
        if part["type"] not in _LEAVES:
            raise BadMessage(f"content part type {part['type']!r:.40} of role {role} is not known", at=f"{at}/type")
        kind, path = _LEAVES[part["type"]]
        value: Any = part
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        if isinstance(value, str):
            yield Part(pointer=f"{at}/{'/'.join(path)}", kind=kind, text=value)
        elif part["type"] != "file":
            raise BadMessage(f"a part of type {part['type']} needs text at {'.'.join(path)}", at=at)


def _tool_calls(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    calls = message.get("tool_calls")
    if calls is None:
        return []
    if not isinstance(calls, list):
        raise BadMessage(f"tool_calls must be a list, not {type(calls).__name__}", at="/tool_calls")
    return calls


def _calls(message: Mapping[str, Any]) -> tuple[Call, ...]:
    out = []
    for index, call in enumerate(_tool_calls(message)):
        at = f"/tool_calls/{index}"
        if message["role"] != "assistant":
            raise BadMessage("only an assistant message can call tools", at="/tool_calls")
        if not isinstance(call, dict) or not (isinstance(call.get("id"), str) and call["id"]):
            raise BadMessage("a tool call needs a text id", at=f"{at}/id")
        function = call.get("function")
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise BadMessage("a tool call needs function.name", at=f"{at}/function/name")
        if not isinstance(function.get("arguments"), str):
            raise BadMessage("function.arguments must be JSON as text", at=f"{at}/function/arguments")
        out.append(Call(id=call["id"], name=function["name"]))
    return tuple(out)


def _argument_parts(message: Mapping[str, Any]) -> Iterator[Part]:
    for index, call in enumerate(_tool_calls(message)):
        text = call["function"]["arguments"]
        yield Part(pointer=f"/tool_calls/{index}/function/arguments", kind="arguments", text=text)


def _depth(value: Any) -> int:
    """Return how deep *value* is nested, without recursion."""
    depth, level = 0, [value]
    while level:
        depth += 1
        level = [
            item
            for outer in level
            for item in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(item, (dict, list))
        ]
    return depth


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
