"""Watch: what each process holds while the run goes on, and whether it grew.

A process is judged where it lived for long enough: what it held after a fifth of its life, and when its caches were
full, beside what it holds at the end. Memory may be a little more, since an allocator's pages are never quite as empty
as they were; open files and tasks may not, since nothing keeps them: what was not there before has leaked.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from tests.programs.bench.servers import resident_mb
from tests.programs.chaos.nursery import WARM_MAX

JUDGED_SECONDS = 480.0
"""Between the two looks at least. With `--spare` one worker of each actor lives for as long as the run."""

FULL_CONVERSATIONS = WARM_MAX * 3 // 2
"""A worker in whose life so many have begun keeps as many as it may: some of them another has worked on, too."""

GROWTH_MAX = 1.2
"""Memory at the end beside that before. Bench allows 1.1 for one conversation (`memory of the workers`); here
each process meets hundreds, of sizes that are drawn, and reconnects a hundred times."""

GROWTH_MB_MAX = 16.0
"""So much is never called growth: a single large message that is under way weighs as much."""

LEFT_OPEN_MAX = 24
"""Files and tasks more than before, at the quietest moment of the end: what a worker's twelve slots may need.
What one reconnect leaves behind is there a hundred times at the end of an hour."""


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """What one process held at one moment."""

    age_seconds: float
    rss_mb: float
    files: int
    tasks: int
    """0 where the process does not say."""


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """What one process held when its caches were full (the median), and at its end (of files and tasks the least)."""

    name: str
    pid: int
    lived_seconds: float
    rss_mb: tuple[float, float]
    files: tuple[int, int]
    tasks: tuple[int, int]

    def wrong(self) -> list[str]:
        """Return what grew without a bound."""
        found = []
        early, late = self.rss_mb
        if late > early * GROWTH_MAX and late - early > GROWTH_MB_MAX:
            found.append(f"the memory of {self.name} {self.pid} grew from {early:.0f} to {late:.0f} MB")
        for what, (before, after) in (("open files", self.files), ("tasks", self.tasks)):
            if after > before + LEFT_OPEN_MAX:
                found.append(f"the {what} of {self.name} {self.pid} grew from {before} to {after}")
        return found

    def line(self) -> str:
        """Return it for people."""
        (early, late), files, tasks = self.rss_mb, self.files, self.tasks
        told = f"{self.name:8} {self.pid:7} {self.lived_seconds / 60:5.1f} min   {early:6.0f} -> {late:4.0f} MB"
        return f"{told}   {files[0]:3} -> {files[1]:3} files   {tasks[0]:3} -> {tasks[1]:3} tasks"


def grown(name: str, pid: int, samples: Sequence[Sample], *, full_seconds: float) -> Growth | None:
    """Return how much a process grew from a fifth of its life to the last tenth; none if that is too little time.

    *full_seconds* is how old it was when its caches were full; its first fifth is longer where that was later.
    """
    lived = samples[-1].age_seconds
    begins = max(lived * 0.15, full_seconds)
    early = [one for one in samples if begins <= one.age_seconds <= begins + lived * 0.1]
    late = [one for one in samples if one.age_seconds >= lived * 0.9]
    if not early or lived * 0.95 - begins < JUDGED_SECONDS:
        return None
    return Growth(
        name=name,
        pid=pid,
        lived_seconds=lived,
        rss_mb=(statistics.median(one.rss_mb for one in early), statistics.median(one.rss_mb for one in late)),
        files=(statistics.median_low(one.files for one in early), min(one.files for one in late)),
        tasks=(statistics.median_low(one.tasks for one in early), min(one.tasks for one in late)),
    )


@dataclass(kw_only=True)
class _Life:
    name: str
    born: float
    begun: int
    """Conversations that had begun before it."""
    full: float = math.inf
    """When its caches were full."""
    samples: list[Sample] = field(default_factory=list)

    @property
    def may_be_judged(self) -> bool:
        return bool(self.samples) and self.samples[-1].age_seconds >= JUDGED_SECONDS


@dataclass(kw_only=True)
class Watch:
    """All processes that were looked at; those that ended too early to be judged are forgotten."""

    folder: Path | None
    """Where workers write how many tasks they have; none where they do not."""
    largest_mb: dict[str, float] = field(default_factory=dict)
    """The most memory that any process of a name had."""
    _full: float = math.inf
    """When the caches of all processes were, or will be by then."""
    _begun: int = 0
    _lives: dict[int, _Life] = field(default_factory=dict)

    def look(self, workers: Mapping[int, str], others: Mapping[int, str]) -> None:
        """Look at *workers*, by their process ids, and note only the memory of *others*."""
        now = time.monotonic()
        for pid in [pid for pid, life in self._lives.items() if pid not in workers and not life.may_be_judged]:
            del self._lives[pid]
            if self.folder:
                (self.folder / str(pid)).unlink(missing_ok=True)
        for pid, name in (*workers.items(), *others.items()):
            with suppress(OSError, ValueError, IndexError):  # it may end while it is looked at
                held = resident_mb(pid)
                self.largest_mb[name] = max(self.largest_mb.get(name, 0.0), held)
                if pid in workers:
                    life = self._lives.setdefault(pid, _Life(name=name, born=now, begun=self._begun))
                    files = len(os.listdir(f"/proc/{pid}/fd"))
                    # who has just begun has not said it yet
                    tasks = int((self.folder / str(pid)).read_text()) if self.folder else 0
                    life.samples.append(Sample(age_seconds=now - life.born, rss_mb=held, files=files, tasks=tasks))

    def begun(self, conversations: int) -> None:
        """Note that so many conversations have begun since the run did."""
        self._begun = conversations
        for life in self._lives.values():
            if conversations >= life.begun + FULL_CONVERSATIONS:
                life.full = min(life.full, time.monotonic())

    def full(self) -> None:
        """Note that all caches are full, if nobody has said so yet."""
        self._full = min(self._full, time.monotonic())

    def growths(self) -> list[Growth]:
        """Return how much those grew that lived for long enough, the oldest first."""
        found = (
            grown(life.name, pid, life.samples, full_seconds=min(life.full, self._full) - life.born)
            for pid, life in self._lives.items()
            if life.samples
        )
        return sorted((one for one in found if one), key=lambda one: -one.lived_seconds)
