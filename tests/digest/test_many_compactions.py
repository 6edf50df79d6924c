"""After twenty compactions in a row the task, its rules and the first step that changed something are still told."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from actors.core.extract import messages_text
from protocol.facts import HistoryAccounted
from protocol.formats import messages
from protocol.policy import resolve
from tests.builders import Talk, assistant, result, sample, system, user

Json = dict[str, Any]

CYCLES_MIN = 20

TASK = (
    "Find out why the exports of warehouse Linz are late, and mend it.\nRules:\n"
    "- Never change anything under legal/.\n- All times are UTC.\n- Say so before you delete a file."
)
RULES = ("Never change anything under legal/", "All times are UTC", "Say so before you delete a file")


def generated(turns: int) -> list[Json]:
    """Return a run that first looks, then changes a file, and then looks at hundreds of others, and asks in between."""
    said = [system("You are an engineer."), user(TASK)]
    for turn in range(turns):
        edits = turn == 4 or turn % 40 == 39
        name = f"src/exports/part_{turn}.py"
        arguments = {"path": name} | ({"old_str": "wait = 60", "new_str": "wait = 5"} if edits else {})
        called = assistant(f"I look at part {turn} of the exports now.", f"c{turn}")
        called["tool_calls"][0]["function"] |= {
            "name": "edit_file" if edits else "read_file",
            "arguments": json.dumps(arguments),
        }
        lines = [f"line {line} of {name}: queue_{turn}_{line} = {turn * 7 + line}" for line in range(14)]
        said += [called, result(f"c{turn}", f"{name} was edited." if edits else "\n".join(lines))]
        if turn % 25 == 24:
            said += [assistant(f"Part {turn} is read."), user(f"Go on with part {turn + 1}.")]
    return said


@cache
def views(name: str, window: int) -> tuple[list[str], int]:
    """Return the view after each compaction of a run under the default preset, and how many there were."""
    said = sample() if name == "sample" else generated(200)
    talk = Talk(resolve([{"budget": {"window": window, "reserve": 0}}]))
    shown: list[str] = []
    cycles = known = 0
    for message in said:
        talk.play(message)
        new, known = talk.commits[known:], len(talk.commits)
        done = sum(isinstance(fact, HistoryAccounted) for commit in new for fact in commit.facts)
        if done:
            cycles += done
            shown.append("\n".join(messages_text(messages.decode(raw)) for raw in talk.view().messages))
    return shown, cycles


@pytest.mark.parametrize(
    ("name", "window", "told", "changed"),
    [
        ("generated", 2_500, (TASK.split("\n")[0], *RULES), "src/exports/part_4.py"),
        ("sample", 4_500, ("OPS-4312", "Never touch the migrations/ folder", "Standard library only"), "test_payments"),
    ],
)
def test_the_task_its_rules_and_the_first_change_outlive_twenty_compactions(
    name: str, window: int, told: tuple[str, ...], changed: str
) -> None:
    shown, cycles = views(name, window)
    assert cycles >= CYCLES_MIN
    for view in shown:
        assert [what for what in told if what not in view] == []
    since = next(place for place, view in enumerate(shown) if changed in view)
    assert [place for place, view in enumerate(shown[since:], since) if changed not in view] == []
