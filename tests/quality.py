"""`make quality`: how much of what an agent uses next is still in its view, at what price; no model judges.

The recorded run is lived turn by turn: before every assistant message the view is asked for, and what the
message then really uses says what the view had to keep. `JETTISON_SCORER` (a Python file) and
`JETTISON_TRANSCRIPTS` (JSONL files, separated like a path list) run another scorer on our rules as well.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from actors.offline import OfflineConversation
from actors.rules.extract import messages_text, values_of
from actors.rules.legal import problems
from protocol import messages
from protocol.policy import resolve
from tests.builders import sample

BUDGETS = (8_000, 16_000, 32_000)
FAR_MESSAGES = 6
"""What was last mentioned longer ago is no longer at hand in the newest messages."""

PREFIX_SHARE = 0.9
"""A view that keeps less of the one before it as its beginning is a bust of the provider's cache."""

SCORER_SECONDS = 600


class Quality(msgspec.Struct, frozen=True, kw_only=True):
    """What one budget gave."""

    budget_tokens: int
    turns: int
    used: int
    kept: int
    far_used: int
    far_kept: int
    sent_share: float
    busts: int
    violations: int


def measured(said: Sequence[dict[str, Any]], budget_tokens: int) -> Quality:
    """Live through *said* under the default policy and *budget_tokens*."""
    talk = OfflineConversation(resolve([{"budget": {"window": budget_tokens, "reserve": 0}}]))
    last_mention: dict[str, int] = {}
    before: tuple[bytes, ...] = ()
    turns = used = kept = far_used = far_kept = sent = everything = busts = violations = done = said_tokens = 0
    for index, message in enumerate(said):
        values = values_of(messages_text(message))
        if message["role"] == "assistant" and index > 0:
            talk.append(said[done:index])
            said_tokens += sum(_tokens(talk, one) for one in said[done:index])
            done = index
            view = talk.view()
            text = "\n".join(messages_text(messages.decode(raw)) for raw in view.messages)
            turns, sent, everything = turns + 1, sent + view.tokens, everything + said_tokens
            busts += _same(before, view.messages) < PREFIX_SHARE * len(before)
            violations += len(problems([messages.decode(raw) for raw in view.messages])) + (view.tokens > budget_tokens)
            before = view.messages
            for value in values:
                if value in last_mention:
                    far = last_mention[value] < index - FAR_MESSAGES
                    used, kept = used + 1, kept + (value in text)
                    far_used, far_kept = far_used + far, far_kept + (far and value in text)
        last_mention |= dict.fromkeys(values, index)
    return Quality(
        budget_tokens=budget_tokens,
        turns=turns,
        used=used,
        kept=kept,
        far_used=far_used,
        far_kept=far_kept,
        sent_share=sent / max(1, everything),
        busts=busts,
        violations=violations,
    )


def _tokens(talk: OfflineConversation, message: dict[str, Any]) -> int:
    return talk.count(messages_text(message))


def _same(before: Sequence[bytes], now: Sequence[bytes]) -> int:
    """Return how many messages both begin with."""
    pairs = zip(before, now, strict=False)
    return next((at for at, (old, new) in enumerate(pairs) if old != new), min(len(before), len(now)))


def table(rows: Sequence[Quality]) -> str:
    """Return *rows* for people."""
    lines = ["budget   turns    sent  busts/100  used kept    far kept  violations"]
    lines += [
        f"{row.budget_tokens:6,}  {row.turns:6}  {row.sent_share:6.1%}  {100 * row.busts / max(1, row.turns):9.1f}"
        f"  {row.kept / max(1, row.used):9.1%}  {row.far_kept / max(1, row.far_used):9.1%}  {row.violations:10}"
        for row in rows
    ]
    return "\n".join(lines)


def foreign_scorer(budget_tokens: int, *, as_json: bool) -> int:
    """Run the scorer that the environment names, if it does, and return its exit code."""
    scorer = os.environ.get("JETTISON_SCORER", "")
    transcripts = [one for one in os.environ.get("JETTISON_TRANSCRIPTS", "").split(os.pathsep) if one]
    if not scorer or not transcripts:
        return 0
    command = [sys.executable, scorer, "tests.score_adapter:Jettison", "--budget", str(budget_tokens)]
    command += ["--transcripts", *transcripts, *(["--json"] if as_json else [])]
    root = str(Path(__file__).parent.parent)
    return subprocess.run(
        command, env=os.environ | {"PYTHONPATH": root}, timeout=SCORER_SECONDS, check=False
    ).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON object per budget")
    parser.add_argument("--budget", type=int, nargs="+", default=BUDGETS, help="tokens of the window")
    wanted = parser.parse_args()
    rows = [measured(sample(), budget) for budget in wanted.budget]
    shown = "\n".join(json.dumps(msgspec.to_builtins(row)) for row in rows) if wanted.json else table(rows)
    print(shown, flush=True)
    codes = [foreign_scorer(budget, as_json=wanted.json) for budget in wanted.budget]
    return 1 if any(codes) or any(row.violations for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
