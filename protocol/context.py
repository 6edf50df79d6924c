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


class Written(ContextMeta, frozen=True, kw_only=True):
    """The view for the next call as it was served, for who passes it on unread."""

    raw: tuple[bytes, ...]
    """The JSON of each message; instructions are one of them, where the agent said some."""


def has_all(view: Context | Written | None) -> str:
    """Return the hash of *view*, if it still has its messages as they were served; else nothing."""
    there = view is not None and view.raw and not (isinstance(view, Context) and view.system)
    return view.hash if view is not None and there else ""


def context_of(meta: ContextMeta, body: bytes, marks: Marks = NO_MARKS, after: Context | None = None) -> Context:
    """Return the view in *body*, a JSON array of messages, with what is known of it and the agent's cache *marks*.

    It may lack what it begins with as the view *after* which it comes.
    """
    raw = _raw(meta, body, after)
    view = [messages.decode(one) for one in raw]
    apart = meta.profile == messages.ANTHROPIC and bool(view) and view[0]["role"] == "system"
    system = view.pop(0)["content"] if apart else ""
    raw = raw[1:] if apart else raw
    if meta.profile != messages.RESPONSES and marks != NO_MARKS:
        system, view = marked(system, view, marks)
        raw = ()
    return Context(messages=view, system=system, raw=raw, **msgspec.structs.asdict(meta))


def written_of(meta: ContextMeta, body: bytes, after: Written | None = None) -> Written:
    """Return the same without reading any message, and without marks."""
    return Written(raw=_raw(meta, body, after), **msgspec.structs.asdict(meta))


def _raw(meta: ContextMeta, body: bytes, after: Context | Written | None) -> tuple[bytes, ...]:
    new = map(bytes, msgspec.json.decode(body, type=list[msgspec.Raw]))
    return (*(after.raw[: meta.same] if after else ()), *new)
