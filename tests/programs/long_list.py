"""`make list`: how long `jettison ls` takes where the list has 100,000 conversations, each process from its start.

And what it costs the page to read all of it for the first time. `COUNT=1000000` for more.

The records are made up and written as a sweeper writes them; nothing of the conversations themselves is there.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from actors.cli.session import started_stack
from actors.core.listed import About, Listed
from actors.core.spent import Day
from actors.host.bootstrap import runtime
from actors.host.settings import Settings
from protocol.ids import address

AT_ONCE = 10_000
TIMES = 5
PAGE = """
import asyncio, resource, sys, time
from actors.cli.session import located
from actors.host.bootstrap import runtime
from actors.host.settings import Settings
from actors.page.known_list import KnownList
async def main():
    async with runtime(located(Settings(data=sys.argv[1])), role="bench") as running:
        known = KnownList(running.listing(), changes=running.changes, log=running.log)
        began = time.process_time()
        await known.refresh()
        megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(f"page: all is read once in {time.process_time() - began:.1f} s of CPU time, {megabytes} MB")
asyncio.run(main())
"""

SUBJECTS = ("Rechnung", "refund", "返金", "Payout", "Login", "facture")


def made(count: int) -> Iterator[Listed]:
    """Yield records such as a sweep makes, of conversations that were active over a month."""
    rng, now_ms = random.Random(7), time.time_ns() // 1_000_000
    for number in range(count):
        name = f"{rng.choice(SUBJECTS)} {number}"
        said, tokens = rng.randrange(500, 900_000), rng.randrange(300, 30_000)
        day = Day(
            day=20_000 + rng.randrange(30), first=1, calls=9, said_tokens=9 * said, sendable_tokens=said,
            served_tokens=9 * tokens,
        )  # fmt: skip
        about = About(
            name=name, model="gpt-4o", version=rng.randrange(2, 300), messages=rng.randrange(2, 500), log_tokens=said,
            tokens=tokens, usable=30_000, waits_for=rng.choice(("", "", "", "digest")), policy_hash="0" * 16,
            days=(day,),
        )  # fmt: skip
        yield Listed(
            at=address(name, f"tenant-{number % 7}"), seq=0, at_ms=now_ms - rng.randrange(30 * 86_400_000), about=about
        )


async def measured(count: int) -> None:
    """Write *count* records, and list them."""
    with TemporaryDirectory() as folder:
        async with (
            started_stack(Settings(data=folder), owner="up") as (ours, _),
            runtime(ours, role="bench") as running,
        ):
            listing, rows = running.listing(), list(made(count))
            began = time.perf_counter()
            for first in range(0, count, AT_ONCE):
                assert await listing.record(rows[first : first + AT_ONCE], seq=0)
            print(f"{count:,} records written in {time.perf_counter() - began:.1f} s")
            for arguments in ((), ("--page", "1000"), ("返金 77",), ("--sort", "tokens")):
                await _times(Path(folder), *arguments)
            page = (sys.executable, "-c", PAGE, folder)
            print((await asyncio.to_thread(subprocess.run, page, capture_output=True, text=True, check=True)).stdout)


async def _times(folder: Path, *arguments: str) -> None:
    command = [sys.executable, "-c", "from actors.cli import main; main()", "ls", *arguments, "--data", str(folder)]
    taken = []
    for _ in range(TIMES):
        began = time.perf_counter()
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True)
        taken.append(time.perf_counter() - began)
    lines = len(done.stdout.splitlines())
    print(f"ls {' '.join(arguments):<16} {min(taken):.2f} s at best, {max(taken):.2f} at worst, {lines} lines")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100_000)
    asyncio.run(measured(parser.parse_args().count))
