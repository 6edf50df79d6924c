"""Loss: which values a step took out of the view, and whether the view still says where to find them.

*Retained* stands verbatim in the view. *Recoverable* does not, but a pointer in the view leads to it: the
digest names its messages, or a part's pointer its artifact. *Lost* is neither: the model cannot know of it
any more. The log holds it all the same, for people.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from actors.rules.entry import Entry
from actors.rules.extract import items_of
from actors.rules.state import State
from actors.rules.view import message_bytes
from protocol.facts import DigestItem

from .text import digest_text, text_of

LOST_NAMED_MAX = 50
"""Lost values that are named one by one; the counts are of all."""


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """How many values of one category are where."""

    retained: int = 0
    recoverable: int = 0
    lost: int = 0


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """One value, and the newest message that had it."""

    category: str
    value: str
    number: int


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """What one step did to the values in the messages that it changed; what it did not touch is not counted."""

    categories: dict[str, Tally]
    lost: tuple[Value, ...] = ()

    @property
    def total(self) -> Tally:
        """Return the sums over all categories."""
        tallies = self.categories.values()
        return Tally(
            retained=sum(one.retained for one in tallies),
            recoverable=sum(one.recoverable for one in tallies),
            lost=sum(one.lost for one in tallies),
        )


def loss(before: State, after: State) -> Loss:
    """Return what became of the values that stood in *before*'s view where *after* shows something else."""
    now = {entry.number: entry for entry in after.entries}
    changed = [entry for entry in before.entries if not _same(entry, now.get(entry.number))]
    values = {(item.category, item.value): item for item in items_of(tuple(changed))}
    if before.digest is not None and before.digest != after.digest:
        values |= {(item.category, item.value): item for item in before.digest.items}
    left = "\n".join((*map(text_of, now.values()), digest_text(after)))
    # sentences are kept with their white space in one piece, and with their end left out
    flat = " ".join(left.split())
    found: dict[str, Tally] = {}
    lost: list[DigestItem] = []
    for item in values.values():
        tally = found.get(item.category, Tally())
        if item.value in left or item.value.rstrip("…") in flat:
            tally = msgspec.structs.replace(tally, retained=tally.retained + 1)
        elif reachable(after, item.number, now.get(item.number)):
            tally = msgspec.structs.replace(tally, recoverable=tally.recoverable + 1)
        else:
            tally = msgspec.structs.replace(tally, lost=tally.lost + 1)
            lost.append(item)
        found[item.category] = tally
    return Loss(categories=dict(sorted(found.items())), lost=tuple(_worthiest(lost)))


def reachable(state: State, number: int, entry: Entry | None) -> bool:
    """Tell whether the view of *state* says how to read message *number* in full; *entry* is how it stands there."""
    if entry is not None:
        return not entry.shown or any("read_artifact(" in one.text for one in entry.shown)
    return state.digest is not None and number <= state.digest.through


def _same(was: Entry, now: Entry | None) -> bool:
    return now is not None and (now is was or message_bytes(now) == message_bytes(was))


def _worthiest(lost: Iterable[DigestItem]) -> list[Value]:
    ranked = sorted(lost, key=lambda item: (-item.uses, -item.number, item.category, item.value))
    return [Value(category=item.category, value=item.value, number=item.number) for item in ranked[:LOST_NAMED_MAX]]
