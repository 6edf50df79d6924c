"""A conversation for measuring: what a test keeps of it, to look at later, is dropped."""

from __future__ import annotations

from actors.core.apply_done import apply_done
from actors.core.apply_said import apply_said
from protocol.codec import Commit
from protocol.facts import HistoryCut, HistoryDigested
from tests.builders import Talk


class Forgetful(Talk):
    """A conversation that keeps nothing but its state: what a worker would hand to its stores is dropped."""

    compacted = 0

    def hear(self, body: bytes) -> None:
        self.state = apply_said(self.state, body, seq=self.state.seq + 1, count=self.count)

    def land(self, commit: Commit) -> None:
        self.bodies.clear()
        self.compacted += any(isinstance(fact, HistoryDigested | HistoryCut) for fact in commit.facts)
        self.state = apply_done(self.state, commit, seq=self.state.seq + 1, size=0)
