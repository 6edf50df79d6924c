"""Digest, the second actor: rules replace old messages by what later steps need of them."""
