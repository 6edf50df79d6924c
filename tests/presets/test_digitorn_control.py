"""Digitorn: when it compacts, and what it records (K17 to K19, K27 to K31), against our rules.

The Python version's settings are the preset; what the Go version does otherwise is a layer over it.
"""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

import pytest

from actors.audit.replay import replay
from actors.cli.policy_import import from_digitorn
from actors.core.entry import IMAGE_TOKENS, MESSAGE_TOKENS
from actors.core.flow import next_actor
from actors.core.pressure import trigger_tokens
from actors.core.state import State
from actors.core.written_words import ABORTED
from protocol import codec
from protocol.errors import BadPolicy, BudgetRefused
from protocol.facts import (
    CompactionRequested,
    HistoryCut,
    HistoryDigested,
    HistorySummarized,
    OverflowReported,
    ReminderInjected,
    SaidFact,
    ToolOutputSpilled,
    UsageReported,
)
from protocol.formats.validate import problems
from protocol.overflow import is_overflow
from protocol.policy import resolve
from tests.builders import COUNT, Talk, assistant, result, system, user, words
from tests.presets.cases import lightened_sample
from tests.presets.digitorn import CASES, NOT_OURS, TALK, digitorn, said_at, served, turn
from tests.squeeze.summarizers import extractive

GO_TRIGGER = {"ratio": 0.95, "comparator": "at_least", "buffer": 13_000, "buffer_share": 0.25}


class TestOverflow:
    @pytest.mark.parametrize(
        "text",
        [
            "This model's maximum context length is 8192 tokens.",
            "Error code: 400 - context_length_exceeded",
            "the input exceeds the context window of this model",
            "Please reduce the length of the messages.",
            "too many tokens in the prompt",
            "the token limit was reached",
            "prompt is too long: 213000 tokens > 200000 maximum",
        ],
    )
    @CASES.of("K17")
    def test_a_refusal_for_length_is_known_by_its_words(self, text: str) -> None:
        assert is_overflow(text)

    @pytest.mark.parametrize("text", ["Rate limit reached for requests", "invalid api key", "connection refused", ""])
    @CASES.of("K17")
    def test_another_refusal_is_not_taken_for_one(self, text: str) -> None:
        assert not is_overflow(text)

    @pytest.mark.parametrize(("keep", "emergency"), [(20, 10), (10, 5), (8, 4), (6, 4), (4, 4)])
    @CASES.of("K18")
    def test_an_emergency_keeps_half_of_what_is_kept_and_at_least_four(self, keep: int, emergency: int) -> None:
        layer = from_digitorn({"context": {"keep_recent": keep}}).layer
        wanted = resolve([layer, {"budget": {"window": 100_000, "reserve": 0}}])
        talk = Talk(wanted)
        talk.play(*TALK)
        talk.say(OverflowReported(message="context_length_exceeded"))
        talk.settle()
        assert [message for message in talk.shown() if message in TALK] == TALK[-emergency:]

    @CASES.of("K18")
    def test_the_preset_keeps_half_of_its_ten(self) -> None:
        wanted = digitorn()
        assert (wanted.digest.keep_messages, wanted.emergency.keep_messages) == (10, 5)

    @CASES.of("Y2")
    def test_an_emergency_goes_down_to_half_at_least(self) -> None:
        """Y2: theirs documents half of the window, and its code has no target at all."""
        talk = Talk(digitorn(4000, trigger={"ratio": 1.0}, target={"low_water": 1.0}))
        talk.play(user("Mend it."), *(message for at in range(8) for message in turn(at, 200)))
        before = talk.state.live_tokens
        talk.say(OverflowReported(message="too many tokens"))
        talk.settle()
        assert 3000 < before <= 4000
        assert talk.state.live_tokens <= before // 2
        assert problems(talk.shown()) == []


