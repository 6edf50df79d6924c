"""Run the agents of all frameworks that are installed, or of those that are named, and print what each one kept.

.venv/bin/python -m tests.programs.adapters langchain pydantic_ai
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path

from actors.cli.session import started_stack
from actors.host.settings import Settings
from tests.conftest import at_work
from tests.programs.adapters import judge


async def main(frameworks: list[str]) -> int:
    """Run one after the other, against servers of their own; return how many did not keep a promise."""
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        async with started_stack(Settings(data=folder)) as (settings, _), at_work(settings) as working:
            for framework in frameworks:
                try:
                    left = await judge.ran(
                        framework, nats=settings.nats.url, name=f"{framework}-run", folder=Path(folder)
                    )
                    kept = await judge.judged(left, working)
                except AssertionError as error:
                    failed += 1
                    print(f"{framework}: FAILED\n  {error}")
                    continue
                print(f"{framework}: {left.seconds:.0f} s for two processes of {judge.FIRST} turns")
                for promise, how in kept.items():
                    print(f"  {promise:<14} {how}")
    return failed


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("framework", nargs="*")
    raise SystemExit(asyncio.run(main(parser.parse_args().framework or judge.present())))
