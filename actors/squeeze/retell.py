"""Retelling: a model writes in prose what the oldest steps of an account tell, from these and from their messages.

What the user said, the newest steps and what the ledger asks for stay beside the prose, word for word. Leaving out is
allowed, for the messages can be read back; inventing is not. The view stays within the target, or becomes smaller.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from actors.core.account_text import account_text, step_text, without_steps
from actors.core.entry import MESSAGE_TOKENS, Entry
from actors.core.extract import LINES, score
from actors.core.loss import fates
from actors.core.message_texts import texts_of
from actors.core.packed_items import NO_ITEMS, write_account
from actors.core.pressure import target_tokens
from actors.core.request_marks import is_shortened, stands_elsewhere
from actors.core.state import State
from actors.core.state_parts import Digest
from actors.core.text.count import Count
from actors.core.units import speaks
from protocol.account import Account, AccountRequest, AccountStep, AccountValue
from protocol.facts import AccountSqueezed, CompactionDeclined
from protocol.formats import messages

from .chunks import Piece, piece, pieces, redacted, within
from .invented import Given, is_heading, labels_in, without_inventions
from .prompts import PROMPTS
from .questions import Answers, Ask, Wish, declined, paid
from .sizes import answer_tokens_max, counted_window, least_gain
from .walk import Walked, walked

PROSE_SHARE = 0.75
"""Of the room beside what the user said, asked of the model; the rest is for the newest steps, as they are."""

LEAVING_SHARE = 0.5
"""Of what the prose stands for: a longer one would be no shorter than the messages."""

PROSE_TOKENS_MIN = 160
"""Less is no account of anything: the steps are as short."""

WORDS_PER_TOKEN, WORDS_PER_TOKEN_BEFORE = 0.47, 0.55
"""Of text with many names in it, as five models wrote it (0.46 to 0.57), and as was thought before: who writes more
loses lines."""

DENSE_CHARS_PER_TOKEN = 1.3
"""The same of Chinese and Japanese."""

ANSWER_MARGIN = 2
"""Times the prose that an answer may be cut off at: another tokenizer may count more, and some models think aloud."""

WHOLE_TOKENS_MAX = 8_000
"""A part up to here is read as it was said, though the view showed it shortened."""

STRUCK_SHARE_MAX = 0.25
"""Of an answer: who invents more is not believed in the rest either."""

VALUES_SHARE = 0.25
"""Of what the prose leaves: for values that no prose and no step tells any more."""

STAYING_RESULT_TOKENS = 300
STAYING_TOKENS = 8_000
"""Of the newest messages, which stay in the view: they say what mattered and what is still open."""

VALUE_CHARS = 60
"""On each side of such a value."""

DONE = "Done"
"""Begins the heading of the steps; the oldest of them give way first."""

WRITTEN = "[Written at #{}; what newer messages tell holds before it.]"
"""Above the prose, which says how things are and what comes next: the view goes on, and the prose stays."""

_WRITTEN = re.compile(r"\[Written at #\d+; [^\]\n]*\]\n?")

VALUES_MAX = 100
VALUE_FRAME_TOKENS = 4
TITLES_TOKENS = 24


def retelling(state: State, answers: Answers, *, count: Count) -> Ask | AccountSqueezed | CompactionDeclined:
    """Return the next step after *answers*: a further request, or the fact that ends the stage."""
    assert state.policy is not None
    assert state.digest is not None
    most = prose_tokens_max(state, count=count)
    if most < PROSE_TOKENS_MIN:
        return declined(state, answers, f"{most} tokens of prose would be no shorter than the account")
    wish = Wish(
        prompt=PROMPTS[state.policy.squeeze.prompt_version]["retell"],
        size=_size(state, most),
        tokens_max=max(most, min(most * ANSWER_MARGIN, counted_window(state) // 4)),
        last="Now write the memory of all of it.",
    )
    given = (*_input(state, state.digest, count=count), *_staying(state, count=count))
    found = walked(state, wish, given, answers, window=counted_window(state), count=count)
    if not isinstance(found, Walked):
        return found
    return _judged(state, found, answers, given, count=count)


def _size(state: State, most: int) -> str:
    """Return how long the prose may be, as a model is told it."""
    assert state.policy is not None
    if not state.policy.squeeze.retells_requests:
        return f"Write at most {int(most * WORDS_PER_TOKEN_BEFORE)} words, and use most of them."
    words, chars = int(most * WORDS_PER_TOKEN), int(most * DENSE_CHARS_PER_TOKEN)
    return f"Write at most {words} words, or {chars} characters in a language without spaces, and use most of them."


def prose_tokens_max(state: State, *, count: Count) -> int:
    """Return the tokens of prose that are asked for: what the policy gives, and less than what it stands for."""
    digest = state.digest
    assert digest is not None
    told = sum(entry.tokens for entry in digest.pending) + sum(count(step_text(one)) for one in _account(digest).steps)
    most = int(_room_tokens(state, digest, count=count) * PROSE_SHARE)
    return min(answer_tokens_max(state), most, int((told + count(digest.prose)) * LEAVING_SHARE))


def _room_tokens(state: State, digest: Digest, *, count: Count) -> int:
    """Return the tokens for prose, steps and values: less than they have now, or as many as the prose is worth.

    A short account may grow within the target: how much prose tells does not depend on how little there was before.
    """
    account = _account(digest)
    bare = without_steps(account, _firsts(account.steps), ())
    said = count(account_text(bare, prose="", through=0, form=digest.form)) + MESSAGE_TOKENS
    free = target_tokens(state) - (state.live_tokens - digest.tokens)
    worth = said + int(answer_tokens_max(state) / PROSE_SHARE)
    return max(min(free, worth), digest.tokens - least_gain(state, digest)) - said - TITLES_TOKENS


def _input(state: State, digest: Digest, *, count: Count) -> tuple[Piece, ...]:
    """Return the model's reading beside the summary so far: the account of older messages, and the messages."""
    account = _account(digest)
    first = digest.pending[0].number if digest.pending else digest.through + 1
    older = tuple(step for step in account.steps if step.first < first)
    values = tuple(value for value in account.values if value.number < first)
    requests = tuple(one for one in account.requests if one.number < first)
    before = msgspec.structs.replace(account, requests=requests, steps=older, values=values)
    text = redacted(
        state, account_text(before, prose="", through=0, form=digest.form).partition("\n")[2], digest.through
    )
    known = (piece("account of older messages", text, count=count),) if text.strip() else ()
    assert state.policy is not None
    asked = {one.number: one for one in account.requests} if state.policy.squeeze.retells_requests else {}
    said = [
        _staying_of(state, one, asked.get(entry.number), count=count)
        for entry in digest.pending
        for one in pieces((_whole(entry),), count=count, result_tokens_max=WHOLE_TOKENS_MAX)
    ]
    return (*known, *said)


