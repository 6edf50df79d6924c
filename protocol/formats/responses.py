"""OpenAI Responses: a flat list of items; a call, its result and the reasoning before it are items of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from ..errors import BadMessage
from .neutral import Block, Called, Media, NeutralMessage, Resulted, Text, left_out, media_of, tool_name, url_of
from .parsed import (
    RESPONSES,
    ROLES,
    Call,
    Message,
    Part,
    PartKind,
    Result,
    Role,
    blocks_at,
    id_at,
    opaque,
    text_at,
)

NAME_CHARS_MAX = 64

TYPES: frozenset[str] = frozenset(("input_text", "output_text", "input_image", "input_file"))
"""Content types that tell this format from others."""

CALLS = {
    "function_call": "call_id",
    "custom_tool_call": "call_id",
    "computer_call": "call_id",
    "local_shell_call": "id",
    "shell_call": "call_id",
    "apply_patch_call": "call_id",
    "mcp_approval_request": "id",
}
"""Items that the agent has to answer, and where their id is (openai 3.52 type list)."""

OUTPUTS = {
    "function_call_output": "call_id",
    "custom_tool_call_output": "call_id",
    "computer_call_output": "call_id",
    "local_shell_call_output": "id",
    "shell_call_output": "call_id",
    "apply_patch_call_output": "call_id",
    "mcp_approval_response": "approval_request_id",
}

_ABORTS: dict[str, Mapping[str, Any]] = {
    "computer_call": {"type": "computer_call_output", "output": {"type": "computer_screenshot"}},
    "shell_call": {"type": "shell_call_output", "output": []},
    "apply_patch_call": {"type": "apply_patch_call_output", "status": "failed"},
    "mcp_approval_request": {"type": "mcp_approval_response", "approve": False},
}
"""Call type -> how it is answered where nobody answered it; the others take a text."""

_ANSWERED = {"mcp_approval_response": "mcp_approval_request"}
_FRAME = frozenset(("type", "id", "call_id", "approval_request_id", "status"))
_INSTRUCTING = frozenset(("additional_tools", "configuration_update"))


def parse(item: Mapping[str, Any]) -> Message:
    """Return the parts of one item; types that are not known are kept verbatim. Raises `BadMessage`."""
    kind = item.get("type", "message")
    if not isinstance(kind, str):
        raise BadMessage(f"the type of an item must be text, not {type(kind).__name__}", at="/type")
    if kind == "message" or ("role" in item and kind not in _INSTRUCTING):
        return _message(item)
    if kind in CALLS:
        return _call(item, kind)
    if kind in OUTPUTS:
        return _output(item, kind)
    role: Role = "developer" if kind in _INSTRUCTING else "assistant"
    drawn = item.get("result") if kind == "image_generation_call" else None
    parts = (Part(pointer="/result", kind="image", text=drawn),) if isinstance(drawn, str) else ()
    return Message(role=role, format=RESPONSES, parts=parts, fixed=() if parts else (_rest(item),), native=(RESPONSES,))


def _call(item: Mapping[str, Any], kind: str) -> Message:
    key = CALLS[kind]
    said = id_at(item, key, at="", what="a tool call")
    parts = _call_parts(item, kind)
    name = item["name"] if isinstance(item.get("name"), str) else kind
    return Message(
        role="assistant",
        format=RESPONSES,
        parts=parts,
        calls=(Call(id=said, name=name, at=f"/{key}"),),
        kind=kind,
        fixed=() if parts else (_rest(item),),
        native=(RESPONSES,),
    )


def _output(item: Mapping[str, Any], kind: str) -> Message:
    key = OUTPUTS[kind]
    said = id_at(item, key, at="", what="a result")
    outputs = tuple(_output_parts(item))
    return Message(
        role="tool",
        format=RESPONSES,
        parts=outputs,
        results=(Result(id=said, at=f"/{key}"),),
        kind=_ANSWERED.get(kind, kind.removesuffix("_output")),
        fixed=() if outputs else (_rest(item),),
        native=(RESPONSES,),
        beside=tuple(_unread(item)) if outputs else (),
    )


def read(item: Mapping[str, Any]) -> NeutralMessage:
    """Return an item apart from its format; reasoning and hosted tools stay behind."""
    kind = item.get("type", "message")
    if kind == "message":
        return NeutralMessage(role=cast(Role, item["role"]), blocks=tuple(_told(item.get("content"))))
    if kind in CALLS:
        name = item["name"] if isinstance(item.get("name"), str) else kind
        arguments = next((part.text for part in _call_parts(item, kind)), None)
        called = Called(id=item[CALLS[kind]], name=name, arguments=_rest(item) if arguments is None else arguments)
        return NeutralMessage(role="assistant", blocks=(called,))
    if kind in OUTPUTS:
        outputs = list(_output_parts(item))
        told: tuple[Text | Media, ...] = (Text(text=_rest(item)),)
        if outputs and outputs[0].pointer == "/output/image_url":
            told = (media_of("image", outputs[0].text),)
        elif outputs or item.get("output") == []:
            told = tuple(_told(item["output"]))
        return NeutralMessage(role="tool", blocks=(Resulted(id=item[OUTPUTS[kind]], content=told),))
    return NeutralMessage(role="developer" if kind in _INSTRUCTING else "assistant", blocks=())


def write(message: NeutralMessage) -> list[dict[str, Any]]:
    """Return *message* as items, results first. What says nothing is left out."""
    out: list[dict[str, Any]] = [_result(block) for block in message.blocks if isinstance(block, Resulted)]
    said = [block for block in message.blocks if isinstance(block, (Text, Media))]
    if message.role == "assistant":
        texts = [left_out(block) if isinstance(block, Media) else block for block in said]
        # an item for each text: joined they would cost more than they were counted
        out += [{"role": "assistant", "content": block.text} for block in texts if block.text]
    elif message.role != "tool" and (said or not out):
        out.append({"role": message.role, "content": _content(said, message.role)})
    calls = [block for block in message.blocks if isinstance(block, Called)]
    return out + [
        {
            "type": "function_call",
            "call_id": block.id,
            "name": tool_name(block.name, chars_max=NAME_CHARS_MAX),
            "arguments": block.arguments,
        }
        for block in calls
    ]


def aborted(call_type: str, output: Mapping[str, Any]) -> dict[str, Any]:
    """Return *output*, written for a function, as the answer to an aborted call of another type."""
    answer = _ABORTS.get(call_type, {"type": f"{call_type}_output", "output": output["output"]})
    return {**answer, OUTPUTS[answer["type"]]: output["call_id"]}


def _message(item: Mapping[str, Any]) -> Message:
    role = item.get("role")
    if not isinstance(role, str) or role not in ROLES - {"tool"}:
        raise BadMessage(f"role of an item must be user, assistant, system or developer, not {role!r:.40}", at="/role")
    content = item.get("content")
    parts: list[Part] = []
    fixed: list[str] = []
    if isinstance(content, str):
        parts.append(Part(pointer="/content", kind="text", text=content))
    else:
        for at, block in blocks_at(content, at="/content"):
            part = _part(block, at)
            parts += (part,) if part else ()
            fixed += () if part else (opaque(block),)
    return Message(role=cast(Role, role), format=RESPONSES, parts=tuple(parts), fixed=tuple(fixed), native=(RESPONSES,))


def _part(block: Mapping[str, Any], at: str) -> Part | None:
    kind = block["type"]
    if kind in ("input_text", "output_text", "text"):
        return Part(pointer=f"{at}/text", kind="text", text=text_at(block, "text", at=at))
    if kind == "refusal":
        return Part(pointer=f"{at}/refusal", kind="text", text=text_at(block, "refusal", at=at))
    keys: dict[str, tuple[PartKind, tuple[str, ...]]] = {
        "input_image": ("image", ("image_url", "file_id")),
        "input_file": ("file", ("file_data", "file_url", "file_id")),
    }
    if kind not in keys:
        return None
    media, names = keys[kind]
    key = next((name for name in names if isinstance(block.get(name), str)), None)
    return None if key is None else Part(pointer=f"{at}/{key}", kind=media, text=block[key])


def _call_parts(item: Mapping[str, Any], kind: str) -> tuple[Part, ...]:
    if kind == "custom_tool_call":
        return (Part(pointer="/input", kind="arguments", text=text_at(item, "input", at="/input")),)
    if kind == "function_call":
        text_at(item, "name", at="/name")
        return (Part(pointer="/arguments", kind="arguments", text=text_at(item, "arguments", at="/arguments")),)
    return ()


def _output_parts(item: Mapping[str, Any]) -> Iterator[Part]:
    """Yield the parts that may be replaced in an output; a list of commands may not."""
    output = item.get("output")
    if isinstance(output, str):
        yield Part(pointer="/output", kind="text", text=output)
    elif isinstance(output, dict) and isinstance(output.get("image_url"), str):
        yield Part(pointer="/output/image_url", kind="image", text=output["image_url"])
    elif isinstance(output, list) and item["type"] in ("function_call_output", "custom_tool_call_output"):
        for at, block in blocks_at(output, at="/output"):
            part = _part(block, at)
            if part is not None:
                yield part


def _unread(item: Mapping[str, Any]) -> Iterator[Part]:
    """Yield the blocks of an output that hold no part."""
    output = item.get("output")
    for at, block in blocks_at(output, at="/output") if isinstance(output, list) else ():
        if _part(block, at) is None:
            yield Part(pointer=at, kind="text", text=opaque(block))


def _rest(item: Mapping[str, Any]) -> str:
    """Return the content of an item, without its frame."""
    return opaque({key: item[key] for key in item if key not in _FRAME})


def _told(content: Any) -> Iterator[Text | Media]:
    if isinstance(content, str):
        yield from (Text(text=content),) if content else ()
        return
    for at, block in blocks_at(content, at=""):
        part = _part(block, at)
        if part is None:
            continue
        if part.kind == "text":
            yield from (Text(text=part.text),) if part.text else ()
        elif part.pointer.endswith("file_id"):
            yield Media(kind=part.kind)
        else:
            name = block.get("filename")
            yield media_of(part.kind, part.text, name=name if isinstance(name, str) else "")


def _content(said: list[Text | Media], role: Role) -> Any:
    if len(said) == 1 and isinstance(said[0], Text):
        return said[0].text
    return [_block(block, role) for block in said] or ""


def _block(block: Block, role: Role) -> dict[str, Any]:
    if isinstance(block, Media):
        url = url_of(block)
        if block.kind == "image" and url and role in ("user", "tool"):
            return {"type": "input_image", "image_url": url, "detail": "auto"}
        if block.kind == "file" and block.data and role in ("user", "tool"):
            return {"type": "input_file", "file_data": url, "filename": block.name or "file"}
        block = left_out(block)
    assert isinstance(block, Text)
    return {"type": "input_text", "text": block.text}


def _result(block: Resulted) -> dict[str, Any]:
    output = _content(list(block.content), "tool")
    return {"type": "function_call_output", "call_id": block.id, "output": output}
