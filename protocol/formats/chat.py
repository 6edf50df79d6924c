"""OpenAI chat: one message for each role, calls beside the content, one message for each result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from ..errors import BadMessage
from .neutral import Block, Called, Media, NeutralMessage, Resulted, Text, left_out, media_of, tool_name, url_of
from .parsed import (
    ANTHROPIC,
    CHAT,
    INSTRUCTION_ROLES,
    RESPONSES,
    Call,
    Message,
    Part,
    PartKind,
    Profile,
    Result,
    Role,
    blocks_at,
    opaque,
)

NAME_CHARS_MAX = 64

_LEAVES: dict[str, tuple[PartKind, tuple[str, ...]]] = {
    "text": ("text", ("text",)),
    "refusal": ("text", ("refusal",)),
    "image_url": ("image", ("image_url", "url")),
    "input_audio": ("audio", ("input_audio", "data")),
    "file": ("file", ("file", "file_data")),
}
"""Content part type -> what it is and where its string leaf lies (openai 3.52 type list)."""

TYPES: frozenset[str] = frozenset(_LEAVES)


def parse(message: Mapping[str, Any], role: Role) -> Message:
    """Return the parts of a chat message; unknown fields are allowed and kept verbatim. Raises `BadMessage`."""
    calls = tuple(
        Call(id=call["id"], name=call["function"]["name"], at=f"/tool_calls/{index}/id")
        for index, call in enumerate(_tool_calls(message, role))
    )
    name, refusal = message.get("name"), message.get("refusal")
    refused = (Part(pointer="/refusal", kind="text", text=refusal),) if isinstance(refusal, str) and refusal else ()
    return Message(
        role=role,
        format=CHAT,
        parts=(*_content_parts(message.get("content")), *refused, *_argument_parts(message, role)),
        calls=calls,
        results=(Result(id=_answered(message), at="/tool_call_id"),) if role == "tool" else (),
        name=name if isinstance(name, str) else None,
        fixed=tuple(opaque(part) for _, part in unknown_parts(message)),
        native=_native(message, role),
        beside=tuple(_unread_files(message.get("content"))),
    )


def _answered(message: Mapping[str, Any]) -> str:
    """Return the id of the call that a tool's *message* answers."""
    said = message.get("tool_call_id")
    if not (isinstance(said, str) and said):
        raise BadMessage("a tool message needs the tool_call_id that it answers", at="/tool_call_id")
    return said