def _staying_of(state: State, said: Piece, request: AccountRequest | None, *, count: Count) -> Piece:
    """Return *said*, a message, with what stays of it in the account as *request*."""
    if request is None or stands_elsewhere(request.text):
        return said
    if not is_shortened(request.text, request.number):
        return msgspec.structs.replace(said, title=f"{said.title}, stays")
    stays = redacted(state, request.text, request.number)
    return piece(f"{said.title}, stays in part", f"{said.text}\n[stays of it:]\n{stays}", count=count)


def _staying(state: State, *, count: Count) -> tuple[Piece, ...]:
    """Return the context that stays in the view: the user's words among older messages, and the newest messages."""
    assert state.digest is not None
    through = state.digest.through
    asked = [entry for entry in state.live if speaks(entry) and entry.number <= through and not entry.leading]
    tail = [entry for entry in state.live if entry.number > through and not entry.leading]
    newest = pieces(tail, count=count, result_tokens_max=STAYING_RESULT_TOKENS)
    found = (
        *pieces(asked, count=count, result_tokens_max=WHOLE_TOKENS_MAX),
        *within(newest, STAYING_TOKENS),
    )
    return tuple(msgspec.structs.replace(one, title=f"{one.title}, stays") for one in found)


def _whole(entry: Entry) -> Entry:
    """Return *entry* as it was said, but for parts that are too large and those that the log has not."""
    sizes = {part.pointer: part for part in entry.parts}
    shown = (one for one in entry.shown if one.pointer in sizes)
    large = (one for one in shown if sizes[one.pointer].sha256 or sizes[one.pointer].tokens > WHOLE_TOKENS_MAX)
    return msgspec.structs.replace(entry, shown=tuple(large))


