"""Windows of models, from the table that `genai-prices` maintains."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=256)
def window_of(model: str) -> int | None:
    """Return the tokens of *model*'s context window; None where the table does not know it.

    A provider may stand before the name: `openai/gpt-4o`.
    """
    from genai_prices.data_snapshot import get_snapshot

    name = model.rpartition("/")[2]
    if not name:
        return None
    try:
        _, found = get_snapshot().find_provider_model(name, None, None, None)
    except LookupError:
        return None
    return found.context_window
