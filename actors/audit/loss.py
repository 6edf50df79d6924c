"""Loss: what a step did to the values, steps and sentences of the messages that it changed, counted as the rules do.

A compaction records the counts itself (`actors/core/loss.py`). Here they are made from the states around any commit,
also where the recorded ones are missing, and the values that are lost are named.
"""

from __future__ import annotations

from collections.abc import Iterable

from actors.core.entry import Entry
from actors.core.loss import deeds, judged, value_fates
from actors.core.loss_told import SENTENCE, STEP, TOLD
from actors.core.state import State
from protocol.facts import DigestItem, Fate
from protocol.history import Loss, Tally, Value

LOST_NAMED_MAX = 50
"""Lost values that are named one by one; the counts are of all."""


def loss(before: State, after: State) -> Loss:
    """Return the fates of what stood in *before*'s view, where *after* shows something else."""
    now = {entry.number: entry for entry in after.entries}
    changed = [entry for entry in before.entries if not _same(entry, now.get(entry.number))]
    # what was admitted behind a compaction is no part of it, but spill changes what is not admitted yet
    known = frozenset(entry.number for entry in (*before.live, *changed))
    staying = [entry for entry in after.entries if entry.number in known]
    lost = [item for item, kept in judged(changed, staying, before=before.digest, after=after.digest) if kept == "lost"]
    found = value_fates(changed, staying, before=before.digest, after=after.digest)
    told = deeds(changed, staying, before=before.digest, after=after.digest)
    return _of((*found, *told), lost=tuple(_worthiest(lost)))


def recorded(*facts: object) -> Loss | None:
    """Return the fates that the compaction among *facts* recorded, without names; None if there is none."""
    found = [fate for fact in facts for fate in getattr(fact, "fates", ())]
    return _of(found) if found else None


def _of(found: Iterable[Fate], *, lost: tuple[Value, ...] = ()) -> Loss:
    tallies = {one.category: Tally(retained=one.retained, recoverable=one.recoverable, lost=one.lost) for one in found}
    values = {category: tally for category, tally in tallies.items() if category not in TOLD}
    return Loss(categories=values, lost=lost, steps=tallies.get(STEP), sentences=tallies.get(SENTENCE))


def _same(was: Entry, now: Entry | None) -> bool:
    return now is not None and now.shown == was.shown


def _worthiest(lost: Iterable[DigestItem]) -> list[Value]:
    ranked = sorted(lost, key=lambda item: (-item.uses, -item.number, item.category, item.value))
    return [Value(category=item.category, value=item.value, number=item.number) for item in ranked[:LOST_NAMED_MAX]]
