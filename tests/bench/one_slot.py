"""A squeeze worker that holds one slot at a time, so that its pace is the model's and not this machine's."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from actors.bootstrap import runtime, warmed
from actors.cli.session import located, settings_of
from storage.ports import Slot, Wakes


class OneSlot:
    """`Wakes` that hands out one slot at a time, whatever is asked."""

    def __init__(self, wakes: Wakes) -> None:
        self._wakes = wakes
        self.wake = wakes.wake

    def slots(self, actor: Any, **asked: Any) -> AsyncIterator[Slot]:
        """See `Wakes.slots`."""
        return self._wakes.slots(actor, **{**asked, "credits": 1})


async def squeeze(data: Path, llm_url: str) -> None:
    """Work until the process ends."""
    settings = located(settings_of(config=None, data=data, llm_url=llm_url))
    async with runtime(settings, role="squeeze") as running:
        await warmed(running, ["squeeze"])
        worker = running.worker("squeeze")
        sys.stderr.write("squeeze works on one slot\n")
        sys.stderr.flush()
        await dataclasses.replace(worker, wakes=OneSlot(worker.wakes)).run()


def main() -> None:
    """Read the arguments and work."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--llm", required=True)
    wanted = parser.parse_args()
    asyncio.run(squeeze(wanted.data, wanted.llm))


if __name__ == "__main__":
    main()
