"""Retelling: a model's prose takes the place of old steps of an account, and nothing else of it changes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from actors.audit.replay import replay
from actors.audit.versions import versions
from actors.audit.why import why
from actors.core.account_text import PROSE_TITLE, request_text, step_text
from actors.core.older_rules import policy_bytes, policy_under
from actors.core.pressure import target_tokens
from actors.squeeze.decide import Ask, Completion, deadline_seconds, squeeze
from actors.squeeze.retell import prose_tokens_max
from protocol import policy as policies
from protocol.account import AccountValue
from protocol.facts import AccountSqueezed, CompactionDeclined, DoneFact, HistoryAccounted
from tests.builders import AT, COUNT, Talk, asked_of, assistant, result, said_by_model, user
from tests.squeeze.summarizers import history_of

RULE = "Find out why ORD-10042 is charged twice. You must never refund it yourself."
GOOD = (
    "State:\n- /srv/app/file_0.py was read, and handler_0_3 is in it (#2).\n- Nothing was changed yet.\n"
    "Failures:\n- ERROR REF-1001 timed out after 731 ms (#4), its cause is open.\n"
    "Next:\n- read the file that comes after /srv/app/file_9.py."
)
"""Most values that the steps tell are not in it."""

PADDING = " ".join(
    "The run went on as it was planned and nothing else came of it in step after step." for _ in range(8)
)

STORED = (
    "dc0013b3486973746f727953756d6d6172697a65642e320907a1709005a16da16891a161010201140f0090920204919302a1"
    "76a374207691bc78206973206e6f776865726520696e2074686520696e7075743a2078"
)
"""A fact as it was stored first: MessagePack in hex."""


def wanted(**squeeze: object) -> policies.Policy:
    layer = {"budget": {"window": 3_000, "reserve": 0}, "squeeze": {"model": "m", "window": 16_000, **squeeze}}
    return policies.resolve([layer])


def turns(first: int, last: int) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for turn in range(first, last):
        lines = "\n".join(f"def handler_{turn}_{at}(order): pass" for at in range(12))
        text = f"{lines}\nERROR REF-{1000 + turn} timed out after {730 + turn} ms\n{lines.replace('handler', 'other')}"
        out += [
            assistant(f"Reading file_{turn}.", f"c{turn}", arguments=f'{{"path":"/srv/app/file_{turn}.py"}}'),
            result(f"c{turn}", text),
        ]
    return out


def asking(*more: dict[str, Any], **squeeze: object) -> Talk:
    """Return a conversation whose old steps a model is asked to retell."""
    talk = Talk(wanted(**squeeze))
    talk.append(user(RULE), *(more or turns(0, 12)))
    talk.until("squeeze")
    return talk


def looks(first: int, last: int) -> list[dict[str, Any]]:
    """Return turns that found what they looked for."""
    out: list[dict[str, Any]] = []
    for turn in range(first, last):
        lines = "\n".join(f"order ORD-{turn}{at:03} of {at}.{turn} kg went to shelf {turn}-{at}" for at in range(40))
        out += [
            assistant(f"Reading look_{turn}.", f"l{turn}", arguments=f'{{"path":"/srv/app/look_{turn}.py"}}'),
            result(f"l{turn}", lines),
        ]
    return out


def answered(talk: Talk, *texts: str) -> AccountSqueezed | CompactionDeclined:
    """Return the fact that ends the stage, after *texts*."""
    found = squeeze(talk.state, tuple(map(said_by_model, texts)), count=COUNT)
    assert isinstance(found, AccountSqueezed | CompactionDeclined), found
    return found


def squeezed(talk: Talk, text: str = GOOD) -> AccountSqueezed:
    """Return the accepted fact, landed."""
    found = answered(talk, f"{text}\n{PADDING}")
    assert isinstance(found, AccountSqueezed), found
    talk.land(talk.sealed((found,)))
    return found


def test_the_model_reads_the_messages_whole_and_numbered() -> None:
    talk = asking()
    asked = asked_of(talk)
    history = history_of(asked)
    assert talk.state.digest is not None
    leaving = talk.state.digest.pending
    assert [entry.number for entry in leaving if f"[message {entry.number}," not in history] == []
    # the account and the view have a few of these lines
    assert all(f"def handler_1_{at}(order): pass" in history for at in range(12))
    assert RULE in history
    assert "stays]" in history
    assert asked.schema == b""


def letters(first: int, last: int) -> list[dict[str, Any]]:
    """Return a talk in which the user pastes long letters, and says something short now and then."""
    out: list[dict[str, Any]] = []
    for turn in range(first, last):
        offer = " ".join(
            f"Hall {turn}-{at} has {80 + at} seats and costs £{turn}{at:02} a day, since its roof is new."
            for at in range(14)
        )
        out += [
            user(f"This came today:\n\n---\nDear Ann,\n\n{offer}\n\nTom Reed\n---\n\nWhat do you think?"),
            assistant(f"Hall {turn}-3 would do, if its roof holds."),
            user(f"Then we take hall {turn}-5, since Ben wants it."),
            assistant(f"I have noted hall {turn}-5."),
        ]
    return out


def test_the_model_is_told_what_stays_of_the_users_messages_and_tells_the_rest() -> None:
    talk = asking(*letters(0, 9))
    asked = asked_of(talk)
    assert talk.state.digest is not None
    account = talk.state.digest.account
    assert account is not None
    history = history_of(asked)
    parts = history.split("\n\n[message ")
    told = {int(part.partition(",")[0]): part for part in parts[1:]}
    kept = {one.number: one.text for one in account.requests}
    whole = [number for number, text in kept.items() if number in told and "[…" not in text]
    short = [
        number for number, text in kept.items() if number in told and f'read_artifact("messages:{number}")' in text
    ]
    assert whole
    assert short
    assert all(told[number].partition("]")[0].endswith("user, stays") for number in whole)
    for number in short:
        assert told[number].partition("]")[0].endswith("user, stays in part")
        assert "Dear Ann" in told[number]
        assert told[number].rstrip().endswith(f"[stays of it:]\n{kept[number]}".rstrip())
    assert "`stays in part`" in asked.system


def test_what_a_model_retells_of_the_users_words_leaves_it_room_to_do_so() -> None:
    def of_requests(**squeeze: object) -> int:
        talk = asking(*letters(0, 9), **squeeze)
        assert talk.state.digest is not None
        assert talk.state.digest.account is not None
        return sum(COUNT(request_text(one)) for one in talk.state.digest.account.requests)

    assert of_requests() < 0.7 * of_requests(prompt_version="v2")


def test_the_model_is_told_how_long_its_prose_may_be_also_where_words_have_no_spaces() -> None:
    found = re.search(r"Write at most (\d+) words, or (\d+) characters in a language", asked_of(asking()).system)
    assert found
    words, chars = map(int, found.groups())
    most = prose_tokens_max(asking().state, count=COUNT)
    assert 0.4 < words / most < 0.5
    assert chars > most
    assert "characters in a language" not in asked_of(asking(prompt_version="v2")).system


def test_by_the_account_alone_the_model_reads_its_steps() -> None:
    talk = asking(mode="squeeze")
    digest = talk.state.digest
    assert digest is not None
    assert digest.account is not None
    history = history_of(asked_of(talk))
    assert digest.pending == ()
    assert all(step_text(step) in history for step in digest.account.steps)
    assert "[message 2," not in history


def test_the_prose_stands_between_the_users_words_and_the_newest_steps() -> None:
    talk = asking()
    before = talk.state.digest
    assert before is not None
    assert before.account is not None
    fact = squeezed(talk)
    after = talk.state.digest
    assert after is not None
    assert after.account is not None
    assert after.tokens == fact.digest_tokens
    assert talk.state.live_tokens <= target_tokens(talk.state)
    assert (after.pending, after.account.requests) == ((), before.account.requests)
    assert after.account.steps == before.account.steps[len(fact.left) :]
    parts = [
        *map(request_text, after.account.requests),
        f"{PROSE_TITLE}\n{fact.prose}",
        *map(step_text, after.account.steps),
    ]
    places = [after.text.index(part) for part in parts]
    assert places == sorted(places)
    assert COUNT(after.text) + 4 == after.tokens
    assert RULE in str(talk.shown())


def test_leaving_out_is_allowed_and_inventing_is_not() -> None:
    fact = squeezed(asking(), GOOD.replace("Next:", "- It was charged with REF-9999.\nNext:"))
    assert "REF-1004" not in fact.prose
    assert "REF-9999" not in fact.prose
    assert fact.struck == ("REF-9999 is nowhere in the input: - It was charged with REF-9999.",)
    talk = asking()
    found = answered(talk, "\n".join(f"- order_{number} was refunded by REF-{number}" for number in range(5000, 5040)))
    assert isinstance(found, CompactionDeclined)
    assert found.reason.startswith("97% of the answer has values that are nowhere in the input: order_5000")


def test_an_answer_that_is_too_long_loses_lines_and_one_that_says_nothing_is_refused() -> None:
    talk = asking()
    most = asked_of(talk).tokens_max // 2
    lines = [f"- def handler_{turn}_{at}(order): pass" for turn in range(3) for at in range(12)]
    fact = squeezed(talk, "\n".join([GOOD, "Done:", *lines]))
    assert COUNT(fact.prose) <= most
    assert all(one.startswith(f"over {most} tokens: ") for one in fact.struck)
    found = answered(asking(), "The user and the assistant talked.")
    assert isinstance(found, CompactionDeclined)
    assert "says too little" in found.reason


def test_replay_asks_nobody_and_the_next_digest_goes_on_behind_the_prose() -> None:
    talk = asking()
    first = squeezed(talk)
    talk.answer = ""
    talk.append(*turns(12, 24))
    talk.until("squeeze")
    digest = talk.state.digest
    assert digest is not None
    assert digest.prose == first.prose
    assert first.prose in digest.text
    assert min(entry.number for entry in digest.pending) > first.through
    history = history_of(asked_of(talk))
    assert f"[summary so far]\n{first.prose}" in history
    assert "[message 2," not in history
    second = squeezed(talk, GOOD.replace("file_9", "file_19"))
    assert second.through > first.through
    talk.settle()
    assert sum(isinstance(fact, AccountSqueezed) for fact in talk.facts) == 2
    assert talk.state.live_tokens <= talk.state.usable_tokens
    assert replay(AT, talk.records).divergence is None


def test_prose_says_when_it_was_written_and_the_next_one_says_it_anew() -> None:
    talk = asking()
    first = squeezed(talk, f"[Written at #3; what newer messages tell holds before it.]\n{GOOD}")
    assert first.prose.startswith(f"[Written at #{first.boundary}; ")
    assert first.prose.count("Written at") == 1, "a model that copies the line says nothing by it"
    talk.append(*turns(12, 24))
    talk.until("squeeze")
    second = squeezed(talk)
    assert second.boundary > first.boundary
    assert second.prose.startswith(f"[Written at #{second.boundary}; ")


def test_what_the_ledger_knows_and_only_old_steps_told_stays_as_a_value() -> None:
    talk = asking()
    fact = squeezed(talk)
    assert talk.state.digest is not None
    assert fact.left
    assert fact.values
    assert all(value.text in talk.state.digest.text for value in fact.values)
    assert all(value.value not in fact.prose for value in fact.values)


def test_the_stored_form_of_the_fact_is_for_ever() -> None:
    fact = AccountSqueezed(
        boundary=9,
        through=7,
        prose="p",
        items=(),
        digest_tokens=5,
        model="m",
        prompt_hash="h",
        answers=("a",),
        input_tokens=1,
        output_tokens=2,
        attempts=1,
        before_tokens=20,
        after_tokens=15,
        left=(2, 4),
        values=(AccountValue(number=2, value="v", text="t v"),),
        struck=("x is nowhere in the input: x",),
    )
    assert msgspec.msgpack.encode(fact).hex() == STORED
    assert msgspec.msgpack.decode(bytes.fromhex(STORED), type=DoneFact) == fact


def test_people_are_told_what_the_model_did_and_what_was_struck_out() -> None:
    talk = asking()
    squeezed(talk, GOOD.replace("Next:", "- It was charged with REF-9999.\nNext:"))
    event = why(talk.at, talk.records, number=0).history[-1]
    assert event.did == "summarized"
    assert "steps of the account became a model's prose, of which 1 sentences were struck out" in event.rule
    (*_, last) = versions(talk.at, talk.records, losses=True)
    assert "AccountSqueezed" in last.facts
    assert last.loss is not None


@pytest.mark.parametrize(("squeeze", "way"), [({}, "off"), ({"model": "m"}, "summarize"), ({"mode": "off"}, "off")])
def test_auto_asks_a_model_only_where_somebody_named_one(squeeze: dict[str, str], way: str) -> None:
    found = policies.resolve([{"squeeze": squeeze}])
    assert found.squeeze.way == way


def test_without_a_model_an_account_is_nobodys_to_ask_about() -> None:
    talk = Talk(wanted(model=""))
    talk.play(user(RULE), *turns(0, 12))
    assert any(isinstance(fact, HistoryAccounted) for fact in talk.facts)
    assert not any(isinstance(fact, CompactionDeclined) and fact.stage == "squeeze" for fact in talk.facts)
    assert talk.state.digest is not None
    assert talk.state.digest.pending == ()


def test_older_rules_read_the_words_that_they_know() -> None:
    found = wanted(mode="select")
    assert policy_under("1", found).squeeze.mode == "off"
    told = msgspec.json.decode(policy_bytes("1", found))["squeeze"]
    assert (told["mode"], told["prompt_version"]) == ("off", "v1")
    before = msgspec.structs.replace(found.squeeze, offers="unchanged", prompt_version="v2")
    assert policy_under("2", found).squeeze == before


def test_the_deadline_grows_with_what_is_to_be_read() -> None:
    talk = asking(deadline_seconds=10.0)
    assert deadline_seconds(talk.state) == 10.0
    assert talk.state.digest is not None
    large = tuple(talk.state.digest.pending) * 40
    digest = msgspec.structs.replace(talk.state.digest, pending=large)
    state = msgspec.structs.replace(talk.state, shown=msgspec.structs.replace(talk.state.shown, digest=digest))
    assert deadline_seconds(state) > 30.0


def chosen(talk: Talk, text: str | Callable[[Ask], str]) -> AccountSqueezed | CompactionDeclined:
    asked = asked_of(talk)
    return answered(talk, text if isinstance(text, str) else text(asked))


def test_a_small_model_only_names_steps_by_their_numbers() -> None:
    talk = asking(*looks(0, 14), mode="select")
    digest = talk.state.digest
    assert digest is not None
    assert digest.account is not None
    asked = asked_of(talk)
    numbers = msgspec.json.decode(asked.schema)["properties"]["leave_out"]
    assert numbers["maxItems"] >= numbers["minItems"] >= 1
    named = list(range(1, numbers["maxItems"] + 1))
    fact = chosen(talk, msgspec.json.encode({"leave_out": named}).decode())
    assert isinstance(fact, AccountSqueezed), fact
    talk.land(talk.sealed((fact,)))
    after = talk.state.digest
    assert after is not None
    assert after.account is not None
    assert (after.prose, len(fact.left)) == ("", len(named))
    assert after.account.steps == tuple(step for step in digest.account.steps if step.first not in fact.left)
    assert after.tokens < digest.tokens


@pytest.mark.parametrize("text", ["leave out 1 and 2", '{"leave_out": []}', '{"leave_out": [99]}', '{"drop": [1]}'])
def test_an_answer_that_names_no_steps_is_refused(text: str) -> None:
    assert isinstance(chosen(asking(*looks(0, 14), mode="select"), text), CompactionDeclined)


@pytest.mark.parametrize(("offers", "told"), [("looks", False), ("unchanged", True)])
def test_what_was_reported_or_failed_is_not_for_a_small_model_to_leave_out(offers: str, told: bool) -> None:
    report = assistant("The cause: handler_1_3 books each order twice, since the retry has a new key.")
    said = [*looks(0, 3), *turns(3, 4), report, user("Go on."), *looks(4, 16)]
    offered = asked_of(asking(*said, mode="select", offers=offers)).user
    assert "look_0.py" in offered
    assert ("The cause: handler_1_3" in offered) is told
    assert ("file_3.py" in offered) is told


def test_a_list_that_is_too_long_for_the_provider_is_given_up() -> None:
    found = squeeze(asking(mode="select").state, (Completion(too_long=True),), count=COUNT)
    assert isinstance(found, CompactionDeclined)
