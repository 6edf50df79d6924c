"""What the five documents promise to their users, each through the whole path: all four actors, turn by turn.

The numbered cases of each system are beside this file; here is what an agent's long run makes of the promises.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from actors.cli.policy_import import from_digitorn
from actors.squeeze.decide import Ask
from protocol.facts import (
    ConversationOpened,
    HistoryCut,
    HistoryDigested,
    HookFired,
    OverflowReported,
)
from protocol.formats.validate import problems
from protocol.policy import resolve
from protocol.presets import PRESETS
from protocol.tools import told_tools
from tests.builders import Talk, assistant, result, system, user, words
from tests.presets.digitorn import said_at
from tests.squeeze.summarizers import extractive

OCTOPUS = ("octopus-fifo", "octopus-window", "octopus-summarize")


def calls(count: int, tokens: int, *, first: int = 0) -> list[dict[str, Any]]:
    """Return *count* calls of an agent, each with a result of *tokens*."""
    return [
        message
        for at in range(first, first + count)
        for message in (assistant(None, f"c{at}"), result(f"c{at}", f"REF-{at:05} {words(tokens - 5)}"))
    ]


class TestOctopus:
    @pytest.mark.parametrize("preset", OCTOPUS)
    def test_a_run_under_one_prompt_goes_on_and_its_newest_result_is_whole(self, preset: str) -> None:
        talk = Talk(resolve([{"preset": preset, "budget": {"window": 8000, "reserve": 1000}}]))
        run = [user("Mend the build."), *calls(40, 300)]
        talk.play(run[0])
        for call, found in zip(run[1::2], run[2::2], strict=True):
            talk.play(call, found)
            shown = talk.shown()
            assert problems(shown) == []
            assert shown[-2:] == [call, found]
            assert shown.count(run[0]) == 1
            assert talk.view().tokens <= 7000
        # first in, first out: what stays is the newest, and nothing of it was shortened
        stays = [message for message in shown if message["role"] == "tool"]
        assert stays == run[2::2][-len(stays) :]
        assert len(stays) > 15
        assert not [fact for fact in talk.facts if isinstance(fact, HistoryCut) and fact.trimmed]

    @pytest.mark.parametrize("preset", OCTOPUS)
    def test_the_last_three_turns_are_their_questions_and_answers_and_not_their_calls(self, preset: str) -> None:
        talk = Talk(resolve([{"preset": preset, "budget": {"window": 6000, "reserve": 0}}]))
        talk.play(system("Be careful."))
        for turn in range(6):
            talk.play(user(f"Question {turn}?"), *calls(8, 200, first=turn * 8), assistant(f"Answer {turn}."))
        talk.play(user("And now?"), *calls(12, 400, first=90))
        shown = [str(message["content"]) for message in talk.shown()]
        for turn in (3, 4, 5):
            assert shown.index(f"Question {turn}?") < shown.index(f"Answer {turn}.")
        assert "Question 0?" not in shown
        assert sum(text.startswith("REF-0009") or text.startswith("REF-001") for text in shown) >= 10
        assert problems(talk.shown()) == []

    def test_three_turns_may_be_more_than_the_trigger_and_never_more_than_the_window(self) -> None:
        low = {"trigger": {"ratio": 0.5}, "target": {"low_water": 0.3}}
        talk = Talk(resolve([{"preset": "octopus-fifo", "budget": {"window": 8000, "reserve": 0}}, low]))
        turns = [m for at in range(9) for m in (user(f"Q{at} {words(900)}"), assistant(f"A{at} {words(900)}"))]
        for message in turns:
            talk.play(message)
            assert talk.view().tokens <= 8000
        assert talk.shown()[-6:] == turns[-6:]
        assert talk.view().tokens > 0.5 * 8000


def kinds(talk: Talk, kind: type) -> list[Any]:
    return [fact for fact in talk.facts if isinstance(fact, kind)]


class TestLlm4s:
    def test_a_run_under_one_prompt_is_digested_now_and_then_and_not_at_each_call(self) -> None:
        talk = Talk(resolve([{"preset": "llm4s", "budget": {"window": 8000, "reserve": 0}, "squeeze": {"model": "m"}}]))
        asked: list[int] = []

        def model(ask: Ask) -> str:
            asked.append(ask.boundary)
            return extractive(ask)

        talk.answer = model
        talk.play(user("Mend the build."), *calls(80, 200))
        assert 2 <= len(kinds(talk, HistoryDigested)) <= 8
        # a model squeezes a digest where it is still too large for the budget, and for no other reason
        assert asked == []
        assert talk.shown()[-2:] == calls(1, 200, first=79)

    def test_older_blocks_become_a_digest_and_the_last_five_stay(self) -> None:
        talk = Talk(resolve([{"preset": "llm4s", "budget": {"window": 4000, "reserve": 0}}]))
        for at in range(40):
            before = talk.facts
            talk.play(user(f"Q{at} {words(100)}"), assistant(f"A{at} {words(100)}"))
            if len(talk.facts) > len(before):
                users = [str(message["content"])[:3].strip() for message in talk.shown() if message["role"] == "user"]
                assert users[-5:] == [f"Q{one}" for one in range(at - 4, at + 1)]
                assert len(users) == 6
        assert len(kinds(talk, HistoryDigested)) <= 5


class TestDigitorn:
    @pytest.mark.parametrize(
        ("layer", "keep"),
        [
            ({"preset": "digitorn"}, 10),
            ({"preset": "digitorn-truncate"}, 10),
            # the document's own example
            (
                {
                    "preset": "digitorn-truncate",
                    "budget": {"window": 8000, "reserve": 1000},
                    "trigger": {"ratio": 0.6},
                    "digest": {"keep_messages": 6},
                },
                6,
            ),
        ],
    )
    def test_as_many_messages_stay_as_are_to_be_kept(self, layer: dict[str, Any], keep: int) -> None:
        talk = Talk(resolve([{"budget": {"window": 8000, "reserve": 0}}, layer]))
        said = [m for at in range(20) for m in (user(f"Q{at} {words(400)}"), assistant(f"A{at} {words(400)}"))]
        for number, message in enumerate(said):
            said_at(talk, number * 100, message)
            if kinds(talk, HistoryDigested):
                break
        shown = [message for message in talk.shown() if message in said]
        assert shown == said[number + 1 - keep : number + 1]
        assert not kinds(talk, HistoryCut)

    def test_an_emergency_keeps_half_of_them_and_stops_at_half_the_window(self) -> None:
        talk = Talk(resolve([{"preset": "digitorn", "budget": {"window": 16_000, "reserve": 0}}]))
        said = [user(f"Q{at} {words(480)}") for at in range(24)]
        talk.append(*said)
        talk.say(OverflowReported(limit_tokens=8192))
        talk.settle()
        usable = talk.state.usable_tokens
        assert usable == int(8192 / 1.25)
        assert [message for message in talk.shown() if message in said] == said[-5:]
        assert usable * 0.3 < talk.view().tokens <= usable * 0.5

    def test_in_an_emergency_what_stays_is_shortened_and_not_dropped(self) -> None:
        talk = Talk(
            resolve([{"preset": "digitorn", "budget": {"window": 8000, "reserve": 0}, "spill": {"share": 1.0}}])
        )
        said = [*(user(f"Q{at} {words(90)}") for at in range(8)), *calls(1, 3000), user("Go on.")]
        talk.play(*said)
        talk.say(OverflowReported(message="context_length_exceeded"))
        talk.settle()
        shown = [message for message in talk.shown() if "do not start again" not in str(message["content"])]
        assert [message["role"] for message in shown[-5:]] == ["user", "user", "assistant", "tool", "user"]
        assert talk.view().tokens <= talk.state.usable_tokens * 0.5
        assert "REF-00000" in shown[-2]["content"]

    def test_a_run_under_one_prompt_is_compacted_at_its_trigger_each_time(self) -> None:
        talk = Talk(resolve([{"preset": "digitorn-truncate", "budget": {"window": 8000, "reserve": 0}}]))
        said_at(talk, 0, user("Mend the build."))
        most = 0
        for at in range(60):
            said_at(talk, 60 * at, *calls(1, 400, first=at))
            most = max(most, talk.view().tokens)
        # at three quarters, or a call behind it
        assert most <= 0.75 * 8000 + 2 * 430
        compacted = [fact.boundary for fact in kinds(talk, HistoryDigested)]
        assert len(compacted) >= 5

    def test_after_a_compaction_two_calls_of_the_model_pass_before_the_next_one(self) -> None:
        """What is to be kept is over the trigger alone: without a pause each call would compact again."""
        talk = Talk(resolve([{"preset": "digitorn-truncate", "budget": {"window": 8000, "reserve": 0}}]))
        said_at(talk, 0, user("Mend the build."))
        for at in range(30):
            said_at(talk, 60 * at, *calls(1, 1250, first=at))
        boundaries = [fact.boundary for fact in kinds(talk, HistoryDigested)]
        assert len(boundaries) >= 5
        assert {later - earlier for earlier, later in pairwise(boundaries)} == {4}

    def hooked(self, *hooks: dict[str, Any], **context: Any) -> Talk:
        document = {
            "execution": {"hooks": list(hooks), "context": {"max_tokens": 8000, "output_reserved": 0} | context}
        }
        talk = Talk(resolve([from_digitorn(document).layer, {"squeeze": {"model": "m"}}]))
        talk.answer = extractive
        return talk

    def fired(self, talk: Talk) -> list[tuple[int, str]]:
        return [(fact.number, fact.detail) for fact in kinds(talk, HookFired)]

    def test_a_hook_on_calls_of_tools_fires_in_a_run_under_one_prompt(self) -> None:
        when = {"type": "tool_calls", "threshold": 5}
        talk = self.hooked({"id": "many", "condition": when, "action": {"type": "log", "message": "{tool_calls}"}})
        talk.play(user("Mend the build."), *calls(8, 20))
        # five calls were made and answered by message 11
        assert self.fired(talk) == [(11, "5"), (13, "6"), (15, "7"), (17, "8")]

    def test_a_turn_is_a_call_of_the_model_and_placeholders_have_their_values(self) -> None:
        log = {"type": "log", "message": "Turn {turn}: ~{tokens} tokens, {messages} messages, {pressure} {other}"}
        five = {"type": "inject_message", "role": "system", "message": "Reminder: {turn} turns."}
        talk = self.hooked(
            {"id": "pressure_log", "on": "turn_start", "condition": {"type": "always"}, "action": log},
            {"id": "five", "on": "turn_start", "condition": {"type": "turn_count", "count": 5}, "action": five},
        )
        talk.play(user("Mend the build."))
        tokens = talk.state.live_tokens
        talk.play(*calls(6, 396))
        lines = [text for _, text in self.fired(talk) if text]
        assert lines[0] == f"Turn 1: ~{tokens} tokens, 1 messages, 0.00 {{other}}"
        assert [line.partition(":")[0] for line in lines] == [f"Turn {at}" for at in range(1, 8)]
        assert " 5 messages, 0.1" in lines[2]
        notes = [message for message in talk.shown() if message["role"] == "system"]
        assert notes == [system("Reminder: 5 turns.")]

    @pytest.mark.parametrize("strategy", ["summarize", "truncate"])
    def test_a_hook_compacts_by_its_own_strategy_and_keeps_its_own_number(self, strategy: str) -> None:
        aggressive = {"type": "compact_context", "strategy": strategy, "keep_recent": 4, "summary_max_tokens": 300}
        pressure = {"type": "context_pressure", "threshold": 0.6}
        other = "truncate" if strategy == "summarize" else "summarize"
        talk = self.hooked({"id": "aggressive", "condition": pressure, "action": aggressive}, strategy=other)
        asked: list[int] = []

        def model(ask: Ask) -> str:
            asked.append(ask.tokens_max)
            return extractive(ask)

        talk.answer = model
        run = [user("Mend the build."), *calls(14, 396)]
        talk.play(*run)
        assert asked == ([300] if strategy == "summarize" else [])
        assert len(kinds(talk, HistoryDigested)) == 1
        (first,) = kinds(talk, HistoryDigested)
        assert first.boundary - first.through == 4
        assert talk.shown()[-4:] == run[-4:]

    def test_a_truncation_asks_no_model_though_the_service_squeezes(self) -> None:
        service = {"squeeze": {"mode": "squeeze", "model": "m"}}
        for own in ({"preset": "digitorn-truncate"}, from_digitorn({"context": {"strategy": "truncate"}}).layer):
            talk = Talk(resolve([service, own, {"budget": {"window": 4000, "reserve": 0}}]))
            talk.answer = "asked"
            talk.play(user("Mend the build."), *calls(30, 300))
            assert kinds(talk, HistoryDigested)
            assert "asked" not in talk.view().body.decode()
            assert not [fact for fact in talk.facts if getattr(fact, "stage", "") == "squeeze"]

    @pytest.mark.parametrize(("count", "shown"), [(4, "- fs.tool_3: Do 3"), (40, "- fs: fs.tool_0, fs.tool_1,")])
    def test_a_reminder_names_the_tools_that_the_agent_sent_one_by_one_or_by_category(
        self, count: int, shown: str
    ) -> None:
        chat = [
            {"type": "function", "function": {"name": f"fs.tool_{at}", "description": f"Do {at}. More."}}
            for at in range(count)
        ]
        native = [
            {"name": f"fs.tool_{at}", "description": f"Do {at}. More.", "input_schema": {}} for at in range(count)
        ]
        assert told_tools(chat) == told_tools(native)
        talk = Talk()
        talk.say(ConversationOpened(name="one", tools=told_tools(chat)))
        talk.land(
            talk.sealed((), adopt=resolve([{"preset": "digitorn-truncate", "budget": {"window": 8000, "reserve": 0}}]))
        )
        talk.play(user("Mend the build."), *calls(30, 300))
        note = next(str(m["content"]) for m in reversed(talk.shown()) if "do not start again" in str(m["content"]))
        assert shown in note


NEEDLE = (
    "By the way, my daughter Annika is allergic to peanuts. You can reach her school at office@skolan.example. "
    "Her birthday party is on 14 March."
)


@pytest.mark.parametrize("preset", sorted(PRESETS.keys() - {"octopus-fifo", "octopus-window"}))
def test_what_a_user_told_in_plain_words_outlives_a_haystack_without_an_llm(preset: str) -> None:
    """DocsGPT's needle, in a haystack of values, rules and decisions. Octopus drops by age alone, as it says."""
    talk = Talk(resolve([{"preset": preset, "budget": {"window": 8000, "reserve": 0}}]))
    talk.play(user(NEEDLE), assistant("Noted."))
    # the default shortens results in place first: more of them must come before a message leaves
    for at in range(90 if preset == "jettison" else 25):
        talk.play(
            user(f"Question {at}: what does ORD-{at:05} in /srv/app/file_{at}.py say, and must it be kept?"),
            assistant(None, f"c{at}", arguments=f'{{"path":"/srv/app/file_{at}.py"}}'),
            result(f"c{at}", f"REF-{at:05} id=req-{at * 7919} https://shop.example/o/{at} {words(400)}"),
            assistant(f"ORD-{at:05} is fine. We decided to keep v2.{at}."),
        )
    view = talk.view().body.decode()
    assert [said for said in ("Annika", "peanuts", "office@skolan.example", "14 March") if said not in view] == []
    assert 1 not in talk.view().numbers
