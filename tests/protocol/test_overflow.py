"""Overflow: what a provider's refusal says of its own count. Texts as the named providers send them."""

import pytest

from protocol.overflow import counts_in, is_overflow


@pytest.mark.parametrize(
    ("text", "requested", "limit"),
    [
        (
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9500 tokens. "
            "Please reduce the length of the messages.",
            9_500,
            8_192,
        ),
        (
            "This model's maximum context length is 4097 tokens. However, you requested 5200 tokens (4200 in the "
            "messages, 1000 in the completion). Please reduce the length of the messages or completion.",
            4_200,
            4_097,
        ),
        (
            "This model's maximum context length is 4096 tokens. However, your request has 5000 input tokens.",
            5_000,
            4_096,
        ),
        ("prompt is too long: 215,301 tokens > 200,000 maximum", 215_301, 200_000),
        (
            "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or "
            "`max_tokens` and try again",
            190_000,
            200_000,
        ),
        ("request (1234 tokens) exceeds the available context size (1024 tokens), try increasing it", 1_234, 1_024),
        (
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            1_200_000,
            1_048_576,
        ),
        (
            "This model's maximum prompt length is 131072 but the request contains 150000 tokens.",
            150_000,
            131_072,
        ),
        (
            "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
            40_000,
            32_768,
        ),
    ],
)
def test_the_numbers_of_a_refusal_are_read(text: str, requested: int, limit: int) -> None:
    assert is_overflow(text)
    assert counts_in(text) == (requested, limit)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Input is too long for requested model.",
        "8192 tokens > 9",
        f"prompt is too long: {'9' * 9000} tokens > 9 maximum",
    ],
)
def test_a_refusal_without_numbers_names_none(text: str) -> None:
    assert counts_in(text) == (0, 0)
