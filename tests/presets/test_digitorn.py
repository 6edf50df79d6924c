"""Digitorn: its cases K1 to K31 and its defects Y1 to Y14, against our rules under its two presets.

The Python version's settings are the preset; what the Go version does otherwise is a layer over it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from actors.policy_import import from_digitorn
from actors.replay import replay
from actors.rules.budget import trigger_tokens
from actors.rules.digest import digest
from actors.rules.entry import ABORTED, IMAGE_TOKENS, MESSAGE_TOKENS
from actors.rules.extract import items_of
from actors.rules.flow import next_actor
from actors.rules.guard import required, unsaid
from actors.rules.hear import hear
from actors.rules.legal import problems
from actors.rules.squeeze import Ask, next_ask
from actors.rules.state import State, initial
from protocol import codec, messages
from protocol.errors import BadPolicy, BudgetRefused, ChainBroken
from protocol.facts import (
    CompactionDeclined,
    CompactionRequested,
    ContextServed,
    DigestItem,
    HistoryCut,
    HistoryDigested,
    HistorySummarized,
    OverflowReported,
    ReminderInjected,
    StageFailed,
    ToolOutputSpilled,
    UsageReported,
)
from protocol.overflow import is_overflow
from protocol.policy import Policy, resolve
from tests.builders import COUNT, Talk, appended, asked_of, assistant, result, sample, system, user, words
from tests.presets.cases import Cases, lightened_sample

CASES = Cases(K=31, Y=14)

NOT_OURS: dict[str, str] = {
    "K15": "a field of their result object; what did nothing is a fact under the name of its stage here",
    "K23": "their facts are a section of the summary's text; ours are items beside it, so none is ever stripped",
    "Y11": "advice in their tuning table, and no behaviour",
}

GO_TRIGGER = {"ratio": 0.95, "comparator": "at_least", "buffer": 13_000, "buffer_share": 0.25}


def digitorn(window: int = 4000, *, preset: str = "digitorn-truncate", **sections: Mapping[str, Any]) -> Policy:
    """Return the preset with *window* tokens usable, and a model for its summaries."""
    base = {"preset": preset, "budget": {"window": window, "reserve": 0}, "squeeze": {"model": "brain"}}
    return resolve([base, sections])


def said_at(talk: Talk, seconds: float, *new: Mapping[str, Any]) -> None:
    """Say each of *new* at a time of the agent's clock, and let the actors act."""
    for message in new:
        body = codec.Said(
            writer="w", count=talk.state.messages + 1, facts=(appended([message]),), at_ms=int(seconds * 1000)
        )
        talk.hear(codec.encode_said(body))
        talk.settle()


def parted(keep: int, *said: Mapping[str, Any]) -> HistoryDigested | CompactionDeclined:
    """Return what digest decides on *said* where *keep* messages are kept, whatever their size."""
    at_once = {
        "trigger": {"ratio": 1.0, "conditions": [{"kind": "messages", "at_least": len(said)}]},
        "target": {"low_water": 0.0, "min_gain": 0.0},
        "digest": {"keep_messages": keep},
    }
    talk = Talk(digitorn(100_000, **at_once))
    talk.append(*said)
    (fact,) = digest(talk.state, count=COUNT)
    return fact


def left(keep: int, *said: Mapping[str, Any]) -> tuple[int, tuple[int, ...]]:
    """Return through which message the history left, and which of it stayed."""
    fact = parted(keep, *said)
    return (fact.through, fact.kept) if isinstance(fact, HistoryDigested) else (0, ())


def turn(number: int, tokens: int = 40) -> tuple[dict[str, Any], dict[str, Any]]:
    return user(f"MSG-{number} {words(tokens)}"), assistant(f"Looked at {number}. {words(tokens)}")


TALK = [message for number in range(1, 16) for message in turn(number)]
TRIPLES = [
    message
    for number in range(20)
    for message in (user(words(40)), assistant(None, f"c{number}"), result(f"c{number}", words(40)))
]


