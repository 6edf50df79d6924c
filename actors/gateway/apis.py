"""APIs: what the gateway knows of each provider's: its routes, where its messages stand, how it says no."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any, Literal

import msgspec

from protocol.formats.messages import ANTHROPIC, CHAT, RESPONSES, Profile

Host = Literal["openai", "anthropic"]
"""Whose servers: each has a URL in the settings."""


class Api(msgspec.Struct, frozen=True, kw_only=True):
    """One way to ask a model; `field` is that of the request's body which holds the conversation."""

    name: Literal["chat", "messages", "responses"]
    host: Host
    profile: Profile
    field: str
    instructions: tuple[str, ...]
    """Fields that stand before the conversation: they are forwarded as they are."""
    answer: tuple[str, ...]
    """Fields that say how many tokens the answer may have, the first that is there counts."""


CHAT_API = Api(
    name="chat",
    host="openai",
    profile=CHAT,
    field="messages",
    instructions=("tools", "functions", "response_format"),
    answer=("max_completion_tokens", "max_tokens"),
)
MESSAGES_API = Api(
    name="messages",
    host="anthropic",
    profile=ANTHROPIC,
    field="messages",
    instructions=("tools", "system"),
    answer=("max_tokens",),
)
RESPONSES_API = Api(
    name="responses",
    host="openai",
    profile=RESPONSES,
    field="input",
    instructions=("tools", "instructions", "text"),
    answer=("max_output_tokens",),
)


_ROUTE = re.compile(r"/+(?:v1/+)*((?:chat/completions|messages|responses|conversations|models)(?:/+[^/]+)*)/*")
"""A path of the APIs, whether its agent's base URL lacks `/v1`, has one too many, or ends in a slash."""


def route_of(path: str) -> str:
    """Return *path* as the API has it: with one `/v1`, whatever its agent's base URL has."""
    found = _ROUTE.fullmatch(path)
    return f"/v1/{found[1]}" if found else path


def host_of(headers: dict[str, str]) -> Host:
    """Return whom a request is for that is on no route of ours: Anthropic's clients name a version."""
    return "anthropic" if "anthropic-version" in headers or "x-api-key" in headers else "openai"


def error_body(host: Host, *, kind: str, message: str, code: str | None = None) -> bytes:
    """Return an error in the shape of the provider's own."""
    if host == "anthropic":
        return msgspec.json.encode({"type": "error", "error": {"type": kind, "message": message}})
    error: dict[str, Any] = {"message": message, "type": kind, "param": None, "code": code}
    return msgspec.json.encode({"error": error})


def error_event(*, message: str, refusal: bytes = b"") -> bytes:
    """Return an error as the last event of a stream that has begun; the readers of each API take it for one.

    *refusal*: what the provider said instead of going on; where that is an error in its shape, it is told as it is.
    """
    error: dict[str, Any] = {"type": "api_error", "message": message}
    code = "upstream_failed"
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError, TypeError, ValueError):
        error = dict(msgspec.json.decode(refusal)["error"])
        message, code = str(error.get("message", message)), str(error.get("code") or code)
    body = {"type": "error", "error": error, "message": message, "code": code, "param": None}
    # line ends first: what came before may have been cut within an event
    return b"\n\nevent: error\ndata: " + msgspec.json.encode(body) + b"\n\n"
