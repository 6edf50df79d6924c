"""Pieces: messages on their way into a request, each with what is known of it."""

from __future__ import annotations

import msgspec

from .parsed import Profile


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """One message that is to be shown, and the profiles that take it as it is."""

    raw: bytes
    native: tuple[Profile, ...]
    saw: str | None = None
    """Hash of the view that its reasoning holds behind; empty: behind what was said, None: it holds anywhere."""
    between: bool = False
    """Other results of its batch are still to follow: words beside its own would part them from their calls."""
