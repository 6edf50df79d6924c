"""Runs: what was measured before, one JSON line for each run of a part, and what has become slower since.

The lines are committed beside the table: a best that lives on one person's disk is lost with it.
"""

from __future__ import annotations

import datetime
import os
import platform
import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from tests.programs.bench.figures import Figure, number

SLOWER_SHARE = 0.10
"""A figure so much worse than its best on the same machine is told."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The class of a machine, nothing that names one: only runs of equal ones are compared."""

    processor: str
    cores: int
    memory_gb: int
    python: str

    @property
    def told(self) -> str:
        """Return it for people."""
        return f"{self.cores} cores, {self.processor}, {self.memory_gb} GB, Python {self.python}"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of a run. `higher` says that more of it is better."""

    value: float
    unit: str = "x"
    higher: bool = False


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run of one part."""

    part: str
    time: str
    """ISO 8601, UTC, when it began."""
    commit: str
    """Of this repository, with a `+` where files were changed since; empty where there is no git."""
    machine: Machine
    load: float
    """Processes that wanted a processor in the minute before it began."""
    seconds: float
    rows: dict[str, Row]


def this_machine() -> Machine:
    """Return the class of this machine."""
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return Machine(
        processor=found[1] if found else platform.machine(),
        cores=os.cpu_count() or 1,
        memory_gb=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9),
        python=platform.python_version(),
    )


def this_commit(folder: Path) -> str:
    """Return the commit that is checked out in *folder*."""
    try:
        command = ["git", "describe", "--always", "--exclude=*", "--dirty=+"]
        return subprocess.run(command, cwd=folder, capture_output=True, check=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def run_of(part: str, figures: Sequence[Figure], *, began: float, load: float, seconds: float, folder: Path) -> Run:
    """Return the line of one run of *part*, which *began* at that second of the epoch."""
    rows = {
        one.what: Row(value=one.value, unit=one.unit, higher=one.least) for one in figures if one.value == one.value
    }
    return Run(
        part=part,
        time=datetime.datetime.fromtimestamp(began, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        commit=this_commit(folder),
        machine=this_machine(),
        load=round(load, 1),
        seconds=round(seconds, 1),
        rows=rows,
    )


def kept_runs(file: Path) -> list[Run]:
    """Return the runs in *file*, oldest first; none where there is no such file. Raises `msgspec.DecodeError`."""
    if not file.exists():
        return []
    found = [msgspec.json.decode(line, type=Run) for line in file.read_bytes().splitlines() if line]
    return sorted(found, key=lambda run: run.time)


def keep(file: Path, runs: Iterable[Run]) -> None:
    """Append *runs* to *file*."""
    with file.open("ab") as out:
        out.writelines(msgspec.json.encode(run) + b"\n" for run in runs)


def slower(run: Run, before: Iterable[Run]) -> list[str]:
    """Return a sentence for each figure of *run* that is worse than its best *before* by more than `SLOWER_SHARE`."""
    alike = [one for one in before if (one.part, one.machine) == (run.part, run.machine)]
    return [told for what, row in run.rows.items() if (told := _slower(run, what, row, alike))]


def _slower(run: Run, what: str, row: Row, alike: Sequence[Run]) -> str:
    known = [one for one in alike if what in one.rows]
    if not known:
        return ""
    best = (max if row.higher else min)(known, key=lambda one: one.rows[what].value)
    times = worse(row, best.rows[what])
    if times <= 1 + SLOWER_SHARE:
        return ""
    was = f"{number(best.rows[what].value)} {row.unit} ({best.time[:10]}, {best.commit}, load {best.load})"
    return (
        f"slower: {run.part}: {what}: {number(row.value)} {row.unit}, {100 * (times - 1):.0f} % worse than its best "
        f"on this machine, {was}; load now {run.load}"
    )


def worse(row: Row, best: Row) -> float:
    """Return how many times as bad as *best* a figure is; 1 where there is no ratio of the two."""
    over, under = (best.value, row.value) if row.higher else (row.value, best.value)
    return over / under if over > 0 and under > 0 else 1.0
