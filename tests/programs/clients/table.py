"""Table: what each client did in each way, in a line of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .install import version
from .runs import Done

HEAD = (
    "| client | API | through the gateway | straight | straight, told its window |\n| --- | --- | --- | --- | --- |\n"
)


def row(name: str, ways: Mapping[str, Done]) -> str:
    """Return the line of one client."""
    if not ways:
        return ""
    agent = next(iter(ways.values())).agent
    cells = [_cell(ways[way]) if way in ways else "–" for way in ("gateway", "direct", "told")]
    return f"| {name} {version(agent.client)} | {agent.api} | {' | '.join(cells)} |\n"


def table(rows: Iterable[str]) -> str:
    """Return all lines under their head."""
    return HEAD + "".join(rows)


def _cell(done: Done) -> str:
    run = done.run
    ended = "done" if done.finished else f"**fails** after {len(run.done)} of {done.looks}"
    more = [f"{len(run.refusals)} refused"] if run.refusals else []
    more += [f"{run.side} summaries"] if run.side else []
    more += [f"exit code {done.codes[0]}"] if done.finished and done.codes else []
    return ", ".join([ended, f"{len(run.sent)} requests", f"{sum(run.sent):,} tokens", *more])
