"""Runs: conversations under the default policy and under every preset, stepped through one event at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from actors.core.state import State
from actors.core.view import View, view
from actors.squeeze.decide import Ask, Completion, squeeze
from protocol import codec
from protocol import policy as policies
from protocol.errors import BudgetRefused, NotReady
from protocol.facts import CompactionDeclined, DigestSqueezed, HistorySummarized
from protocol.formats.messages import Profile
from protocol.policy import Policy
from protocol.presets import PRESETS
from tests.builders import Talk, sample
from tests.core.conversations import policies as own_policies
from tests.core.providers import any_conversations
from tests.laws import LAWS
from tests.squeeze.summarizers import BAD, extractive

FEW = settings(LAWS, max_examples=max(1, LAWS.max_examples // 4))
"""For laws that look at every event of a conversation."""

WINDOWS = {"octopus-window": 3000, "octopus-fifo": 3000, "octopus-summarize": 4000}
"""At which the recorded run is compacted several times; others: 6,000."""


def preset_policy(name: str, window: int, **sections: dict[str, Any]) -> Policy:
    """Return a preset at *window* usable tokens, with a model where it may ask one."""
    base = {"preset": name, "budget": {"window": window, "reserve": 0}, "squeeze": {"model": "m"}}
    return policies.resolve([base, sections])


@st.composite
def any_policies(draw: st.DrawFn) -> Policy:
    """Draw the default with small caps, or a preset with a small window, now and then with hooks and a reminder."""
    if draw(st.integers(0, 3)) == 0:
        return draw(own_policies())
    tools = [{"name": "look", "category": "files", "about": "Look."}, {"name": "ask"}]
    more: dict[str, Any] = draw(
        st.sampled_from(
            (
                {},
                {},
                {"reminder": {"mode": "tools", "tools": tools}},
                {"hooks": [{"id": "n", "on": "turn_start", "do": {"kind": "inject", "text": "Mind the budget."}}]},
                {"hooks": [{"id": "c", "when": {"kind": "turns", "every": 2}, "do": {"kind": "compact"}}]},
            )
        )
    )
    return preset_policy(draw(st.sampled_from(sorted(PRESETS))), draw(st.integers(300, 6000)), **more)


ANSWERS = st.sampled_from((lambda _: "", lambda _: "short notes", extractive, *BAD))
CONVERSATIONS = any_conversations(turns_max=8)


def events(talk: Talk, said: list[dict[str, Any]]) -> Iterator[State]:
    """Say *said* one by one, and yield the state after each event: a message or a commit."""
    for message in said:
        talk.append(message)
        yield talk.state
        while talk.step():
            yield talk.state


def view_or_none(talk: Talk, profile: Profile | None = None) -> View | None:
    """Return the view, none where it is refused or not ready."""
    try:
        return view(talk.state, budget=talk.state.usable_tokens, count=talk.count, profile=profile)
    except (BudgetRefused, NotReady):
        return None


def refolded(talk: Talk, upto: int | None = None) -> Talk:
    """Return a conversation that is folded anew from the first *upto* records of *talk*, as after a crash."""
    again = Talk(at=talk.at, count=talk.count)
    again.answer = talk.answer
    again.bodies = dict(talk.bodies)
    for record in talk.records[:upto]:
        if record.side == "said":
            again.hear(record.body)
        else:
            again.land(codec.decode_commit(record.body))
    again.resume()
    return again


def judged(talk: Talk, answers: list[Completion]) -> DigestSqueezed | HistorySummarized | CompactionDeclined | None:
    """Return what squeeze makes of *answers*, the last one again and again if more are asked; land it."""
    given: tuple[Completion, ...] = ()
    while isinstance(found := squeeze(talk.state, given, count=talk.count), Ask):
        given = (*given, answers[min(len(given), len(answers) - 1)])
    if found is not None:
        talk.land(talk.sealed((found,)))
    return found


def recorded(name: str, *, every: int = 1) -> Iterator[Talk]:
    """Play the recorded run under a preset, and yield after every *every* messages."""
    talk = Talk(preset_policy(name, WINDOWS.get(name, 6000)))
    talk.answer = "The payouts were looked at, step by step."
    for number, message in enumerate(sample(), 1):
        talk.play(message)
        if number % every == 0:
            yield talk
