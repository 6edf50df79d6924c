"""Every compaction says what became of the values that it took: retained, recoverable or lost, and it is so."""

from __future__ import annotations

import re
from collections import Counter

import msgspec
import pytest

from actors.audit.loss import loss, recorded
from actors.audit.text import text_of
from actors.cli.audit_output import loss_text
from actors.core.extract import CATEGORIES
from actors.core.loss import judged
from actors.core.loss_told import told_fates
from actors.core.packed_items import NO_ITEMS, write_account
from actors.core.request_marks import with_question
from actors.core.state_parts import Digest
from actors.runtime.fold import Decision, decisions
from protocol.account import Account, AccountRequest
from protocol.facts import DigestSqueezed, Fate, HistoryAccounted, HistoryCut, HistoryDigested, HistorySummarized
from protocol.policy import Policy, resolve
from tests.builders import Talk, assistant, policy, result, sample, user, words
from tests.squeeze.summarizers import extractive

Compaction = HistoryDigested | DigestSqueezed | HistorySummarized | HistoryCut


def compactions(talk: Talk) -> list[tuple[Decision, Compaction]]:
    return [
        (decision, fact)
        for decision in decisions(talk.at, talk.records)
        for fact in decision.commit.facts
        if isinstance(fact, Compaction)
    ]


def of(fact: Compaction, category: str) -> Fate:
    return next((fate for fate in fact.fates if fate.category == category), Fate(category=category))


def talked(wanted: Policy) -> Talk:
    talk = Talk(wanted)
    talk.answer = extractive
    talk.play(*sample())
    return talk


@pytest.mark.parametrize(
    ("wanted", "kinds"),
    [
        (policy(3000), {HistoryDigested}),
        (policy(8000), {HistoryDigested}),
        (policy(2000, digest={"mode": "off"}), {HistoryCut}),
        (policy(4000, squeeze={"mode": "squeeze", "model": "m"}), {HistoryDigested, DigestSqueezed}),
        (policy(4000, squeeze={"mode": "summarize", "model": "m"}), {HistoryDigested, HistorySummarized}),
    ],
)
def test_what_a_compaction_says_is_what_an_auditor_counts_and_what_the_view_shows(
    wanted: Policy, kinds: set[type]
) -> None:
    talk = talked(wanted)
    found = compactions(talk)
    assert kinds <= {type(fact) for _, fact in found}
    for decision, fact in found:
        told = recorded(fact)
        assert told is None or told.categories == loss(decision.before, decision.after).categories
        assert [fate.category for fate in fact.fates] == [
            category for category in CATEGORIES if category in (told.categories if told else ())
        ]
    assert sum(told.total.retained for _, fact in found if (told := recorded(fact))) > 20


@pytest.mark.parametrize("wanted", [policy(3000), policy(2000, digest={"mode": "off"})])
def test_what_is_retained_can_be_read_in_the_view_and_what_is_lost_cannot_be_found_there(wanted: Policy) -> None:
    """The judge looks for each value in the bytes of the view, as a model would."""
    seen = Counter[str]()
    for decision, _ in compactions(talked(wanted)):
        before, after = decision.before, decision.after
        now = {entry.number: entry for entry in after.live}
        changed = [entry for entry in before.live if entry.number not in now or now[entry.number].shown != entry.shown]
        staying = [now[entry.number] for entry in before.live if entry.number in now]
        pieces = [one.raw.decode() for entry in staying for one in entry.pieces]
        text = "\n".join((*pieces, *map(text_of, staying), after.digest.text if after.digest else ""))
        for item, kept in judged(changed, staying, before=before.digest, after=after.digest):
            stands = item.value in text or _flat(item.value.rstrip("…")) in _flat(text)
            assert stands or kept != "retained", item
            seen[f"{kept}, stands" if stands else kept] += 1
    assert seen["retained, stands"] > 100
    # found inside longer words: a path within another one
    assert seen["lost, stands"] + seen["recoverable, stands"] < 0.02 * seen.total()


def _flat(text: str) -> str:
    return " ".join(text.split())


def test_a_value_that_a_digest_has_no_room_for_is_recoverable_and_one_that_was_cut_without_a_digest_is_lost() -> None:
    paths = " ".join(f"/srv/data/part_{number}/file_{number}.py" for number in range(60))
    said = [user(f"Read {paths}."), assistant("ok"), *(user(words(300)) for _ in range(9)), user("now?")]
    whole = {"share": 1.0, "medium": 1.0}
    digested = Talk(policy(3000, spill=whole, digest={"keep_blocks": 1, "cap": 0.1}))
    cut = Talk(policy(3000, spill=whole, digest={"mode": "off"}))
    for talk in (digested, cut):
        talk.append(*said)
        talk.settle()
    (_, first), *_ = compactions(digested)
    fate = of(first, "path")
    assert (fate.retained + fate.recoverable, fate.lost) == (60, 0)
    assert fate.recoverable > 0
    (_, first), *_ = compactions(cut)
    assert of(first, "path") == Fate(category="path", lost=60)


def test_what_a_squeeze_says_is_of_the_digest_alone() -> None:
    talk = talked(policy(4000, squeeze={"mode": "squeeze", "model": "m"}))
    squeezed = [(decision, fact) for decision, fact in compactions(talk) if isinstance(fact, DigestSqueezed)]
    assert squeezed
    for decision, fact in squeezed:
        assert decision.before.digest is not None
        values = {(item.category, item.value) for item in decision.before.digest.items}
        assert sum(fate.retained + fate.recoverable + fate.lost for fate in fact.fates) == len(values)