def _judged(
    state: State, found: Walked, answers: Answers, given: tuple[Piece, ...], *, count: Count
) -> AccountSqueezed | CompactionDeclined:
    """Return the fact that takes the prose in, or the reason why it is refused."""
    digest = state.digest
    assert digest is not None
    assert state.policy is not None
    texts = [digest.prose, *(one.shown for one in given), *(part.text for part in texts_of(state.live))]
    says_when = state.policy.digest.rules_3
    written = WRITTEN.format(state.live[-1].number) if says_when else ""
    prose = _WRITTEN.sub("", found.prose) if says_when else found.prose
    labels = labels_in(prose) if state.policy.squeeze.retells_requests else ()
    checked = without_inventions(prose, Given(texts, labels=labels))
    if checked.share > STRUCK_SHARE_MAX:
        reason = f"{checked.share:.0%} of the answer has values that are nowhere in the input: {checked.struck[0]}"
        return declined(state, answers, reason[:300])
    room = _room_tokens(state, digest, count=count)
    prose, over = _within(checked.prose, min(answer_tokens_max(state), room - count(written)), count=count)
    if count(prose) < PROSE_TOKENS_MIN // 2:
        return declined(state, answers, f"the answer says too little: {count(prose)} tokens")
    prose = f"{written}\n{prose}" if written else prose
    account, left = _beside(state, prose, room=room - count(prose), count=count)
    tokens = count(account_text(account, prose=prose, through=digest.through, form=digest.form)) + MESSAGE_TOKENS
    within_target = state.live_tokens - digest.tokens + tokens <= target_tokens(state)
    if not within_target and tokens > digest.tokens - least_gain(state, digest):
        return declined(state, answers, f"not smaller by enough: {digest.tokens} to {tokens} tokens")
    return squeezed(
        state,
        found.asked,
        answers,
        prose=prose,
        account=account,
        left=left,
        struck=(*checked.struck, *over),
        tokens=tokens,
    )


def squeezed(
    state: State,
    asked: Ask,
    answers: Answers,
    *,
    prose: str,
    account: Account,
    left: tuple[int, ...],
    struck: tuple[str, ...] = (),
    tokens: int,
) -> AccountSqueezed:
    """Return the fact by which *account* with *prose* takes the digest's place."""
    digest = state.digest
    assert digest is not None
    after = msgspec.structs.replace(digest, prose=prose, raw_account=write_account(account), raw_items=NO_ITEMS)
    costs: dict[str, Any] = paid(answers)
    return AccountSqueezed(
        boundary=asked.boundary,
        through=digest.through,
        prose=prose,
        items=(),
        digest_tokens=tokens,
        model=asked.model,
        prompt_hash=asked.prompt_hash,
        answers=tuple("" if one.too_long else messages.without_surrogates(one.text) for one in answers),
        before_tokens=state.live_tokens,
        after_tokens=state.live_tokens - digest.tokens + tokens,
        fates=fates(state, (), state.live, after=msgspec.structs.replace(after, tokens=tokens, pending=())),
        left=left,
        values=account.values,
        struck=struck,
        **costs,
    )


