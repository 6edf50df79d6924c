"""Replay pool: many conversations at once, in as many processes as there are processors.

A process reads what it replays itself, from the log or from a bundle's file, so that nothing large passes between
processes. One conversation that cannot be read is told as such and stops no other.
"""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AsyncExitStack, contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from actors.audit.refolding import refolded
from actors.audit.replay import Replayed, replay
from actors.host.bootstrap import Runtime, runtime
from actors.host.settings import Settings
from actors.model_info.tokens import counter
from protocol.errors import Damaged, JettisonError, NotFound, Rejected, Unavailable
from protocol.ids import Address
from storage.ports import Record

if TYPE_CHECKING:  # what bundles and older releases need, each process would load: a quarter of its start
    from actors.audit.older_release import Release

BATCH_MAX = 16
"""Conversations that a process takes at once: it connects once for them, and progress is told after them."""

BATCHES_EACH = 4
"""At least so many for each process, so that all end at about the same time."""

ALLOCATIONS_LOOKED_AFTER = 200_000
"""Objects after which a process looks for cycles, a bound on what errors and connections leave behind."""

QUEUED_EACH = 2
"""Batches handed out for each process: one is worked on, the next one waits."""


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation or a file that could not be replayed at all."""

    source: str
    error: str
    unavailable: bool = False
    """Bad luck: the same call may succeed later."""


class How(msgspec.Struct, frozen=True, kw_only=True):
    """How to replay: the settings say where the log is."""

    settings: Settings
    releases: tuple[Release, ...] = ()
    """Older ones, which decide the steps of their rules."""
    fold: bool = False
    """Only fold and compare: nothing is decided again."""


ReplayResult = Replayed | Failed
ReplaySource = Path | Address
"""A bundle's file, or a conversation in the log."""


def processors() -> int:
    """Return the number of processes worth starting here: a container may have fewer processors than the machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def replays(sources: Sequence[ReplaySource], how: How, *, jobs: int) -> Iterator[ReplayResult]:
    """Replay *sources* by *jobs* processes, this one among them, and yield each outcome as it comes.

    Where other releases decide too, one process waits for theirs, so that whoever ends it ends them.
    Raises `Unavailable` if a process is ended from outside.
    """
    size = max(1, min(BATCH_MAX, len(sources) // (jobs * BATCHES_EACH)))
    batches = [tuple(sources[start : start + size]) for start in range(0, len(sources), size)]
    _look_for_cycles_seldom()
    if jobs <= 1 or len(batches) <= 1 or how.releases:
        yield from _each(sources, how)
        return
    others = min(jobs, len(batches)) - 1
    with _pool(others) as pool:
        waiting = iter(batches)
        under_way: set[Future[list[ReplayResult]]] = set()
        while True:
            while len(under_way) < others * QUEUED_EACH and (batch := next(waiting, ())):
                under_way.add(pool.submit(_batch, batch, how))
            # what has loaded all of it works too, and does not wait for others to load it
            own = next(waiting, ())
            yield from _each(own, how)
            if not (own or under_way):
                return
            done, under_way = wait(under_way, timeout=0 if own else None, return_when=FIRST_COMPLETED)
            for one in done:
                yield from one.result()


def _batch(sources: Sequence[ReplaySource], how: How) -> list[ReplayResult]:
    return list(_each(sources, how))


def _each(sources: Sequence[ReplaySource], how: How) -> Iterator[ReplayResult]:
    """Replay *sources* one after the other, in this process."""
    addresses = []
    for source in sources:
        if isinstance(source, Path):
            yield _file(source, how)
        else:
            addresses.append(source)
    if addresses:
        yield from _each_of_log(addresses, how)


def _each_of_log(addresses: Sequence[Address], how: How) -> Iterator[ReplayResult]:
    with asyncio.Runner() as runner:
        connected = AsyncExitStack()
        try:
            running = runner.run(connected.enter_async_context(runtime(how.settings, role="reader")))
        except JettisonError as error:
            yield from (_failed(str(at), error) for at in addresses)
            return
        try:
            for at in addresses:
                try:
                    records, snapshot = runner.run(_read(running, at, how))
                except JettisonError as error:
                    yield _failed(str(at), error)
                    continue
                # not within the loop: there Ctrl-C would wait for its end
                if records:
                    yield _replayed(at, records, how, snapshot)
                else:
                    yield _failed(str(at), NotFound(f"there is no conversation {at}"))
        finally:
            runner.run(connected.aclose())


async def _read(running: Runtime, at: Address, how: How) -> tuple[Sequence[Record], bytes]:
    """Return the log of *at*, and its snapshot where that is compared: read first, it is never ahead of the log."""
    snapshot = await running.snapshots.newest(at) if how.fold else None
    return await running.log.read(at, after=0), snapshot or b""


def _replayed(at: Address, records: Sequence[Record], how: How, snapshot: bytes) -> ReplayResult:
    if how.fold:
        return refolded(at, records, snapshot=snapshot)
    found = replay(at, records, rules=(how.settings.rules_written,))
    if not how.releases:
        return found
    from actors.audit.older_release import decided_by

    try:
        for release in how.releases:
            found = decided_by(release, at, records, found)
    except Rejected as error:
        return _failed(str(at), error)
    return found


def _file(path: Path, how: How) -> ReplayResult:
    from actors.audit import bundle as bundles

    try:
        bundle = bundles.sound(bundles.read(path))
    except (Rejected, Damaged, OSError) as error:
        return _failed(str(path), error)
    return _replayed(bundle.at, bundle.records, how, bundle.snapshot)


def _failed(source: str, error: Exception) -> Failed:
    return Failed(source=source, error=str(error), unavailable=isinstance(error, Unavailable))


@contextmanager
def _pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Start processes that end with this one, however it ends, and at once if what they do is not wanted any more."""
    forks = _may_fork()
    if forks:
        counter("o200k_base")  # loaded once for all: a copy has it
    context = multiprocessing.get_context("fork" if forks else "spawn")
    theirs, ours = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin, initargs=(theirs, ours))
    try:
        yield pool
        pool.shutdown()
    except BrokenProcessPool:
        raise Unavailable("a process was ended while it replayed; was there too little memory?") from None
    finally:
        ours.close()  # which ends them
        # while nobody waits for its thread, Python may write into a pipe that it closes: a traceback behind Ctrl-C
        pool.shutdown(cancel_futures=True)
        theirs.close()


def _may_fork() -> bool:
    """Tell whether a copy of this process is a sound one: no other thread holds a lock that it would wait for.

    It has loaded what each needs already, a second of CPU time. Nobody forks on macOS.
    """
    return sys.platform == "linux" and threading.active_count() == 1


def _begin(alive: Connection, held: Connection) -> None:
    """Leave Ctrl-C to the first process, and end with it: who *held* the other end is gone then."""
    held.close()
    _look_for_cycles_seldom()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with, args=(alive,), daemon=True).start()


def _look_for_cycles_seldom() -> None:
    """States have no cycles: looking for them at Python's pace took a seventh of the time."""
    gc.freeze()
    gc.set_threshold(ALLOCATIONS_LOOKED_AFTER)


def _end_with(alive: Connection) -> None:
    with suppress(EOFError, OSError):
        alive.recv_bytes()
    os._exit(1)
