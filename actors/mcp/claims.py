"""Claims: whose conversations a caller may read, and which one a key means.

They come from the caller's token, or from the settings of the process: what a call says chooses among them, and never
goes beyond. What is outside is answered like what never was.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from protocol.errors import BadId, NotFound, Rejected
from protocol.ids import Address, Token, token, written_address

NAME_CHARS_MAX = 300
_PREFIX = re.compile(r"[A-Za-z0-9_-]{0,64}\*")


class Unknown(NotFound):
    """Nothing of that name is there for this caller; whether anything is, is not told."""

    def __init__(self) -> None:
        super().__init__("nothing of that name is kept here: take keys and conversations as pointers have them")


@dataclass(frozen=True, kw_only=True)
class Claims:
    """What a caller may read."""

    tenant: Token
    conversations: tuple[str, ...] = ()
    """Safe names, or how they begin, with a `*`; none: all of the tenant."""
    is_local: bool = False
    """It is the one who runs the process: told why something is away."""

    @staticmethod
    def of(tenant: str, conversations: tuple[str, ...], *, is_local: bool = False) -> Claims:
        """Return the claims on what an operator names. Raises `BadId`."""
        named = tuple(one if _PREFIX.fullmatch(one) else _safe(one) for one in conversations)
        return Claims(tenant=token(tenant), conversations=named, is_local=is_local)

    @property
    def only(self) -> Token | None:
        """Return the conversation that is meant where none is named; None if there are several."""
        if len(self.conversations) != 1 or self.conversations[0].endswith("*"):
            return None
        return Token(self.conversations[0])

    def address(self, conversation: str) -> Address:
        """Return where *conversation* is; empty for the only one. Raises `Unknown`, `Rejected`."""
        if not conversation:
            if self.only is None:
                raise Rejected(
                    'say which conversation: write the key as the pointer has it, such as "ticket-1/messages:4-9" '
                    '(before the "/" stands the conversation), or give `conversation`'
                )
            return Address(tenant=self.tenant, conversation=self.only)
        try:
            safe = _safe(conversation) if len(conversation) <= NAME_CHARS_MAX else None
        except BadId:
            safe = None
        if safe is None or not self._has(safe):
            raise Unknown
        return Address(tenant=self.tenant, conversation=safe)

    def addressed(self, key: str, conversation: str = "") -> tuple[Address, str]:
        """Return the conversation that *key* is of, and the key within it. Raises `Unknown`, `Rejected`."""
        before, slash, own = key.strip().rpartition("/")
        if slash and conversation and _safe(before or "-") != _safe(conversation):
            raise Rejected("the key and `conversation` name two conversations")
        if slash and not before:
            raise Unknown
        return self.address(before or conversation), own

    def _has(self, safe: Token) -> bool:
        if not self.conversations:
            return True
        return any(safe.startswith(one[:-1]) if one.endswith("*") else safe == one for one in self.conversations)


def _safe(name: str) -> Token:
    """Return the safe form of a conversation's name, as it was given or as pointers have it."""
    # behind a slash of ours: whatever is in it, it names no tenant
    return written_address(f"x/{name}").conversation
