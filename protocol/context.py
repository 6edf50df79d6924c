"""Context: a served view as an agent sends it to its provider."""

from __future__ import annotations

from typing import Any

import msgspec

from .formats import messages
from .service_messages import ContextMeta


class Context(ContextMeta, frozen=True, kw_only=True):
    """The view for the next call; `messages` are ready to be sent to the provider of the policy's profile.

    `system` is empty where the instructions are among the messages; Anthropic takes them apart.
    """

    messages: list[dict[str, Any]]
    system: str | list[dict[str, Any]]


def context_of(meta: ContextMeta, body: bytes) -> Context:
    """Return the view in *body*, a JSON array of messages, with what is known of it."""
    view = [messages.decode(bytes(raw)) for raw in msgspec.json.decode(body, type=list[msgspec.Raw])]
    apart = meta.profile == messages.ANTHROPIC and bool(view) and view[0]["role"] == "system"
    system = view.pop(0)["content"] if apart else ""
    return Context(messages=view, system=system, **msgspec.structs.asdict(meta))
