"""Prices come from a maintained table, the same ones for what is recorded and for what is told later."""

import pytest

from actors.model_info.prices import cost_microdollars, price_of


@pytest.mark.parametrize("model", ["gpt-4o", "openai/gpt-4o", "gateway/gpt-4o", "avian/Meta-Llama-3.1-8B-Instruct"])
def test_an_answer_costs_what_its_tokens_cost(model: str) -> None:
    price = price_of(model)
    assert price is not None
    dollars = 60_000 * price.input + 40_000 * price.cached + 1_000 * price.output
    cost = cost_microdollars(model, input_tokens=100_000, cached_tokens=40_000, output_tokens=1_000)
    assert cost == pytest.approx(dollars * 1e6, abs=1)


@pytest.mark.parametrize("model", ["", "/", "gateway/", "nobody-knows-1", "…"])
def test_a_model_that_the_table_does_not_know_has_no_price(model: str) -> None:
    assert price_of(model) is None
    assert cost_microdollars(model, input_tokens=100_000, cached_tokens=0, output_tokens=1_000) == 0
