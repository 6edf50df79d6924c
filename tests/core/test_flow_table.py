"""The table of the flow: a play for each row, which ends otherwise without it; and no transition beside the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, get_args

import pytest
from hypothesis import given

from actors.core import flow
from actors.core.flow import FLOW, After, FlowRow, next_actor
from actors.core.state import State
from actors.core.state_parts import Cause, Episode
from protocol.facts import CompactionDeclined, ConversationOpened, OverflowReported
from protocol.policy import Policy
from protocol.subjects import ACTORS, Actor
from tests.builders import Talk, assistant, policy, result, user, words
from tests.core.conversations import ANSWERS, conversations, policies
from tests.flow_page import mermaid
from tests.laws import LAWS

HOOK = {"id": "h", "on": "turn_start", "when": {"kind": "messages", "at_least": 5}, "do": {"kind": "compact"}}
SQUEEZING: dict[str, object] = {"mode": "squeeze", "model": "m"}
SUMMARIZING: dict[str, object] = {"mode": "summarize", "model": "m"}

Turns = tuple[Actor | None, ...]


def over(messages: int = 9, **sections: Any) -> Talk:
    """Return a conversation over its trigger, with as many units as digest needs."""
    talk = Talk(policy(1000, **{"spill": {"share": 1.0}} | sections))
    talk.append(*(user(words(100)) for _ in range(messages)))
    return talk


def turns(talk: Talk) -> Turns:
    """Return who acts next, and who after them, as `Talk` lets everybody act."""
    seen: list[Actor | None] = [next_actor(talk.state)]
    while seen[-1] is not None:
        assert talk.step()
        seen.append(next_actor(talk.state))
    return tuple(seen)


def declining(talk: Talk, *stages: Actor) -> Turns:
    """Return who acts next, and who after each of *stages* has declined."""
    seen = [next_actor(talk.state)]
    for stage in stages:
        talk.land(talk.sealed((CompactionDeclined(boundary=9, stage=stage, reason=""),)))
        seen.append(next_actor(talk.state))
    return tuple(seen)


def unadopted() -> Turns:
    talk = Talk()
    talk.say(ConversationOpened(name="n"))
    return (next_actor(talk.state),)


def repaired() -> Turns:
    talk = Talk(policy(1000))
    talk.hear(b"")
    return turns(talk)


def one_huge_result() -> Turns:
    talk = Talk(Policy())
    talk.append(user("u"), assistant(None, "c"), result("c", words(60_000)))
    return turns(talk)


def one_word() -> Turns:
    talk = Talk(Policy())
    talk.append(user("u"))
    return turns(talk)


def hooked() -> Turns:
    wanted: dict[str, Any] = {"spill": {"share": 1.0}, "hooks": [HOOK]}
    talk = Talk(policy(1000, **wanted))
    talk.append(*(user(words(100)) for _ in range(5)))
    return turns(talk)


def refused() -> Turns:
    talk = over(7)
    assert turns(talk) == (None,)
    talk.say(OverflowReported())
    return turns(talk)


def summarized() -> Turns:
    talk = over(squeeze=SUMMARIZING)
    talk.answer = "short notes"
    return turns(talk)


def squeezed(low_water: float = 0.2) -> Turns:
    talk = over(squeeze=SQUEEZING, target={"low_water": low_water, "min_gain": 0.0}, digest={"keep_blocks": 3})
    return turns(talk)


def digested_before() -> Talk:
    """Return a conversation with a digest that is over its trigger again."""
    talk = over(squeeze=SQUEEZING)
    talk.settle()
    assert talk.state.digest is not None
    while next_actor(talk.state) != "digest":
        talk.append(user(words(60)))
    return talk


PLAYS: dict[tuple[After, str], tuple[Callable[[], Turns], Turns]] = {
    ("log", "no policy is adopted yet"): (unadopted, ("spill",)),
    ("log", "a repair, a hook or a reminder is to be recorded"): (repaired, ("spill", None)),
    ("log", "a part is over its cap"): (one_huge_result, ("spill", None)),
    ("log", "a compaction is under way"): (lambda: turns(over()), ("digest", None)),
    ("log", "nothing is left to do"): (one_word, (None,)),
    ("trigger", "the view is over the trigger"): (lambda: turns(over()), ("digest", None)),
    ("hook", "a hook asks for a compaction"): (hooked, ("spill", "digest", None)),
    ("overflow", "the provider refused a view"): (refused, ("digest", "cut", None)),
    ("digest", "an LLM is to summarize what left"): (summarized, ("digest", "squeeze", None)),
    ("digest", "within the target"): (lambda: turns(over(squeeze=SQUEEZING)), ("digest", None)),
    ("digest", "over the target, and an LLM may shorten the digest"): (squeezed, ("digest", "squeeze", "cut", None)),
    ("digest", "over the target, and units must leave"): (
        lambda: turns(over(digest={"keep_blocks": 6})),
        ("digest", "cut", None),
    ),
    ("digest", "over the target, but the view fits and the rest stays"): (
        lambda: declining(over(), "digest"),
        ("digest", None),
    ),
    ("squeeze", "within the target"): (summarized, ("digest", "squeeze", None)),
    ("squeeze", "over the target, and units must leave"): (squeezed, ("digest", "squeeze", "cut", None)),
    ("squeeze", "over the target, but the view fits and the rest stays"): (
        lambda: declining(digested_before(), "digest", "squeeze"),
        ("digest", "squeeze", None),
    ),
    ("cut", "whatever is left"): (
        lambda: declining(over(digest={"mode": "off"}), "digest", "cut"),
        ("digest", "cut", None),
    ),
}


def name(row: FlowRow) -> str:
    return f"{row.after}: {row.when}"


def test_each_row_has_a_play_and_each_play_a_row() -> None:
    assert [(row.after, row.when) for row in FLOW] == list(PLAYS)


@pytest.mark.parametrize("row", FLOW, ids=name)
def test_a_row_is_played_and_missed_where_it_is_taken_out(row: FlowRow, monkeypatch: pytest.MonkeyPatch) -> None:
    play, wanted = PLAYS[row.after, row.when]
    assert play() == wanted
    monkeypatch.setattr(flow, "_ROWS", flow._by_after(one for one in FLOW if one != row))
    anew: Turns | None = None
    with suppress(AssertionError, KeyError, RuntimeError, StopIteration):  # without it the conversation goes no further
        anew = play()
    assert anew != wanted


@given(said=conversations(), wanted=policies(), answer=ANSWERS)
@LAWS
def test_each_transition_of_random_conversations_is_a_row(
    said: list[dict[str, Any]], wanted: Policy, answer: str
) -> None:
    talk = Talk(wanted)
    talk.answer = answer
    for message in said:
        with rows_taken() as taken:
            before = talk.state.episode
            talk.append(message)
            assert_led(before, talk.state.episode, taken)
        acted: str = "log"
        while acted != "ready":
            follower = next_actor(talk.state) or "ready"
            assert follower in may_act(acted), f"no row leads from {acted} to {follower}"
            acted = follower
            with rows_taken() as taken:
                before = talk.state.episode
                talk.step()
                assert_led(before, talk.state.episode, taken)


@contextmanager
def rows_taken() -> Iterator[list[FlowRow]]:
    """Yield the rows of the table that decide meanwhile."""
    taken: list[FlowRow] = []
    deciding_row = flow.deciding_row

    def noted(after: After, state: State) -> FlowRow:
        taken.append(deciding_row(after, state))
        return taken[-1]

    flow.deciding_row = noted
    try:
        yield taken
    finally:
        flow.deciding_row = deciding_row


def assert_led(before: Episode | None, now: Episode | None, taken: list[FlowRow]) -> None:
    """A compaction begins in a row of its cause, and rows of its stages lead from one to the next and to its end."""
    after: str = before.stage if before else now.cause if now else "log"
    if before and now and before.cause != now.cause:
        after = now.cause  # another one began meanwhile
    for row in taken:
        if row.after == after and row.after != "log":
            after = row.then
    assert after == (now.stage if now else "log"), f"no row leads from {before} to {now}: {taken}"


def may_act(after: str) -> set[str]:
    """Return who may act after *after* (`log`: after the agent): a stage hands on, or the log is looked at anew."""
    looked = {row.then for row in FLOW if row.after == "log"} - {"stage"}
    first = {row.then for row in FLOW if row.after in get_args(Cause)}
    handed = {row.then for row in FLOW if row.after == after} - {"log"}
    if after not in {row.after for row in FLOW if row.after != "log"}:
        handed = {row.then for row in FLOW if row.then in ACTORS}  # a compaction may wait for any of its stages
    return looked | first | handed


def test_the_diagram_draws_every_row_and_every_actor() -> None:
    drawn = mermaid().splitlines()
    assert drawn[0] == "flowchart LR"
    whens = {when for line in drawn if ' -- "' in line for when in line.split('"')[1].split("<br>")}
    assert whens == {row.when for row in FLOW}
    assert all(any(line.endswith(f"--> {actor}") for line in drawn) for actor in ACTORS)
