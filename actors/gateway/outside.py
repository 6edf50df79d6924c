"""Outside: the tokens of what stands beside a conversation: its instructions and the definitions of tools."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from cachetools import LRUCache

from actors.model_info.tokens import counter, tokenizer_for

KNOWN_MAX = 1024


@dataclass
class OutsideTokens:
    """Counts them once: they are the same in most requests of a conversation."""

    _known: LRUCache[tuple[str, bytes], int] = field(default_factory=lambda: LRUCache(KNOWN_MAX))

    def tokens(self, instructions: bytes, model: str) -> int:
        """Return the tokens of *instructions*, as JSON, for *model*, by its own tokenizer or one like it."""
        encoding = tokenizer_for(model).encoding
        key = (encoding, hashlib.blake2b(instructions, digest_size=16).digest())
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = counter(encoding)(instructions.decode("utf-8", "replace"))
        return found
