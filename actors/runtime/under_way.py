"""Under way: how many agents wait for a view of this process; what nobody waits for lets them go first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(kw_only=True)
class UnderWay:
    """What all workers and services of one process share."""

    agents: int = 0

    @contextmanager
    def agent(self) -> Iterator[None]:
        """Count one that waits."""
        self.agents += 1
        try:
            yield
        finally:
            self.agents -= 1
