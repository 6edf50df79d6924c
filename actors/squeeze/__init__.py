"""Squeeze, the third actor: an LLM shortens the digest, where the policy allows it."""