class TestTrigger:
    @pytest.mark.parametrize(
        ("limit", "ratio", "mark"),
        [(8000, 0.95, 6000), (200_000, 0.95, 187_000), (1_000_000, 0.95, 950_000), (8000, 0.5, 4000)],
    )
    @CASES.of("K19")
    def test_the_go_versions_mark_is_the_earlier_of_ratio_and_buffer(self, limit: int, ratio: float, mark: int) -> None:
        layer: dict[str, Any] = {"trigger": GO_TRIGGER | {"ratio": ratio}}
        assert trigger_tokens(Talk(digitorn(limit, **layer)).state) == mark - 1
        assert mark <= limit * ratio

    @CASES.of("K19")
    def test_a_window_of_nothing_is_refused(self) -> None:
        with pytest.raises(BadPolicy) as refused:
            digitorn(0)
        assert refused.value.fields["key"] == "budget.window"

    @pytest.mark.parametrize(("tokens", "begins"), [(2999, False), (3000, True)])
    @CASES.of("K19")
    def test_the_python_version_begins_at_three_quarters_of_what_is_not_reserved(
        self, tokens: int, begins: bool
    ) -> None:
        layer = {"budget": {"window": 8096, "reserve": 4096}, "spill": {"share": 1.0}}
        talk = Talk(resolve([{"preset": "digitorn"}, layer]))
        talk.append(user(words(tokens - MESSAGE_TOKENS)))
        assert talk.state.live_tokens == tokens
        assert (talk.state.episode is not None) is begins

    def compacted_at(self, *, seconds: int) -> list[int]:
        """Return the turns at which the scheduled compaction acted, a turn each so many seconds."""
        talk, found = Talk(digitorn(4000, digest={"keep_messages": 28})), []
        for number in range(1, 45):
            known = len(talk.facts)
            said_at(talk, number * seconds, user(words(96)), assistant(words(96)))
            found += [number] if any(isinstance(fact, HistoryDigested) for fact in talk.facts[known:]) else []
        return found

    @CASES.of("Y1")
    def test_two_turns_and_thirty_seconds_must_have_passed(self) -> None:
        """Y1: their document says two turns, their code three; a turn is a call of the model."""
        slow, fast = self.compacted_at(seconds=60), self.compacted_at(seconds=1)
        assert slow[0] == fast[0] == 15
        assert slow[1] - slow[0] == 2
        assert fast[1] - fast[0] > 4, "over the budget nothing waits"

    @CASES.of("K28")
    @pytest.mark.parametrize(("told", "fires"), [(900, True), (100, False)])
    def test_what_the_provider_counted_decides_and_the_log_keeps_what_left(self, told: int, fires: bool) -> None:
        talk = Talk(digitorn(1000, trigger={"ratio": 0.5}, digest={"keep_messages": 2}))
        talk.play(*(user(f"MSG-{number} {words(30)}") for number in range(1, 9)))
        assert talk.state.live_tokens < 500
        talk.say(UsageReported(input_tokens=told, view_hash=served(talk)))
        talk.play(assistant("Looked."))
        numbers = talk.view().numbers
        assert (1 not in numbers) is fires
        assert replay(talk.at, talk.records).divergence is None
        assert b"MSG-1" in b"".join(record.body for record in talk.records if record.side == "said")

    @CASES.of("K29")
    def test_compaction_is_on_by_default_with_the_settings_of_its_file(self) -> None:
        plain = resolve([from_digitorn({}).layer])
        told = resolve([from_digitorn({"context": {"compression_trigger": 0.6, "keep_recent": 4}}).layer])
        assert (plain.trigger.ratio, plain.digest.keep_messages, plain.cooldown.model_calls) == (0.75, 10, 2)
        assert (told.trigger.ratio, told.digest.keep_messages) == (0.6, 4)

    @pytest.mark.parametrize(
        "document",
        [
            {"context": {"auto_compact": False}},
            {"execution": {"hooks": [{"condition": {"type": "always"}, "action": {"type": "compact_context"}}]}},
        ],
    )
    @CASES.of("K29")
    def test_it_is_off_by_a_flag_and_where_a_hook_compacts(self, document: dict[str, Any]) -> None:
        assert resolve([from_digitorn(document).layer]).trigger.ratio == 1.0

    @CASES.of("Y1")
    def test_both_names_of_a_hooks_text_and_bound_are_read(self) -> None:
        """Y1: their document says `message` and `count`, their code `content` and `threshold`."""
        hooks = [
            {"condition": {"type": "turn_count", bound: 7}, "action": {"type": "inject_message", text: "Mind."}}
            for bound, text in (("count", "message"), ("threshold", "content"))
        ]
        layer = from_digitorn({"execution": {"hooks": hooks}}).layer
        assert [(hook["when"], hook["do"]["text"], hook.get("most", 0)) for hook in layer["hooks"]] == [
            ({"kind": "model_calls", "at_least": 7}, "Mind.", 1),
            ({"kind": "model_calls", "at_least": 7}, "Mind.", 0),
        ]

    @CASES.of("Y12")
    def test_every_setting_has_one_default_wherever_it_is_read(self) -> None:
        """Y12: theirs has .75, .95 and .97 for one trigger, and 3, 5 and 10 for one number of messages."""
        imported = resolve([from_digitorn({}).layer])
        assert imported == resolve([{"preset": "digitorn"}])
        assert imported.squeeze.cap_tokens == 1024


