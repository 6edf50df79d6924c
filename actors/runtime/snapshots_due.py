"""Snapshots that are due: written beside the work, since one view of 64 would wait until a megabyte is stored."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from actors.core.state import State
from protocol import codec
from protocol.errors import JettisonError
from protocol.ids import Address
from protocol.limits import SNAPSHOT_BYTES, SNAPSHOT_COMMITS

from .kept_states import KeptStates

log = logging.getLogger("jettison.conversations")

LAST_SNAPSHOTS_SECONDS = 3.0
"""How long a process that ends waits for the snapshots that it is writing."""


@dataclass(frozen=True, kw_only=True)
class SnapshotsDue:
    """The snapshots of one process that are being written."""

    kept: KeptStates
    load: Callable[[Address], Awaitable[State]]
    _begun: set[asyncio.Task[None]] = field(default_factory=set)

    def committed(self, at: Address, state: State, commit: codec.Commit, *, size_bytes: int) -> None:
        """Begin a snapshot of *at* if one follows *commit*, which was decided on *state*.

        By the log alone: of many workers, who commits keeps it.
        """
        before = state.position.done_bytes
        is_large = (before + size_bytes) // SNAPSHOT_BYTES > before // SNAPSHOT_BYTES
        if is_large or commit.version % SNAPSHOT_COMMITS == 0:
            task = asyncio.ensure_future(self._write(at))
            self._begun.add(task)
            task.add_done_callback(self._begun.discard)

    async def finished(self) -> None:
        """Wait for the snapshots that are being written, for a moment: without one a log is read for longer."""
        if self._begun:
            _, late = await asyncio.wait(self._begun, timeout=LAST_SNAPSHOTS_SECONDS)
            for task in late:
                task.cancel()

    async def _write(self, at: Address) -> None:
        try:
            await self.kept.keep(at, await self.load(at))
        except JettisonError as error:
            log.info("no snapshot of %s is kept: %s", at, error)
