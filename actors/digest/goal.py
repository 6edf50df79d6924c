"""Goal: how far a compaction goes down, and how many of the newest units stay whole."""

from __future__ import annotations

from collections.abc import Sequence

from actors.core.pressure import fixed_tokens, moving_tokens, target_tokens, trigger_tokens
from actors.core.state import State
from actors.core.units import Unit, units
from protocol.policy import share_of

TURNS_FREE = 16
"""Replies of the usual size that should fit before the next compaction."""

TURNS_LEAST = 4
"""With fewer, going lower is not worth what it costs."""

LOWEST_SHARE = 0.78
"""Of the target beside the instructions: it is not gone below that for them."""

SMALL_TOKENS = 8000
"""Beside the instructions: of a smaller window less is given up for that, for it holds little. A size
below which some of the runs are whose readers missed what was given up (windows of 4,000 to 16,000)."""

TAIL_SHARE = 0.35
"""Of what the target leaves beside the instructions: the newest units, shown whole."""


def goal_tokens(state: State) -> int:
    """Return the tokens to go down to: the target, or less, where that would be reached again within a few turns.

    Each compaction is paid for with a prompt that is cached no more, and what leaves is known less well: both cost.
    """
    target = target_tokens(state)
    if state.episode is not None and state.episode.down_to:
        return target
    assert state.policy is not None
    fixed = fixed_tokens(state)
    replies = [unit for unit in units(state.live) if not unit.opens_block]
    said = sum(part.tokens for unit in replies for entry in unit.entries for part in entry.parts)
    growth = said // max(1, len(replies))
    lowest_share = LOWEST_SHARE
    if state.policy.digest.rules_3:
        lowest_share = 1 - (1 - LOWEST_SHARE) * min(1.0, moving_tokens(state) / SMALL_TOKENS)
    lowest = fixed + share_of(max(0, target - fixed), lowest_share)
    trigger = trigger_tokens(state)
    if trigger - lowest < TURNS_LEAST * growth:
        # the next compaction comes soon in any case: what is known until then is worth more
        return target
    return max(lowest, min(target, trigger - TURNS_FREE * growth))


def tail_units(every: Sequence[Unit], free: Sequence[Unit], room: int) -> int:
    """Return how many of *free* are among the newest units that fit *room*."""
    taken, first = 0, every[-1].first if every else 0
    for unit in reversed(every):
        taken += unit.tokens
        if taken > room:
            break
        first = unit.first
    return sum(unit.first >= first for unit in free)
