"""Overflow: tell from a provider's error that a request was too long for its model.

By code where there is one, else by known phrases: gateways pass the refusal on as a plain 400.
"""

from __future__ import annotations

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


def is_overflow(message: str, *, code: str = "") -> bool:
    """Tell whether an error's code or text says that the request was too long for the model."""
    said = message.lower()
    if any(word in said for word in _RATE):
        return False
    return code.lower() in _CODES or any(phrase in said for phrase in _PHRASES)
