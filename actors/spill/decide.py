"""Spill: a part over its cap becomes an artifact and a pointer. It runs first, so it also adopts what a policy changed.

Decides only. `results.py` says which parts are large, `part.py` what takes their place, `step_facts.py` what one step
holds; without a store it is `without_store.py`. `act.py` stores the bytes before the facts are appended, so that no
pointer ever dangles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from actors.core.state import State
from actors.core.text.count import Count

from .part import Large, is_reading, missing_part, owed_parts, spilled_part, text_of, trimmed_reading
from .results import large_parts, whole_result
from .step_facts import SpillFact, declined, facts_of_step, gains_little, within_commit


class Spilled(msgspec.Struct, frozen=True, kw_only=True):
    """What spill decided: bytes to store first, then facts."""

    bodies: tuple[bytes, ...]
    facts: tuple[SpillFact, ...]


def claims(state: State) -> tuple[str, ...]:
    """Return the SHA-256 of the uploads that `spill` has to look into."""
    parts = [part for large in large_parts(state) for part in (large.together or (large.part,))]
    return tuple(part.sha256 for part in parts if part.sha256)


def spill(state: State, *, uploads: Mapping[str, str | None], count: Count) -> Spilled | None:
    """Return the facts that move oversized parts out of the window, and record the repairs; None if there are none.

    *uploads* holds the text of each of `claims`, None where it was never uploaded. What an outage left unstored is
    stored now; the model goes on to see the text that it saw.
    """
    moved = list(within_commit(_moved(large, uploads, count) for large in large_parts(state)))
    owed = owed_parts(state)
    facts = (*facts_of_step(state, (fact for _, found in moved for fact in found), count), *(fact for _, fact in owed))
    bodies = [body for stored, _ in moved for body in stored] + [body for body, _ in owed if body is not None]
    return Spilled(bodies=tuple(bodies), facts=facts) if facts else None


def _moved(
    large: Large, uploads: Mapping[str, str | None], count: Count
) -> tuple[Sequence[bytes], Sequence[SpillFact]]:
    """Return the bytes to store for *large*, and the facts that move it out, or say that it stays."""
    part = large.part
    if large.together:
        return whole_result(large, uploads, count)
    text = uploads[part.sha256] if part.sha256 else text_of(large.entry, part)
    if text is None:
        return (), (missing_part(part, large.entry.number, count),)
    if is_reading(large):
        return (), (trimmed_reading(large, text, count),)
    body = text.encode("utf-8", "surrogatepass")
    fact = spilled_part(large, text, body, count)
    if gains_little(large, fact.text_tokens):
        return (), (declined(large.entry),)
    return () if part.sha256 else (body,), (fact,)
