"""`make bench`: measure all parts or some, print one table, and write it into the document when asked.

A part has ten minutes and fresh servers; each run of one is kept as a line (`runs.py`) and compared with the best of
this machine. Each figure is a ratio of two medians of the same run, so that it can be compared between machines. The
peers are measured in an environment of their own (`.venv-bench`), beside our rules in one process.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec

from tests.programs.bench.cold import cold_figures
from tests.programs.bench.encrypting import encrypting_figures
from tests.programs.bench.fairness import fairness_figures
from tests.programs.bench.figures import Figure, Skipped, markdown, table, with_rows
from tests.programs.bench.gateway import gateway_figures, gateway_memory_figures
from tests.programs.bench.limits import limits_figures
from tests.programs.bench.partitions import partition_figures
from tests.programs.bench.path import latency_figures, long_figures, throughput_figures
from tests.programs.bench.replaying import replaying_figures
from tests.programs.bench.runs import Run, keep, kept_runs, run_of, slower, this_machine
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
TREND = ROOT / "infra/docs/performance-trend.svg"
RUNS = ROOT / "infra/docs/performance.jsonl"
BEGIN, END = "<!-- figures: written by `make bench` -->", "<!-- /figures -->"
PEERS_PYTHON = ROOT / ".venv-bench/bin/python"
PART_SECONDS = 600
"""After which a part is given up: longer ones are run by nobody."""

SERVED: dict[str, Callable[[Bench], Awaitable[list[Figure]]]] = {
    "latency": latency_figures,
    "throughput": throughput_figures,
    "fairness": fairness_figures,
    "squeeze": squeeze_figures,
    "long": long_figures,
    "publishing": publishing_figures,
    "replay": replay_figures,
    "replaying": replaying_figures,
    "cold": cold_figures,
    "limits": limits_figures,
    "spill": spill_figures,
    "stall": stall_figures,
    "tracing": tracing_figures,
    "encrypting": encrypting_figures,
    "partitions": partition_figures,
    "gateway": gateway_figures,
    "gateway-memory": gateway_memory_figures,
}
"""Parts that need servers."""

BESIDE = ("turns", "visible", "growth", "memory", "memory-long")
"""Parts that are measured beside the peers."""

PARTS = (*BESIDE, *SERVED, "linear")


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """What one run found. `series` holds the milliseconds of a turn by who, and by the history's bytes."""

    figures: list[Figure] = []
    skipped: list[Skipped] = []
    series: dict[str, list[tuple[int, float]]] = {}
    runs: list[Run] = []


def measured(part: str) -> Results:
    """Measure one part. What makes it impossible stands in the table, and the others go on: a run takes long."""
    sys.stderr.write(f"bench: {part}\n")
    began, clock, load = time.time(), time.perf_counter(), os.getloadavg()[0]
    try:
        if part in BESIDE:
            found = beside(part)
        else:
            found = Results(figures=linear_figures() if part == "linear" else asyncio.run(served(part)))
    except Exception as error:
        traceback.print_exc()
        return Results(skipped=[Skipped(part=part, reason=f"{type(error).__name__}: {error}"[:200])])
    seconds = time.perf_counter() - clock
    run = run_of(part, found.figures, began=began, load=load, seconds=seconds, folder=ROOT)
    return msgspec.structs.replace(found, runs=[run])


def beside(part: str) -> Results:
    """Measure one part in the peers' environment, in a process of its own; without that environment, ours alone."""
    python = PEERS_PYTHON if PEERS_PYTHON.exists() else Path(sys.executable)
    command = [str(python), "-m", "tests.programs.bench.turns", "--parts", part]
    found = subprocess.run(command, stdout=subprocess.PIPE, timeout=PART_SECONDS, check=True)
    return msgspec.json.decode(found.stdout, type=Results)


async def served(part: str) -> list[Figure]:
    """Measure one part against real servers, fresh ones."""
    async with asyncio.timeout(PART_SECONDS), bench() as running:
        return await SERVED[part](running)


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
    keep(RUNS, results.runs)
    drawn(results.series)


def drawn(series: dict[str, list[tuple[int, float]]]) -> None:
    """Draw the pictures of the document, where the environment with matplotlib is there."""
    if not PEERS_PYTHON.exists():
        sys.stderr.write("bench: no pictures are drawn without .venv-bench\n")
        return
    runs = [run for run in kept_runs(RUNS) if run.machine == this_machine()]
    wanted = {"turn_file": str(PLOT), "trend_file": str(TREND), "series": series, "runs": runs}
    command = [str(PEERS_PYTHON), "-m", "tests.programs.bench.plot"]
    subprocess.run(command, input=msgspec.json.encode(wanted), timeout=PART_SECONDS, check=True)


def listed() -> str:
    """Return the names of all parts, with the seconds of the last run of each."""
    seconds = {run.part: run.seconds for run in kept_runs(RUNS)}
    return "\n".join(f"{part:16}{seconds.get(part, 0.0):5.0f} s".replace("    0 s", "") for part in PARTS)


def asked() -> argparse.Namespace:
    """Return what is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="part", help=f"any of {', '.join(PARTS)}; all if none is named")
    parser.add_argument("--list", action="store_true", help="only tell the parts, and what each took when it last ran")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of the table")
    parser.add_argument("--write", action="store_true", help=f"write {DOCUMENT.name}, keep the run, draw the pictures")
    wanted = parser.parse_args()
    if unknown := set(wanted.parts) - set(PARTS):
        parser.error(f"not a part: {', '.join(sorted(unknown))}")
    return wanted


def all_measured(parts: Sequence[str]) -> Results:
    """Measure *parts*, one after the other."""
    found = [measured(part) for part in PARTS if part in parts]
    return Results(
        figures=[figure for one in found for figure in one.figures],
        # each part looks for the peers itself
        skipped=list({one.part: one for each in found for one in each.skipped}.values()),
        series={name: line for one in found for name, line in one.series.items()},
        runs=[run for one in found for run in one.runs],
    )


def main() -> int:
    """Measure what is asked for; exit with 1 where a goal is missed or a part could not be measured."""
    wanted = asked()
    if wanted.list:
        sys.stdout.write(f"{listed()}\n")
        return 0
    # as `make bench` has it, and what is installed: half a second of a start is compiling our own modules anew
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    told = f"{this_machine().told}, load {os.getloadavg()[0]:.1f} at the start"
    before = kept_runs(RUNS)
    results = all_measured(wanted.parts or PARTS)
    if wanted.write:
        written(results, told=told, parts=wanted.parts)
    shown = msgspec.json.encode(results).decode() if wanted.json else table(results.figures, results.skipped)
    sys.stdout.write(f"{shown}\n")
    sys.stderr.writelines(f"{told}\n" for run in results.runs for told in slower(run, before))
    return 1 if results.skipped or any(figure.verdict == "MISS" for figure in results.figures) else 0


if __name__ == "__main__":
    sys.exit(main())
