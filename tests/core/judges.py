"""Judges: the providers' own type definitions, as a second opinion on what is legal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from protocol.formats.messages import ANTHROPIC, CHAT, RESPONSES, Profile

KNOWN_LATER = ("tomorrow", "some_new_thing")
"""Types of the generators that no version knows: kept verbatim, and no type definition has them."""


@cache
def _adapter(profile: Profile) -> TypeAdapter[Any]:
    if profile == CHAT:
        from openai.types.chat import ChatCompletionMessageParam

        return TypeAdapter(ChatCompletionMessageParam)
    if profile == RESPONSES:
        from openai.types.responses import ResponseInputItem

        return TypeAdapter(ResponseInputItem)
    anthropic = pytest.importorskip("anthropic", reason="Anthropic's own types are not installed")
    return TypeAdapter(anthropic.types.MessageParam)


def refusals(view: Sequence[Mapping[str, Any]], profile: Profile) -> list[str]:
    """Return what the type definitions of the provider's library say against *view*."""
    found = []
    for index, message in enumerate(view):
        if profile == ANTHROPIC and index == 0 and message["role"] == "system":
            continue
        if any(f'"type": "{name}"' in str(message).replace("'", '"') for name in KNOWN_LATER):
            continue
        try:
            _adapter(profile).validate_python(message)
        except ValidationError as error:
            found.append(f"message {index}: {str(error)[:600]} in {str(message)[:300]}")
    return found
