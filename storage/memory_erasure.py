"""Erasure in memory: what `JetStreamErasure` does, of the stores of one process."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from protocol.ids import Address
from protocol.subjects import ACTORS, LANES

from .erasure_ports import AT_ONCE, Forgotten
from .memory import MemoryKeys, MemoryLog
from .memory_work import MemoryDeadLetters, MemoryInProgress, MemoryWakes


@dataclass(frozen=True, kw_only=True)
class MemoryErasure:
    """`Erasure` of one process; no gateway keeps anything in it."""

    log: MemoryLog
    wakes: MemoryWakes
    in_progress: MemoryInProgress
    dead_letters: MemoryDeadLetters
    keys: MemoryKeys

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """See `Erasure.paused`."""
        self.wakes.pause(1)
        try:
            yield
        finally:
            self.wakes.pause(-1)

    async def remove(self, at: Address, seqs: Sequence[int], *, at_once: int = AT_ONCE) -> None:
        """See `Erasure.remove`."""
        self.log.remove(at, seqs)

    async def clear(self, at: Address, *, keep: int = 0) -> int:
        """See `Erasure.clear`."""
        gone = [record.seq for record in await self.log.read(at, after=0) if record.seq != keep]
        self.log.remove(at, gone)
        return len(gone)

    async def forget(self, at: Address) -> Forgotten:
        """See `Erasure.forget`."""
        wakes = letters = 0
        for actor in ACTORS:
            letters += self.dead_letters.forget(actor, at)
            wakes += await self.in_progress.find(actor, at) is not None
            await self.in_progress.wipe(actor, at)
            wakes += sum(self.wakes.forget(actor, at, lane) for lane in LANES)
        return Forgotten(wakes=wakes, dead_letters=letters, keys=self.keys.destroy(at))

    async def counts(self) -> Counter[Address]:
        """See `Erasure.counts`."""
        return Counter(at for at, _ in self.log.everything())

    async def now_ms(self) -> int:
        """See `Erasure.now_ms`."""
        return time.time_ns() // 1_000_000
