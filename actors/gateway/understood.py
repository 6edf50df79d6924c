"""Understood: whether what a provider says is what its API has there. What is not goes on as it came.

Only what the gateway looks at is told of: fields and kinds of events that nobody here knows are no fault of theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from protocol.errors import BadMessage
from protocol.jsonbytes import decode_value

from .sse import Event

Json = dict[str, Any]
Name = Literal["chat", "messages", "responses"]
Place = Annotated[int, msgspec.Meta(ge=0)]


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _Call(msgspec.Struct):
    index: Place | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct):
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct):
    index: Annotated[int, msgspec.Meta(ge=0, le=0)] | None = None
    delta: _Delta | UnsetType = UNSET
    finish_reason: str | None = None


class _Chunk(msgspec.Struct):
    # of one answer: where several are asked for, nobody reads in them
    choices: Annotated[list[_Choice], msgspec.Meta(max_length=1)] | None = None


class _Typed(msgspec.Struct):
    type: str


class _Block(_Typed):
    name: str | None = None
    citations: list[Any] | None = None


class _BlockDelta(_Typed):
    partial_json: str | UnsetType = UNSET
    text: str | UnsetType = UNSET
    thinking: str | UnsetType = UNSET
    signature: str | UnsetType = UNSET


class _Begun(_Typed):
    message: Json


class _BlockStart(_Typed):
    index: Place
    content_block: _Block


class _BlockDeltaOf(_Typed):
    index: Place
    delta: _BlockDelta


class _BlockStop(_Typed):
    index: Place


class _Stop(msgspec.Struct):
    stop_reason: str | None = None


class _MessageDelta(_Typed):
    delta: _Stop


class _Other(_Typed):
    index: Place | UnsetType = UNSET


class _Item(_Typed):
    name: str | None = None


class _Numbered(_Typed):
    output_index: Place | UnsetType = UNSET
    sequence_number: Place | UnsetType = UNSET


class _PlacedItem(_Numbered, kw_only=True):
    output_index: Place
    item: _Item


class _Response(msgspec.Struct):
    id: str | None = None
    output: list[_Item] | None = None


class _ResponseEvent(_Numbered, kw_only=True):
    response: _Response


_KINDS: Mapping[str, Mapping[str, type[msgspec.Struct]]] = {
    "chat": {},
    "messages": {
        "message_start": _Begun,
        "content_block_start": _BlockStart,
        "content_block_delta": _BlockDeltaOf,
        "content_block_stop": _BlockStop,
        "message_delta": _MessageDelta,
    },
    "responses": {
        **dict.fromkeys(("response.output_item.added", "response.output_item.done"), _PlacedItem),
        **dict.fromkeys((f"response.{one}" for one in ("created", "queued", "in_progress")), _ResponseEvent),
        **dict.fromkeys((f"response.{one}" for one in ("completed", "incomplete", "failed")), _ResponseEvent),
    },
}
_OTHERS: Mapping[str, type[msgspec.Struct]] = {"chat": _Chunk, "messages": _Other, "responses": _Numbered}


class _WholeChoice(msgspec.Struct):
    message: _Delta | UnsetType = UNSET


class _WholeChat(msgspec.Struct):
    choices: list[_WholeChoice] | None = None


class _WholeMessage(msgspec.Struct):
    content: list[_Block] | None = None


_WHOLE: Mapping[str, type[msgspec.Struct]] = {"chat": _WholeChat, "messages": _WholeMessage, "responses": _Response}


def event_understood(api: Name, event: Event) -> tuple[Json, str]:
    """Return the object that an event tells, and why it is not understood, in words that quote nothing of it.

    The object is empty where there is none; a comment, and the end of chat's streams, have none to tell.
    """
    if not event.data or event.is_done:
        return {}, ""
    data, why = _object(event.data)
    kind = data.get("type")
    known = _KINDS[api].get(kind) if isinstance(kind, str) else None
    if why or not (why := _misfit(data, known or _OTHERS[api])):
        return data, why
    return data, f"{kind}: {why}" if known else why


def answer_understood(api: Name, raw: bytes) -> tuple[Json, str]:
    """Return the object that is a whole answer, and why it is not understood."""
    data, why = _object(raw)
    return data, why or _misfit(data, _WHOLE[api])


def _object(raw: bytes) -> tuple[Json, str]:
    try:
        data = decode_value(raw)
    except BadMessage:
        return {}, "it is no JSON"
    return (data, "") if isinstance(data, dict) else ({}, "it is no object")


def _misfit(data: Json, shape: type[msgspec.Struct]) -> str:
    try:
        msgspec.convert(data, shape)
    except msgspec.ValidationError as error:
        # it names types and known fields, never a value
        return str(error)
    except UnicodeEncodeError:
        return "a name in it is no text"
    return ""
