"""Parts of facts: what their fields hold. Arrays on the wire; fields are append-only, as those of facts."""

from __future__ import annotations

import msgspec


class Restored(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A message that is in the view again, as it stood there at *version*."""

    number: int
    version: int


class Unspilled(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A part that is shown in full again."""

    number: int
    pointer: str
    tokens: int
    text: str = ""
    """Of a part that was uploaded; empty: as it was said."""
