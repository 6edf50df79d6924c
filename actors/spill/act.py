"""Act of spill: what it moves out of the window is in the store before the fact that points to it.

What that is, `decide.py` says; the facts go back to `runtime/stepping.py`, which commits them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from cachetools import LRUCache

from actors.core.seal import Step
from actors.core.state import State
from actors.core.text.count import Count
from protocol.errors import ArtifactsUnavailable, Busy, NotFound
from protocol.ids import Address
from storage.ports import Artifacts

from .decide import Spilled, claims, spill
from .policy_layers import NO_LAYERS, Layers, adopting
from .without_store import degraded

DEGRADE_AFTER_ATTEMPTS = 4
"""Attempts (about 4 s of a store that is down) before spill goes on without it."""

DEGRADE_AFTER_SECONDS = 5.0
"""The same where a store said nothing for so long; an attempt that waits for its turn says nothing of the store."""

OUTAGES_MAX = 10_000
"""Conversations whose attempts are counted; a forgotten one begins anew."""

STORING_MAX = 32
"""Conversations of one process that wait for the store, with what they store in memory; others pause, and come back."""

BYTES_AT_ONCE_MAX = 65_536
"""Looked at on the loop itself, some ten milliseconds; for more a rule gets a thread, and the loop goes on."""


@dataclass(kw_only=True)
class Storing:
    """One process's work with the store."""

    artifacts: Artifacts
    layers: Layers = NO_LAYERS
    """What the policy of a new conversation lies on."""
    at_store: int = 0
    outages: LRUCache[Address, int] = field(default_factory=lambda: LRUCache(OUTAGES_MAX))
    """How often the store was not there for each conversation: the server's deliveries count other things too."""

    async def step(self, at: Address, state: State, *, count: Count, release_credit: Callable[[], None]) -> Step:
        """Return spill's step on *state*; *release_credit* is called where it begins to wait for the store.

        Raises `ArtifactsUnavailable` while it should wait, `Busy` while too many others do.
        """
        if state.policy is None:
            return adopting(self.layers, at, state)
        try:
            spilled = await self._spilled(at, state, count, release_credit)
        except ArtifactsUnavailable as error:
            attempts = self.outages[at] = self.outages.get(at, 0) + 1
            early = attempts < DEGRADE_AFTER_ATTEMPTS and _silent_seconds(error) < DEGRADE_AFTER_SECONDS
            if state.policy.spill.on_store_error == "wait" or early:
                raise
            spilled = degraded(state, reason=f"{error}"[:120], count=count)
        self.outages.pop(at, None)
        return Step(facts=spilled.facts if spilled else ())

    async def _spilled(self, at: Address, state: State, count: Count, release: Callable[[], None]) -> Spilled | None:
        """Decide, and store what was decided."""
        uploads = {}
        if wanted := claims(state):
            with self._storing(release):
                uploads = {sha256: await self._upload(at, sha256) for sha256 in wanted}
        if _bytes_coming(state) > BYTES_AT_ONCE_MAX:
            spilled = await asyncio.to_thread(spill, state, uploads=uploads, count=count)
        else:
            spilled = spill(state, uploads=uploads, count=count)
        if spilled and spilled.bodies:
            with self._storing(release):
                for body in spilled.bodies:
                    await self.artifacts.put(at.tenant, body)
        return spilled

    @contextmanager
    def _storing(self, release_credit: Callable[[], None]) -> Iterator[None]:
        """Wait for the store among a bounded number: each holds its bodies in memory, and no other slot up."""
        if self.at_store >= STORING_MAX:
            raise Busy(f"{STORING_MAX} conversations wait for the store already")
        self.at_store += 1
        release_credit()
        try:
            yield
        finally:
            self.at_store -= 1

    async def _upload(self, at: Address, sha256: str) -> str | None:
        try:
            return (await self.artifacts.get(at.tenant, sha256)).decode("utf-8", "replace")
        except NotFound:
            return None


def _silent_seconds(error: ArtifactsUnavailable) -> float:
    """Return how long the store had said nothing before *error*, as far as it says so."""
    silent = error.fields.get("silent_seconds")
    return silent if isinstance(silent, float) else 0.0


def _bytes_coming(state: State) -> int:
    """Return the bytes of the messages that spill looks at."""
    return sum(part.bytes for entry in state.arrived for part in entry.parts)