class TestEvents:
    @CASES.of("K27")
    def test_eight_messages_of_which_two_are_kept_leave_through_the_sixth_and_the_log_keeps_eight(self) -> None:
        said = [message for number in range(1, 5) for message in turn(number)]
        begins = {"ratio": 1.0, "conditions": [{"kind": "messages", "at_least": 8}]}
        talk = Talk(digitorn(4000, trigger=begins, target={"low_water": 0.0}, digest={"keep_messages": 2}))
        talk.play(*said)
        fact = next(fact for fact in talk.facts if isinstance(fact, HistoryDigested))
        assert (fact.boundary, fact.through, fact.kept) == (8, 6, ())
        assert talk.view().numbers == (7, 8)
        log = [json.loads(raw.raw) for record in talk.records if record.side == "said" for raw in _said(record.body)]
        assert log == said

    @CASES.of("K27", "Y14")
    def test_what_was_begun_is_gone_on_with_by_whoever_comes_next(self) -> None:
        """Y14: theirs leaves a flag behind if it dies between its start and its end."""
        talk = Talk(digitorn(preset="digitorn"))
        talk.append(*TALK, *TALK)
        talk.until("squeeze")
        again = Talk()
        for record in talk.records:
            if record.side == "said":
                again.hear(record.body)
            else:
                again.land(codec.decode_commit(record.body))
        assert again.state == talk.state
        again.settle()
        assert (next_actor(again.state), again.state.episode) == (None, None)

    @CASES.of("K31")
    def test_chained_compactions_keep_the_whole_history_and_rebuild_the_same_view(self) -> None:
        talk = Talk(digitorn(3000))
        said = [message for number in range(60) for message in turn(number)]
        talk.play(*said)
        assert len([fact for fact in talk.facts if isinstance(fact, HistoryDigested)]) >= 3
        again = replay(talk.at, talk.records)
        assert (again.divergence, again.view_hash) == (None, talk.view().hash)
        assert talk.state.messages == len(said)


class TestCalibration:
    """K30: raw tokens times the learned ratio are compared with the window; ours divides the window instead."""

    def learned(self, raw: int, *told: int) -> State:
        talk = Talk(digitorn(100_000))
        talk.play(user(words(raw - MESSAGE_TOKENS)))
        for count in told:
            talk.say(UsageReported(input_tokens=count, view_hash=served(talk)))
        return talk.state

    @pytest.mark.parametrize(
        ("raw", "told", "ratio"),
        [
            (1000, (1200,), 1.2),
            (800, (), 0.0),
            (1000, (1200, 1000), 1.1),
            (1000, (90_000,), 4.0),
            (1000, (1,), 0.25),
            (1000, (0,), 0.0),
        ],
    )
    @CASES.of("K30")
    def test_the_ratio_is_clamped_and_averaged_by_halves(self, raw: int, told: tuple[int, ...], ratio: float) -> None:
        assert self.learned(raw, *told).calibration.ratio == pytest.approx(ratio)

    @CASES.of("K30")
    def test_five_hundred_tokens_count_as_six_hundred_where_the_provider_counts_a_fifth_more(self) -> None:
        state = self.learned(1000, 1200)
        assert 500 / state.usable_tokens == pytest.approx(600 / 100_000, rel=1e-4)

    @CASES.of("Y13")
    def test_other_scripts_and_images_are_counted_for_what_they_cost(self) -> None:
        """Y13: theirs takes four characters for a token, three times too few in Chinese; images cost nothing."""
        talk = Talk(digitorn(100_000))
        text = "请不要重新启动这个服务" * 40
        talk.append(
            user(text), user([{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}])
        )
        chinese, image = talk.state.live
        assert chinese.tokens == COUNT(text) + MESSAGE_TOKENS > len(text) / 4
        assert image.tokens == IMAGE_TOKENS + MESSAGE_TOKENS


