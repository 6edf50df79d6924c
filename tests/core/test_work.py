"""Work: no rule is worse than linear in what it reads, counted in calls and in characters, not in time.

What is bounded by the policy (the live view) or by a constant (the ledger) counts as a constant.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from actors.core.ledger import LEDGER_ITEMS_MAX
from actors.squeeze.decide import Ask
from protocol.errors import BudgetRefused
from protocol.policy import Policy
from tests.builders import COUNT, Talk, assistant, policy, result, user, words
from tests.core.runs import preset_policy
from tests.squeeze.summarizers import extractive

GROWTH = 4
SLACK = 1.25
"""For what is done once, and for the compactions that happen to fall into one run and not into the other."""

Messages = list[dict[str, Any]]
NARROW, WIDE = policy(3000), policy(10**6)
POINTED = policy(3000, spill={"repeated": "point"})
"""What repeats is a pointer, however far: then the room of what is known fills up in both sizes."""


class Work:
    """Counts what is done: calls of functions, and characters that are given to the tokenizer."""

    def __init__(self) -> None:
        self.calls = self.chars = 0

    def count(self, text: str) -> int:
        self.chars += len(text)
        return COUNT(text)

    def __enter__(self) -> Work:
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _profile(self, _frame: object, event: str, _arg: object) -> None:
        self.calls += event in ("call", "c_call")


def steps(count: int) -> Messages:
    """Return *count* steps of a run that comes back to the same twenty files, so that its ledger is soon complete."""
    return [
        message
        for number in range(count)
        for message in (
            user(f"Look at ORD-{number % 20:05}. {words(20)}"),
            assistant(None, f"c{number}"),
            result(f"c{number}", f"row REF-{number % 20:05} /srv/app/f{number % 20}.py {words(30)}"),
            assistant(f"ORD-{number % 20:05} is fine."),
        )
    ]


def backlog(count: int) -> Messages:
    """Return *count* steps that wait together and are compacted many times; no two sizes have a text in common."""
    return [
        message
        for number in range(count)
        for message in (
            user(f"Look at ORD-{number % 20:05} of {count}."),
            assistant(None, f"c{number}"),
            result(f"c{number}", f"row REF-{number % 20:05} of {count} {words(200)}"),
            assistant("It is fine."),
        )
    ]


def idents(count: int) -> list[str]:
    return [f"c{number}" for number in range(count)]


def batch(count: int) -> Messages:
    return [user("Go."), assistant(None, *idents(count)), *(result(one, words(10)) for one in idents(count))]


def batch_backwards(count: int) -> Messages:
    asked, called, *results = batch(count)
    return [asked, called, *reversed(results)]


def batch_in_one_message(count: int) -> Messages:
    calls = [{"type": "tool_use", "id": one, "name": "look", "input": {}} for one in idents(count)]
    results = [{"type": "tool_result", "tool_use_id": one, "content": words(10)} for one in idents(count)]
    return [user("Go."), {"role": "assistant", "content": calls}, {"role": "user", "content": results}]


def many_parts(count: int) -> Messages:
    return [user([{"type": "text", "text": f"part {number} of it"} for number in range(count)])]


def many_orphans(count: int) -> Messages:
    return [result(f"nobody-{number}", "lost") for number in range(count)]


def many_aborted(count: int) -> Messages:
    return [assistant(None, "same") for _ in range(count)]


def one_of(text: str) -> Messages:
    return [user("Look."), assistant(None, "c"), result("c", text)]


def long_log(count: int) -> Messages:
    return one_of("\n".join(f"2026-01-01 INFO step {number % 7} done" for number in range(count)))


def long_json(count: int) -> Messages:
    return one_of(json.dumps([{"id": number % 9, "name": "row", "none": None} for number in range(count)]))


def long_trace(count: int) -> Messages:
    frames = "\n".join(f'  File "/srv/f.py", line {number % 9}, in step\n    step()' for number in range(count))
    return one_of(f"Traceback (most recent call last):\n{frames}\nKeyError: 'x'")


def long_word(count: int) -> Messages:
    return one_of("x" * 10 * count)


def long_request(count: int) -> Messages:
    return [user("\n".join(f"You must keep file_{number % 9}.py." for number in range(count))), assistant("Yes.")]


def work_of(said: Messages, wanted: Policy, *, at_once: bool) -> Work:
    work = Work()
    talk = Talk(wanted, count=work.count)
    with work:
        if at_once:
            talk.append(*said)
            talk.settle()
        else:
            talk.play(*said)
        with suppress(BudgetRefused):
            talk.view()
    return work


@pytest.mark.parametrize(
    ("make", "size", "wanted", "at_once"),
    [
        (steps, 100, NARROW, False),
        (steps, 60, WIDE, True),
        (backlog, 200, POINTED, True),
        # the first 25 steps of either run fill the window, and nothing is cut
        (steps, 150, preset_policy("octopus-fifo", 3000), False),
        (steps, 100, preset_policy("llm4s", 3000), False),
        *((make, 60, WIDE, True) for make in (batch, batch_backwards, batch_in_one_message, many_parts)),
        *((make, 60, WIDE, True) for make in (many_orphans, many_aborted)),
        *((make, 400, NARROW, True) for make in (long_log, long_json, long_trace, long_word, long_request)),
    ],
)
def test_four_times_as_much_is_at_most_four_times_the_work(
    make: Callable[[int], Messages], size: int, wanted: Policy, at_once: bool
) -> None:
    small, large = (work_of(make(times * size), wanted, at_once=at_once) for times in (1, GROWTH))
    assert large.calls <= GROWTH * SLACK * small.calls
    assert large.chars <= GROWTH * SLACK * small.chars


@pytest.mark.parametrize("preset", ["digitorn", "docsgpt"])
def test_a_summarizer_reads_every_message_once(preset: str) -> None:
    """5: k compactions read what is new, each."""

    def read(count: int) -> int:
        asked: list[Ask] = []

        def model(ask: Ask) -> str:
            asked.append(ask)
            return extractive(ask)

        talk = Talk(preset_policy(preset, 3000))
        talk.answer = model
        talk.play(*steps(count))
        assert len(asked) >= 2
        return sum(COUNT(ask.user) for ask in asked)

    assert read(240) <= 3 * SLACK * read(80)


def test_the_ledger_that_every_compaction_reads_is_bounded() -> None:
    talk = Talk(policy(6000, spill={"share": 1.0, "medium": 1.0}))
    for number in range(30):
        listing = " ".join(f"REF-{number:02}{row:04}" for row in range(120))
        talk.play(user("Next."), assistant(None, f"c{number}"), result(f"c{number}", listing))
    assert 100 < len(talk.state.ledger) <= LEDGER_ITEMS_MAX
