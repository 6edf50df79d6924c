"""Retries: what a failed delivery means, how long it pauses, and when its wake-up is given up.

Bad luck is waited out, however long it lasts. What fails by itself is tried a few times, since a newer worker or a
healthier store may manage it; then it becomes a dead letter, and the slot is free for others.
"""

from __future__ import annotations

import random

from cachetools import LRUCache

from actors.core.state import State
from protocol.errors import BadEnvelope, Damaged, Deadly, JettisonError, Unavailable
from protocol.ids import Address
from protocol.subjects import Actor
from storage.work_ports import DeadLetter, Reason, Slot

RETRY_SECONDS = (0.2, 0.5, 1.0, 2.0, 5.0, 15.0)
"""Pauses of a conversation whose step did not succeed; the last one repeats."""

FAULTS_MAX = 3
"""Failures of a step by a fault of ours, before its stage is recorded as failed and the conversation goes on."""

ATTEMPTS_MAX = 5
"""Failures, some four seconds of them, before the wake-up becomes a dead letter: more than `FAULTS_MAX`, so that
what can go on without a stage does, and long enough for a worker of a newer version to be the next one."""

BEATEN_MAX = 40
"""Times in a row that another writer comes first, some eight seconds of them, before a step has failed. After an
erasure that stopped halfway every commit is refused, until somebody ends it."""

BEATEN_SECONDS, BEATEN_SECONDS_MAX = 0.005, 0.5
"""Of the first pause, and of the longest; on average it is half of that."""

REMEMBERED_MAX = 10_000
"""Failing conversations that one worker counts; a forgotten one begins anew, and is given up later."""


class Failures:
    """How often each conversation failed here, not counting bad luck.

    Each worker counts for itself: the server's count of deliveries grows with outages, killed workers and every slot
    that was handed back too. With several workers a letter takes at most `ATTEMPTS_MAX` failures in each.
    """

    def __init__(self) -> None:
        self._counts: LRUCache[Address, int] = LRUCache(REMEMBERED_MAX)

    def of(self, at: Address) -> int:
        """Return the number of failures of *at* since its last success."""
        return self._counts.get(at, 0)

    def add(self, at: Address) -> int:
        """Count one more, and return how many there are."""
        self._counts[at] = self.of(at) + 1
        return self._counts[at]

    def forget(self, at: Address) -> None:
        """Begin anew: it succeeded."""
        self._counts.pop(at, None)


def is_passed_by(error: Exception) -> bool:
    """Tell whether the conversation can go on without the step that raised *error*; its log and stores are sound."""
    return not isinstance(error, (Unavailable, Damaged, BadEnvelope))


def reason_of(error: Exception) -> Reason:
    """Return whose fault it is. Bad luck is nobody's, and is not asked about."""
    assert not isinstance(error, Unavailable)
    if isinstance(error, Damaged):
        return "damaged"
    if isinstance(error, Deadly):
        return "deadly"
    return "unreadable" if isinstance(error, BadEnvelope) else "fault"


def letter_of(
    slot: Slot, error: Exception, *, actor: Actor, attempts: int, state: State | None, worker: str
) -> DeadLetter:
    """Return the letter that says why *slot* is given up."""
    return DeadLetter(
        actor=actor,
        tenant=slot.at.tenant,
        conversation=slot.at.conversation,
        reason=reason_of(error),
        error=type(error).__name__,
        # the sentences of ours name places and sizes; a stranger's may quote what was said
        detail=str(error)[:300] if isinstance(error, JettisonError) else "",
        attempts=attempts,
        deliveries=slot.deliveries,
        version=state.version if state else 0,
        hash=state.hash.hex() if state else "",
        seq=state.seq if state else 0,
        worker=worker,
    )


def pause_after(error: Unavailable, deliveries: int) -> float:
    """Return seconds until the next try after *error*: what it asks for, else the usual ones."""
    told = error.fields.get("retry_after_seconds")
    return told if isinstance(told, float) else pause(deliveries)


def pause(deliveries: int) -> float:
    """Return seconds until the next try, spread so that those who failed together do not come back together."""
    seconds = RETRY_SECONDS[min(max(deliveries, 1), len(RETRY_SECONDS)) - 1]
    return seconds * random.uniform(0.8, 1.2)


def pause_when_beaten(times: int) -> float:
    """Return seconds until a step is decided again to which another writer came first, so many *times* in a row."""
    return random.uniform(0, min(BEATEN_SECONDS_MAX, BEATEN_SECONDS * 2 ** min(times, 16)))
