"""Overflow: tell from a provider's error that a request was too long for its model, and by how much.

By code where there is one, else by known phrases: gateways pass the refusal on as a plain 400.
"""

from __future__ import annotations

import re

_CODES = frozenset(("context_length_exceeded", "exceed_context_size_error", "string_above_max_length"))

_PHRASES = (
    "maximum context length",  # OpenAI, vLLM, Mistral
    "context_length_exceeded",
    "context window",  # OpenAI Responses, Cohere
    "context size",  # llama.cpp
    "context limit",  # Anthropic: input length and `max_tokens` exceed context limit
    "context length",  # LM Studio, Ollama
    "prompt is too long",  # Anthropic
    "input is too long",  # Bedrock
    "reduce the length of",  # OpenAI, Groq
    "too many tokens",
    "token limit",
    "exceeds the maximum number of tokens",  # Gemini
    "maximum prompt length",  # xAI
)
"""Seven of Digitorn's, and what the named providers say."""

_RATE = ("rate limit", "rate_limit", "per minute", "per day", "quota", "tpm")
"""A limit on tokens over time is none on one request."""


_ALL, _SENT, _LIMIT = (rf"(?P<{name}>\d{{1,12}})" for name in ("all", "sent", "limit"))

_COUNTS = tuple(
    re.compile(pattern, re.ASCII)
    for pattern in (
        # OpenAI, vLLM; what the answer may take on top is not the view's
        rf"maximum context length is {_LIMIT} tokens.{{0,80}}?(?:requested|resulted in|request has) {_ALL}"
        rf"(?: input)? tokens(?: \({_SENT} in the (?:messages|prompt))?",
        rf"prompt is too long: {_SENT} tokens > {_LIMIT} maximum",  # Anthropic
        rf"exceed context limit: {_SENT} \+ \d+ > {_LIMIT}",  # Anthropic, with `max_tokens`
        rf"request \({_SENT} tokens\) exceeds the available context size \({_LIMIT} tokens\)",  # llama.cpp
        rf"input token count \(?{_SENT}\)? exceeds the maximum number of tokens allowed \(?{_LIMIT}",  # Gemini
        rf"maximum prompt length is {_LIMIT} but the request contains {_SENT}",  # xAI
        rf"prompt contains {_SENT} tokens.{{0,80}}?{_LIMIT} maximum context length",  # Mistral
    )
)


def counts_in(message: str) -> tuple[int, int]:
    """Return the tokens that the provider counted in the request and those it allows; zeros where it names none."""
    # numbers as some write them: 200,000
    said = re.sub(r"(?<=\d),(?=\d{3})", "", message.lower())
    for pattern in _COUNTS:
        if found := pattern.search(said):
            named = found.groupdict()
            return int(named.get("sent") or named["all"]), int(named["limit"])
    return 0, 0


def is_overflow(message: str, *, code: str = "") -> bool:
    """Tell whether an error's code or text says that the request was too long for the model."""
    said = message.lower()
    if any(word in said for word in _RATE):
        return False
    return code.lower() in _CODES or any(phrase in said for phrase in _PHRASES)
