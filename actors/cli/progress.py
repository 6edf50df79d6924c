"""Progress on stderr: a bar for a person, plain lines where nobody watches a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LINE_SECONDS = 5.0


@contextmanager
def bar(title: str, total: int, *, unit: str = "messages") -> Iterator[Callable[[str, int, int], None]]:
    """Yield a function to call after each *unit*."""
    if not sys.stderr.isatty():
        with lines(title, total, unit=unit) as step:
            yield step
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn(unit))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as shown:
        task = shown.add_task(title, total=total)
        yield lambda name, index, of: shown.advance(task)


@contextmanager
def lines(title: str, total: int, *, unit: str = "messages") -> Iterator[Callable[[str, int, int], None]]:
    """Yield the same, for what is told on the same terminal meanwhile: whole lines, which a bar would be torn by."""
    yield _lines(title, total, unit)


def _lines(title: str, total: int, unit: str) -> Callable[[str, int, int], None]:
    played, told = 0, time.monotonic()

    def step(name: str, index: int, of: int) -> None:
        nonlocal played, told
        played += 1
        if time.monotonic() - told >= LINE_SECONDS:
            told = time.monotonic()
            sys.stderr.write(f"{title}: {played} of {total} {unit}\n")

    return step
