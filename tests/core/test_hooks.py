"""Hooks and the reminder: what a policy asks for beside the stages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from actors.core.flow import next_actor
from actors.core.pressure import holds
from protocol.facts import HistoryDigested, HookFired, ReminderInjected
from protocol.hooks import AllOf, Always, AnyOf, Condition, Messages, Not, Pressure, ToolCalls, Turns
from tests.builders import Talk, assistant, policy, result, user, words

INJECT = {"kind": "inject", "text": "Mind the budget."}


def hooked(*hooks: Mapping[str, Any], **sections: Mapping[str, Any]) -> Talk:
    return Talk(policy(1000, **({"hooks": list(hooks), "spill": {"share": 1.0}} | sections)))  # type: ignore[arg-type]


def fired(talk: Talk) -> list[tuple[int, str, str]]:
    return [(fact.number, fact.hook, fact.action) for fact in talk.facts if isinstance(fact, HookFired)]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (Pressure(at_least=0.2), True),
        (Pressure(at_least=0.201), False),
        (Turns(at_least=2), True),
        (Turns(at_least=3), False),
        (Turns(every=2), True),
        (Turns(every=3), False),
        (ToolCalls(at_least=1), True),
        (ToolCalls(at_least=2), False),
        (Messages(at_least=4), True),
        (Messages(at_least=5), False),
        (Always(), True),
        (Not(of=Always()), False),
        (AllOf(of=()), True),
        (AnyOf(of=()), False),
        (AllOf(of=(Always(), Not(of=Always()))), False),
        (AnyOf(of=(Always(), Not(of=Always()))), True),
    ],
)
def test_conditions_hold_at_their_bound_and_not_below(condition: Condition, expected: bool) -> None:
    talk = hooked()
    talk.play(user("a"), assistant(None, "c"), result("c", "b"))
    talk.play(user(words(196 - talk.state.live_tokens)))
    assert talk.state.live_tokens == 200
    assert holds(condition, talk.state) is expected


def test_a_hook_fires_at_its_moment_and_nowhere_else() -> None:
    start = {"id": "s", "on": "turn_start", "do": {"kind": "log", "text": "begun"}}
    end = {"id": "e", "on": "turn_end", "do": {"kind": "log"}}
    talk = hooked(start, end)
    talk.play(user("a"), assistant(None, "c"), result("c"), assistant("done"), user("b"))
    assert fired(talk) == [(1, "s", "log"), (4, "e", "log"), (5, "s", "log")]


def test_a_note_stands_behind_its_message_once_and_is_counted() -> None:
    talk = hooked({"id": "n", "on": "turn_start", "do": INJECT})
    talk.play(user("first"))
    tokens = talk.state.live_tokens
    talk.play(assistant("ok"), user("second"))
    assert [message["content"] for message in talk.shown()] == ["first", "ok", "second", "Mind the budget."]
    notes = [fact for fact in talk.facts if isinstance(fact, ReminderInjected)]
    assert [note.number for note in notes] == [1, 3]
    assert talk.state.live_tokens == tokens + 5 + 5
    assert talk.view().tokens == talk.state.live_tokens


def test_messages_wait_until_a_note_is_recorded_so_that_no_worker_sees_another_order() -> None:
    talk = hooked({"id": "n", "on": "turn_start", "do": INJECT})
    talk.append(user("first"))
    talk.append(assistant("ok"))
    assert next_actor(talk.state) == "spill"
    assert len(talk.state.live) == 1
    talk.settle()
    assert [message["content"] for message in talk.shown()] == ["first", "Mind the budget.", "ok"]


def test_a_hook_compacts_below_the_trigger() -> None:
    when = {"kind": "turns", "every": 4}
    talk = hooked({"id": "c", "on": "turn_start", "when": when, "do": {"kind": "compact"}})
    for turn in range(4):
        assert not any(isinstance(fact, HistoryDigested) for fact in talk.facts), turn
        talk.play(user(words(140)))
    assert fired(talk) == [(4, "c", "compact")]
    assert any(isinstance(fact, HistoryDigested) for fact in talk.facts)


def test_a_cooldown_and_a_most_keep_a_hook_quiet() -> None:
    base = {"on": "turn_start", "do": {"kind": "log"}}
    talk = hooked(base | {"id": "slow", "cooldown_turns": 3}, base | {"id": "twice", "most": 2})
    for _ in range(7):
        talk.play(user("x"))
    assert [number for number, hook, _ in fired(talk) if hook == "slow"] == [1, 4, 7]
    assert [number for number, hook, _ in fired(talk) if hook == "twice"] == [1, 2]


def test_hooks_and_their_notes_are_the_same_all_at_once_and_turn_by_turn() -> None:
    hooks = (
        {"id": "n", "on": "turn_start", "when": {"kind": "turns", "every": 2}, "do": INJECT},
        {"id": "c", "on": "turn_end", "when": {"kind": "pressure", "at_least": 0.6}, "do": {"kind": "compact"}},
    )
    said = [message for turn in range(9) for message in (user(words(90)), assistant(f"answer {turn}"))]
    slow, fast = hooked(*hooks), hooked(*hooks)
    slow.play(*said)
    fast.append(*said)
    fast.settle()
    assert slow.view().hash == fast.view().hash


REMINDER = {
    "mode": "tools",
    "text": "The repository is in src.",
    "tools": [
        {"name": "read_file", "category": "files", "about": "Read one file."},
        {"name": "grep", "category": "files"},
        {"name": "ask", "about": "Ask the user."},
    ],
}


def reminded(**reminder: Any) -> Talk:
    talk = hooked(reminder=REMINDER | reminder)
    while not any(isinstance(fact, HistoryDigested) for fact in talk.facts):
        talk.play(user(words(90)), assistant("go on"))
    return talk


def test_after_a_compaction_the_tools_are_named_once_behind_the_newest_message() -> None:
    talk = reminded()
    lines = talk.shown()[-1]["content"].split("\n")
    if talk.shown()[-1]["role"] == "assistant":
        lines = talk.shown()[-2]["content"].split("\n")
    assert lines[1:] == ["The repository is in src.", "- read_file: Read one file.", "- grep", "- ask: Ask the user."]
    for _ in range(30):
        talk.play(user(words(90)), assistant("go on"))
    shown = [message["content"] for message in talk.shown()]
    assert sum("The repository is in src." in text for text in shown) == 1


def test_categories_name_five_tools_and_count_the_rest() -> None:
    tools = [{"name": f"t{index}", "category": "files"} for index in range(7)] + [{"name": "ask"}]
    talk = reminded(mode="categories", tools=tools, cap=0.2)
    note = next(fact for fact in talk.facts if isinstance(fact, ReminderInjected))
    assert note.text.split("\n")[2:] == ["- files: t0, t1, t2, t3, t4 (+2 more)", "- other: ask"]


def test_a_reminder_has_a_bound() -> None:
    tools = [{"name": f"tool_{index}", "about": words(30)} for index in range(100)]
    talk = reminded(tools=tools)
    note = next(fact for fact in talk.facts if isinstance(fact, ReminderInjected))
    assert 0 < note.tokens <= 0.05 * 1000 + 4
