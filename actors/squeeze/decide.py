"""Squeeze: an LLM shortens the digest, or summarizes what it stands for. The rules ask, judge, and record.

Of an account it retells old steps (`retell`) or names some to leave out (`choose`). Here is what it does to a list of
values: an answer counts only if it is complete, says something of its own, is smaller, and nothing is lost that must
not be; what it forgot of that is put behind it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from actors.core.digest_text import FORM, render
from actors.core.entry import MESSAGE_TOKENS
from actors.core.loss import fates
from actors.core.packed_items import write_items
from actors.core.state import State
from actors.core.state_parts import Digest
from actors.core.text.count import Count
from protocol.facts import CompactionDeclined, DigestItem, DigestSqueezed, HistorySummarized
from protocol.formats import messages
from protocol.policy import share_of

from .choose import selecting
from .chunks import Piece, piece, pieces, redacted
from .must_keep import put_back, required, unsaid
from .prompts import PROMPTS, Task
from .questions import Answers, Wish, declined, model_of, paid
from .questions import Ask as Ask
from .questions import Completion as Completion
from .retell import retelling
from .sizes import answer_tokens_max as answer_tokens_max
from .sizes import deadline_seconds as deadline_seconds
from .sizes import fits as fits
from .sizes import least_gain, window_tokens
from .walk import Walked, walked

ANSWER_SHARE = 0.5
"""Of the digest's tokens, asked of the model; the rest is for what it forgets."""

OPTIONAL_SHARE = 0.75
"""Of the digest's tokens: up to here, what tools printed is put back too. More would make the model's work vain."""

WORDS_MIN = 30
WORDS_PER_TOKEN = 0.6

AskOrEnd = Ask | DigestSqueezed | HistorySummarized | CompactionDeclined


def squeeze(state: State, answers: Answers = (), *, count: Count) -> AskOrEnd | None:
    """Return the next step after *answers*: a further request, or the fact that ends the stage; None if not asked."""
    if state.episode is None or state.episode.stage != "squeeze" or state.policy is None:
        return None
    if state.digest is None:
        return declined(state, answers, "there is no digest")
    told = state.digest.tells
    if told and state.policy.squeeze.prompt_version == "v1":
        return declined(state, answers, "an account is not squeezed")
    if not model_of(state):
        return declined(state, answers, "neither policy nor agent named a model")
    way = state.policy.squeeze.way
    if way == "select":
        return selecting(state, answers, count=count) if told else declined(state, answers, "there is no account")
    if told:
        return retelling(state, answers, count=count)
    task: Task = "summarize" if way == "summarize" else "squeeze"
    history = _input(state, state.digest, task, count=count)
    found = walked(state, _wish(state, task), history, answers, window=window_tokens(state), count=count)
    if not isinstance(found, Walked):
        return found
    return _judged(state, found.asked, answers, task, found.prose, count=count)


def _wish(state: State, task: Task) -> Wish:
    """Return the request to the model."""
    assert state.policy is not None
    return Wish(
        prompt=PROMPTS[state.policy.squeeze.prompt_version][task],
        size=_size(state),
        tokens_max=answer_tokens_max(state),
        so_far="notes" if task == "squeeze" else "summary",
        last="Now write the shorter notes." if task == "squeeze" else "Now write the one summary of all of it.",
    )


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


def _size(state: State) -> str:
    assert state.digest is not None
    most = min(answer_tokens_max(state), share_of(state.digest.tokens, ANSWER_SHARE))
    return f"Use at most {max(WORDS_MIN, int(most * WORDS_PER_TOKEN))} words."


def _input(state: State, digest: Digest, task: Task, *, count: Count) -> tuple[Piece, ...]:
    """Return the model's reading, without the summary so far."""
    if task == "squeeze":
        return (piece("notes", _notes(state, digest.items, digest), count=count),)
    history = pieces(digest.pending, count=count)
    # noted earlier and put back since: only this list still says it
    known = unsaid(required(state), "\n".join((digest.prose, *(one.text for one in history))))
    if not known:
        return history
    return (piece("noted earlier", _notes(state, known, digest), count=count), *history)


def _notes(state: State, items: tuple[DigestItem, ...], digest: Digest) -> str:
    text = render(items, prose="", through=digest.through, form=digest.form).partition("\n")[2]
    return redacted(state, text, digest.through)


def _judged(
    state: State, asked: Ask, answers: Answers, task: Task, prose: str, *, count: Count
) -> DigestSqueezed | HistorySummarized | CompactionDeclined:
    """Return the fact that accepts *prose*, or the reason why it is refused."""
    digest = state.digest
    assert digest is not None
    bare = count(render((), prose=prose, through=digest.through, form=FORM)) + MESSAGE_TOKENS
    most = digest.tokens - least_gain(state, digest)
    room = min(most, share_of(digest.tokens, OPTIONAL_SHARE)) - bare
    back = put_back(state, prose, most=room, count=count)
    if back.reason:
        return declined(state, answers, back.reason)
    tokens = count(render(back.items, prose=prose, through=digest.through, form=FORM)) + MESSAGE_TOKENS
    if tokens > most:
        reason = f"not smaller by enough: {digest.tokens} to {tokens} tokens with {len(back.items)} values put back"
        return declined(state, answers, reason)
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
