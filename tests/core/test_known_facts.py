"""What is known of facts: complete, and true of their fields and of the policy."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from actors.core.known_facts import KNOWN, KnownFact, known, whose
from actors.core.outcome import outcome_of
from protocol.facts import (
    CompactionDeclined,
    ContextServed,
    DoneFact,
    HistoryCut,
    MessageRepaired,
    SaidFact,
    StageFailed,
)
from protocol.policy import Policy
from protocol.semconv import Outcome
from protocol.subjects import ACTORS


def test_each_fact_of_the_protocol_is_known_and_no_other() -> None:
    assert list(KNOWN) == [*get_args(SaidFact), *get_args(DoneFact)]
    assert {kind for kind, one in KNOWN.items() if one.whose == "agent"} == set(get_args(SaidFact))


@pytest.mark.parametrize(("kind", "one"), KNOWN.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_what_is_known_of_a_fact_is_true_of_it(kind: type[msgspec.Struct], one: KnownFact) -> None:
    if one.whose == "any stage":
        assert "stage" in kind.__struct_fields__
    if one.tokens == "fewer":
        assert set(one.measured) <= set(kind.__struct_fields__)
        assert one.whose in ACTORS, "what makes a view smaller is counted for its actor"
        assert one.did
    document: dict[str, Any] = msgspec.to_builtins(Policy())
    for key in one.rests_on:
        section, _, name = key.partition(".")
        assert name in document[section], key


def test_whose_a_fact_is_it_says_itself_where_any_stage_may_write_it() -> None:
    assert whose(CompactionDeclined(boundary=1, stage="cut", reason="")) == "cut"
    assert whose(MessageRepaired(number=1, kind="refused")) == "spill"
    assert (whose(object()), known(object()).did) == ("", "")


CUT = HistoryCut(
    boundary=1, dropped=(1,), trimmed=(), level="units", digest_dropped=False, before_tokens=2, after_tokens=1
)
SERVED = ContextServed(upto=1, budget=1, profile="", view_hash="", tokens=1, level="none")
DECLINED = CompactionDeclined(boundary=1, stage="squeeze", reason="no model")
REFUSED = CompactionDeclined(boundary=1, stage="squeeze", reason="it invents", attempts=1)
FAILED = StageFailed(boundary=1, stage="squeeze", error="down")


@pytest.mark.parametrize(
    ("facts", "outcome"),
    [
        ((), "noop"),
        ((SERVED,), "noop"),
        ((MessageRepaired(number=1, kind="refused"),), "noop"),
        ((CUT,), "applied"),
        ((DECLINED,), "declined"),
        ((CUT, DECLINED), "applied"),
        ((REFUSED,), "rejected"),
        ((FAILED,), "failed"),
    ],
)
def test_how_a_step_ended(facts: tuple[DoneFact, ...], outcome: Outcome) -> None:
    assert outcome_of(facts) == outcome
    assert outcome_of(facts, landed=False) == "rejected"
