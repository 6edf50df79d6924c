"""Fragments: what values stood beside, without those that are a part of another."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from protocol.account import AccountValue


def without_parts(values: Sequence[AccountValue]) -> list[AccountValue]:
    """Return *values* but for those whose words are a part of what stands beside another one of their message."""
    texts: defaultdict[int, set[str]] = defaultdict(set)
    for one in values:
        texts[one.number].add(one.text)
    return [one for one in values if not any(_has(text, one.text) for text in texts[one.number] - {one.text})]


def _has(text: str, words: str) -> bool:
    """Tell whether *text* has *words* that do not go on in a longer number or name."""
    return words in text and re.search(rf"(?<!\w){re.escape(words)}(?!\d)", f" {text} ") is not None
