"""Windows and prices of models, from the table that `genai-prices` maintains."""

from __future__ import annotations

import math
from functools import lru_cache


@lru_cache(maxsize=256)
def window_of(model: str) -> int | None:
    """Return the tokens of *model*'s context window; none where the table does not know it.

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


def cost_microdollars(model: str, *, input_tokens: int, cached_tokens: int, output_tokens: int) -> int:
    """Return what an answer of *model* cost, in millionths of a dollar, rounded up; 0 where the table does not know.

    *cached_tokens* are those of the input that the provider had seen before.
    """
    from genai_prices import Usage, calc_price

    name = model.rpartition("/")[2]
    if not name:
        return 0
    usage = Usage(
        input_tokens=input_tokens, cache_read_tokens=min(cached_tokens, input_tokens), output_tokens=output_tokens
    )
    try:
        return math.ceil(calc_price(usage, model_ref=name).total_price * 1_000_000)
    except (LookupError, ValueError):
        return 0
