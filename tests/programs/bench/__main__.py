"""`make bench`: measure everything, print one table, and write it into the document when asked.

Each figure is a ratio of two medians of the same run, so that it can be compared between machines. The peers are
measured in an environment of their own (`.venv-bench`), beside our rules in one process.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import os
import platform
import subprocess
import sys
import traceback
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec

from tests.programs.bench.encrypting import encrypting_figures
from tests.programs.bench.fairness import fairness_figures
from tests.programs.bench.figures import Figure, Skipped, markdown, table, with_rows
from tests.programs.bench.gateway import gateway_figures, gateway_memory_figures
from tests.programs.bench.path import latency_figures, long_figures, throughput_figures
from tests.programs.bench.plot import drawn
from tests.programs.bench.replaying import replaying_figures
from tests.programs.bench.servers import Bench, bench
from tests.programs.bench.squeezing import squeeze_figures
from tests.programs.bench.streams import (
    linear_figures,
    publishing_figures,
    replay_figures,
    spill_figures,
    stall_figures,
    tracing_figures,
)

ROOT = Path(__file__).resolve().parents[3]
DOCUMENT = ROOT / "infra/docs/performance.md"
PLOT = ROOT / "infra/docs/performance.svg"
BEGIN, END = "<!-- figures: written by `make bench` -->", "<!-- /figures -->"
PEERS_PYTHON = ROOT / ".venv-bench/bin/python"
PEERS_SECONDS = 3_600

SERVED: dict[str, Callable[[Bench], Awaitable[list[Figure]]]] = {
    "latency": latency_figures,
    "throughput": throughput_figures,
    "fairness": fairness_figures,
    "squeeze": squeeze_figures,
    "long": long_figures,
    "publishing": publishing_figures,
    "replay": replay_figures,
    "replaying": replaying_figures,
    "spill": spill_figures,
    "stall": stall_figures,
    "tracing": tracing_figures,
    "encrypting": encrypting_figures,
    "gateway": gateway_figures,
    "gateway-memory": gateway_memory_figures,
}
"""Parts that need servers."""

BESIDE = ("turns", "visible", "growth", "memory")
"""Parts that are measured beside the peers."""


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """What one run found. `series` holds the milliseconds of a turn by who, and by the history's bytes."""

    figures: list[Figure] = []
    skipped: list[Skipped] = []
    series: dict[str, list[tuple[int, float]]] = {}


def measured(part: str) -> Results:
    """Measure one part. What makes it impossible stands in the table, and the others go on: a run takes long."""
    sys.stderr.write(f"bench: {part}\n")
    try:
        if part in BESIDE:
            return beside(part)
        return Results(figures=linear_figures() if part == "linear" else asyncio.run(served(part)))
    except Exception as error:
        traceback.print_exc()
        return Results(skipped=[Skipped(part=part, reason=f"{type(error).__name__}: {error}"[:200])])


def beside(part: str) -> Results:
    """Measure one part in the peers' environment, in a process of its own; without that environment, ours alone."""
    python = PEERS_PYTHON if PEERS_PYTHON.exists() else Path(sys.executable)
    command = [str(python), "-m", "tests.programs.bench.turns", "--parts", part]
    found = subprocess.run(command, stdout=subprocess.PIPE, timeout=PEERS_SECONDS, check=True)
    return msgspec.json.decode(found.stdout, type=Results)


async def served(part: str) -> list[Figure]:
    """Measure one part against real servers, fresh ones."""
    async with bench() as running:
        return await SERVED[part](running)


def machine() -> str:
    """Return the class of this machine, nothing that names it."""
    load = f"load {os.getloadavg()[0]:.1f} at the start"
    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, {load}"


def written(results: Results, *, told: str, parts: Sequence[str]) -> None:
    """Write the table between the markers of the document, and the plot beside it; of some *parts* only their rows."""
    text = DOCUMENT.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    before, _, tail = rest.partition(END)
    today = datetime.datetime.now(datetime.UTC).date()
    command = f"python -m tests.programs.bench {' '.join(parts)}" if parts else "make bench"
    lead = f"Measured {today} with `{command}` on {told}."
    made = markdown(results.figures, results.skipped)
    table = with_rows(before.strip("\n"), made, lead=lead) if parts else f"{lead}\n\n{made}"
    body = f"{head}{BEGIN}\n{table}\n{END}{tail}"
    DOCUMENT.write_text(body, encoding="utf-8")
    if results.series:
        PLOT.write_text(drawn(results.series), encoding="utf-8")


def main() -> int:
    """Measure what is asked for; exit with 1 where a goal is missed or a part could not be measured."""
    everything = [*BESIDE, *SERVED, "linear"]
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "parts", nargs="*", metavar="part", help=f"any of {', '.join(everything)}; all if none is named"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document instead of the table")
    parser.add_argument("--write", action="store_true", help=f"write the table into {DOCUMENT.name}")
    wanted = parser.parse_args()
    parts = wanted.parts or everything
    if unknown := set(parts) - set(everything):
        parser.error(f"not a part: {', '.join(sorted(unknown))}")
    told = machine()
    found = [measured(part) for part in everything if part in parts]
    results = Results(
        figures=[figure for one in found for figure in one.figures],
        # each part looks for the peers itself
        skipped=list({one.part: one for each in found for one in each.skipped}.values()),
        series={name: line for one in found for name, line in one.series.items()},
    )
    if wanted.write:
        written(results, told=told, parts=wanted.parts)
    shown = msgspec.json.encode(results).decode() if wanted.json else table(results.figures, results.skipped)
    sys.stdout.write(f"{shown}\n")
    return 1 if results.skipped or any(figure.verdict == "MISS" for figure in results.figures) else 0


if __name__ == "__main__":
    sys.exit(main())