class TestSplit:
    @CASES.of("K1")
    def test_two_messages_are_not_parted_where_ten_are_kept(self) -> None:
        fact = parted(10, *TALK[:2])
        assert fact == CompactionDeclined(boundary=2, stage="digest", reason="nothing older than the kept units")

    @pytest.mark.parametrize(("keep", "through"), [(3, 7), (9, 1), (1, 9)])
    @CASES.of("K2")
    def test_without_calls_exactly_as_many_stay_as_are_to_be_kept(self, keep: int, through: int) -> None:
        kept = (9,) if keep == 1 else ()
        assert left(keep, *TALK[:10]) == (through - (keep == 1), kept)

    @CASES.of("K3")
    def test_a_boundary_on_a_result_moves_before_its_call(self) -> None:
        said = [*turn(1), user(words(40)), assistant(None, "c"), result("c"), assistant(words(20))]
        assert left(2, *said) == (2, (3,)) or left(2, *said) == (2, ())

    @CASES.of("K4")
    def test_a_call_and_its_result_stay_together_though_one_message_is_kept(self) -> None:
        # the newest request is pinned, what is older leaves
        assert left(1, user(words(80)), user("look"), assistant(None, "c"), result("c")) == (1, (2,))

    @CASES.of("K5")
    def test_to_keep_none_keeps_the_newest_unit(self) -> None:
        assert left(0, *TALK[:10]) == left(1, *TALK[:10])

    @pytest.mark.parametrize("keep", [1, 2, 5, 10, 15, 30])
    @CASES.of("K6")
    def test_no_split_of_twenty_batches_leaves_an_orphan(self, keep: int) -> None:
        fact = parted(keep, *TRIPLES)
        assert isinstance(fact, HistoryDigested)
        assert len(TRIPLES) - fact.through >= keep
        stays = [message for number, message in enumerate(TRIPLES, 1) if number > fact.through or number in fact.kept]
        assert problems(stays) == []

    @CASES.of("Y3")
    def test_a_long_run_under_one_prompt_is_compacted_on_schedule(self) -> None:
        """Y3: theirs walks back over every call to the only prompt: of 62 messages it keeps 62."""
        run = [user("Mend the build."), assistant("Yes.")]
        for number in range(30):
            run += [assistant(None, f"c{number}"), result(f"c{number}", words(30))]
        assert left(10, *run) == (52, (1,))

    @CASES.of("Y4")
    def test_a_summary_is_made_though_the_last_request_is_the_first_message(self) -> None:
        """Y4: theirs raises the kept messages up to the last request, and so cuts nothing."""
        talk = Talk(digitorn(preset="digitorn"))
        talk.answer = "The build was looked at."
        talk.play(user("Mend the build."))
        for number in range(40):
            talk.play(assistant(None, f"c{number}"), result(f"c{number}", words(100)))
        assert [fact for fact in talk.facts if isinstance(fact, HistorySummarized)]
        assert [message["content"] for message in talk.shown() if message["role"] == "user"][-1] == "Mend the build."