def test_the_report_is_bounded_whatever_a_conversation_holds() -> None:
    talk = Talk(policy(6000, spill={"share": 1.0, "medium": 1.0}))
    for number in range(12):
        listing = " ".join(f"REF-{number:02}{row:04} /p/{number}/{row}.py" for row in range(60))
        talk.play(user("Next."), assistant(None, f"c{number}"), result(f"c{number}", listing))
    found = compactions(talk)
    assert found
    for _, fact in found:
        assert len(fact.fates) <= len(CATEGORIES)
        assert len(msgspec.msgpack.encode(fact.fates)) < 512


def _plain(text: str) -> str:
    """Return the words of *text*, without what stands between them: the account shows JSON without its marks."""
    return " ".join(re.findall(r"[^\W_][\w.]*\w|\w", text))


def accounted(window: int) -> Talk:
    """Return the sample under the default preset."""
    talk = Talk(resolve([{"budget": {"window": window, "reserve": 0}}]))
    talk.play(*sample())
    return talk


@pytest.mark.parametrize("window", [3_000, 8_000])
def test_beside_an_account_steps_and_sentences_are_counted_and_what_is_recorded_is_what_an_auditor_counts(
    window: int,
) -> None:
    found = compactions(accounted(window))
    assert {type(fact) for _, fact in found} >= {HistoryAccounted}
    steps, sentences = Counter[str](), Counter[str]()
    for decision, fact in found:
        told, anew = recorded(fact), loss(decision.before, decision.after)
        assert told is not None
        assert (told.categories, told.steps, told.sentences) == (anew.categories, anew.steps, anew.sentences)
        assert told.steps is None or f"; steps: {told.steps.retained} retained" in loss_text(told)
        for tally, counts in ((told.steps, steps), (told.sentences, sentences)):
            counts.update(msgspec.structs.asdict(tally) if tally else {})
    for counts in (steps, sentences):
        assert counts["retained"] > 20
        assert counts["recoverable"] > 0
    assert steps["lost"] + sentences["lost"] == 0


@pytest.mark.parametrize("window", [2_500, 3_000, 3_400, 5_000])
def test_cut_drops_nothing_that_an_account_could_tell(window: int) -> None:
    """An account costs a few tokens more than was reckoned: another unit becomes a step then, none is dropped."""
    cuts = [fact for _, fact in compactions(accounted(window)) if isinstance(fact, HistoryCut)]
    assert not [fact.dropped for fact in cuts if fact.dropped]


def test_a_value_that_the_account_shows_is_retained_and_one_that_it_does_not_show_is_recoverable() -> None:
    """The judge looks for each value in the bytes of the view, as a model would."""
    seen = Counter[str]()
    for decision, _ in compactions(accounted(8_000)):
        before, after = decision.before, decision.after
        now = {entry.number: entry for entry in after.live}
        changed = [entry for entry in before.live if entry.number not in now or now[entry.number].shown != entry.shown]
        staying = [now[entry.number] for entry in before.live if entry.number in now]
        text = _plain("\n".join((*map(text_of, staying), after.digest.text if after.digest else "")))
        for item, kept in judged(changed, staying, before=before.digest, after=after.digest):
            seen[f"{kept}, {'stands' if _plain(item.value) in text else 'does not'}"] += 1
    assert seen["retained, stands"] > 300
    assert seen["retained, does not"] < 0.01 * seen.total()
    # parts of longer words: `03:07` within `03:07.231Z`
    assert seen["recoverable, stands"] < 0.08 * seen.total()
    assert seen["lost, stands"] + seen["lost, does not"] == 0


def test_a_step_is_told_by_the_account_or_read_behind_it_and_lost_where_units_are_cut() -> None:
    said = [user("Look at all of it, and change nothing.")]
    for number in range(30):
        said += [
            assistant(f"I look at part {number} of the thing.", f"c{number}", arguments=f'{{"part": {number}}}'),
            result(f"c{number}", words(80)),
        ]
    told = Talk(resolve([{"budget": {"window": 1_500, "reserve": 0}}]))
    cut = Talk(resolve([{"budget": {"window": 1_500, "reserve": 0}}, {"digest": {"mode": "off"}}]))
    for talk in (told, cut):
        talk.append(*said)
        talk.settle()
    steps = [of(fact, "step") for _, fact in compactions(told)]
    assert sum(one.retained for one in steps) > 0
    assert sum(one.lost for one in steps) == 0
    (_, fact), *_ = compactions(cut)
    assert of(fact, "step").lost > 0
    assert of(fact, "sentence").lost == of(fact, "step").lost


@pytest.mark.parametrize(("form", "sentences"), [(3, 1), (2, 2)])
def test_a_question_before_an_answer_is_no_sentence_of_the_users(form: int, sentences: int) -> None:
    said = with_question("Yes, please order it now.", "I found a pump for 4,180. Shall I order it for you?")
    account = Account(requests=(AccountRequest(number=4, text=said),))
    told = Digest(through=9, form=form, raw_items=NO_ITEMS, tokens=99, raw_account=write_account(account))
    gone = msgspec.structs.replace(told, raw_account=write_account(Account()))
    (fate,) = told_fates((), (), before=told, after=gone, reach=lambda _: True)
    assert fate == Fate(category="sentence", recoverable=sentences)
    stays = told_fates((), (), before=told, after=told, reach=lambda _: True)
    assert stays == ()
