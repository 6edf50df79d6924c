"""Growing: `jettison repartition` in the middle of everything, killed in the middle of itself."""

from __future__ import annotations

import asyncio
import random
import sys

from actors.host.settings import Settings
from tests.promises.harness import environment

KILLS = 6
"""Before it is let to come to its end."""

ALIVE_SECONDS = (5.0, 15.0)
"""How long it lives: it loads for a second, and sees to it that all know of it for some more."""

ATTEMPTS_MAX = 60
"""Of the runs that may end by themselves: the servers are killed meanwhile."""

COMMAND = "import sys; from actors.cli import main; sys.exit(main())"


async def grown(settings: Settings, partitions: int, *, seed: int, kills: int) -> int:
    """Run it until it ends well; return how often it was killed. Raises `RuntimeError` where it never does."""
    rng, killed = random.Random(f"{seed}/growing"), 0
    told = b""
    for _ in range(ATTEMPTS_MAX):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", COMMAND, "repartition", str(partitions)),
            env={
                **environment(settings),
                "JETTISON_NATS__USER": "operator",
                "JETTISON_NATS__PASSWORD": settings.nats.password,
            },
            stderr=asyncio.subprocess.PIPE,
        )
        killer = asyncio.create_task(_killed(process, rng.uniform(*ALIVE_SECONDS))) if killed < kills else None
        try:
            _, told = await process.communicate()
        finally:
            if process.returncode is None:  # the run is told to end
                process.kill()
            if killer is not None:
                killer.cancel()
        if process.returncode == 0:
            return killed
        killed += process.returncode == -9
        if process.returncode != -9:
            sys.stderr.write(f"repartition ended with {process.returncode}: {told.decode(errors='replace')[-300:]}\n")
    raise RuntimeError(f"it never came to its end: {told.decode(errors='replace')[-2000:]}")


async def _killed(process: asyncio.subprocess.Process, seconds: float) -> None:
    await asyncio.sleep(seconds)  # the fault comes in the middle
    process.kill()