def _within(prose: str, most: int, *, count: Count) -> tuple[str, tuple[str, ...]]:
    """Return *prose* within *most* tokens, and the lines too many: what was done first, else the longest's end."""
    gone: list[str] = []
    if count(prose) <= most:
        return prose, ()
    lines = [line for line in prose.splitlines() if line.strip()]
    while count("\n".join(lines)) > most and len(lines) > 1:
        starts = [0, *(place for place, line in enumerate(lines) if place and is_heading(line)), len(lines)]
        parts = [(start, end) for start, end in pairwise(starts) if end - start > 1]
        if not parts:
            break
        done = next((start for start, _ in parts if lines[start].strip().startswith(DONE)), None)
        _, end = max(parts, key=lambda part: sum(map(len, lines[part[0] : part[1]])))
        gone.append(f"over {most} tokens: {lines.pop(end - 1 if done is None else done + 1)}"[:300])
    return "\n".join(lines), tuple(gone)


def _beside(state: State, prose: str, *, room: int, count: Count) -> tuple[Account, tuple[int, ...]]:
    """Return the account with the newest steps that fit *room* beside *prose*, and the steps that left it.

    What the ledger knows and only those said stays as a value, as far as there is room for it.
    """
    digest = state.digest
    assert digest is not None
    account = _account(digest)
    steps = account.steps
    first = _first_within(steps, room - int(max(0, room) * VALUES_SHARE), count=count)
    stays = "\n".join(map(step_text, steps[first:]))
    known = [one for one in account.values if one.value not in prose]
    found = [*_values_of(state, steps[:first], said=f"{prose}\n{stays}"), *known]
    room -= count(stays)
    values = []
    for one in found:
        room -= count(one.text) + VALUE_FRAME_TOKENS
        if room < 0:
            break
        values.append(one)
    left = _firsts(steps[:first])
    return without_steps(account, left, tuple(sorted(values, key=lambda one: (one.number, one.value)))), left


def _first_within(steps: Sequence[AccountStep], room: int, *, count: Count) -> int:
    """Return the place of the first of the newest steps that fit *room*."""
    first = len(steps)
    while first:
        room -= count(step_text(steps[first - 1])) + 1
        if room < 0:
            break
        first -= 1
    return first


def _values_of(state: State, steps: Iterable[AccountStep], *, said: str) -> list[AccountValue]:
    """Return the ledger's values that only *steps* tell, the worthiest first, each with what stands beside it."""
    lines = [(step.first, line) for step in steps for line in step_text(step).split("\n")]
    newest = max((item.number for item in state.ledger), default=0)
    ranked = sorted(
        (item for item in state.ledger if item.category not in LINES and item.value not in said),
        key=lambda item: (-score(item, newest), -item.number, item.category, item.value),
    )
    found: list[AccountValue] = []
    told = ""
    for item in ranked:
        number, line = next(((number, line) for number, line in lines if item.value in line), (0, ""))
        if not number or item.value in told:
            continue
        text = _fragment(line.removeprefix(f"#{number} "), item.value)
        told = f"{told}\n{text}"
        found.append(AccountValue(number=number, value=item.value, text=text))
        if len(found) >= VALUES_MAX:
            break
    return found


def _fragment(line: str, value: str) -> str:
    """Return *value* with the words beside it in *line*."""
    at = line.find(value)
    start, end = max(0, at - VALUE_CHARS), min(len(line), at + len(value) + VALUE_CHARS)
    before, behind = line[start:at], line[at + len(value) : end]
    before = before.partition(" ")[2] if start and " " in before else before
    behind = behind.rpartition(" ")[0] if end < len(line) and " " in behind else behind
    return " ".join(f"{before}{value}{behind}".split())


def _firsts(steps: Iterable[AccountStep]) -> tuple[int, ...]:
    return tuple(step.first for step in steps)


def _account(digest: Digest) -> Account:
    account = digest.account
    assert account is not None
    return account
