"""Neutral: what was said, apart from any format; the middle of every conversion.

Reasoning and what only one provider knows is not in it: another provider could not read it.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

import msgspec

from .. import jsonbytes
from ..errors import BadMessage
from ..ids import PLAIN_LETTERS
from ..limits import MESSAGE_DEPTH_MAX
from .parsed import PartKind, Role

LEFT_OUT = "[{} left out: it cannot be sent to this provider]"

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)(?:;[\w=.+-]+)*;base64,", re.ASCII)
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9_-]", re.ASCII)


class Text(msgspec.Struct, frozen=True, kw_only=True):
    """Words."""

    text: str


class Media(msgspec.Struct, frozen=True, kw_only=True):
    """An image, a sound or a file: inline as `data` of the type `mime`, or named by `url`."""

    kind: PartKind
    mime: str = ""
    data: str = ""
    url: str = ""
    name: str = ""


class Called(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call; the arguments are JSON as text, if the model wrote JSON."""

    id: str
    name: str
    arguments: str


class Resulted(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool answered."""

    id: str
    content: tuple[Text | Media, ...]
    error: bool = False


Block = Text | Media | Called | Resulted


class NeutralMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message, apart from any format."""

    role: Role
    blocks: tuple[Block, ...]


def media_of(kind: PartKind, url: str, *, name: str = "") -> Media:
    """Return the media that a URL shows; the bytes of a `data:` URL are taken out of it."""
    found = _DATA_URL.match(url)
    if found is None:
        return Media(kind=kind, url=url, name=name)
    return Media(kind=kind, mime=found[1], data=url[found.end() :], name=name)


def url_of(media: Media) -> str:
    """Return the URL that shows *media*."""
    return f"data:{media.mime};base64,{media.data}" if media.data else media.url


def left_out(media: Media) -> Text:
    """Return the words in the place of what a provider does not take."""
    return Text(text=LEFT_OUT.format(media.kind))


def ident(said: str, *, chars_max: int) -> str:
    """Return a call's id as Anthropic takes it: the same one for its call and its result."""
    if len(said) <= chars_max and PLAIN_LETTERS.fullmatch(said):
        return said
    return "call_" + hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def tool_name(said: str, *, chars_max: int) -> str:
    """Return a tool's name as a provider takes it."""
    return _NOT_IN_NAME.sub("_", said)[:chars_max] or "tool"


def as_object(arguments: str) -> dict[str, Any]:
    """Return a call's arguments as an object; what is none is shown inside one."""
    try:
        value = jsonbytes.decode(arguments.encode("utf-8", "surrogatepass")) if arguments.strip() else {}
    except BadMessage:
        return {"arguments": arguments}
    # the message around it is deeper, and must still be readable
    return value if jsonbytes.depth(value) <= MESSAGE_DEPTH_MAX - 8 else {"arguments": arguments}


def as_arguments(value: Any) -> str:
    """Return a call's input as the text of its JSON."""
    return jsonbytes.encode_value(value).decode("utf-8", "surrogatepass")


def words(turn_blocks: tuple[Block, ...]) -> str:
    """Return all words of *turn_blocks*, one below the other."""
    texts = []
    for block in turn_blocks:
        if isinstance(block, Text):
            texts.append(block.text)
        elif isinstance(block, Resulted):
            texts.append(words(block.content))
    return "\n".join(texts)
