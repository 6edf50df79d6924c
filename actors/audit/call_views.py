"""Call views: what a view left out for one call alone, because the call had less room than the conversation takes.

Nothing of it is in the state: the next view shows it again, unless a compaction came in between.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from actors.core.entry import Entry
from actors.core.state_parts import Digest
from actors.runtime.fold import Decision
from protocol.facts import ContextServed

from .trail import DIGEST, Touch
from .versions import rebuilt, served_fact

FACT = ContextServed.__name__


class CallView(msgspec.Struct, frozen=True, kw_only=True):
    """What one call was shown, where the view was cut for it."""

    fact: ContextServed
    entries: dict[int, Entry]
    digest: Digest | None
    touches: tuple[Touch, ...]
    """What it left out or shortened."""


def cut_view(decision: Decision, *, about: Collection[int] = ()) -> CallView | None:
    """Return the view that *decision* served, if it was cut for that call; None also where it cannot be rebuilt.

    Where something is asked *about* some messages alone, None also where nothing of these could be cut.
    """
    fact = served_fact(decision)
    # rebuilding takes 10 ms of a long conversation, and there may be a thousand such calls
    if fact is None or fact.level == "none" or (about and not _could_cut(decision, fact, about)):
        return None
    seen = rebuilt(decision).view
    if seen is None:
        return None
    state, shown = decision.before, {entry.number: entry for entry in seen.entries}
    kept = state.entries
    # a view's entries are weighed otherwise: only those that it shortened differ
    entries = {
        entry.number: entry if shown[entry.number].shown == entry.shown else shown[entry.number]
        for entry in kept
        if entry.number in shown
    }
    touches = [
        _touch(
            decision, entry.number, entry.role, entry.tokens, now.tokens if (now := entries.get(entry.number)) else 0
        )
        for entry in kept
        if entries.get(entry.number) is not entry
    ]
    digest = state.digest if seen.digest_tokens else None
    if state.digest is not None and digest is None:
        touches.append(_touch(decision, DIGEST, "digest", state.digest.tokens, 0))
    return CallView(fact=fact, entries=entries, digest=digest, touches=tuple(touches))


def _could_cut(decision: Decision, fact: ContextServed, about: Collection[int]) -> bool:
    """Tell whether the call could be shown less of these messages than the conversation has of them."""
    return fact.level == "bare" or any(entry.number in about for entry in decision.before.entries)


def _touch(decision: Decision, number: int, role: str, before: int, after: int) -> Touch:
    return Touch(
        number=number,
        role=role,
        version=decision.commit.version,
        did="shortened" if after else "cut",
        fact=FACT,
        before_tokens=before,
        after_tokens=after,
    )
