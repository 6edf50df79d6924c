"""`make quality`: our default policy beside the peers', on the recorded sample and on generated runs.

`--transcripts` takes other recordings: JSONL files with `{"messages": [...]}` on each line. `TESTS_SCORER` (a
Python file) names another scorer that is to run on our rules and the same transcripts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from tests.programs.bench.histories import history
from tests.programs.quality.lived import Json, Row, cleaned, lived, row, tokens_of
from tests.programs.quality.systems import OURS, PEERS, quiet_peers

ROOT = Path(__file__).resolve().parents[3]
PEERS_PYTHON = ROOT / ".venv-bench/bin/python"

BUDGETS = (8_000, 16_000, 32_000)

GENERATED_BYTES = (150_000, 300_000)

LARGER = 1.25
"""A conversation counts if it is larger than so many budgets."""

SECONDS_MAX = 1_800


def conversations(transcripts: Sequence[str]) -> list[list[Json]]:
    """Return the recordings of *transcripts*; without any, the sample and generated runs."""
    if not transcripts:
        sample = json.loads((ROOT / "tests/data/sample.json").read_text(encoding="utf-8"))["messages"]
        return [sample, *(history(size) for size in GENERATED_BYTES)]
    lines = [line for file in transcripts for line in Path(file).read_text(encoding="utf-8").splitlines()]
    return [cleaned(json.loads(line)["messages"]) for line in lines]


def rows(systems: Sequence[str], budgets: Sequence[int], said: Sequence[list[Json]]) -> Iterator[Row]:
    """Yield a row for each of *systems* at each of *budgets*."""
    for budget in budgets:
        large = [one for one in said if tokens_of(one) > LARGER * budget]
        for name in systems if large else ():
            make = OURS[name] if name in OURS else PEERS[name]
            yield row(name, budget, [lived(one, make(budget), budget) for one in large])


def table(found: Sequence[Row]) -> str:
    """Return *found* for people."""
    lines = [
        "budget  system           runs  turns   sent   cost  busts/100   kept    far  +behind  illegal  over  lost"
    ]
    lines += [
        f"{one.budget_tokens:6,}  {one.system:15}  {one.conversations:4}  {one.turns:5}  {one.sent_share:5.1%}"
        f"  {one.cost:5.2f}  {one.busts_per_100:9.1f}  {one.kept_share:5.1%}  {one.far_share:5.1%}"
        f"  {one.far_behind_share:6.1%}  {one.illegal:7}  {one.over_budget:4}  {one.task_lost:4}"
        for one in sorted(found, key=lambda one: one.budget_tokens)
    ]
    return "\n".join(lines)


def peers(wanted: argparse.Namespace) -> list[Row]:
    """Return the rows of the peers, which run in their own environment; none without it."""
    if not PEERS_PYTHON.exists():
        print("the peers are left out: make .venv-bench/.installed", file=sys.stderr)
        return []
    command = [str(PEERS_PYTHON), "-m", "tests.programs.quality", "--json", "--systems", *PEERS]
    command += ["--budget", *map(str, wanted.budget)]
    command += ["--transcripts", *wanted.transcripts] if wanted.transcripts else []
    ran = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, timeout=SECONDS_MAX, check=True)
    return [msgspec.json.decode(line, type=Row) for line in ran.stdout.splitlines() if line.startswith(b"{")]


def foreign_scorer(budgets: Sequence[int], transcripts: Sequence[str]) -> int:
    """Run the scorer that the environment names, if it does, and return its exit code."""
    scorer = os.environ.get("TESTS_SCORER", "")
    if not scorer or not transcripts:
        return 0
    code = 0
    for budget in budgets:
        command = [sys.executable, scorer, "tests.score_adapter:Jettison", "--budget", str(budget)]
        command += ["--transcripts", *transcripts]
        code |= subprocess.run(
            command, env=os.environ | {"PYTHONPATH": str(ROOT)}, timeout=SECONDS_MAX, check=False
        ).returncode
    return code


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.programs.quality", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--json", action="store_true", help="one JSON object for each row")
    parser.add_argument("--budget", type=int, nargs="+", default=BUDGETS, help="tokens of the window")
    parser.add_argument("--transcripts", nargs="+", default=[], help="JSONL files to live through instead")
    parser.add_argument("--systems", nargs="+", choices=[*OURS, *PEERS], help="only these, in this environment")
    wanted = parser.parse_args()
    quiet_peers()
    said = conversations(wanted.transcripts)
    found = list(rows(wanted.systems or tuple(OURS), wanted.budget, said))
    found += [] if wanted.systems else peers(wanted)
    lines = [msgspec.json.encode(one).decode() for one in found]
    print("\n".join(lines) if wanted.json else table(found), flush=True)
    ours = [one for one in found if one.system == "jettison"]
    bad = any(one.illegal or one.over_budget or one.task_lost for one in ours)
    return 1 if bad or foreign_scorer(wanted.budget, wanted.transcripts) else 0


if __name__ == "__main__":
    sys.exit(main())
