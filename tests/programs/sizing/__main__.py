"""`python -m tests.programs.sizing`: servers, workers, disks and euro for so many agents, from measured inputs."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tests.programs.bench.runs import Run, kept_runs

from .model import Asked, Measured, Sized, sized

ROOT = Path(__file__).resolve().parents[3]
RUNS = ROOT / "infra/docs/performance.jsonl"
AGENTS = (10_000, 100_000, 1_000_000)
COMMAND = "make bench PART=limits"

INPUTS = {
    "append_ms": "CPU of nats-server for one append",
    "commit_ms": "CPU of nats-server for one commit",
    "worker_ms": "CPU of all workers for a turn",
    "server_ms": "CPU of nats-server for a turn",
    "turn_bytes": "bytes written to all streams for a turn",
    "restart_seconds": "a killed server is away, with ",
    "conversation_bytes": "memory of nats-server for each of ",
}
"""What is measured, by how its row begins."""


def measured(run: Run) -> Measured:
    """Return the inputs that *run* measured. Raises `SystemExit` where one is missing."""
    found: dict[str, float] = {}
    for name, begins in INPUTS.items():
        rows = [(what, row.value) for what, row in run.rows.items() if what.startswith(begins)]
        if not rows:
            raise SystemExit(f"the run of {run.time} has no row '{begins}…': {COMMAND}")
        (what, found[name]), *_ = rows
        if name == "restart_seconds" and (count := re.search(r"with ([\d,]+) ", what)):
            found["restart_conversations"] = float(count[1].replace(",", ""))
    return msgspec.convert(found, Measured)


def quietest(file: Path) -> Run:
    """Return the run of the part in *file* with the least load beside it. Raises `SystemExit` where there is none."""
    runs = [run for run in kept_runs(file) if run.part == "limits"]
    if not runs:
        raise SystemExit(f"nothing is measured yet: {COMMAND}")
    return min(runs, key=lambda run: run.load)


def text_of(found: Sequence[Sized]) -> str:
    """Return the sizes as a table of Markdown, a column for each number of agents."""
    rows = {
        "turns a second, busiest hour": [f"{one.turns_per_second:,.0f}" for one in found],
        "partitions (`provision --partitions`)": [f"{one.partitions}" for one in found],
        "NATS servers": [f"{one.servers}" for one in found],
        "disk of each, GB": [f"{one.disk_gb:,.0f}" for one in found],
        "memory of each for its conversations, GB": [f"{one.server_memory_gb:,.1f}" for one in found],
        "a killed server is away, s": [f"{one.restart_seconds:,.0f}" for one in found],
        "processors of workers": [f"{one.worker_cores:,.0f}" for one in found],
        "machines of workers": [f"{one.worker_machines}" for one in found],
        "S3, GB": [f"{one.store_gb:,.0f}" for one in found],
        "**euro a month**": [f"**{one.euro:,.0f}**" for one in found],
        "euro a month for 1,000 agents": [f"{one.euro / one.agents * 1_000:,.1f}" for one in found],
    }
    head = "| agents | " + " | ".join(f"{one.agents:,}" for one in found) + " |"
    lines = [head, "|---|" + "---|" * len(found)]
    return "\n".join([*lines, *(f"| {what} | {' | '.join(cells)} |" for what, cells in rows.items())])


def main() -> int:
    """Print the table, and what it was calculated from."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=Path, default=RUNS, help=f"measured inputs: lines of {COMMAND}")
    parser.add_argument("--agents", type=int, nargs="+", default=AGENTS)
    names = [field for field in Asked.__struct_fields__ if field != "agents"]
    for name in names:
        default = getattr(Asked(agents=0), name)
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    wanted = parser.parse_args()
    run = quietest(wanted.runs)
    inputs = measured(run)
    asked = {name: getattr(wanted, name) for name in names}
    found = [sized(Asked(agents=agents, **asked), inputs) for agents in wanted.agents]
    told = ", ".join(f"{name} {value:,.6g}" for name, value in msgspec.structs.asdict(inputs).items())
    sys.stdout.write(f"{text_of(found)}\n\n")
    sys.stdout.write(f"Measured by `{COMMAND}` on {run.time[:10]} ({run.machine.told}, load {run.load}): {told}.\n")
    sys.stdout.write("Assumed: " + ", ".join(f"{name} {value:,.6g}" for name, value in asked.items()) + ".\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
