"""Daemon threads: calls that block, made beside the event loop by threads that no exit of the process waits for.

The standard library's pool is joined when the interpreter ends, also where a call in it hangs: a server that stopped
answering would then hold a program that was told to stop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


class DaemonThreads(Executor):
    """At most *most* threads, begun as they are needed."""

    def __init__(self, most: int, *, name: str) -> None:
        self._most = most
        self._name = name
        self._idle = threading.Semaphore(0)
        self._threads = 0
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Return the future of *fn*'s result; one that is cancelled before a thread has it is never called."""
        future: Future[T] = Future()
        self._calls.put((future, lambda: fn(*args, **kwargs)))
        if not self._idle.acquire(blocking=False) and self._threads < self._most:
            self._threads += 1
            threading.Thread(target=self._work, daemon=True, name=f"{self._name}-{self._threads}").start()
        return future

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = False) -> None:
        """Let the threads end after what they do; nobody waits for them."""
        for _ in range(self._threads):
            self._calls.put(None)

    def _work(self) -> None:
        while (work := self._calls.get()) is not None:
            _run(*work)
            del work  # a client that only a waiting thread still knew would be taken apart while the process ends
            self._idle.release()


def _run(future: Future[Any], call: Callable[[], Any]) -> None:
    """Make *call* for *future*, unless it was cancelled."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:
        future.set_exception(error)
        del future, call  # the error knows this frame by its traceback
    else:
        future.set_result(result)
