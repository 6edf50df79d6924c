"""Saw: what an answer was made from, for the providers that bind its reasoning to that."""

from __future__ import annotations

import msgspec


class Saw(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """What the call saw that an answer came from: the view that was served for it, and what was said after that."""

    upto: int = 0
    """Messages that had been said when that view was served."""
    view_hash: str = ""
    """Empty: no view was ever served; it saw what had been said."""
