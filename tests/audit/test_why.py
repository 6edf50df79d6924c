"""Why a message is not in the view any more: the rule, its numbers, the policy, and the way back."""

from __future__ import annotations

import pytest

from actors.audit.why import why
from actors.model_info.prices import price_of
from protocol import policy as policies
from protocol.errors import NotFound
from tests.audit.recorded import recorded, small
from tests.builders import Talk, assistant, policy, result, sample, user, words


def test_a_spilled_result_names_its_cap_and_its_artifact() -> None:
    talk = Talk(small(spill={"tokens": 200}))
    talk.play(user("look"), assistant(None, "c1"), result("c1", words(300, "heavy")))
    found = why(talk.at, talk.records, number=3)
    (event,) = found.history
    (key,) = talk.bodies
    assert (found.role, found.now, found.text) == ("tool", "changed", words(300, "heavy"))
    assert (event.version, event.stage, event.did, event.artifact) == (talk.state.version, "spill", "spilled", key)
    assert event.rule.startswith("a part of 300 tokens and")
    assert event.rule.endswith("over the cap of 160 tokens"), "not of bytes too"
    assert event.policy["spill.tokens"] == 200
    assert event.hash == talk.state.hash.hex()
    assert key[:16] in found.read[0]


def test_a_repaired_message_is_changed_and_says_why() -> None:
    talk = Talk(small())
    talk.play(user("look"), result("nobody", "found"), user("and?"))
    found = why(talk.at, talk.records, number=2)
    (event,) = found.history
    assert (found.now, event.did) == ("changed", "repaired")
    assert event.rule == "no call with this id waits for a result, so it is shown as a user message: nobody"
    assert 'read_artifact("messages:2")' in found.read[0]
    assert why(talk.at, talk.records, number=3).now == "verbatim"


def test_a_digested_message_names_the_trigger_and_stays_readable() -> None:
    talk = recorded()
    found = why(talk.at, talk.records, number=4)
    first = found.history[0]
    assert (found.now, first.did, first.fact) == ("not in the view", "digested", "HistoryDigested")
    assert "over the trigger of 6,800" in first.rule
    assert first.policy["trigger.ratio"] == 0.85
    assert 'read_artifact("messages:4")' in found.read[-1]


def test_results_that_were_shortened_while_no_message_left_are_told_as_such() -> None:
    talk = Talk(policies.resolve([{"preset": "jettison", "budget": {"window": 20_000, "reserve": 0}}]))
    talk.play(*sample()[:60])
    history = why(talk.at, talk.records, number=12).history
    shortened = next(event for event in history if event.fact == "HistoryAccounted")
    assert "over the trigger of" in shortened.rule
    assert shortened.rule.endswith("; 3 old results were shortened, no message left")


def test_a_squeezed_digest_names_the_model_its_prompt_and_its_price() -> None:
    low = {"low_water": 0.05, "min_gain": 0.01}
    talk = Talk(policy(1000, spill={"share": 1.0}, target=low, squeeze={"mode": "squeeze", "model": "gpt-4o"}))
    told = "You must never deploy ORD-10042 to /srv/app/main.py without asking"
    names = [" ".join(f"read_order_{turn}_{step}x" for step in range(12)) for turn in range(12)]
    talk.append(user(told), user("on"), *(assistant(f"{told}. {name}") for name in names))
    talk.answer = told
    talk.settle()
    found = why(talk.at, talk.records, number=0)
    squeezed = [event for event in found.history if event.llm is not None]
    asked, price = squeezed[0].llm, price_of("gpt-4o")
    assert asked is not None
    assert price is not None
    assert (squeezed[0].did, asked.model, asked.attempts) == ("squeezed", "gpt-4o", 1)
    assert len(asked.prompt_hash) == 16
    assert asked.dollars == pytest.approx(price.input + price.output, rel=0.1)


def test_a_message_that_nothing_was_done_to_has_no_history() -> None:
    talk = recorded()
    found = why(talk.at, talk.records, number=1)
    assert (found.now, found.history, found.read) == ("verbatim", (), ())


def test_the_version_bounds_the_history() -> None:
    talk = recorded()
    first = why(talk.at, talk.records, number=4).history[0].version
    before = why(talk.at, talk.records, number=4, version=first - 1)
    assert (before.now, before.history) == ("verbatim", ())


def test_a_repaired_message_says_what_was_wrong() -> None:
    talk = Talk(small())
    talk.play(user("hi"), result("nobody", "a result without a call"))
    found = why(talk.at, talk.records, number=2)
    assert [(event.did, event.fact) for event in found.history] == [("repaired", "MessageRepaired")]


@pytest.mark.parametrize("number", [-1, 157, 10**12])
def test_a_message_that_was_never_said_is_refused_with_the_range(number: int) -> None:
    talk = recorded()
    with pytest.raises(NotFound, match="it has 1 to 156"):
        why(talk.at, talk.records, number=number)


def test_a_conversation_that_no_worker_saw_is_refused() -> None:
    talk = Talk()
    talk.append(user("hi"))
    with pytest.raises(NotFound, match="no version yet"):
        why(talk.at, talk.records, number=1)