class TestResultsAndReminder:
    @CASES.of("Y8")
    def test_a_single_item_over_the_cap_is_spilled_within_it(self) -> None:
        """Y8: theirs returns at least one item of a list, however large, and the cap does not hold its own note."""
        talk = Talk(digitorn(4000))
        body = json.dumps([{"row": words(6000)}])
        talk.play(user("Look."), assistant(None, "c"), result("c", body))
        (spilled,) = (fact for fact in talk.facts if isinstance(fact, ToolOutputSpilled))
        assert spilled.tokens > 2000 >= spilled.text_tokens
        assert list(talk.bodies.values()) == [body.encode()]
        shown = talk.shown()[-1]["content"]
        assert 1400 < COUNT(shown) <= 2000
        assert '[{"row": "word word' in shown
        assert talk.view().tokens <= 4000

    @CASES.of("Y8")
    def test_half_of_the_window_is_the_cap_of_one_result(self) -> None:
        for tokens, spills in ((2000, False), (2001, True)):
            talk = Talk(digitorn(4000))
            talk.play(user("Look."), assistant(None, "c"), result("c", words(tokens)))
            assert bool([fact for fact in talk.facts if isinstance(fact, ToolOutputSpilled)]) is spills

    def reminded(self, tokens: int) -> Talk:
        tools = [{"name": f"tool_{at}", "about": words(12)} for at in range(20)]
        talk = Talk(digitorn(2000, reminder={"tools": tools}, trigger={"ratio": 0.9}, target={"low_water": 0.8}))
        for number in range(60):
            said_at(talk, number * 100, user(words(tokens)))
        return talk

    @CASES.of("Y7")
    def test_a_reminder_never_costs_what_its_compaction_won(self) -> None:
        """Y7: theirs does not look whether the prompt became smaller; its reminder alone may make it larger."""
        for tokens in (6, 20, 60, 200):
            talk = self.reminded(tokens)
            won = 0
            for fact in talk.facts:
                if isinstance(fact, ReminderInjected):
                    assert fact.tokens < won
                    won = 0
                elif isinstance(fact, HistoryDigested | HistoryCut):
                    won += fact.before_tokens - fact.after_tokens
        assert [fact for fact in talk.facts if isinstance(fact, ReminderInjected)]

    def test_where_there_is_no_room_for_a_reminder_there_is_none(self) -> None:
        talk = Talk(digitorn(300))
        talk.play(*(user(f"It is about ORD-7000{number}. {words(60)}") for number in range(9)))
        assert {fact.text for fact in talk.facts if isinstance(fact, ReminderInjected)} == {""}
        assert all(message["content"] for message in talk.shown())

    def test_the_agent_is_told_to_go_on_and_with_what(self) -> None:
        talk = self.reminded(200)
        text = [str(message["content"]) for message in talk.shown()]
        (note,) = (one for one in text if "do not start again" in one)
        assert "- tool_0: " in note
        assert COUNT(note) <= 100

    @pytest.mark.parametrize("told", [OverflowReported(), CompactionRequested(budget=900)])
    def test_it_waits_for_the_results_of_calls_that_are_open(self, told: SaidFact) -> None:
        talk = Talk(digitorn(2000))
        talk.play(*TALK[:12], assistant("Looking.", "a", "b"), result("a", words(10)))
        talk.say(told)
        talk.settle()
        assert [fact for fact in talk.facts if isinstance(fact, ReminderInjected)]
        assert problems(talk.shown()) == []
        assert talk.shown()[-1] == result("a", words(10))
        talk.play(result("b"))
        assert problems(talk.shown()) == []
        assert "do not start again" in talk.shown()[-1]["content"]

    def test_calls_without_a_result_are_answered_in_the_copy_that_is_sent(self) -> None:
        talk = Talk(digitorn())
        talk.play(user("Look."), assistant(None, "c"), user("Stop."))
        assert [message["content"] for message in talk.shown()] == ["Look.", None, ABORTED, "Stop."]
        assert b"aborted" not in b"".join(record.body for record in talk.records if record.side == "said")


@pytest.mark.parametrize("preset", ["digitorn", "digitorn-truncate"])
def test_the_recorded_run_stays_legal_and_within_its_window(preset: str) -> None:
    talk = lightened_sample(digitorn(6000, preset=preset), answer=extractive)
    assert bool([fact for fact in talk.facts if isinstance(fact, HistorySummarized)]) is (preset == "digitorn")


def test_nothing_that_must_stay_and_does_not_fit_is_sent() -> None:
    talk = Talk(digitorn(500, cut={"on_overflow": "refuse"}))
    talk.play(system(words(900)), user("Go."))
    with pytest.raises(BudgetRefused):
        talk.view()


def test_every_case_is_accounted_for() -> None:
    import_module("tests.presets.test_digitorn")  # it registers the others
    assert CASES.covered | NOT_OURS.keys() == CASES.expected
    assert CASES.covered.isdisjoint(NOT_OURS)


def _said(body: bytes) -> tuple[Any, ...]:
    return tuple(message for fact in codec.decode_said(body).facts for message in getattr(fact, "messages", ()))
