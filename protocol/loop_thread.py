"""Loop thread: one event loop in a thread of its own, on which the clients of programs without one work.

It is a daemon: a program ends whenever it likes, and its clients are closed before. A child of a fork has none of it
and makes its own with the first client that it connects.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar
from weakref import WeakSet

from .errors import LogUnavailable, Rejected

T = TypeVar("T")

EXIT_SECONDS = 2.0
"""For the clients that are still open when the program ends; what was appended is durable without."""

Close = Callable[[], Coroutine[Any, Any, None]]


class LoopThread:
    """One loop in one thread, begun with the first call."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ended = False
        self._open: WeakSet[Any] = WeakSet()

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Return what *call* returns on the loop; who is interrupted meanwhile cancels it.

        Raises `Rejected` in the child of a fork, and on the loop's own thread, which would wait for itself.
        """
        future = self._future(call)
        try:
            return future.result()
        except CancelledError:
            raise LogUnavailable("the program is ending: nobody waits for an answer any more") from None
        finally:
            future.cancel()

    async def arun(self, call: Coroutine[Any, Any, T]) -> T:
        """Return what *call* returns on the loop, to any other loop. Raises `Rejected` in the child of a fork."""
        return await asyncio.wrap_future(self._future(call))

    def each(self, items: AsyncIterator[T]) -> Iterator[T]:
        """Yield what *items* yield."""
        end: Any = object()
        try:
            while (item := self.run(_next(items, end))) is not end:
                yield item
        finally:
            if self.is_ours():
                self.run(_closed(items))

    def is_ours(self) -> bool:
        """Tell whether this process made it; the child of a fork has no part of it."""
        return self.pid == os.getpid()

    def at_exit(self, client: Any) -> None:
        """Close *client* when the program ends, if it is still there."""
        self._open.add(client)

    def _future(self, call: Coroutine[Any, Any, T]) -> Future[T]:
        try:
            return asyncio.run_coroutine_threadsafe(call, self._begun())
        except BaseException:
            call.close()
            raise

    def _begun(self) -> asyncio.AbstractEventLoop:
        if not self.is_ours():
            raise Rejected("this client was connected before the fork: connect in the child; its parent keeps it")
        if threading.current_thread() is self._thread:
            raise Rejected("a call of jettison_client.sync cannot wait within another one; use jettison_client there")
        with self._lock:
            if self._ended:
                raise LogUnavailable("the program is ending; nothing was sent")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="jettison-client", daemon=True)
                self._thread.start()
            return self._loop

    def forget(self) -> None:
        """Let nothing be said of tasks that end nowhere in the child of a fork: they run in its parent."""
        if self._loop is not None:
            for task in asyncio.all_tasks(self._loop):
                task._log_destroy_pending = False  # type: ignore[attr-defined]

    def end(self) -> None:
        """Close what is open, and end the thread; nothing can be called any more."""
        if self._loop is None or self._thread is None or not self.is_ours():
            return
        clients = [client.close_within(EXIT_SECONDS) for client in tuple(self._open)]
        with self._lock:
            self._ended = True
        try:
            asyncio.run_coroutine_threadsafe(_all(clients), self._loop).result(EXIT_SECONDS + 1)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(EXIT_SECONDS)
            if not self._thread.is_alive():
                self._loop.close()


async def _next(items: AsyncIterator[T], end: T) -> T:
    return await anext(items, end)


async def _closed(items: AsyncIterator[Any]) -> None:
    close = getattr(items, "aclose", None)
    if close is not None:
        await close()


async def _all(calls: list[Coroutine[Any, Any, None]]) -> None:
    """Run *calls*, and end all else that runs on this loop: it is about to stop."""
    await asyncio.gather(*calls, return_exceptions=True)
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


_ours = LoopThread()


def shared() -> LoopThread:
    """Return the loop thread of this process."""
    return _ours


def _anew() -> None:
    """In the child of a fork: the parent's thread is not there, and its lock may be held for ever."""
    global _ours
    _ours.forget()
    _ours = LoopThread()


def _end() -> None:
    _ours.end()


atexit.register(_end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_anew)
