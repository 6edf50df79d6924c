"""The pictures of the document, drawn by matplotlib in the peers' environment: `python -m tests.programs.bench.plot`.

It reads one JSON document from stdin and writes SVG: a turn by the size of its history, and each part by its runs.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tests.programs.bench.runs import SLOWER_SHARE, Run, worse

Series = Mapping[str, Sequence[tuple[int, float]]]
Line = list[tuple[str, float]]

COLUMNS = 4
LABEL_CHARACTERS = 46
LABELS_MAX = 4
"""Names below a panel: the figures that are furthest from their best."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What to draw, and where to."""

    turn_file: str
    trend_file: str
    series: dict[str, list[tuple[int, float]]] = {}
    runs: list[Run] = []
    """Of one machine."""


def trend(runs: Sequence[Run]) -> dict[str, dict[str, Line]]:
    """Return, for each part and figure, when it was measured and how many times as bad as its best it was."""
    out: dict[str, dict[str, Line]] = {}
    for part in sorted({run.part for run in runs}):
        ours = sorted((run for run in runs if run.part == part), key=lambda run: run.time)
        lines = out.setdefault(part, {})
        for what in dict.fromkeys(what for run in ours for what in run.rows):
            rows = [(run.time, run.rows[what]) for run in ours if what in run.rows]
            best = (max if rows[-1][1].higher else min)((row for _, row in rows), key=lambda row: row.value)
            lines[what] = [(time, worse(row, best)) for time, row in rows]
    return out


def drawn_turns(series: Series, file: Path) -> None:
    """Draw milliseconds of one turn by the bytes of its history, both axes logarithmic; ours is thick."""
    axes = _figure(7.6, 4.2).subplots()
    for index, (name, line) in enumerate(series.items()):
        sizes, spent = zip(*line, strict=True)
        label = f"{name}: {spent[-1]:,.3g} ms"
        axes.loglog(sizes, spent, marker="o", markersize=3, linewidth=3 if index == 0 else 1.2, label=label)
    axes.set(xlabel="bytes of history", ylabel="ms of one turn")
    axes.grid(True, color="#dddddd")
    axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False, fontsize=8)
    _saved(axes.figure, file)


def drawn_trend(runs: Sequence[Run], file: Path) -> None:
    """Draw a panel for each part: its figures over its runs, as times of their best; those that are slower by name."""
    parts = trend(runs)
    rows = -(-len(parts) // COLUMNS)
    figure = _figure(3.4 * COLUMNS, 2.7 * rows)
    panels = figure.subplots(rows, COLUMNS, squeeze=False).flatten()
    for axes, (part, lines) in zip(panels, parts.items(), strict=False):
        late = sorted(
            (what for what in lines if lines[what][-1][1] > 1 + SLOWER_SHARE), key=lambda one: -lines[one][-1][1]
        )
        for what, line in lines.items():
            named = what in late[:LABELS_MAX]
            style: dict[str, Any] = {"label": what[:LABEL_CHARACTERS]} if named else {"color": "#bbbbbb"}
            axes.plot(range(1, len(line) + 1), [times for _, times in line], marker=".", linewidth=1, **style)
        axes.axhline(1 + SLOWER_SHARE, color="#d62728", linewidth=0.7, linestyle="--")
        axes.set_title(part, fontsize=9)
        axes.tick_params(labelsize=7)
        axes.xaxis.get_major_locator().set_params(integer=True)
        if late:
            axes.legend(fontsize=5, loc="upper left")
    for axes in panels[len(parts) :]:
        axes.set_visible(False)
    figure.supxlabel("runs, oldest first", fontsize=9)
    figure.supylabel("times as bad as its best", fontsize=9)
    _saved(figure, file)


def _figure(width: float, height: float) -> Any:
    import matplotlib

    matplotlib.use("svg")
    # the same bytes for the same figures, so that a commit shows what changed
    matplotlib.rcParams.update(
        {"svg.hashsalt": "jettison", "svg.fonttype": "none", "figure.constrained_layout.use": True}
    )
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _saved(figure: Any, file: Path) -> None:
    figure.savefig(file, format="svg", metadata={"Date": None})
    # matplotlib ends lines with spaces
    file.write_text("\n".join(line.rstrip() for line in file.read_text().splitlines()) + "\n")


def main() -> int:
    """Draw what stdin asks for."""
    wanted = msgspec.json.decode(sys.stdin.buffer.read(), type=Wanted)
    if wanted.series:
        drawn_turns(wanted.series, Path(wanted.turn_file))
    if wanted.runs:
        drawn_trend(wanted.runs, Path(wanted.trend_file))
    return 0


if __name__ == "__main__":
    sys.exit(main())