class TestBudget:
    def talk(self, budget: int) -> Talk:
        """Return forty messages of a thousand tokens each by their counter, of which four are to be kept."""
        talk = Talk(digitorn(40_000, digest={"keep_messages": 4}), count=lambda text: -(-len(text) // 4))
        talk.say(CompactionRequested(budget=budget))
        talk.play(*(user(f"{number:04}" + "x" * 3996) for number in range(40)))
        return talk

    @CASES.of("K7", "K8")
    def test_a_budget_cuts_later_than_the_count_and_never_strands_everything(self) -> None:
        talk = self.talk(1200)
        assert 0 < talk.view().tokens <= 1200  # they allow 1,300
        assert talk.view().numbers == (40,)

    @CASES.of("K9")
    def test_a_budget_of_none_is_the_policys(self) -> None:
        talk = self.talk(0)
        first = next(fact for fact in talk.facts if isinstance(fact, HistoryDigested))
        # 30 messages of 1,004 tokens are the first at or over 75 % of 40,000
        assert (first.boundary, first.through) == (30, 26)

    @CASES.of("K10")
    def test_no_budget_leaves_an_orphan(self) -> None:
        talk = Talk(digitorn(8000))
        talk.play(*TRIPLES)
        for budget in range(60, 2000, 35):
            assert problems(talk.shown(budget)) == []


def summarizing(answer: Any) -> Talk:
    talk = Talk(digitorn(preset="digitorn"))
    talk.answer = answer
    for number, message in enumerate(TALK * 3):
        said_at(talk, 100 * number, message)
    return talk


class TestTruncateAndSummarize:
    @CASES.of("K11", "K16")
    def test_truncation_drops_the_oldest_and_says_so_in_one_framed_note(self) -> None:
        talk = Talk(digitorn())
        talk.play(system("Be careful."), *TALK, *TALK, *TALK)
        shown = talk.shown()
        assert shown[0] == system("Be careful.")
        assert shown[1]["content"].startswith("[Notes on messages 1-")
        assert sum("[Notes on messages" in str(message["content"]) for message in shown) == 1

    @CASES.of("K12")
    def test_a_short_conversation_stays_as_it_is(self) -> None:
        talk = Talk(digitorn())
        talk.play(*TALK[:6])
        assert (talk.facts, talk.shown()) == ([], TALK[:6])

    @CASES.of("K13", "K16")
    def test_the_summary_brain_is_asked_and_what_it_says_stands_in_the_frame(self) -> None:
        asked: list[Ask] = []

        def brain(ask: Ask) -> str:
            asked.append(ask)
            return f"Summary {len(asked)} of the talk."

        talk = summarizing(brain)
        facts = [fact for fact in talk.facts if isinstance(fact, HistorySummarized)]
        assert len(facts) >= 2
        assert {ask.model for ask in asked} == {fact.model for fact in facts} == {"brain"}
        assert {ask.tokens_max for ask in asked} == {600}, "15 % of the window, below their 1,024"
        # what stands in the view is framed, what the next summary merges is not
        note = next(message["content"] for message in talk.shown() if "Notes on messages" in message["content"])
        assert facts[-1].prose in note
        assert "[summary so far]\nSummary 1 of the talk." in asked[1].user
        assert "[Notes on messages" not in asked[1].user

    @pytest.mark.parametrize("answer", ["", "<think>nothing more</think>", lambda _: " \n"])
    @CASES.of("K14", "Y6")
    def test_without_a_usable_summary_the_rules_own_notes_stay(self, answer: Any) -> None:
        """Y6: theirs takes an empty summary for one."""
        talk = summarizing(answer)
        assert not [fact for fact in talk.facts if isinstance(fact, HistorySummarized)]
        assert [fact for fact in talk.facts if isinstance(fact, CompactionDeclined) and fact.stage == "squeeze"]
        assert talk.state.digest is not None
        assert (talk.state.digest.prose, "MSG-1" in talk.state.digest.text) == ("", True)

    @CASES.of("K14")
    def test_a_summarizer_that_fails_holds_nothing_up(self) -> None:
        talk = Talk(digitorn(preset="digitorn"))
        talk.append(*TALK, *TALK)
        talk.until("squeeze")
        assert talk.state.episode is not None
        failed = StageFailed(boundary=talk.state.episode.boundary, stage="squeeze", error="connection refused")
        talk.land(talk.sealed((failed,)))
        talk.answer = ""
        talk.settle()
        assert talk.view().tokens <= talk.state.usable_tokens

    @CASES.of("Y5")
    def test_the_summary_is_never_shortened_nor_summarized_as_a_message(self) -> None:
        """Y5: theirs stands as a system message at index 1, is cut to a tenth of the window, and summarized again."""
        asked: list[Ask] = []

        def brain(ask: Ask) -> str:
            asked.append(ask)
            return f"Summary number {len(asked)} says {words(30)}."

        talk = summarizing(brain)
        assert len(asked) >= 3
        for ask in asked:
            assert ask.user.count("Summary number") <= 1
        assert f"Summary number {len(asked)} says {words(30)}." in talk.shown()[0]["content"]

    @CASES.of("K25")
    def test_old_bulky_results_leave_and_the_newest_stay_whole_with_every_error_known(self) -> None:
        talk = Talk(digitorn(6000, digest={"keep_messages": 6}, target={"low_water": 0.5}))
        said = [user("Look at all of it.")]
        for number in range(9):
            text = "ERROR: cannot open /srv/app/orchid.db" if number == 1 else f"row REF-{number} " + words(500)
            said += [assistant(None, f"c{number}"), result(f"c{number}", text)]
        before = json.dumps(said)
        talk.play(*said)
        shown = talk.shown()
        assert shown[-6:] == said[-6:]
        assert said[2] not in shown
        assert "/srv/app/orchid.db" in shown[1]["content"] + shown[0]["content"]
        assert json.dumps(said) == before


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
        assert wanted.emergency.keep_units == emergency
        talk = Talk(wanted)
        talk.play(*TALK)
        talk.say(OverflowReported(message="context_length_exceeded"))
        talk.settle()
        fact = next(fact for fact in talk.facts if isinstance(fact, HistoryDigested))
        assert len(TALK) - fact.through == emergency

    @CASES.of("K18")
    def test_the_preset_keeps_half_of_its_ten(self) -> None:
        wanted = digitorn()
        assert (wanted.digest.keep_messages, wanted.emergency.keep_units) == (10, 5)

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
        layer = {"trigger": GO_TRIGGER | {"ratio": ratio}}
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
        talk = Talk(resolve([{"preset": "digitorn", "budget": {"window": 8096, "reserve": 4096}}]))
        talk.append(user(words(tokens - MESSAGE_TOKENS)))
        assert talk.state.live_tokens == tokens
        assert (talk.state.episode is not None) is begins

    def compacted_at(self, *, seconds: int) -> list[int]:
        """Return the turns at which the scheduled compaction acted, a turn each so many seconds."""
        talk, found = Talk(digitorn(4000, target={"low_water": 0.7})), []
        for number in range(1, 40):
            known = len(talk.facts)
            said_at(talk, number * seconds, user(words(96)))
            found += [number] if any(isinstance(fact, HistoryDigested) for fact in talk.facts[known:]) else []
        return found

    @CASES.of("Y1")
    def test_three_turns_and_thirty_seconds_must_have_passed(self) -> None:
        """Y1: their document says two turns, their code three."""
        slow, fast = self.compacted_at(seconds=60), self.compacted_at(seconds=1)
        assert slow[0] == fast[0] == 30
        assert slow[1] - slow[0] == 3
        assert len(fast) == 1 or fast[1] - fast[0] > 3

    @CASES.of("K28")
    @pytest.mark.parametrize(("told", "fires"), [(900, True), (100, False)])
    def test_what_the_provider_counted_decides_and_the_log_keeps_what_left(self, told: int, fires: bool) -> None:
        talk = Talk(digitorn(1000, trigger={"ratio": 0.5}, digest={"keep_messages": 2}))
        talk.play(*(user(f"MSG-{number} {words(30)}") for number in range(1, 9)))
        assert talk.state.live_tokens < 500
        served(talk)
        talk.say(UsageReported(input_tokens=told, view_hash=talk.view().hash))
        talk.play(assistant("Looked."))
        numbers = talk.view().numbers
        assert (1 not in numbers) is fires
        assert replay(talk.at, talk.records).divergence is None
        assert b"MSG-1" in b"".join(record.body for record in talk.records if record.side == "said")

    @CASES.of("K29")
    def test_compaction_is_on_by_default_with_the_settings_of_its_file(self) -> None:
        plain = resolve([from_digitorn({}).layer])
        told = resolve([from_digitorn({"context": {"compression_trigger": 0.6, "keep_recent": 4}}).layer])
        assert (plain.trigger.ratio, plain.digest.keep_messages, plain.cooldown.turns) == (0.75, 10, 3)
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
            ({"kind": "turns", "at_least": 7}, "Mind.", 1),
            ({"kind": "turns", "at_least": 7}, "Mind.", 0),
        ]

    @CASES.of("Y12")
    def test_every_setting_has_one_default_wherever_it_is_read(self) -> None:
        """Y12: theirs has .75, .95 and .97 for one trigger, and 3, 5 and 10 for one number of messages."""
        imported = resolve([from_digitorn({}).layer])
        assert imported == resolve([{"preset": "digitorn"}])
        assert imported.squeeze.cap_tokens == 1024


def served(talk: Talk) -> None:
    seen = talk.view()
    fact = ContextServed(
        upto=seen.upto, budget=0, profile=seen.profile, view_hash=seen.hash, tokens=seen.tokens, level=seen.level
    )
    talk.land(talk.sealed((fact,)))


class TestFacts:
    """The fact guard: what a summary must still say."""

    def talk(self) -> Talk:
        """Return a conversation of which a summary is asked; 8080 and orchid.db were said in it."""
        talk = Talk(digitorn(preset="digitorn", squeeze={"model": "brain", "restore": 0.1}))
        facts = user("The service listens on port 8080 and keeps its rows in /srv/data/orchid.db.")
        talk.append(facts, *(message for number in range(40) for message in turn(number)))
        talk.until("squeeze")
        return talk

    def judged(self, talk: Talk, answer: str) -> HistorySummarized:
        talk.answer = answer
        assert talk.step()
        fact = talk.facts[-1]
        assert isinstance(fact, HistorySummarized), fact
        return fact

    @CASES.of("K20")
    def test_what_a_summary_left_out_is_put_behind_it_and_what_it_says_is_not(self) -> None:
        missing = self.judged(self.talk(), "The service was looked at.")
        said = self.judged(self.talk(), "The service keeps port 8080 and /srv/data/orchid.db.")
        assert "/srv/data/orchid.db" in " ".join(item.value for item in missing.items)
        assert "8080" in " ".join(item.value for item in missing.items)
        assert "/srv/data/orchid.db" not in [item.value for item in said.items if item.category == "path"]

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("it listens on port 8080", True),
            ("(8080)", True),
            ("`8080`, as before", True),
            ("端口8080。", True),
            ("it listens on 18080", False),
            ("it listens on a port", False),
        ],
    )
    @CASES.of("K21")
    def test_a_value_may_be_said_in_other_words_but_not_as_another_value(self, text: str, says: bool) -> None:
        assert (unsaid((DigestItem(category="id", value="8080", number=1),), text) == ()) is says

    @CASES.of("K22", "Y10")
    def test_a_value_that_changed_takes_the_place_of_the_old_one(self) -> None:
        """Y10: theirs keeps the whole earlier recap whenever one number of it legitimately changed."""
        talk = Talk(digitorn(preset="digitorn"))
        talk.answer = "Looked at the service."
        talk.play(user("Use port=8080 for it."))
        said = [message for number in range(40) for message in turn(number)]
        talk.play(*said, user("Now use port=9090 for it."), *said)
        talk.append(*said)
        talk.until("squeeze")
        assert talk.state.digest is not None
        known = [item.value for item in required(talk.state) if item.category == "setting"]
        assert known == ["port=9090"]

    @pytest.mark.parametrize(
        "value",
        ["8080", "v2.4.1", "REF-20418", "orchid.db", "/srv/app", "getUserName", "a3f9c2d1e", "retry_limit=5", "HTTP 503"],
    )
    @CASES.of("K24")
    def test_a_token_with_a_shape_is_a_fact(self, value: str) -> None:
        talk = Talk(digitorn())
        talk.append(user(f"It is about id: {value} here"))
        assert [item.value for item in items_of(talk.state.live) if value in item.value or item.value in value]

    @pytest.mark.parametrize("text", ["we looked at the build", "ok", "Good morning to all of you", "it was nice"])
    @CASES.of("K24")
    def test_plain_words_are_none(self, text: str) -> None:
        talk = Talk(digitorn())
        talk.append(assistant(text))
        assert [item for item in items_of(talk.state.live) if item.category != "outcome"] == []

    @CASES.of("Y9")
    def test_what_is_put_back_has_a_bound(self) -> None:
        """Y9: theirs puts back every token of a run with many tools, and keeps it for ever."""
        talk = Talk(digitorn(20_000, preset="digitorn"))
        talk.append(user("Go."))
        for number in range(80):
            listing = " ".join(f"REF-{number}{row:04}" for row in range(40))
            talk.append(assistant(None, f"c{number}"), result(f"c{number}", listing))
        talk.until("squeeze")
        assert talk.state.digest is not None
        before = talk.state.digest.tokens
        fact = self.judged(talk, f"The first is {talk.state.digest.items[-1].value}, the rows were looked at.")
        assert fact.digest_tokens < before
        assert sum(COUNT(f" {item.value}") for item in fact.items) <= 2000


