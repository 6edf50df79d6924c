"""Visible: text of conversations as a page may show it.

It is hostile: what cannot be seen, or turns the direction of writing, is shown as what it is.
"""

from __future__ import annotations

import re

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad"
    "\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ud800-\udfff\ufeff\uffa0\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Controls, bidi, invisible and tag characters, halves of pairs. The joiners of emoji and of Persian stay."""


def visible(text: str) -> str:
    """Return *text* with nothing hidden in it; line ends and tabs stay."""
    return _HIDDEN.sub(_named, text.replace("\r\n", "\n"))


def _named(found: re.Match[str]) -> str:
    return f"⟨U+{ord(found[0]):04X}⟩"  # not Unicode's pictures of controls: few fonts have them
