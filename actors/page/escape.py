"""Escape: text of conversations as a page may show it.

It is hostile: what cannot be seen, or turns the direction of writing, is shown as what it is.
"""

from __future__ import annotations

import re

import msgspec

OPEN_CHARS = 6_000
"""A longer text is folded up; opening it needs no script."""

SHOWN_CHARS = 65_536
"""Of one text. Chromium lays out a line of 3 million characters for a minute, and nothing else (measured)."""

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad"
    "\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ud800-\udfff\ufeff\uffa0\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Controls, bidi, invisible and tag characters, halves of pairs. The joiners of emoji and of Persian stay."""


class Clipped(msgspec.Struct, frozen=True, kw_only=True):
    """A text as far as a browser can show it at once; `left` characters are behind it."""

    text: str
    left: int = 0

    @property
    def chars(self) -> int:
        """Return the length of all of it."""
        return len(self.text) + self.left

    @property
    def long(self) -> bool:
        """Tell whether it is folded up."""
        return self.chars > OPEN_CHARS


def shown(text: str, *, chars_max: int = SHOWN_CHARS) -> Clipped:
    """Return the beginning of *text*, and how much is behind it."""
    return Clipped(text=text[:chars_max], left=max(0, len(text) - chars_max))


def visible(text: str) -> str:
    """Return *text* with nothing hidden in it; line ends and tabs stay."""
    return _HIDDEN.sub(_named, text.replace("\r\n", "\n"))


def _named(found: re.Match[str]) -> str:
    return f"⟨U+{ord(found[0]):04X}⟩"  # not Unicode's pictures of controls: few fonts have them
