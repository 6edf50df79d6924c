"""Going back, and putting back: what a view showed before it shows again, and nothing that counts goes back."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.audit.diff import diff
from actors.audit.folded_log import Folded
from actors.audit.replay import replay
from actors.audit.where import where
from actors.audit.why import why
from actors.core.rewind import Views, expand, look, rewind
from actors.runtime.fold import fold, folded
from protocol import codec
from protocol.errors import BudgetRefused, ChainBroken, NotFound, PastNeeded
from protocol.fact_parts import Unspilled
from protocol.facts import ConversationRewound, HistoryExpanded
from protocol.formats.validate import problems
from protocol.policy import Policy
from storage.ports import Record
from tests.audit.recorded import serve
from tests.builders import Talk, assistant, policy, result, user, words
from tests.core.conversations import conversations, policies
from tests.laws import LAWS

TURNS = 7


def more(turns: int) -> list[dict[str, Any]]:
    return [one for turn in range(turns) for one in (user(f"more {turn}"), assistant(words(120)))]


def seen_by(talk: Talk) -> Views:
    """Return what views of *talk* have shown so far."""
    seen: Views = {}
    for step in talk.past.values():
        look(seen, step.before)
    look(seen, talk.state)
    return seen


def digested() -> Talk:
    """Return a conversation whose first messages are digested."""
    talk = Talk(policy(1000, digest={"keep_blocks": 1}, target={"low_water": 0.4, "min_gain": 0.0}))
    for turn in range(TURNS):
        talk.play(
            user(f"question {turn}"),
            assistant(None, f"c{turn}"),
            result(f"c{turn}", f"ORD-{10000 + turn}"),
            assistant(f"answer {turn} {words(120)}"),
        )
        serve(talk)
    assert talk.state.digest is not None
    assert numbers(talk)[0] > 4
    return talk


def numbers(talk: Talk) -> list[int]:
    return [entry.number for entry in talk.state.entries]


def went_back(talk: Talk, version: int) -> bool:
    fact = rewind(talk.state, talk.past[version].after)
    if fact is not None:
        talk.land(talk.sealed((fact,)))
        talk.settle()
    return fact is not None


def put_back(talk: Talk, first: int, last: int, *parts: Unspilled) -> HistoryExpanded | None:
    fact = expand(talk.state, seen_by(talk), first=first, last=last, parts=parts)
    if fact is not None:
        talk.land(talk.sealed((fact,)))
        talk.settle()
    return fact


def before_digest(talk: Talk) -> int:
    """Return the newest version without a digest."""
    return max(version for version, step in talk.past.items() if step.after.digest is None)


def test_a_rewound_view_is_byte_for_byte_what_it_was() -> None:
    talk = digested()
    version = before_digest(talk)
    earlier = Talk(talk.state.policy)
    earlier.state = talk.past[version].after
    assert went_back(talk, version)
    assert talk.view().body == earlier.view().body
    assert (talk.state.version, talk.state.messages) == (len(talk.commits), 4 * TURNS)
    assert talk.state.hash == talk.commits[-1].hash


def test_after_a_rewind_numbers_go_on_and_what_was_undone_stays_in_the_log() -> None:
    talk = digested()
    before = talk.state.live_tokens
    went_back(talk, 1)
    assert talk.facts[-1] == ConversationRewound(to_version=1, upto=0, before_tokens=before, after_tokens=0)
    assert numbers(talk) == []
    talk.play(user("another way"))
    assert numbers(talk) == [4 * TURNS + 1]
    found = where(talk.at, talk.records, text="ORD-10006", uploads={})
    assert ([place.message for place in found.places], found.now) == ([27], "lost")


def test_a_compaction_that_was_undone_is_not_done_again_at_once_but_when_more_is_said() -> None:
    talk = digested()
    version = before_digest(talk)
    went_back(talk, version)
    assert talk.state.digest is None
    assert talk.state.episode is None
    talk.play(*more(5))
    assert talk.state.digest is not None


def test_going_back_to_where_one_is_changes_nothing() -> None:
    talk = digested()
    assert went_back(talk, 1)
    assert not went_back(talk, 1)


def test_a_rewind_of_a_rewind_brings_back_what_was_undone() -> None:
    talk = digested()
    version, view = talk.state.version, talk.view().body
    went_back(talk, 1)
    talk.play(user("a wrong way"))
    assert went_back(talk, version)
    assert talk.view().body == view
    assert replay(talk.at, talk.records).divergence is None


def test_many_rewinds_are_folded_in_one_pass() -> None:
    talk = Talk(policy(1000))
    for turn in range(60):
        talk.play(user(f"turn {turn}"))
        talk.land(
            talk.sealed((ConversationRewound(to_version=talk.state.version, upto=0, before_tokens=0, after_tokens=0),))
        )
    assert folded(talk.at, talk.records) == talk.state


def test_a_rewind_is_folded_from_the_whole_log_only() -> None:
    talk = digested()
    middle = talk.state
    went_back(talk, 2)
    with pytest.raises(PastNeeded):
        fold(middle, talk.records[-1:])
    assert folded(talk.at, talk.records) == talk.state


def test_a_rewind_to_a_version_that_never_was_breaks_the_chain() -> None:
    talk = digested()
    fact = ConversationRewound(to_version=999, upto=0, before_tokens=0, after_tokens=0)
    with pytest.raises(ChainBroken, match="version 999"):
        talk.land(talk.sealed((fact,)))
    assert replay(talk.at, talk.records).divergence is not None


def test_a_fold_that_goes_on_knows_what_was_before() -> None:
    talk = digested()
    known = Folded(talk.at).extended(talk.records)
    behind = len(talk.records)
    went_back(talk, 2)
    more = known.extended(talk.records[behind:])
    assert more.damage is None
    assert more.commits[-1].after.live == talk.state.live


def test_a_digested_range_comes_back_in_full_and_in_its_place() -> None:
    talk = digested()
    before = talk.state
    fact = put_back(talk, 2, 3)
    assert fact is not None
    assert [one.number for one in fact.restored] == [2, 3]
    assert numbers(talk) == [2, 3, *(entry.number for entry in before.live)]
    assert talk.state.digest == before.digest
    shown = talk.shown()
    assert "ORD-10000" in next(one["content"] for one in shown if one["role"] == "tool")
    assert problems(shown) == []
    assert replay(talk.at, talk.records).divergence is None


def test_a_call_comes_back_with_its_results_whichever_was_named() -> None:
    for number in (2, 3):
        talk = digested()
        fact = put_back(talk, number, number)
        assert fact is not None
        assert [one.number for one in fact.restored] == [2, 3]


def test_asked_twice_there_is_nothing_to_put_back() -> None:
    talk = digested()
    assert put_back(talk, 1, 4) is not None
    assert put_back(talk, 1, 4) is None


def test_what_does_not_fit_is_refused_with_its_tokens_and_nothing_changes() -> None:
    talk = digested()
    with pytest.raises(BudgetRefused, match=r"they take \d+ tokens more") as refused:
        put_back(talk, 1, 28)
    assert refused.value.fields["budget"] == 1000
    assert int(str(refused.value.fields["tokens"])) > 1000


def test_messages_that_never_were_are_not_found() -> None:
    with pytest.raises(NotFound, match="there is no message 77; the last one is 28"):
        put_back(digested(), 77, 80)


def test_the_next_compaction_takes_it_away_again() -> None:
    talk = digested()
    put_back(talk, 2, 3)
    talk.play(*more(9))
    assert not {2, 3} & set(numbers(talk))
    assert replay(talk.at, talk.records).divergence is None


def test_a_spilled_part_is_shown_in_full_again() -> None:
    talk = Talk(policy(8000))
    text = words(2000)
    talk.play(user("look"), assistant(None, "a"), result("a", text))
    (spilled,) = talk.state.live[-1].shown
    part = next(one for one in talk.state.live[-1].parts if one.pointer == spilled.pointer)
    fact = put_back(talk, 3, 3, Unspilled(number=3, pointer=spilled.pointer, tokens=part.tokens))
    assert fact is not None
    assert fact.restored == ()
    assert talk.shown()[-1]["content"] == text
    assert put_back(talk, 3, 3, Unspilled(number=3, pointer=spilled.pointer, tokens=part.tokens)) is None
    assert replay(talk.at, talk.records).divergence is None


def test_an_uploaded_part_is_shown_with_the_text_that_the_fact_holds() -> None:
    talk = Talk(policy(8000))
    talk.play(user("look"), assistant(None, "a"), result("a", words(2000)))
    (spilled,) = talk.state.live[-1].shown
    fact = put_back(talk, 3, 3, Unspilled(number=3, pointer=spilled.pointer, tokens=2, text="as uploaded"))
    assert fact is not None
    assert (talk.shown()[-1]["content"], fact.after_tokens) == ("as uploaded", talk.state.live_tokens)


def test_diff_and_why_tell_what_was_restored_and_what_was_rewound() -> None:
    talk = digested()
    start = talk.state.version
    put_back(talk, 2, 3)
    rows = {row.number: row.did for row in diff(talk.at, talk.records, older=start, newer=start + 1).rows}
    assert (rows[2], rows[3], rows[0]) == ("restored", "restored", "kept")
    went_back(talk, before_digest(talk))
    rows = {row.number: row.did for row in diff(talk.at, talk.records, older=start, newer=talk.state.version).rows}
    assert (rows[0], rows[1], rows[28]) == ("rewound", "restored", "rewound")
    told = why(talk.at, talk.records, number=28)
    assert [(event.stage, event.did) for event in told.history] == [("rewind", "rewound")]
    assert "somebody wanted the context of version" in told.history[0].rule
    assert [event.did for event in why(talk.at, talk.records, number=2).history] == ["digested", "restored"]


@given(said=conversations(turns_max=8), wanted=policies(), data=st.data())
@settings(LAWS, max_examples=LAWS.max_examples // 5)
def test_whatever_is_undone_views_are_legal_within_the_budget_and_replayed(
    said: list[dict[str, Any]], wanted: Policy, data: st.DataObject
) -> None:
    talk = Talk(wanted)
    for message in said:
        talk.play(message)
        wish = data.draw(st.sampled_from(("", "", "rewind", "expand")))
        if wish == "rewind":
            went_back(talk, data.draw(st.integers(1, talk.state.version)))
        elif wish == "expand":
            first = data.draw(st.integers(1, talk.state.messages))
            with contextlib.suppress(BudgetRefused, NotFound):
                put_back(talk, first, first + data.draw(st.integers(0, 3)))
        try:
            view = talk.view()
        except BudgetRefused:
            continue
        assert problems([json.loads(raw) for raw in view.messages]) == []
        assert view.tokens <= talk.state.usable_tokens
        assert list(view.numbers) == sorted(set(view.numbers))
    assert replay(talk.at, talk.records).divergence is None
    assert folded(talk.at, talk.records) == talk.state


def test_an_answer_that_came_when_its_call_was_undone_does_not_part_that_call_from_its_other_answers() -> None:
    talk = Talk(policy(8000))
    talk.play(user("look"))
    serve(talk)
    asked = talk.state.version
    talk.play(assistant("a repaired \ud800 message", "a", "b"))
    called = talk.state.version
    went_back(talk, asked)
    talk.play(result("a", "nobody asked for it now"))
    serve(talk)
    went_back(talk, called)
    talk.play(result("b", "ten lamps"))
    assert put_back(talk, 3, 3) is None
    assert numbers(talk) == [1, 2, 4]
    assert problems(talk.shown()) == []


def test_what_is_said_while_somebody_goes_back_is_heard_after_it() -> None:
    talk = digested()
    fact = rewind(talk.state, talk.past[1].after)
    assert fact is not None
    commit = talk.sealed((fact,))
    talk.append(user("between"))
    talk.records.append(Record(seq=talk.state.seq + 1, side="done", body=codec.encode_commit(commit)))
    state = folded(talk.at, talk.records)
    assert [entry.number for entry in state.entries] == [4 * TURNS + 1]
    assert (state.seq, state.position.done_seq) == (talk.records[-1].seq, talk.records[-1].seq)
    assert replay(talk.at, talk.records).divergence is None
