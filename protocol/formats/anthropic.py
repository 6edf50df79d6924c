"""Anthropic Messages: two roles, everything is a block, results stand in the user's next message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import BadMessage
from . import chat, responses
from .neutral import (
    Block,
    Called,
    Media,
    NeutralMessage,
    Resulted,
    Text,
    as_arguments,
    as_object,
    ident,
    left_out,
    media_of,
    tool_name,
)
from .parsed import ANTHROPIC, Call, Message, Part, PartKind, Result, Role, blocks_at, id_at, opaque, text_at

THINKING = ("thinking", "redacted_thinking")
ID_CHARS_MAX = 64
NAME_CHARS_MAX = 128
IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
EMPTY = "[empty]"
"""Stands for what a user said without a word: a message must have content."""

TYPES: frozenset[str] = frozenset(
    (
        *THINKING,
        *("image", "document", "search_result", "tool_use", "tool_result", "server_tool_use", "container_upload"),
        *("mcp_tool_use", "mcp_tool_result", "compaction"),
    )
)
"""Block types that tell this format from others; `text` does not (anthropic 2.11 type list, and the beta's)."""

OTHERS = (chat.TYPES | responses.TYPES) - {"text"}
"""Block types that belong to another provider: Anthropic takes them nowhere."""


def is_own(block_type: str) -> bool:
    """Tell whether a block of this type is found in this format only."""
    return block_type in TYPES or block_type.endswith("_tool_result")


def parse(message: Mapping[str, Any], role: Role) -> Message:
    """Return the parts of an Anthropic message; unknown blocks are kept verbatim. Raises `BadMessage`."""
    if role not in ("user", "assistant", "system"):
        raise BadMessage(f"a message of role {role} cannot hold such blocks", at="/role")
    parts: list[Part] = []
    calls: list[Call] = []
    results: list[Result] = []
    fixed: list[str] = []
    beside: list[Part] = []
    spoken = False
    for at, block in blocks_at(message.get("content"), at="/content"):
        inside = list(_parts(block, at))
        found = [part for part in inside if part.pointer]
        parts += found
        beside += [part for part in inside if not part.pointer]
        spoken = spoken or (block["type"] != "tool_result" and any(part.text.strip() for part in found))
        if block["type"] == "tool_use":
            _check_role(role, "assistant", "only an assistant message can call tools", at)
            name = text_at(block, "name", at=f"{at}/name")
            calls.append(Call(id=id_at(block, "id", at=at, what="a tool call"), name=name, at=f"{at}/id"))
        elif block["type"] == "tool_result":
            _check_role(role, "user", "a tool's result stands in a user message", at)
            said = id_at(block, "tool_use_id", at=at, what="a result")
            failed = block.get("is_error") is True
            results.append(Result(id=said, at=f"{at}/tool_use_id", failed=failed))
        elif not found:
            fixed.append(_fixed(block))
        else:
            fixed += [block[key] for key in ("title", "context", "source") if isinstance(block.get(key), str)]
    return Message(
        role="tool" if results and not spoken else role,
        format=ANTHROPIC,
        parts=tuple(parts),
        calls=tuple(calls),
        results=tuple(results),
        fixed=tuple(fixed),
        native=(ANTHROPIC,) if message.keys() == {"role", "content"} and role != "system" else (),
        beside=tuple(beside),
    )


def acceptable(block: Mapping[str, Any], role: str) -> bool:
    """Tell whether Anthropic takes *block* as it is; what it does not is put right by `repaired`, or left out."""
    kind = block["type"]
    if kind in OTHERS:
        return False
    if kind == "text":
        return bool(block["text"].strip())
    if kind == "thinking":
        signed = isinstance(block.get("signature"), str) and block["signature"] and role == "assistant"
        return bool(signed) and isinstance(block.get("thinking"), str)
    if kind == "redacted_thinking":
        return role == "assistant" and isinstance(block.get("data"), str)
    if kind == "tool_use":
        return isinstance(block.get("input"), dict) and _good_id(block["id"]) and _good_name(block["name"])
    if kind == "tool_result":
        inner = block.get("content")
        listed = inner if isinstance(inner, list) else []
        return _good_id(block["tool_use_id"]) and all(acceptable(one, role) for one in listed)
    return True


def instructs(message: Mapping[str, Any]) -> bool:
    """Tell whether Anthropic takes *message*, of the role system, as it is behind others."""
    content = message.get("content")
    if isinstance(content, list) and content:
        return all(isinstance(block, dict) and acceptable(block, "system") for block in content)
    if isinstance(content, str) and content.strip():
        return True
    # it may say nothing and only change how the model answers
    return content in (None, "", []) and bool(message.get("output_config"))


def repaired(block: Mapping[str, Any], role: str) -> dict[str, Any] | None:
    """Return *block* as Anthropic takes it, None if it has to go as a whole."""
    if acceptable(block, role):
        return dict(block)
    if block["type"] == "tool_use":
        said = block.get("input")
        given = said if isinstance(said, dict) else {"arguments": said}
        return {
            **block,
            "id": ident(block["id"], chars_max=ID_CHARS_MAX),
            "name": tool_name(block["name"], chars_max=NAME_CHARS_MAX),
            "input": given,
        }
    if block["type"] == "tool_result":
        out = {**block, "tool_use_id": ident(block["tool_use_id"], chars_max=ID_CHARS_MAX)}
        if isinstance(block.get("content"), list):
            out["content"] = [one for one in block["content"] if acceptable(one, role)]
        return out
    return None


def read(message: Mapping[str, Any]) -> NeutralMessage:
    """Return an Anthropic message apart from its format; reasoning and server tools stay behind."""
    blocks = tuple(block for _, raw in blocks_at(message["content"], at="/content") for block in _read(raw))
    return NeutralMessage(role=message["role"], blocks=blocks)


def write(message: NeutralMessage) -> list[dict[str, Any]]:
    """Return the blocks of *message*, results first; without a word or a call, none for the assistant."""
    out = [_result(block) for block in message.blocks if isinstance(block, Resulted)]
    out += [one for block in message.blocks if isinstance(block, (Text, Media)) for one in _content(block)]
    out += [_call(block) for block in message.blocks if isinstance(block, Called)]
    if not out and message.role == "user":
        return [{"type": "text", "text": EMPTY}]
    return out


def _check_role(role: str, wanted: str, why: str, at: str) -> None:
    if role != wanted:
        raise BadMessage(why, at=f"{at}/type")


def _good_id(said: str) -> bool:
    return ident(said, chars_max=ID_CHARS_MAX) == said


def _good_name(said: str) -> bool:
    return tool_name(said, chars_max=NAME_CHARS_MAX) == said


def _fixed(block: Mapping[str, Any]) -> str:
    if block["type"] == "thinking":
        return f"{opaque(block.get('thinking'))}\n{opaque(block.get('signature'))}"
    return opaque(block)


def _parts(block: Mapping[str, Any], at: str) -> Iterator[Part]:
    """Yield the parts that may be replaced in a block, and without a pointer what else it shows."""
    kind = block["type"]
    if kind == "text":
        yield Part(pointer=f"{at}/text", kind="text", text=text_at(block, "text", at=at))
    elif kind == "tool_use":
        yield Part(pointer=f"{at}/input", kind="arguments", text=as_arguments(block.get("input")))
    elif kind in ("image", "document"):
        yield from _source(block, at)
    elif kind in ("tool_result", "search_result"):
        yield from _nested(block.get("content"), f"{at}/content")


def _nested(content: Any, at: str) -> Iterator[Part]:
    if isinstance(content, str):
        yield Part(pointer=at, kind="text", text=content)
    elif content is not None:
        for inner_at, inner in blocks_at(content, at=at):
            found = list(_parts(inner, inner_at))
            yield from found or [Part(pointer="", kind="text", text=opaque(inner))]


def _source(block: Mapping[str, Any], at: str) -> Iterator[Part]:
    source = block.get("source")
    if not isinstance(source, dict):
        raise BadMessage(f"a block of type {block['type']} needs a source", at=f"{at}/source")
    if source.get("type") == "content":
        yield from _nested(source.get("content"), f"{at}/source/content")
        return
    key = next((key for key in ("data", "url", "file_id") if isinstance(source.get(key), str)), None)
    kind: PartKind = "image" if block["type"] == "image" else "file"
    if key is None:
        yield Part(pointer="", kind=kind, text="")
    else:
        kind = "text" if kind == "file" and source.get("type") == "text" else kind
        yield Part(pointer=f"{at}/source/{key}", kind=kind, text=source[key])


def _read(block: Mapping[str, Any]) -> Iterator[Block]:
    kind = block["type"]
    if kind == "text" and block["text"]:
        yield Text(text=block["text"])
    elif kind == "tool_use":
        yield Called(id=block["id"], name=block["name"], arguments=as_arguments(block.get("input")))
    elif kind == "tool_result":
        told = tuple(_told(block.get("content")))
        yield Resulted(id=block["tool_use_id"], content=told, error=block.get("is_error") is True)
    elif kind in ("image", "document", "search_result"):
        yield from _told([block])


def _told(content: Any) -> Iterator[Text | Media]:
    """Yield the words and media of a nested content."""
    if isinstance(content, str):
        yield from (Text(text=content),) if content else ()
        return
    for _, block in blocks_at(content or [], at=""):
        kind, source = block["type"], block.get("source")
        if kind == "text" and block["text"]:
            yield Text(text=block["text"])
        elif kind == "search_result":
            yield from _told(block.get("content"))
        elif kind in ("image", "document") and isinstance(source, dict):
            yield from _shown(kind, source, block)


def _shown(kind: str, source: Mapping[str, Any], block: Mapping[str, Any]) -> Iterator[Text | Media]:
    data, url, mime = source.get("data"), source.get("url"), source.get("media_type")
    if source.get("type") == "content":
        yield from _told(source.get("content"))
    elif source.get("type") == "text" and isinstance(data, str):
        yield from (Text(text=data),) if data else ()
    else:
        title = block.get("title")
        name = title if isinstance(title, str) else ""
        media_kind: PartKind = "image" if kind == "image" else "file"
        if isinstance(data, str):
            mime = mime if isinstance(mime, str) else "application/octet-stream"
            yield Media(kind=media_kind, mime=mime, data=data, name=name)
        else:
            yield media_of(media_kind, url if isinstance(url, str) else "", name=name)


def _content(block: Text | Media) -> Iterator[dict[str, Any]]:
    """Yield a word or a picture as a block; a blank text is no block."""
    if isinstance(block, Media):
        source: dict[str, Any] | None = None
        wanted = IMAGE_TYPES if block.kind == "image" else ("application/pdf",)
        if block.data and block.mime in wanted:
            source = {"type": "base64", "media_type": block.mime, "data": block.data}
        elif block.url and not block.url.startswith("data:"):
            source = {"type": "url", "url": block.url}
        if source is not None and block.kind in ("image", "file"):
            yield {"type": "image" if block.kind == "image" else "document", "source": source}
            return
        block = left_out(block)
    if block.text.strip():
        yield {"type": "text", "text": block.text}


def _call(block: Called) -> dict[str, Any]:
    said = ident(block.id, chars_max=ID_CHARS_MAX)
    return {
        "type": "tool_use",
        "id": said,
        "name": tool_name(block.name, chars_max=NAME_CHARS_MAX),
        "input": as_object(block.arguments),
    }


def _result(block: Resulted) -> dict[str, Any]:
    content = [one for told in block.content for one in _content(told)]
    out: dict[str, Any] = {"type": "tool_result", "tool_use_id": ident(block.id, chars_max=ID_CHARS_MAX)}
    out["content"] = content[0]["text"] if len(content) == 1 and content[0]["type"] == "text" else content
    return out | ({"is_error": True} if block.error else {})
