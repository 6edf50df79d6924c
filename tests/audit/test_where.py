"""Where a text is: retained in the view, recoverable by a pointer, lost to the model; and who holds it."""

from __future__ import annotations

import hashlib

import pytest

from actors.audit.loss import loss
from actors.audit.where import claimed, where, with_lost
from actors.cli.audit_output import where_text
from actors.runtime.fold import decisions
from protocol.errors import Rejected
from protocol.facts import Claim, MessagesAppended, SaidMessage
from protocol.formats import messages
from protocol.history import Span, Tally
from storage.memory import MemoryArtifacts
from tests.audit.recorded import recorded, small
from tests.builders import Talk, assistant, policy, result, user, words


def spilled_talk() -> Talk:
    talk = Talk(small(spill={"tokens": 200}))
    talk.play(user("look"), assistant(None, "c1"))
    talk.play(result("c1", f"{words(400, 'heavy')} needle-in-the-middle {words(400, 'heavy')}"), assistant("seen"))
    return talk


def cut_talk() -> Talk:
    """Return a conversation whose beginning was cut and never digested."""
    talk = Talk(policy(1000, target={"low_water": 0.4}, digest={"mode": "off"}))
    talk.play(user("remember /srv/only/here.py and ORD-10042"))
    for _ in range(8):
        talk.play(assistant(words(90)), user(words(90)))
    return talk


def test_a_text_in_a_spilled_result_is_recoverable_from_its_artifact() -> None:
    talk = spilled_talk()
    (key,) = talk.bodies
    found = where(talk.at, talk.records, text="needle-in-the-middle heavy", uploads={})
    assert found.spans == (
        Span(first=1, last=1, kept="absent"),
        Span(first=2, last=2, kept="recoverable"),
    )
    assert [(place.kind, place.message, place.key, place.since) for place in found.places] == [
        ("log", 3, "", 0),
        ("artifact", 3, key, 2),
    ]


def test_a_text_is_followed_through_the_whole_history() -> None:
    talk = recorded()
    value = "ce4e934"
    found = where(talk.at, talk.records, text=value, uploads={})
    kept = {version: span.kept for span in found.spans for version in range(span.first, span.last + 1)}
    assert sorted(kept) == list(range(1, talk.state.version + 1))
    for decision in decisions(talk.at, talk.records):
        version = decision.commit.version
        shown = b"".join(entry.raw for entry in decision.after.entries if not entry.shown).decode()
        if value in shown:
            assert kept[version] == "retained"


def test_history_that_was_cut_without_a_digest_is_lost_to_the_model_and_kept_in_the_log() -> None:
    talk = cut_talk()
    found = where(talk.at, talk.records, text="/srv/only/here.py", uploads={})
    assert (found.now, [place.kind for place in found.places]) == ("lost", ["log"])


def test_what_only_an_upload_holds_is_found_there() -> None:
    talk = Talk(small())
    body = f"{words(400)} secret-of-the-upload {words(400)}"
    sha256 = hashlib.sha256(body.encode()).hexdigest()
    talk.uploads[sha256] = body
    raw = messages.encode({"role": "user", "content": ""})
    claim = Claim(pointer="/content", sha256=sha256, bytes=len(body))
    talk.say(MessagesAppended(messages=(SaidMessage(raw=raw, claims=(claim,)),)))
    talk.settle()
    assert claimed(talk.at, talk.records) == (sha256,)
    found = where(talk.at, talk.records, text="secret-of-the-upload", uploads={sha256: body})
    assert {place.key for place in found.places} == {sha256}
    assert found.now in ("recoverable", "retained")
    gone = where(talk.at, talk.records, text="no such thing", uploads={sha256: None})
    assert (gone.now, gone.unsearched) == ("absent", (sha256,))


@pytest.mark.parametrize("text", ["nowhere to be found", "\ud800", "\x00", "\\A(?!", "x" * 100_000])
def test_a_text_that_nobody_said_is_absent(text: str) -> None:
    talk = recorded()
    found = where(talk.at, talk.records, text=text, uploads={})
    assert (found.now, found.places) == ("absent", ())
    assert found.spans == (Span(first=1, last=talk.state.version, kept="absent"),)


def test_an_empty_text_is_refused() -> None:
    with pytest.raises(Rejected):
        where(recorded().at, recorded().records, text="", uploads={})


def test_the_loss_of_a_spill_is_recoverable_and_that_of_a_cut_is_not() -> None:
    talk = cut_talk()
    cut = next(
        loss(decision.before, decision.after)
        for decision in decisions(talk.at, talk.records)
        if any(type(fact).__name__ == "HistoryCut" for fact in decision.commit.facts)
    )
    assert cut.categories["path"] == Tally(lost=1)
    assert "/srv/only/here.py" in {item.value for item in cut.lost}
    spilled = spilled_talk()
    *_, last = decisions(spilled.at, spilled.records)
    assert loss(last.before, last.after).total.lost == 0


def test_a_step_that_changed_nothing_loses_nothing() -> None:
    state = recorded().state
    assert loss(state, state).categories == {}


def test_no_digest_of_the_sample_loses_a_value() -> None:
    talk = recorded()
    for decision in decisions(talk.at, talk.records):
        found = loss(decision.before, decision.after)
        if any(type(fact).__name__ == "HistoryDigested" for fact in decision.commit.facts):
            assert found.total.lost == 0
            assert found.total.retained > 0


async def test_an_artifact_that_the_store_lost_is_said_with_the_way_back() -> None:
    talk, store = spilled_talk(), MemoryArtifacts()
    ((key, body),) = talk.bodies.items()
    found = where(talk.at, talk.records, text="needle-in-the-middle heavy", uploads={})
    lost = await with_lost(found, talk.at, store)
    assert lost.lost == (key,)
    assert f"was kept in artifact {key[:16]}, which the store LOST: message 3" in where_text(lost)
    assert "jettison restore FOLDER --objects" in where_text(lost)
    await store.put(talk.at.tenant, body)
    assert await with_lost(found, talk.at, store) == found
    assert "LOST" not in where_text(found)
