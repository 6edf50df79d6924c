"""Readiness: whether a process can do its work now. What it needs is asked for at most once in `FRESH_SECONDS`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from protocol.errors import JettisonError

ASK_SECONDS = 1.0
"""For all answers together: below what an orchestrator waits for a probe."""

FRESH_SECONDS = 2.0

Ask = Callable[[], Awaitable[object]]


@dataclass(kw_only=True)
class Need:
    """One thing that a process needs; *ask* raises where it is not there."""

    ask: Ask
    is_required: bool = True
    """Else it is told and decides nothing: the process serves without it."""
    _task: asyncio.Task[None] | None = field(default=None, init=False)
    _why: str = field(default="", init=False)
    _ended: float = field(default=0.0, init=False)

    async def why_not(self) -> str:
        """Return why it is not there; empty if it is."""
        # a question that is not answered is not asked a second time: threads and sockets wait for it
        if self._task is None or (self._task.done() and time.monotonic() - self._ended > FRESH_SECONDS):
            self._task = asyncio.create_task(self._asked())
        await asyncio.wait({self._task}, timeout=ASK_SECONDS)
        return self._why if self._task.done() else f"no answer in {ASK_SECONDS:g} s"

    def forget(self) -> None:
        """Ask no more."""
        if self._task is not None:
            self._task.cancel()

    async def _asked(self) -> None:
        try:
            await self.ask()
            self._why = ""
        except JettisonError as error:
            self._why = str(error)
        except Exception as error:
            self._why = type(error).__name__
        finally:
            self._ended = time.monotonic()


class Readiness:
    """What one process needs, as far as it has come."""

    def __init__(self) -> None:
        self._needs: Mapping[str, Need] | None = None

    @contextmanager
    def needs(self, needs: Mapping[str, Need]) -> Iterator[None]:
        """Go by *needs* while the block runs; before and after it the process is not ready."""
        self._needs = needs
        try:
            yield
        finally:
            self._needs = None
            for need in needs.values():
                need.forget()

    async def told(self) -> tuple[bool, dict[str, str]]:
        """Return whether the process is ready, and of each thing `ok` or what is wrong."""
        needs = self._needs
        if needs is None:
            return False, {"process": "starts, or waits for NATS or the store"}
        answers = await asyncio.gather(*(need.why_not() for need in needs.values()))
        told = dict(zip(needs, answers, strict=True))
        ready = all(not why for name, why in told.items() if needs[name].is_required)
        return ready, {name: why or "ok" for name, why in told.items()}
