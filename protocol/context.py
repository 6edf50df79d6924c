"""Context: a served view as an agent sends it to its provider."""

from __future__ import annotations

from typing import Any

import msgspec

from .formats import messages
from .formats.cache_marks import NO_MARKS, Marks, marked
from .service_messages import ContextMeta


class Context(ContextMeta, frozen=True, kw_only=True):
    """The view for the next call; `messages` are ready to be sent to the provider of the policy's profile.

    `system` is empty where the instructions are among the messages; Anthropic takes them apart.
    """

    messages: list[dict[str, Any]]
    """To be sent as they are."""
    system: str | list[dict[str, Any]]
    """What Anthropic takes beside them; empty elsewhere."""
    raw: tuple[bytes, ...] = ()
    """The messages as the JSON that was served; empty where the agent's cache marks were put on them."""


def context_of(meta: ContextMeta, body: bytes, marks: Marks = NO_MARKS) -> Context:
    """Return the view in *body*, a JSON array of messages, with what is known of it and the agent's cache *marks*."""
    raw = tuple(bytes(one) for one in msgspec.json.decode(body, type=list[msgspec.Raw]))
    view = [messages.decode(one) for one in raw]
    apart = meta.profile == messages.ANTHROPIC and bool(view) and view[0]["role"] == "system"
    system = view.pop(0)["content"] if apart else ""
    raw = raw[1:] if apart else raw
    if meta.profile != messages.RESPONSES and marks != NO_MARKS:
        system, view = marked(system, view, marks)
        raw = ()
    return Context(messages=view, system=system, raw=raw, **msgspec.structs.asdict(meta))
