"""Links: ids that different tools returned, as a booking has a flight, and a search for flights lists it.

Of a list it is the row with such an id that somebody looks for, long before anybody says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from actors.core.text.json_lines import has_rows
from actors.core.text.line_worths import different_words
from actors.core.text.recent import Recent
from protocol.account import AccountStep

from .records import is_record

RESULTS_MAX = 6
"""An id in more results than this tells no row apart."""

FRAME_CHARS = 200
"""What keeping the ids of a text takes beside it."""

ID_CHARS_MIN = 5
_ID = re.compile(r"[^\W\d_].*\d|\d.*[^\W\d_]")


READ_CHARS_MAX = 400_000
"""Of texts whose ids are known, and as many before them: each compaction reads the account again."""

_ids: Recent[str, tuple[tuple[str, ...], int]] = Recent(READ_CHARS_MAX, weigh=lambda found: found[1] + FRAME_CHARS)
"""By the text: its ids, and its characters."""


class Links:
    """The ids in records and rows, with the tools that returned them."""

    def __init__(self, before: Iterable[AccountStep]) -> None:
        self._tools: dict[str, list[str]] = {}
        """By the id: who returned it, once for each result."""
        for act in (act for step in before for act in step.acts):
            if is_record(act.outcome) or has_rows(act.outcome) or act.used:
                self.read(act.call.partition(" ")[0], act.outcome)

    def read(self, tool: str, text: str) -> None:
        """Read what *tool* returned."""
        for word in _ids.found(text, lambda text: (_ids_in(text), len(text)))[0]:
            self._tools.setdefault(word, []).append(tool)

    def linked(self) -> frozenset[str]:
        """Return the ids that several tools returned, in few results."""
        some = ((word, tools) for word, tools in self._tools.items() if 1 < len(tools) <= RESULTS_MAX)
        return frozenset([word for word, tools in some if len(set(tools)) > 1])


def _ids_in(text: str) -> tuple[str, ...]:
    # most are words of the language
    return tuple([word for word in different_words(text) if not word.isalpha() and _is_id(word)])


def _is_id(word: str) -> bool:
    """Tell what has letters and digits, as a flight, an order or a pod has."""
    return len(word) >= ID_CHARS_MIN and bool(_ID.search(word))
