"""Spill: a part too big for the window becomes an artifact and a pointer.

Decides only. `results.py` says which parts are large, `part.py` what takes their place; without a store it is
`without_store.py`. `act.py` stores the bytes before the facts are appended, so that no pointer ever dangles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from actors.core.entry import Entry
from actors.core.hooks import due_facts
from actors.core.state import State
from actors.core.text.count import Count
from protocol.facts import (
    CompactionDeclined,
    HookFired,
    MessageRepaired,
    ReminderInjected,
    StageFailed,
    ToolOutputSpilled,
    ToolOutputTrimmed,
)

from .part import (
    Large,
    is_reading,
    missing_part,
    owed_parts,
    spilled_part,
    text_of,
    trimmed_reading,
)
from .results import large_parts, whole_result

GAIN_MIN = 0.1
"""Share of a result that may stay that a pointer must win; for less, reading it back costs more than it saves."""

COMMIT_BYTES_MAX = 256 * 1024
"""Of texts in the facts of one step, and one more: a commit fits into a frame."""

Fact = (
    ToolOutputSpilled
    | ToolOutputTrimmed
    | MessageRepaired
    | CompactionDeclined
    | HookFired
    | ReminderInjected
    | StageFailed
)


class Spilled(msgspec.Struct, frozen=True, kw_only=True):
    """What spill decided: bytes to store first, then facts."""

    bodies: tuple[bytes, ...]
    facts: tuple[Fact, ...]


def claims(state: State) -> tuple[str, ...]:
    """Return the SHA-256 of the uploads that `spill` has to look into."""
    parts = [part for large in large_parts(state) for part in (large.together or (large.part,))]
    return tuple(part.sha256 for part in parts if part.sha256)


def spill(state: State, *, uploads: Mapping[str, str | None], count: Count) -> Spilled | None:
    """Return what moves every oversized part out of the window, and records the repairs; None if there is nothing.

    *uploads* holds the text of each of `claims`, None where it was never uploaded. What an outage left unstored is
    stored now; the model goes on to see the text that it saw.
    """
    moved = list(within_commit(_moved(large, uploads, count) for large in large_parts(state)))
    owed = owed_parts(state)
    facts = (*in_order(state, (fact for _, found in moved for fact in found), count), *(fact for _, fact in owed))
    bodies = [body for stored, _ in moved for body in stored] + [body for body, _ in owed if body is not None]
    return Spilled(bodies=tuple(bodies), facts=facts) if facts else None


def _moved(large: Large, uploads: Mapping[str, str | None], count: Count) -> tuple[Sequence[bytes], Sequence[Fact]]:
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


def within_commit(
    moved: Iterable[tuple[Sequence[bytes], Sequence[Fact]]],
) -> Iterator[tuple[Sequence[bytes], Sequence[Fact]]]:
    """Yield of *moved* as much as one commit should hold; what is left is the next step's."""
    held = 0
    for bodies, facts in moved:
        yield bodies, facts
        texts = (fact.text for fact in facts if isinstance(fact, ToolOutputSpilled | ToolOutputTrimmed))
        held += sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
        if held > COMMIT_BYTES_MAX:
            return


def in_order(state: State, found: Iterable[Fact], count: Count) -> tuple[Fact, ...]:
    """Return the repairs and what hooks have due, then what was *found*; what stays comes last, once for a message."""
    moved: list[Fact] = []
    staying: dict[int, Fact] = {}
    for fact in found:
        if isinstance(fact, CompactionDeclined):
            staying[fact.boundary] = fact
        else:
            moved.append(fact)
    return (*state.heard.unrecorded, *due_facts(state, count=count), *moved, *staying.values())


def gains_little(large: Large, tokens: int) -> bool:
    """Tell whether *large* may stay as it is, and *tokens* in its place save hardly any."""
    return large.may_stay and tokens > large.part.tokens * (1 - GAIN_MIN)


def declined(entry: Entry) -> CompactionDeclined:
    """Return the fact that says that a part of *entry* stays."""
    reason = f"shortening wins less than {GAIN_MIN:.0%} of a part"
    return CompactionDeclined(boundary=entry.number, stage="spill", reason=reason)
