"""Threads that no exit waits for: what they were given is gone as soon as they have done it."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable

import pytest

from storage.daemon_threads import DaemonThreads


class Given:
    """Something that a call was given."""


def fails() -> None:
    raise ValueError("on purpose")


@pytest.mark.parametrize("call", [lambda: None, fails], ids=["done", "failed"])
def test_a_thread_that_waits_keeps_nothing_of_the_call_before(call: Callable[[], None]) -> None:
    threads, given, gone = DaemonThreads(1, name="test"), Given(), threading.Event()
    weakref.finalize(given, gone.set)
    threads.submit(lambda given: call(), given).exception(180)
    del given
    assert gone.wait(60)
    threads.shutdown()
