"""Parts of facts: what their fields hold. Arrays on the wire; fields are append-only, as those of facts."""

from __future__ import annotations

from typing import Literal

import msgspec

from .ids import is_sha256
from .limits import UPLOAD_BYTES_MAX

RepairKind = Literal[
    "refused", "orphan_result", "unanswered_calls", "duplicate_call_id", "lone_surrogates", "empty_tool_calls"
]


class Claim(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A part that was uploaded before the message was said; it is empty in the message's bytes."""

    pointer: str
    sha256: str
    bytes: int

    @property
    def names_upload(self) -> bool:
        """Whether it can name an upload: its hash becomes a key of the store, and its size is summed up."""
        return 0 <= self.bytes <= UPLOAD_BYTES_MAX and is_sha256(self.sha256)


class Restored(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A message that is in the view again, as it stood there at *version*."""

    number: int
    version: int


class ToldTool(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A tool that an agent offers its model."""

    name: str
    about: str = ""


class Unspilled(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A part that is shown in full again."""

    number: int
    pointer: str
    tokens: int
    text: str = ""
    """Of a part that was uploaded; empty: as it was said."""


Trust = Literal["user", "assistant", "tool"]


class DigestItem(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """One value that is kept verbatim, and the message it was last seen in."""

    category: str
    value: str
    number: int
    uses: int = 1
    trust: Trust = "tool"
    """The most trusted of those who said it."""
    key: str = ""
    """What the value is a value of, if it is one: a newer value of the same key takes its place."""
    gone: bool = False
    """Superseded, or said to be gone: in a list of changes it leaves the ledger."""


class Fate(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """How many values of one category a step left in the view, left a pointer to, or left neither of."""

    category: str
    retained: int = 0
    recoverable: int = 0
    lost: int = 0


class MessageSize(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """What a message costs in tokens, as it was said."""

    number: int
    check: int
    """CRC-32 of its bytes: in a log that lost a message, the number is another one's."""
    frame_tokens: int
    apart_tokens: int
    parts_tokens: tuple[int, ...]


class StoredFact(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag_field="fact"):
    """What all facts share: arrays on the wire, frozen in memory."""
