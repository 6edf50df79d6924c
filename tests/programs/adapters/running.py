"""What every run is started with, and what it leaves: its views, its history and its names, as JSON in a file."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.programs.adapters.script import Script


@dataclass
class Run:
    """The turns of one process."""

    nats: str
    name: str
    budget: int
    policy: dict[str, Any]
    turns: list[int]
    state: Any
    """The history as the process before left it, in the framework's own JSON."""
    script: Script = field(default_factory=Script)
    helper: Script = field(default_factory=Script)
    said: list[dict[str, Any]] = field(default_factory=list)
    """All messages of the framework's own history, as OpenAI chat."""
    conversations: list[str] = field(default_factory=list)


async def _left(run: Callable[[Run], Awaitable[dict[str, Any]]], job: Run) -> dict[str, Any]:
    return await run(job)


def main(run: Callable[[Run], Awaitable[dict[str, Any]]]) -> None:
    """Read the job in the file that is named, do it, and write what it left in the same file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    file = parser.parse_args().file
    given = json.loads(file.read_text())
    job = Run(**given)
    state = asyncio.run(_left(run, job))
    left = {
        **state,
        "views": job.script.views,
        "helper_views": job.helper.views,
        "refused": sorted(job.script.refused),
        "said": job.said,
        "conversations": job.conversations,
    }
    file.write_text(json.dumps(left))
