"""Digitorn: how it parts a history, summarizes and keeps facts (K1 to K16, K20 to K26), against our rules."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from actors.core.extract import found_in
from actors.digest.decide import digest
from actors.squeeze.decide import Ask, squeeze
from actors.squeeze.must_keep import required, unsaid
from protocol.errors import ChainBroken
from protocol.facts import (
    CompactionDeclined,
    CompactionRequested,
    DigestItem,
    HistoryDigested,
    HistorySummarized,
    StageFailed,
)
from protocol.formats.validate import problems
from tests.builders import COUNT, Talk, assistant, result, system, user, words
from tests.presets.digitorn import CASES, TALK, digitorn, said_at, turn
from tests.squeeze.summarizers import extractive

TRIPLES = [
    message
    for number in range(20)
    for message in (user(words(40)), assistant(None, f"c{number}"), result(f"c{number}", words(40)))
]


def parted(keep: int, *said: Mapping[str, Any]) -> HistoryDigested | CompactionDeclined:
    """Return what digest decides on *said* where *keep* messages are kept, whatever their size."""
    at_once: dict[str, Any] = {
        "trigger": {"ratio": 1.0, "conditions": [{"kind": "messages", "at_least": len(said)}]},
        "target": {"low_water": 0.0, "min_gain": 0.0},
        "digest": {"keep_messages": keep, "cap_tokens": 80},
    }
    talk = Talk(digitorn(100_000, **at_once))
    talk.append(*said)
    (fact,) = digest(talk.state, count=COUNT)
    talk.settle()
    # what digest decides is what the model sees: no later stage takes more
    gone = range(1, fact.through + 1) if isinstance(fact, HistoryDigested) else ()
    kept = fact.kept if isinstance(fact, HistoryDigested) else ()
    assert list(talk.view().numbers) == [at for at in range(1, len(said) + 1) if at not in gone or at in kept]
    return fact


def left(keep: int, *said: Mapping[str, Any]) -> tuple[int, tuple[int, ...]]:
    """Return through which message the history left, and which of it stayed."""
    fact = parted(keep, *said)
    return (fact.through, fact.kept) if isinstance(fact, HistoryDigested) else (0, ())


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
        said = [*turn(1), user(words(90)), assistant(None, "c"), result("c"), assistant(words(20))]
        assert left(2, *said) == (2, (3,))

    @CASES.of("K4")
    def test_a_call_and_its_result_stay_together_though_one_message_is_kept(self) -> None:
        # the newest request is pinned, what is older leaves
        assert left(1, user(words(400)), user("look"), assistant(None, "c"), result("c")) == (1, (2,))

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
        talk.answer = extractive
        talk.play(user("Mend the build."))
        for number in range(40):
            talk.play(assistant(None, f"c{number}"), result(f"c{number}", f"REF-{number:05} {words(90)}"))
        assert [fact for fact in talk.facts if isinstance(fact, HistorySummarized)]
        assert talk.shown().count(user("Mend the build.")) == 1


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
        assert len(talk.view().numbers) >= 4
        assert talk.view().numbers[-1] == 40

    @CASES.of("K9")
    def test_a_budget_of_none_is_the_policys(self) -> None:
        talk = self.talk(0)
        first = next(fact for fact in talk.facts if isinstance(fact, HistoryDigested))
        # of messages of 1,004 tokens 30 are the first at or over 75 % of 40,000
        assert (first.boundary, first.through) == (30, 26)
        assert talk.view().numbers[-4:] == (37, 38, 39, 40)

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
        for number in range(14):
            text = "ERROR: cannot open /srv/app/orchid.db" if number == 1 else f"row REF-{number} " + words(500)
            said += [assistant(None, f"c{number}"), result(f"c{number}", text)]
        before = json.dumps(said)
        talk.play(*said)
        shown = talk.shown()
        assert shown[-6:] == said[-6:]
        assert said[2] not in shown
        assert "/srv/app/orchid.db" in shown[1]["content"] + shown[0]["content"]
        assert json.dumps(said) == before


class TestFacts:
    """The fact guard: what a summary must still say."""

    def talk(self) -> Talk:
        """Return a conversation of which a summary is asked; 8080 and orchid.db were said in it."""
        talk = Talk(digitorn(preset="digitorn", squeeze={"model": "brain", "restore": 0.1}))
        facts = user("The service listens on port=8080 and keeps its rows in /srv/data/orchid.db.")
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
        [
            "8080",
            "v2.4.1",
            "REF-20418",
            "orchid.db",
            "/srv/app",
            "getUserName",
            "a3f9c2d1e",
            "retry_limit=5",
            "HTTP 503",
        ],
    )
    @CASES.of("K24")
    def test_a_token_with_a_shape_is_a_fact(self, value: str) -> None:
        talk = Talk(digitorn())
        talk.append(user(f"It is about id: {value} here"))
        assert [item.value for item in found_in(talk.state.live).items if value in item.value or item.value in value]

    @pytest.mark.parametrize("text", ["we looked at the build", "ok", "Good morning to all of you", "it was nice"])
    @CASES.of("K24")
    def test_plain_words_are_none(self, text: str) -> None:
        talk = Talk(digitorn())
        talk.append(assistant(text))
        assert [item for item in found_in(talk.state.live).items if item.category != "outcome"] == []

    @CASES.of("Y9")
    def test_what_is_put_back_has_a_bound(self) -> None:
        """Y9: theirs puts back every token of a run with many tools, and keeps it for ever."""
        talk = Talk(digitorn(20_000, preset="digitorn"))
        talk.append(user("Go."))
        for number in range(80):
            listing = " ".join(f"REF-{number}{row:04}" for row in range(60))
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
        assert squeeze(talk.state, count=COUNT) is None