def unknown_parts(message: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the content parts of types that this release does not know, each with its pointer."""
    content = message.get("content")
    if isinstance(content, list):
        yield from (one for one in blocks_at(content, at="/content") if one[1]["type"] not in _LEAVES)


def _unread_files(content: Any) -> Iterator[Part]:
    """Yield the files whose bytes are not in the message, as parts that cannot be replaced."""
    for at, part in blocks_at(content, at="/content") if isinstance(content, list) else ():
        if part["type"] == "file" and not isinstance(_leaf(part, _LEAVES["file"][1]), str):
            yield Part(pointer=at, kind="file", text="")


def accepted(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return *message* with what OpenAI refuses in any message put right; the parts stay where they are."""
    out = dict(message)
    if out.get("tool_calls") == []:
        del out["tool_calls"]
    if out.get("content") in (None, []) and not _speechless(out):
        out["content"] = ""
    return out


def read(message: Mapping[str, Any]) -> NeutralMessage:
    """Return a chat message apart from its format."""
    role = cast(Role, message["role"])
    content = tuple(_blocks(message.get("content")))
    if role == "tool":
        told = tuple(block for block in content if isinstance(block, (Text, Media)))
        return NeutralMessage(role=role, blocks=(Resulted(id=message["tool_call_id"], content=told),))
    refusal = message.get("refusal")
    said = (Text(text=refusal),) if isinstance(refusal, str) and refusal and not content else ()
    calls = [
        Called(id=call["id"], name=call["function"]["name"], arguments=call["function"]["arguments"])
        for call in _tool_calls(message, role)
    ]
    return NeutralMessage(role=role, blocks=(*content, *said, *calls))


def write(neutral: Sequence[NeutralMessage]) -> list[dict[str, Any]]:
    """Return *neutral* as chat messages. An assistant without a word or a call is left out."""
    out: list[dict[str, Any]] = []
    for one in neutral:
        results = [block for block in one.blocks if isinstance(block, Resulted)]
        out += [_result(block) for block in results]
        content = [_part(block, one.role) for block in one.blocks if isinstance(block, (Text, Media))]
        calls = [_call(block) for block in one.blocks if isinstance(block, Called)]
        if one.role == "tool" or (results and not content) or (one.role == "assistant" and not content and not calls):
            continue
        message: dict[str, Any] = {"role": one.role, "content": _content(content)}
        if calls:
            message = {"role": one.role, "content": _content(content) if content else None, "tool_calls": calls}
        out.append(message)
    return out


def _native(message: Mapping[str, Any], role: Role) -> tuple[Profile, ...]:
    """Return the profiles that take *message* as it is: a bare text is the same in all three."""
    content = message.get("content")
    if message.get("tool_calls") == [] or (content in (None, []) and not _speechless(message)):
        return ()
    if role in INSTRUCTION_ROLES and not (any(_content_parts(content)) or any(unknown_parts(message))):
        return ()  # a file alone instructs nobody
    if message.keys() != {"role", "content"} or role == "tool":
        return (CHAT,)
    if isinstance(content, str):
        return (CHAT, RESPONSES, ANTHROPIC) if content.strip() and role in ("user", "assistant") else (CHAT, RESPONSES)
    assert isinstance(content, list)
    if next(unknown_parts(message), None) is not None:
        return ()
    keys = {"type", "text", "cache_control", "citations"}
    plain = all(block.get("type") == "text" and block.keys() <= keys and block["text"].strip() for block in content)
    return (CHAT, ANTHROPIC) if plain and role in ("user", "assistant") else (CHAT,)


def _speechless(message: Mapping[str, Any]) -> bool:
    """Tell whether a message may do without content: calls, a refusal or a sound stand in its place."""
    said = any(message.get(key) for key in ("tool_calls", "refusal", "audio", "function_call"))
    return message.get("role") == "assistant" and said and message.get("content") is None


def _content_parts(content: Any) -> Iterator[Part]:
    if content is None:
        return
    if isinstance(content, str):
        yield Part(pointer="/content", kind="text", text=content)
        return
    for at, part in blocks_at(content, at="/content"):
        if part["type"] not in _LEAVES:
            continue
        kind, path = _LEAVES[part["type"]]
        value = _leaf(part, path)
        if isinstance(value, str):
            yield Part(pointer=f"{at}/{'/'.join(path)}", kind=kind, text=value)
        elif part["type"] != "file":
            raise BadMessage(f"a part of type {part['type']} needs text at {'.'.join(path)}", at=at)


def _leaf(part: Any, path: Sequence[str]) -> Any:
    """Return the value at *path* in *part*, None where there is none."""
    for step in path:
        part = part.get(step) if isinstance(part, dict) else None
    return part


def _tool_calls(message: Mapping[str, Any], role: str) -> list[dict[str, Any]]:
    calls = message.get("tool_calls")
    if calls is None:
        return []
    if not isinstance(calls, list):
        raise BadMessage(f"tool_calls must be a list, not {type(calls).__name__}", at="/tool_calls")
    for index, call in enumerate(calls):
        at = f"/tool_calls/{index}"
        if role != "assistant":
            raise BadMessage("only an assistant message can call tools", at="/tool_calls")
        if not isinstance(call, dict) or not (isinstance(call.get("id"), str) and call["id"]):
            raise BadMessage("a tool call needs a text id", at=f"{at}/id")
        function = call.get("function")
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise BadMessage("a tool call needs function.name", at=f"{at}/function/name")
        if not isinstance(function.get("arguments"), str):
            raise BadMessage("function.arguments must be JSON as text", at=f"{at}/function/arguments")
    return calls


def _argument_parts(message: Mapping[str, Any], role: str) -> Iterator[Part]:
    for index, call in enumerate(_tool_calls(message, role)):
        text = call["function"]["arguments"]
        yield Part(pointer=f"/tool_calls/{index}/function/arguments", kind="arguments", text=text)


def _blocks(content: Any) -> Iterator[Text | Media]:
    if isinstance(content, str):
        yield from (Text(text=content),) if content else ()
        return
    for _, part in blocks_at(content or [], at="/content"):
        if part["type"] not in _LEAVES:
            continue
        kind, path = _LEAVES[part["type"]]
        value = _leaf(part, path)
        if kind == "text":
            yield Text(text=value)
        elif kind == "audio":
            yield Media(kind=kind, mime=f"audio/{part['input_audio'].get('format', 'wav')}", data=value)
        else:
            named = part.get("file")
            name = named.get("filename") if isinstance(named, dict) else None
            yield media_of(kind, value or "", name=name if isinstance(name, str) else "")


def _part(block: Block, role: Role) -> dict[str, Any]:
    if isinstance(block, Media):
        url = url_of(block)
        if role == "user" and block.kind == "image" and url:
            return {"type": "image_url", "image_url": {"url": url}}
        if role == "user" and block.kind == "file" and block.data:
            return {"type": "file", "file": {"filename": block.name or "file", "file_data": url}}
        block = left_out(block)
    assert isinstance(block, Text)
    return {"type": "text", "text": block.text}


def _content(parts: list[dict[str, Any]]) -> Any:
    if len(parts) > 1 or (parts and parts[0]["type"] != "text"):
        return parts
    return parts[0]["text"] if parts else ""


def _call(block: Called) -> dict[str, Any]:
    function = {"name": tool_name(block.name, chars_max=NAME_CHARS_MAX), "arguments": block.arguments}
    return {"id": block.id, "type": "function", "function": function}


def _result(block: Resulted) -> dict[str, Any]:
    content = _content([_part(one, "tool") for one in block.content])
    return {"role": "tool", "tool_call_id": block.id, "content": content}
