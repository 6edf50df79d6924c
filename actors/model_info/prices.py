"""What the tokens of models cost, from the table that `genai-prices` maintains.

A provider may stand before a model's name: `openai/gpt-4o`. Its prices count where the table has that provider.
"""

from __future__ import annotations

import math
from decimal import Decimal
from functools import lru_cache

import msgspec

from protocol.limits import MODEL_CHARS_MAX


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """US dollars for one token. Where a model has no price for cached tokens, they cost as much as others."""

    input: float
    cached: float
    output: float


@lru_cache(maxsize=256)
def price_of(model: str) -> Price | None:
    """Return the prices of a token of *model*; None where the table does not know it.

    Prices that grow with the length of the input are taken at their lowest step.
    """
    one = _dollars(model, input_tokens=1)
    cached = _dollars(model, input_tokens=1, cache_read_tokens=1)
    output = _dollars(model, output_tokens=1)
    if one is None or cached is None or output is None:
        return None
    return Price(input=float(one), cached=float(cached), output=float(output))


def cost_microdollars(model: str, *, input_tokens: int, cached_tokens: int, output_tokens: int) -> int:
    """Return the price of an answer of *model*, in millionths of a dollar, rounded up; 0 where the table does not know.

    *cached_tokens* are those of the input that the provider had seen before.
    """
    cached = min(cached_tokens, input_tokens)
    cost = _dollars(model, input_tokens=input_tokens, cache_read_tokens=cached, output_tokens=output_tokens)
    return math.ceil((cost or 0) * 1_000_000)


def _dollars(model: str, **tokens: int) -> Decimal | None:
    from genai_prices import Usage, calc_price

    provider, _, name = model.rpartition("/") if len(model) <= MODEL_CHARS_MAX else ("", "", "")
    for known in dict.fromkeys((provider or None, None)) if name else ():
        try:
            return calc_price(Usage(**tokens), model_ref=name, provider_id=known).total_price
        except (LookupError, ValueError):
            continue
    return None
