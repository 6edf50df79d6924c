"""Choose: a small model names steps of an account to leave out, by their numbers; it writes nothing.

Its answer must meet a JSON schema, so that nothing in the view is ever its own. The newest steps are not offered to
it, nor those that did more than look.
"""

from __future__ import annotations

import msgspec

from actors.core.account_text import account_text, step_text, without_steps
from actors.core.entry import MESSAGE_TOKENS
from actors.core.extract import shortened
from actors.core.state import State
from actors.core.text.count import Count
from protocol.account import AccountStep
from protocol.errors import UNREADABLE
from protocol.facts import AccountSqueezed, CompactionDeclined

from .answer_checks import cleaned, flaw
from .chunks import piece, redacted
from .prompts import PROMPTS
from .questions import Answers, Ask, Wish, asking, declined
from .retell import squeezed
from .sizes import counted_window
from .walk import FRAME_TOKENS, ROOM_SHARE

OFFERED_SHARE = 0.67
"""Of the steps, the oldest: the newest are what the agent works with."""

OFFERED_MAX = 60
"""More lines than this, no small model tells apart."""

OFFERED_MIN = 3
STEP_CHARS = 120
"""Of a step's line in the list."""

LEAVE_SHARE = 0.5
"""Of the offered steps that may be named, at most; at least, half of that."""

TOKENS_PER_NUMBER = 6
"""Of an answer, for each number in it."""


class Choice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer."""

    leave_out: tuple[int, ...]


_CHOICE = msgspec.json.Decoder(Choice)


def selecting(state: State, answers: Answers, *, count: Count) -> Ask | AccountSqueezed | CompactionDeclined:
    """Return the next step after *answers*: the one request, or the fact that ends the stage."""
    assert state.policy is not None
    assert state.digest is not None
    offered = _offered(state, count=count)
    if len(offered) < OFFERED_MIN:
        return declined(state, answers, f"{len(offered)} steps are too few to choose from")
    most = max(1, int(len(offered) * LEAVE_SHARE))
    wish = Wish(
        prompt=PROMPTS[state.policy.squeeze.prompt_version]["select"],
        size=f"Name at most {most} of {len(offered)}.",
        tokens_max=most * TOKENS_PER_NUMBER + FRAME_TOKENS,
        last="Now name the numbers of the steps to leave out.",
        schema=_schema(len(offered), most),
    )
    lines = "\n".join(f"{place}. {_line(state, step)}" for place, step in enumerate(offered, 1))
    asked = asking(state, wish, "", (piece("steps", lines, count=count),), more=False)
    if not answers:
        return asked
    answer = answers[-1]
    if answer.too_long:
        return declined(state, answers, "the provider refuses the list of steps as too long")
    text = cleaned(answer.text)
    why = flaw(text, finish_reason=answer.finish_reason, tool_calls=answer.tool_calls, tokens_max=asked.tokens_max)
    if why:
        return declined(state, answers, why)
    try:
        choice = _CHOICE.decode(text)
    except UNREADABLE as error:
        return declined(state, answers, f"the answer is no list of numbers: {error}"[:200])
    named = sorted(set(choice.leave_out))[:most]
    if not named or named[0] < 1 or named[-1] > len(offered):
        return declined(state, answers, f"the answer names none of the {len(offered)} steps: {named}"[:200])
    return _without(state, asked, answers, tuple(offered[number - 1] for number in named), count=count)


def _without(
    state: State, asked: Ask, answers: Answers, steps: tuple[AccountStep, ...], *, count: Count
) -> AccountSqueezed | CompactionDeclined:
    """Return the fact that leaves *steps* out, or why that is not worth it."""
    digest = state.digest
    assert digest is not None
    assert digest.account is not None
    left = tuple(step.first for step in steps)
    account = without_steps(digest.account, left, digest.account.values)
    tokens = count(account_text(account, prose=digest.prose, through=digest.through, form=digest.form)) + MESSAGE_TOKENS
    if tokens >= digest.tokens:
        return declined(state, answers, f"not smaller: {digest.tokens} to {tokens} tokens")
    return squeezed(state, asked, answers, prose=digest.prose, account=account, left=left, tokens=tokens)


def _offered(state: State, *, count: Count) -> tuple[AccountStep, ...]:
    """Return the steps that may be left out, the oldest first, as many as the model's window holds."""
    assert state.policy is not None
    assert state.digest is not None
    assert state.digest.account is not None
    steps = state.digest.account.steps
    old = steps[: int(len(steps) * OFFERED_SHARE)]
    may_leave = _only_looked if state.policy.squeeze.offers == "looks" else _changed_nothing
    some = [step for step in old if may_leave(step)][:OFFERED_MAX]
    room = int(counted_window(state) * ROOM_SHARE) - 2 * FRAME_TOKENS - OFFERED_MAX * TOKENS_PER_NUMBER
    taken = 0
    for place, step in enumerate(some):
        taken += count(_line(state, step)) + TOKENS_PER_NUMBER
        if taken > room:
            return tuple(some[:place])
    return tuple(some)


def _changed_nothing(step: AccountStep) -> bool:
    return not any(act.changes for act in step.acts)


def _only_looked(step: AccountStep) -> bool:
    """Tell whether others stand for the step: a report, a failure and instructions are told by no other one."""
    return bool(step.acts) and not any(act.changes or act.failed or act.instructs for act in step.acts)


def _line(state: State, step: AccountStep) -> str:
    """Return a step on one short line."""
    return shortened(redacted(state, step_text(step), step.first), STEP_CHARS)


def _schema(offered: int, most: int) -> bytes:
    number = {"type": "integer", "minimum": 1, "maximum": offered}
    numbers = {"type": "array", "items": number, "minItems": max(1, most // 2), "maxItems": most}
    return msgspec.json.encode(
        {
            "type": "object",
            "properties": {"leave_out": numbers},
            "required": ["leave_out"],
            "additionalProperties": False,
        }
    )
