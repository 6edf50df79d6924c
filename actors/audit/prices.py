"""Prices of models, from the table that `genai-prices` maintains. Amounts are US dollars."""

from __future__ import annotations

from functools import lru_cache

import msgspec


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """Dollars for one token. Where a model has no price for cached tokens, they cost as much as others."""

    input: float
    cached: float
    output: float


@lru_cache(maxsize=256)
def price_of(model: str) -> Price | None:
    """Return what a token of *model* costs; none where the table does not know it.

    A provider may stand before the name: `openai/gpt-4o`. Prices that grow with the length of the input are
    taken at their lowest step.
    """
    from genai_prices import Usage, calc_price

    provider, _, name = model.rpartition("/")
    if not name:
        return None
    found = []
    for usage in (
        Usage(input_tokens=1),
        Usage(input_tokens=1, cache_read_tokens=1),
        Usage(output_tokens=1),
    ):
        try:
            found.append(float(calc_price(usage, model_ref=name, provider_id=provider or None).total_price))
        except (LookupError, ValueError):
            return None if not provider else price_of(name)
    return Price(input=found[0], cached=found[1], output=found[2])
