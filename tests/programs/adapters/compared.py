"""`make adapters-compared`: frameworks' own compactions beside ours, on one recorded run through the real packages.

Each framework lives through the recording with its own agent: a model that answers what was answered then, tools that
return what they returned, and its own compaction at its documented settings for the same budget. Measured is what the
model was sent, by the scorer of `make quality`. A summary is written by a stand-in, and what that is asked is counted.

With EXAM=FOLDER: for each system what it shows where `make exam` cuts this run, within the budget of that, and the
exam's questions, for a reader each.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from actors.cli.session import started_stack
from actors.host.settings import Settings
from actors.model_info.tokens import counter
from tests.conftest import at_work
from tests.programs.adapters import judge
from tests.programs.exam.__main__ import Question, runs, shown
from tests.programs.quality.lived import Json, lived, row, tokens_of

SYSTEMS = {
    "langchain": ("jettison", "langchain clear", "langchain summary"),
    "haystack": ("haystack window", "haystack prune", "haystack summary"),
    "openai_agents": ("agents compaction",),
    "google_adk": ("adk compaction",),
}
BUDGETS = (8_000, 16_000, 32_000)

TOLD = """Written to {out}: for each system view.md and questions.md.

1. A reader gets both files of one system and nothing else. 2. A grader gives each answer 1, 0.5 or 0 points by the
answers and notes of `sample` in tests/data/exam/exam.json. 3. The points of a system go into a file of their own,
{{"sample": [1, 0.5, ...]}}, and `python -m tests.programs.exam table FILE` adds up.
"""


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
    job["instructions"] = tokens_of(instructions_of(said))
    file.write_text(json.dumps(job))
    await judge.in_its_environment(framework, "recorded", str(file))
    left: Json = json.loads(file.read_text())
    return left


async def left_by_all(said: list[Json], budgets: Sequence[int]) -> AsyncIterator[tuple[int, str, Json]]:
    """Yield each budget with each system, and what that sent and asked."""
    with tempfile.TemporaryDirectory() as folder:
        async with started_stack(Settings(data=folder)) as (settings, _), at_work(settings):
            for budget in budgets:
                for framework in [one for one in SYSTEMS if judge.python_of(one).exists()]:
                    left = await views_of(framework, said, budget=budget, nats=settings.nats.url, folder=Path(folder))
                    for system, told in left.items():
                        yield budget, system, told


async def measured(said: list[Json], budgets: Sequence[int]) -> None:
    """Print a line for each system at each budget."""
    count = counter("o200k_base")
    print(f"{len(said)} messages, {tokens_of(said):,} tokens")
    print("| budget | | sent | asked beside | cost | busts in 100 | kept | far | illegal | over budget | task lost |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    async for budget, system, told in left_by_all(said, budgets):
        lived_through = lived(said, Replayed(instructions_of(said), told["views"]), budget)
        print(line(row(system, budget, [lived_through]), sum(map(count, told["asked"]))), flush=True)


async def examined(said: list[Json], out: Path) -> None:
    """Write a view and the questions for each system; print how large its view is."""
    run = runs()["sample"]
    before = sum(one["role"] == "assistant" for one in run.messages)
    async for budget, system, told in left_by_all(said, [run.budget]):
        view = Replayed(instructions_of(said), told["views"][before:]).view()
        folder = out / system.replace(" ", "-")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "view.md").write_text(shown(view), encoding="utf-8")
        (folder / "questions.md").write_text(sheet(run.questions), encoding="utf-8")
        print(f"{system:18} {tokens_of(view):6,} of {budget:,} tokens", flush=True)
    print(f"\n{TOLD.format(out=out)}")


def sheet(questions: Sequence[Question]) -> str:
    """Return what a reader is asked."""
    asked = "\n".join(f"{number}. {one.q}" for number, one in enumerate(questions, 1))
    return f'Answer from view.md alone; who does not know says "unknown". Pointers cannot be followed.\n\n{asked}\n'


def instructions_of(said: Sequence[Json]) -> list[Json]:
    """Return the messages that a framework is given apart."""
    return [one for one in said if one["role"] == "system"]


def line(one: Any, asked: int) -> str:
    """Return one line of the table."""
    return (
        f"| {one.budget_tokens:,} | {one.system} | {one.sent_share:.1%} | {asked:,} | {one.cost:.2f} | "
        f"{one.busts_per_100:.1f} | {one.kept_share:.1%} | {one.far_share:.1%} | {one.illegal} | {one.over_budget} | "
        f"{one.task_lost} |"
    )


def main() -> None:
    """Measure, or write what readers are asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=int, nargs="+", default=BUDGETS, help="tokens of a view")
    parser.add_argument("--exam", type=Path, metavar="FOLDER", help="write views and questions for readers there")
    given = parser.parse_args()
    said = json.loads((judge.ROOT / "tests/data/sample.json").read_text(encoding="utf-8"))["messages"]
    asyncio.run(examined(said, given.exam) if given.exam else measured(said, given.budget))


if __name__ == "__main__":
    main()
