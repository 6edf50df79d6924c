"""Spill: a part too big for the window becomes an artifact and a pointer.

Decides only: which parts, when, and what is stored. `part.py` says what takes their place. `act.py` stores the bytes
before the facts are appended, so that no pointer ever dangles.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from actors.core.caps import (
    is_result,
    over_cap,
    oversized,
    part_cap_tokens,
    whole_results,
)
from actors.core.entry import Entry
from actors.core.hooks import due_facts
from actors.core.state import State
from actors.core.text.count import Count
from actors.core.text.error_text import error_text
from actors.core.text.kinds import kind_of
from protocol.facts import (
    CompactionDeclined,
    HookFired,
    MessageRepaired,
    ReminderInjected,
    StageFailed,
    ToolOutputSpilled,
    ToolOutputTrimmed,
)

from .labels import lead_unstored, refusal
from .part import (
    Large,
    framed,
    is_reading,
    missing_part,
    owed_parts,
    pointer_text,
    spilled_part,
    text_of,
    trimmed_part,
    trimmed_reading,
)
from .results import as_one, degraded_result, whole_result

GAIN_MIN = 0.1
"""Share of a result that may stay that a pointer must win; for less, reading it back costs more than it saves."""

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
    parts = [part for large in _large(state) for part in (large.together or (large.part,))]
    return tuple(part.sha256 for part in parts if part.sha256)


def spill(state: State, *, uploads: Mapping[str, str | None], count: Count) -> Spilled | None:
    """Return what moves every oversized part out of the window, and records the repairs; none if there is nothing.

    *uploads* holds the text of each of `claims`, none where it was never uploaded. A result that may stay and
    that a pointer makes hardly smaller stays as it is, and that is a fact too. What an outage left unstored is
    stored now; the model goes on to see the text that it saw.
    """
    bodies: list[bytes] = []
    facts: list[Fact] = [*state.heard.unrecorded, *due_facts(state, count=count)]
    declined: dict[int, Fact] = {}
    for large in _large(state):
        part = large.part
        if large.together:
            stored, gone = whole_result(large, uploads, count)
            bodies += stored
            facts += gone
            continue
        text = uploads[part.sha256] if part.sha256 else text_of(large.entry, part)
        if text is None:
            facts.append(missing_part(part, large.entry.number, count))
            continue
        if is_reading(large):
            facts.append(trimmed_reading(large, text, count))
            continue
        body = text.encode("utf-8", "surrogatepass")
        fact = spilled_part(large, text, body, count)
        if large.may_stay and fact.text_tokens > part.tokens * (1 - GAIN_MIN):
            declined[large.entry.number] = _declined(large.entry)
            continue
        facts.append(fact)
        if not part.sha256:
            bodies.append(body)
    facts += declined.values()
    for original, owed in owed_parts(state):
        bodies += [original] if original is not None else []
        facts.append(owed)
    return Spilled(bodies=tuple(bodies), facts=tuple(facts)) if facts else None


def degraded(state: State, *, reason: str, count: Count) -> Spilled | None:
    """Return what `spill` would, but with previews only, or refusals: for a store that stays down.

    Nothing is lost: an inline part is in the log, and an upload was stored before it was said.
    """
    facts: list[Fact] = [*state.heard.unrecorded, *due_facts(state, count=count)]
    declined: dict[int, Fact] = {}
    for large in _large(state):
        entry, part = large.entry, large.part
        if large.together:
            facts += degraded_result(large, reason=reason, count=count)
            continue
        text = "" if part.sha256 else text_of(entry, part)
        if is_reading(large):
            facts.append(trimmed_reading(large, text, count))
            continue
        refused = large.policy.spill.on_store_error == "refuse" and is_result(entry, part) and not large.may_stay
        if refused:
            # what a failed call said of its failure is short, and stays
            shown = framed(part, refusal(bytes=part.bytes, tokens=part.tokens, cap=large.cap), error_text(text))
        else:
            kind = kind_of(text)
            shown = pointer_text(large, text, kind, lead_unstored(number=entry.number, bytes=part.bytes), count)
        tokens = count(shown)
        if large.may_stay and tokens > part.tokens * (1 - GAIN_MIN):
            declined[entry.number] = _declined(entry)
            continue
        facts.append(trimmed_part(part, entry.number, shown, count, reason=reason, owed=not refused))
    facts += declined.values()
    return Spilled(bodies=(), facts=tuple(facts)) if facts else None


def _large(state: State) -> tuple[Large, ...]:
    """Return what has to leave or may be made smaller."""
    policy = state.policy
    if policy is None:
        return ()
    found: list[Large] = []
    for entry, usable in state.coming:
        groups = whole_results(entry, policy, usable)
        together = {part.pointer for group in groups for part in group}
        for group in groups:
            cap = part_cap_tokens(entry, group[0], policy, usable)
            one = as_one(group)
            found.append(Large(entry=entry, part=one, policy=policy, cap=cap, may_stay=False, together=group))
        found += [
            Large(
                entry=entry,
                part=part,
                policy=policy,
                cap=part_cap_tokens(entry, part, policy, usable),
                may_stay=not part.sha256 and not over_cap(entry, part, policy, usable),
            )
            for part in oversized(entry, policy, usable)
            if part.pointer not in together
        ]
    return tuple(found)


def _declined(entry: Entry) -> CompactionDeclined:
    reason = f"shortening wins less than {GAIN_MIN:.0%} of a part"
    return CompactionDeclined(boundary=entry.number, stage="spill", reason=reason)
