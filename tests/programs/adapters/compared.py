"""`make adapters-compared`: frameworks' own compactions beside ours, on one recorded run through the real packages.

Each framework lives through the recording with its own agent: a model that answers what was answered then, tools that
return what they returned, and its own compaction at its documented settings for the same budget. Measured is what the
model was sent, by the scorer of `make quality`. A summary is written by a stand-in, and what that is asked is counted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from actors.cli.session import started_stack
from actors.host.settings import Settings
from actors.model_info.tokens import counter
from tests.conftest import at_work
from tests.programs.adapters import judge
from tests.programs.quality.lived import Json, lived, row, tokens_of

SYSTEMS = {
    "langchain": ("jettison", "langchain clear", "langchain summary"),
    "haystack": ("haystack window", "haystack prune", "haystack summary"),
    "openai_agents": ("agents compaction",),
    "google_adk": ("adk compaction",),
}
BUDGETS = (8_000, 16_000, 32_000)


class Replayed:
    """The views that a framework sent, one after the other, behind its instructions."""

    def __init__(self, instructions: list[Json], views: Sequence[list[Json]]) -> None:
        self._left = iter(views)
        self._instructions = instructions

    def append(self, new: list[Json]) -> None:
        """Leave it to the framework, which has it."""

    def view(self) -> list[Json]:
        """Return the next view."""
        told = [{key: value for key, value in one.items() if value is not None} for one in next(self._left)]
        own = any(one["role"] == "system" and one in self._instructions for one in told)
        return [*([] if own else self._instructions), *({"content": None, **one} for one in told)]


async def views_of(framework: str, said: list[Json], *, budget: int, nats: str, folder: Path) -> Json:
    """Return what each system of *framework* sent and asked."""
    file = folder / f"{framework}-{budget}.json"
    job = {"said": said, "budget": budget, "nats": nats, "name": f"recorded-{budget}", "systems": SYSTEMS[framework]}
    job["instructions"] = tokens_of([one for one in said if one["role"] == "system"])
    file.write_text(json.dumps(job))
    await judge.in_its_environment(framework, "recorded", str(file))
    left: Json = json.loads(file.read_text())
    return left


async def main(transcript: str, budgets: Sequence[int]) -> None:
    """Print a line for each system at each budget."""
    count = counter("o200k_base")
    said = json.loads(Path(transcript).read_text(encoding="utf-8"))["messages"]
    instructions = [one for one in said if one["role"] == "system"]
    print(f"{len(said)} messages, {tokens_of(said):,} tokens")
    print("| budget | | sent | asked beside | cost | busts in 100 | kept | far | illegal | over budget | task lost |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        async with started_stack(Settings(data=folder)) as (settings, _), at_work(settings):
            for budget in budgets:
                for framework in [one for one in SYSTEMS if judge.python_of(one).exists()]:
                    left = await views_of(framework, said, budget=budget, nats=settings.nats.url, folder=Path(folder))
                    for system, told in left.items():
                        lived_through = lived(said, Replayed(instructions, told["views"]), budget)
                        asked = sum(map(count, told["asked"]))
                        print(line(row(system, budget, [lived_through]), asked), flush=True)


def line(one: Any, asked: int) -> str:
    """Return one line of the table."""
    return (
        f"| {one.budget_tokens:,} | {one.system} | {one.sent_share:.1%} | {asked:,} | {one.cost:.2f} | "
        f"{one.busts_per_100:.1f} | {one.kept_share:.1%} | {one.far_share:.1%} | {one.illegal} | {one.over_budget} | "
        f"{one.task_lost} |"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("transcript", nargs="?", default=str(judge.ROOT / "tests/data/sample.json"))
    parser.add_argument("--budget", type=int, nargs="+", default=BUDGETS, help="tokens of a view")
    asyncio.run(main(parser.parse_args().transcript, parser.parse_args().budget))
