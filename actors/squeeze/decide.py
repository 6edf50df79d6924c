"""Squeeze: an LLM shortens the digest, or summarizes what it stands for. The rules ask, judge, and record.

Both are one walk over the answers so far: what does not fit the model's window goes to it in several requests,
each with what came out of the one before. An answer counts only if it is complete, says something of its own, is
smaller, and nothing is lost that must not be; what it forgot of that is put behind it. Replay walks again over
the recorded answers and asks nobody.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from actors.core.digest_text import FORM, render
from actors.core.entry import MESSAGE_TOKENS
from actors.core.loss import fates
from actors.core.packed_items import write_items
from actors.core.pressure import gain_tokens_min
from actors.core.state import State
from actors.core.state_parts import Digest
from actors.core.text.count import Count
from actors.core.text.secrets import without_secrets
from protocol.facts import CompactionDeclined, DigestItem, DigestSqueezed, HistorySummarized
from protocol.formats import messages
from protocol.limits import ID_CHARS_MAX
from protocol.policy import share_of

from .answer_checks import cleaned, echo, flaw
from .chunks import Piece, packed, piece, pieces, within
from .must_keep import put_back, required, unsaid
from .prompts import PROMPTS, Task, prompt_hash

HALVINGS_MAX = 3
"""Times that a request may be too long for the provider, whose tokens are not ours (HolmesGPT's bound)."""

ROOM_SHARE = 0.9
"""Of the model's window: its own tokenizer may count more than ours."""

FRAME_TOKENS = 128
"""Fences, the last line and what the provider adds to two messages (a test counts them)."""

ANSWER_SHARE = 0.5
"""Of the digest's tokens, asked of the model; the rest is for what it forgets."""

LOOSE_SHARE = 0.75
"""Of the digest's tokens: up to here, what tools printed is put back too. More would make the model's work vain."""

ANSWER_TOKENS_MIN = 16
WORDS_MIN = 30
WORDS_PER_TOKEN = 0.6

DEADLINE_SHARE_PRESSED = 0.25
"""Of the policy's deadline, while the view is over its budget and served cut down."""


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """What a model is asked, with an id that is the same for every worker that asks it."""

    id: str
    boundary: int
    model: str
    system: str
    user: str
    tokens_max: int
    prompt_hash: str


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """What a model said, or that the request was too long for it."""

    text: str = ""
    finish_reason: str = "stop"
    tool_calls: bool = False
    too_long: bool = False
    input_tokens: int = 0
    output_tokens: int = 0
    attempts: int = 1
    cost_microdollars: int = 0


Answers = tuple[Completion, ...]
NextAsk = Ask | DigestSqueezed | HistorySummarized | CompactionDeclined


def next_ask(state: State, answers: Answers = (), *, count: Count) -> NextAsk | None:
    """Return what follows from *answers*: the next request, or the fact that ends the stage; nothing if not asked."""
    if state.episode is None or state.episode.stage != "squeeze" or state.policy is None:
        return None
    if state.digest is None:
        return _declined(state, answers, "there is no digest")
    if state.digest.account is not None:
        return _declined(state, answers, "an account is not squeezed")
    if not (state.policy.squeeze.model or state.terms.model):
        return _declined(state, answers, "neither policy nor agent named a model")
    task: Task = "summarize" if state.policy.squeeze.mode == "summarize" else "squeeze"
    system = f"{PROMPTS[state.policy.squeeze.prompt_version][task]}{_size(state)}"
    prose = state.digest.prose
    left = _input(state, state.digest, task, count=count)
    room = int((_window(state) - answer_tokens_max(state)) * ROOM_SHARE) - count(system) - FRAME_TOKENS
    left = within(left, (room - answer_tokens_max(state)) * (state.policy.squeeze.chunks - 1) or room)
    halvings = 0
    for index in range(len(answers) + 1):
        prior = count(prose) if prose else 0
        taken, rest = packed(left, room - prior, count=count)
        if not taken:
            return _declined(state, answers, f"a window of {_window(state)} tokens leaves no room for the history")
        asked = _ask(state, task, system, prose, taken, more=bool(rest))
        if index == len(answers):
            if index >= state.policy.squeeze.chunks:
                return _declined(state, answers, f"more than {index} requests are needed")
            return asked
        answer = answers[index]
        if answer.too_long:
            halvings += 1
            # half of what was sent, not of what there was room for: the same request would be refused again
            room = min(room, prior + sum(one.tokens for one in taken)) // 2
            if halvings > HALVINGS_MAX:
                return _declined(state, answers, f"the provider refuses requests of {2 * room} tokens as too long")
            continue
        prose = cleaned(answer.text)
        why = flaw(
            prose,
            finish_reason=answer.finish_reason,
            tool_calls=answer.tool_calls,
            tokens_max=asked.tokens_max,
        )
        # what the last answer said may be said again
        why = why or echo(prose, prompt=system, history=_shown(taken), fence=_fence(asked.user))
        if why:
            return _declined(state, answers, why)
        if not rest:
            return _judged(state, asked, answers, task, prose, count=count)
        left = rest
    raise AssertionError("the last turn of the loop returns")


def answer_tokens_max(state: State) -> int:
    """Return the largest answer that is asked for."""
    assert state.policy is not None
    wanted = state.policy.squeeze
    most = share_of(state.usable_tokens, wanted.cap)
    if wanted.cap_tokens is not None:
        most = min(most, wanted.cap_tokens)
    return max(ANSWER_TOKENS_MIN, min(most, _window(state) // 4))


def deadline_seconds(state: State) -> float:
    """Return how long the answers may take together: shorter while a full view is held up by them."""
    assert state.policy is not None
    share = 1.0 if fits(state) else DEADLINE_SHARE_PRESSED
    return state.policy.squeeze.deadline_seconds * share


def fits(state: State) -> bool:
    """Tell whether the view is within its budget as it is, so that nothing is urgent."""
    return state.live_tokens <= state.usable_tokens


def paid(answers: Answers) -> dict[str, int]:
    """Return what *answers* cost together, by the names that facts have for it."""
    return {
        "input_tokens": sum(one.input_tokens for one in answers),
        "output_tokens": sum(one.output_tokens for one in answers),
        "attempts": sum(one.attempts for one in answers),
        "cost_microdollars": sum(one.cost_microdollars for one in answers),
    }


def recorded_answers(fact: DigestSqueezed | HistorySummarized) -> Answers:
    """Return the answers that *fact* was made of; their costs are known only together."""
    first, *others = (Completion(text=text, too_long=not text, attempts=0) for text in fact.answers)
    first = msgspec.structs.replace(
        first,
        input_tokens=fact.input_tokens,
        output_tokens=fact.output_tokens,
        attempts=fact.attempts,
        cost_microdollars=fact.cost_microdollars,
    )
    return (first, *others)


def _window(state: State) -> int:
    assert state.policy is not None
    return state.policy.squeeze.window or state.policy.budget.window


def _gain_min(state: State, digest: Digest) -> int:
    return max(1, min(gain_tokens_min(state), digest.tokens // 10))


def _size(state: State) -> str:
    assert state.digest is not None
    most = min(answer_tokens_max(state), share_of(state.digest.tokens, ANSWER_SHARE))
    return f"Use at most {max(WORDS_MIN, int(most * WORDS_PER_TOKEN))} words."


def _input(state: State, digest: Digest, task: Task, *, count: Count) -> tuple[Piece, ...]:
    """Return what the model has to read, without the summary so far."""
    if task == "squeeze":
        return (piece("notes", _notes(digest.items, digest), count=count),)
    history = pieces(digest.pending, count=count)
    # noted earlier and put back since: only this list still says it
    known = unsaid(required(state), "\n".join((digest.prose, *(one.text for one in history))))
    if not known:
        return history
    return (piece("noted earlier", _notes(known, digest), count=count), *history)


def _notes(items: tuple[DigestItem, ...], digest: Digest) -> str:
    text = render(items, prose="", through=digest.through, form=digest.form).partition("\n")[2]
    return without_secrets(text, digest.through)


def _ask(state: State, task: Task, system: str, prose: str, taken: tuple[Piece, ...], *, more: bool) -> Ask:
    assert state.policy is not None
    assert state.episode is not None
    model = state.policy.squeeze.model or state.terms.model
    name = "notes" if task == "squeeze" else "summary"
    history = "\n\n".join(filter(None, (f"[{name} so far]\n{prose}" if prose else "", _shown(taken))))
    fence = hashlib.sha256(history.encode("utf-8", "replace")).hexdigest()[:12]
    last = "Now write the shorter notes." if task == "squeeze" else "Now write the one summary of all of it."
    last = f"{last} More follows in a later request." if more else last
    user = f"<history {fence}>\n{history}\n</history {fence}>\n{last}"
    ident = hashlib.sha256(f"{model}\n{system}\n{user}".encode("utf-8", "replace")).hexdigest()
    return Ask(
        id=ident[:ID_CHARS_MAX],
        boundary=state.episode.boundary,
        model=model,
        system=system,
        user=user,
        tokens_max=answer_tokens_max(state),
        prompt_hash=prompt_hash(PROMPTS[state.policy.squeeze.prompt_version][task]),
    )


def _shown(taken: tuple[Piece, ...]) -> str:
    return "\n\n".join(one.shown for one in taken)


def _fence(user: str) -> str:
    return user.partition(">")[0].partition(" ")[2]


def _judged(
    state: State, asked: Ask, answers: Answers, task: Task, prose: str, *, count: Count
) -> DigestSqueezed | HistorySummarized | CompactionDeclined:
    """Return the fact that accepts *prose*, or the reason why it is refused."""
    digest = state.digest
    assert digest is not None
    bare = count(render((), prose=prose, through=digest.through, form=FORM)) + MESSAGE_TOKENS
    most = digest.tokens - _gain_min(state, digest)
    loose = min(most, share_of(digest.tokens, LOOSE_SHARE)) - bare
    back = put_back(state, prose, most=loose, count=count)
    if back.reason:
        return _declined(state, answers, back.reason)
    tokens = count(render(back.items, prose=prose, through=digest.through, form=FORM)) + MESSAGE_TOKENS
    if tokens > most:
        reason = f"not smaller by enough: {digest.tokens} to {tokens} tokens with {len(back.items)} values put back"
        return _declined(state, answers, reason)
    said = tuple("" if one.too_long else messages.without_surrogates(one.text) for one in answers)
    common: dict[str, Any] = {
        "boundary": asked.boundary,
        "prose": prose,
        "items": back.items,
        "digest_tokens": tokens,
        "model": asked.model,
        "prompt_hash": asked.prompt_hash,
        "answers": said,
        "before_tokens": state.live_tokens,
        "after_tokens": state.live_tokens - digest.tokens + tokens,
        "fates": fates(state, (), state.live, after=_with(digest, prose, back.items, tokens)),
        **paid(answers),
    }
    if task == "squeeze":
        return DigestSqueezed(**common)
    return HistorySummarized(through=digest.through, **common)


def _with(digest: Digest, prose: str, items: tuple[DigestItem, ...], tokens: int) -> Digest:
    return msgspec.structs.replace(digest, prose=prose, raw_items=write_items(items), tokens=tokens, pending=())


def _declined(state: State, answers: Answers, reason: str) -> CompactionDeclined:
    assert state.episode is not None
    return CompactionDeclined(boundary=state.episode.boundary, stage="squeeze", reason=reason, **paid(answers))
