"""Whether the store is what an actor waits for: one question at a time, for all agents whose wait goes on.

A store that is slow has not answered yet, as one that hangs: which of both it is takes longer to say than many an agent
waits. So the question is begun while they wait, and as long as nobody knows, that is what is told.
"""

from __future__ import annotations

import asyncio
import time

from protocol.errors import ArtifactsUnavailable, JettisonError, NotReady
from protocol.ids import Address, Token
from protocol.subjects import FIRST_ACTOR
from storage.ports import Artifacts

STORE_SECONDS = 1.0
"""For the store's answer where a wait is over, before its agent is told that there is none yet."""

FRESH_SECONDS = 2.0
"""An answer is believed for so long."""

NO_ARTIFACT = "0" * 64


class StoreQuestion:
    """What is known of *artifacts*."""

    def __init__(self, artifacts: Artifacts) -> None:
        self._artifacts = artifacts
        self._asking: asyncio.Task[None] | None = None
        self._ended = 0.0
        self._down = ""

    def begin(self, tenant: Token) -> asyncio.Task[None]:
        """Ask, unless that is being done or was just done; return who asks."""
        # one that is not answered is not asked a second time: the calls that agents wait for stand in the same queue
        if self._asking is None or (self._asking.done() and time.monotonic() - self._ended > FRESH_SECONDS):
            self._asking = asyncio.create_task(self._ask(tenant))
        return self._asking

    async def check(self, at: Address) -> None:
        """Raise `ArtifactsUnavailable` where the store is down, `NotReady` after `STORE_SECONDS` while nobody knows."""
        asking = self.begin(at.tenant)
        await asyncio.wait({asking}, timeout=STORE_SECONDS)
        if self._down:
            raise ArtifactsUnavailable(f"S3 does not answer: the large parts of {at} wait for it ({self._down})")
        if not asking.done():
            raise NotReady(
                f"{FIRST_ACTOR} has not worked on {at} within the wait: S3, where it stores parts, is slow or down",
                actor=FIRST_ACTOR,
            )

    def forget(self) -> None:
        """Ask no more."""
        if self._asking is not None:
            self._asking.cancel()

    async def _ask(self, tenant: Token) -> None:
        try:
            await self._artifacts.find(tenant, NO_ARTIFACT)
            self._down = ""
        except ArtifactsUnavailable as error:
            self._down = str(error)
        except JettisonError:  # that there is no such artifact, above all: an answer
            self._down = ""
        finally:
            self._ended = time.monotonic()
