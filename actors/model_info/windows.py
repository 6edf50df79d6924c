"""Windows of models: from the table that `genai-prices` maintains, and by families where it lacks one.

A table that is right is late: a model of a known family has at least its family's window. Every answer says its source.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal

import msgspec

from protocol.limits import MODEL_CHARS_MAX

CORRECTED: Mapping[str, tuple[int, str]] = {
    "deepseek-chat": (131_072, "DeepSeek's own documentation; the table has 64,000 of its older version"),
    "deepseek-reasoner": (131_072, "DeepSeek's own documentation; the table has 64,000 of its older version"),
}
"""Where the table is known to be wrong, by name; a test tells when it no longer is."""

FAMILIES: tuple[tuple[str, int], ...] = (
    (r"gpt-5", 400_000),
    (r"gpt-4\.1", 1_000_000),
    (r"gpt-4o|chatgpt-4o|gpt-4-turbo|gpt-4-(?:0125|1106)", 128_000),
    (r"gpt-4-32k", 32_768),
    (r"gpt-4", 8_192),
    (r"gpt-3\.5-turbo", 16_385),
    (r"o[134](?:$|-)", 200_000),
    (r"claude", 200_000),
    (r"gemini-(?:1\.5|[2-9])", 1_000_000),
    (r"deepseek", 64_000),
    (r"(?:meta-)?llama-?(?:3\.[1-9]|4)", 128_000),
    (r"(?:meta-)?llama-?3", 8_192),
    (r"codestral", 256_000),
    (r"mistral-(?:large|medium|small)|ministral|magistral|devstral|pixtral", 128_000),
    (r"open-mistral-7b|mistral-7b|open-mixtral|mixtral", 32_000),
    (r"grok-4", 256_000),
    (r"grok", 131_072),
    (r"command-(?:r|a)", 128_000),
    (r"kimi-k2", 128_000),
    (r"qwen-?3|qwen-?2\.5|qwen-(?:max|plus|turbo)", 32_768),
)
"""By how a name begins, the first that fits: the least that any version of the family has."""

_FAMILIES = tuple((re.compile(pattern, re.IGNORECASE), window) for pattern, window in FAMILIES)
_DATED = re.compile(r"(?:[-@](?:\d{4}-\d{2}-\d{2}|\d{8}|\d{4}|\d{3}|latest|preview|exp|it|instruct))+$", re.IGNORECASE)


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """How many tokens a model takes, and where the number is from."""

    tokens: int
    source: Literal["corrected", "table", "table, without its date", "family"]
    why: str = ""


def window_of(model: str) -> int | None:
    """Return the tokens of *model*'s context window; None where nothing tells it.

    A provider may stand before the name: `openai/gpt-4o`.
    """
    found = window_found(model) if len(model) <= MODEL_CHARS_MAX else None
    return found.tokens if found else None


@lru_cache(maxsize=256)
def window_found(model: str) -> Window | None:
    """Return the window of *model* with its source; None for a name of no known family.

    A tag behind a colon (`llama3.1:8b`) is of a local server, which has the window that it was started with.
    """
    name = model.rpartition("/")[2].strip()
    if not name or ":" in name:
        return None
    bare = _DATED.sub("", name)
    for one in (name, bare):
        if one in CORRECTED:
            tokens, why = CORRECTED[one]
            return Window(tokens=tokens, source="corrected", why=why)
    if tokens := _in_table(name):
        return Window(tokens=tokens, source="table", why="genai-prices")
    if bare != name and (tokens := _in_table(bare)):
        return Window(tokens=tokens, source="table, without its date", why=f"genai-prices has {bare}")
    for pattern, least in _FAMILIES:
        if pattern.match(name):
            return Window(tokens=least, source="family", why=f"the least of the family {pattern.pattern}")
    return None


def _in_table(name: str) -> int:
    from genai_prices.data_snapshot import get_snapshot

    try:
        _, found = get_snapshot().find_provider_model(name, None, None, None)
    except LookupError:
        return 0
    return found.context_window or 0
