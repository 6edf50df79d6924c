"""Loss: what became of the values in the messages that a step took out of the view or shortened, and of the digest's.

*Retained* stands in the view: in a message that stays, or in the digest. *Recoverable* does not, but a pointer in the
view leads to it: the digest names its messages, or a part's pointer its artifact. *Lost* is neither: the model cannot
know of it any more. The log holds it all the same, for people.

Values are those that a digest looks for, and every message is read once: what a compaction asks here has mostly been
read for it already.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from protocol.facts import DigestItem, Fate

from .entry import Entry
from .extract import CATEGORIES, items_in, sentences_in, standing_in
from .state_parts import Digest
from .text.values import within

FateName = Literal["retained", "recoverable", "lost"]
_Values = dict[str, dict[str, DigestItem]]
"""By category, and by the value itself."""


def fates(
    changed: Iterable[Entry], staying: Sequence[Entry], *, before: Digest | None, after: Digest | None
) -> tuple[Fate, ...]:
    """Return by category what became of the values in *changed*, and in the digest if it changed.

    *changed* are the messages as they stood in the view, *staying* those of the view now.
    """
    values = _values(changed, before, after)
    gone = _gone(values, staying, after)
    reached = Counter(item.category for item, found in gone if found)
    lost = Counter(item.category for item, found in gone if not found)
    return tuple(
        Fate(
            category=category,
            retained=len(values[category]) - reached[category] - lost[category],
            recoverable=reached[category],
            lost=lost[category],
        )
        for category in CATEGORIES
        if category in values
    )


def judged(
    changed: Iterable[Entry], staying: Sequence[Entry], *, before: Digest | None, after: Digest | None
) -> Iterator[tuple[DigestItem, FateName]]:
    """Yield each value that `fates` counts, once for each category, as its newest message had it."""
    values = _values(changed, before, after)
    gone = {(item.category, item.value): found for item, found in _gone(values, staying, after)}
    for item in (item for found in values.values() for item in found.values()):
        reached = gone.get((item.category, item.value))
        yield item, "retained" if reached is None else "recoverable" if reached else "lost"


def reachable(number: int, entry: Entry | None, digest: Digest | None) -> bool:
    """Tell whether a view says how to read message *number* in full; *entry* is how it stands there."""
    if entry is not None:
        return not entry.shown or any(b"read_artifact(" in one.raw for one in entry.shown)
    return digest is not None and number <= digest.through


def _values(changed: Iterable[Entry], before: Digest | None, after: Digest | None) -> _Values:
    values: _Values = defaultdict(dict)
    for entry in changed:
        for item in items_in(entry):
            values[item.category][item.value] = item
    if before is not None and before != after:
        for item in before.items:
            values[item.category][item.value] = item
    return values


def _gone(values: _Values, staying: Sequence[Entry], after: Digest | None) -> list[tuple[DigestItem, bool]]:
    """Return the values that stand nowhere in the view, each with whether a pointer leads to it."""
    if not values:
        return []
    there = standing_in(tuple(staying)) | sentences_in(staying)
    if after is not None:
        shown = [item.value for item in after.items]
        there = there.union(shown, *map(within, shown))
    prose = after.prose if after else ""
    now = {entry.number: entry for entry in staying}
    return [
        (item, reachable(item.number, now.get(item.number), after))
        for found in values.values()
        for value, item in found.items()
        if value not in there and not (prose and value in prose)
    ]
