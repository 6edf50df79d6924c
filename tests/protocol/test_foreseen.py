"""A question that goes out before what it asks about is confirmed: what becomes of its answer."""

from __future__ import annotations

import asyncio

import pytest

from protocol.client import Client, Conversation
from protocol.context import Written
from protocol.errors import BudgetRefused, Contended, Erased, JettisonError, LogRegression, NotReady
from protocol.foreseen import Foreseen
from protocol.guarded import Guarded
from protocol.ids import address
from protocol.login import Login
from protocol.service_messages import Answer, ContextAsked, ContextMeta, OpenAsked, SaidAt

BEFORE = Written(
    version=1,
    upto=1,
    tokens=1,
    budget=1,
    hash="",
    level="none",
    profile="openai-chat",
    tokenizer="",
    estimated=False,
    squeezing=False,
    raw=(b"{}",),
)


def asked_beside(outcome: JettisonError | ContextMeta) -> Foreseen:
    async def asking(asked: ContextAsked) -> tuple[Answer, bytes]:
        if isinstance(outcome, JettisonError):
            raise outcome
        return Answer(context=outcome), b""

    foreseen = Foreseen(asking=asking, asked=ContextAsked(wait_seconds=600), after=BEFORE)
    foreseen.begin(SaidAt(seq=0, writer="k-a", count=1))
    return foreseen


@pytest.mark.parametrize("kind", [BudgetRefused, Erased, LogRegression])
async def test_what_is_refused_is_not_asked_again(kind: type[JettisonError]) -> None:
    with pytest.raises(kind):
        await asked_beside(kind("no")).written()


@pytest.mark.parametrize("kind", [NotReady, Contended])
async def test_what_nobody_had_in_time_is_asked_again(kind: type[JettisonError]) -> None:
    assert await asked_beside(kind("not yet")).written() is None


@pytest.mark.parametrize("outcome", [BEFORE, NotReady("not yet")])
async def test_an_answer_that_nobody_waits_for_any_more_is_told(outcome: JettisonError | ContextMeta) -> None:
    foreseen, unheard = asked_beside(outcome), list[ContextMeta]()
    foreseen.give_up(unheard.append)
    for _ in range(3):
        await asyncio.sleep(0)
    assert unheard == ([outcome] if isinstance(outcome, ContextMeta) else [])


@pytest.mark.parametrize(
    ("unchecked", "is_asked"), [(None, True), (OpenAsked(), True), (OpenAsked(policy={"cut": {"mode": "off"}}), False)]
)
async def test_nothing_is_asked_before_what_the_conversation_is_opened_with_was_looked_at(
    unchecked: OpenAsked | None, is_asked: bool
) -> None:
    client = Client(connection=Guarded(Login(), encrypts=False))
    talk = Conversation(client=client, at=address("talk"), _unchecked=unchecked)
    assert (talk.ask_beside(ContextAsked(), BEFORE) is not None) == is_asked
