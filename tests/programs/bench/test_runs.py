"""Runs are kept line by line, and a figure that became worse than its best on the same machine is told."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.programs.bench.__main__ import PARTS, PEERS_PYTHON, RUNS
from tests.programs.bench.figures import Figure
from tests.programs.bench.plot import trend
from tests.programs.bench.runs import Machine, Row, Run, keep, kept_runs, run_of, slower, this_machine

HERE = Machine(processor="one", cores=2, memory_gb=8, python="3.11.7")
THERE = msgspec.structs.replace(HERE, cores=8)


def ran(*, day: int, machine: Machine = HERE, **rows: Row) -> Run:
    """Return a run of the part `replay` on one day of November."""
    time = f"2026-11-{day:02}T12:00:00Z"
    return Run(part="replay", time=time, commit="abc1234", machine=machine, load=0.5, seconds=9.0, rows=rows)


def test_what_is_kept_is_read_again_in_the_order_of_time(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    assert kept_runs(file) == []
    late, early = ran(day=2, a=Row(value=1.0)), ran(day=1, a=Row(value=2.0, unit="ms"))
    keep(file, [late])
    keep(file, [early])
    assert kept_runs(file) == [early, late]
    assert len(file.read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("best", "now", "higher", "told"),
    [(1.0, 1.2, False, True), (1.0, 1.09, False, False), (1.0, 0.8, True, True), (1.0, 0.95, True, False)],
)
def test_ten_per_cent_worse_than_the_best_is_told_whichever_way_is_better(
    best: float, now: float, higher: bool, told: bool
) -> None:
    before = [
        ran(day=1, a=Row(value=best, higher=higher)),
        ran(day=2, a=Row(value=best * 0.5 if higher else 2.0, higher=higher)),
    ]
    lines = slower(ran(day=3, a=Row(value=now, higher=higher)), before)
    assert len(lines) == told
    assert not told or lines[0].startswith(f"slower: replay: a: {now:.3g} x, 2")
    assert not told or "1 x (2026-11-01, abc1234, load 0.5); load now 0.5" in lines[0]


def test_another_machine_and_a_new_figure_are_compared_with_nothing() -> None:
    before = [ran(day=1, machine=THERE, a=Row(value=1.0)), ran(day=2, b=Row(value=1.0))]
    assert slower(ran(day=3, a=Row(value=9.0)), before) == []


def test_a_figure_of_nothing_has_no_ratio() -> None:
    assert slower(ran(day=2, a=Row(value=3.0)), [ran(day=1, a=Row(value=0.0))]) == []


def test_a_run_says_its_machine_its_commit_and_its_load() -> None:
    figures = [
        Figure(goal="P1", what="a", value=2.0, bound=1.0, least=True, unit="ms"),
        Figure(goal="P1", what="b", value=float("nan"), bound=1.0),
    ]
    run = run_of("replay", figures, began=0.0, load=0.71, seconds=1.26, folder=Path(__file__).parent)
    assert (run.time, run.load, run.seconds, run.machine) == ("1970-01-01T00:00:00Z", 0.7, 1.3, this_machine())
    assert run.rows == {"a": Row(value=2.0, unit="ms", higher=True)}
    assert os.uname().nodename not in msgspec.json.encode(run).decode()


def test_the_trend_is_how_many_times_as_bad_as_its_best_each_figure_was() -> None:
    runs = [ran(day=2, a=Row(value=3.0)), ran(day=1, a=Row(value=2.0), b=Row(value=5.0, higher=True))]
    assert trend(runs) == {
        "replay": {
            "a": [("2026-11-01T12:00:00Z", 1.0), ("2026-11-02T12:00:00Z", 1.5)],
            "b": [("2026-11-01T12:00:00Z", 1.0)],
        }
    }


def test_the_committed_runs_are_readable_and_of_parts_that_there_are() -> None:
    assert {run.part for run in kept_runs(RUNS)} <= set(PARTS)


def test_the_pictures_are_drawn_with_a_panel_for_each_part(tmp_path: Path) -> None:
    if not PEERS_PYTHON.exists():
        pytest.skip("matplotlib is in the environment of the peers: make .venv-bench/.installed")
    runs = [ran(day=day, a=Row(value=value)) for day, value in ((1, 1.0), (2, 1.5))]
    wanted = {
        "turn_file": str(tmp_path / "turn.svg"),
        "trend_file": str(tmp_path / "trend.svg"),
        "series": {"ours": [(1_000, 0.5), (1_000_000, 0.6)], "theirs": [(1_000, 1.0), (1_000_000, 900.0)]},
        "runs": runs,
    }
    command = [str(PEERS_PYTHON), "-m", "tests.programs.bench.plot"]
    root = Path(__file__).resolve().parents[3]
    subprocess.run(command, input=msgspec.json.encode(wanted), cwd=root, check=True, stderr=sys.stderr)
    assert "theirs: 900 ms" in (tmp_path / "turn.svg").read_text()
    assert "replay" in (tmp_path / "trend.svg").read_text()