class TestPrepared:
    """A summary that was made while the agent went on."""

    def asked(self) -> Talk:
        talk = Talk(digitorn(preset="digitorn"))
        talk.append(*TALK, *TALK)
        talk.until("squeeze")
        talk.answer = "Looked at all of it."
        return talk

    @CASES.of("K26")
    def test_it_lands_behind_newer_messages_and_parts_none_of_them(self) -> None:
        talk = self.asked()
        prepared = talk.decided()
        assert prepared is not None
        talk.append(assistant(None, "late"))
        talk.land(prepared)
        talk.settle()
        talk.play(result("late", "found"))
        shown = talk.shown()
        assert problems(shown) == []
        assert [message["role"] for message in shown[-2:]] == ["assistant", "tool"]
        assert any("Looked at all of it." in str(message["content"]) for message in shown)

    @CASES.of("K26")
    def test_one_that_was_overtaken_is_refused(self) -> None:
        talk = self.asked()
        prepared = talk.decided()
        assert prepared is not None
        talk.land(talk.sealed((CompactionDeclined(boundary=1, stage="squeeze", reason="another was faster"),)))
        with pytest.raises(ChainBroken):
            talk.land(prepared)

    @CASES.of("K26")
    def test_none_is_made_of_nothing(self) -> None:
        talk = Talk(digitorn(preset="digitorn"))
        talk.play(*TALK[:4])
        assert next_ask(talk.state, count=COUNT) is None


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
            served(talk)
            talk.say(UsageReported(input_tokens=count, view_hash=talk.view().hash))
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
        assert self.learned(raw, *told).ratio == pytest.approx(ratio)

    @CASES.of("K30")
    def test_five_hundred_tokens_count_as_six_hundred_where_the_provider_counts_a_fifth_more(self) -> None:
        state = self.learned(1000, 1200)
        assert 500 / state.usable_tokens == pytest.approx(600 / 100_000, rel=1e-4)

    @CASES.of("Y13")
    def test_other_scripts_and_images_are_counted_for_what_they_cost(self) -> None:
        """Y13: theirs takes four characters for a token, which is three times too many in Chinese, and images for none."""
        talk = Talk(digitorn(100_000))
        text = "请不要重新启动这个服务" * 40
        talk.append(user(text), user([{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}]))
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

    def test_the_agent_is_told_to_go_on_and_with_what(self) -> None:
        talk = self.reminded(200)
        text = [str(message["content"]) for message in talk.shown()]
        (note,) = (one for one in text if "do not start again" in one)
        assert "- tool_0: " in note
        assert COUNT(note) <= 100

    def test_calls_without_a_result_are_answered_in_the_copy_that_is_sent(self) -> None:
        talk = Talk(digitorn())
        talk.play(user("Look."), assistant(None, "c"), user("Stop."))
        assert [message["content"] for message in talk.shown()] == ["Look.", None, ABORTED, "Stop."]
        assert b"aborted" not in b"".join(record.body for record in talk.records if record.side == "said")


@pytest.mark.parametrize("preset", ["digitorn", "digitorn-truncate"])
def test_the_recorded_run_stays_legal_and_within_its_window(preset: str) -> None:
    for talk in lightened_sample(digitorn(6000, preset=preset), answer="Notes on what was done so far."):
        assert talk.state.policy is not None


def test_nothing_that_must_stay_and_does_not_fit_is_sent() -> None:
    talk = Talk(digitorn(500, cut={"on_overflow": "refuse"}))
    talk.play(system(words(900)), user("Go."))
    with pytest.raises(BudgetRefused):
        talk.view()


def test_every_case_is_accounted_for() -> None:
    assert CASES.covered | NOT_OURS.keys() == CASES.expected
    assert CASES.covered.isdisjoint(NOT_OURS)


def _said(body: bytes) -> tuple[Any, ...]:
    return tuple(message for fact in codec.decode_said(body).facts for message in getattr(fact, "messages", ()))
