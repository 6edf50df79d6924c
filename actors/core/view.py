"""View: the messages that a model is sent, a pure function of state, budget and provider profile.

Instructions, the digest, then what is live, in order. A view is never above its budget, never parts a
call from its results, and shows untouched messages byte for byte as they were said, where the profile takes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import msgspec

from protocol.errors import BudgetRefused, NotReady
from protocol.formats.alternate import FILLER, FILLER_MESSAGE
from protocol.formats.bound_reasoning import NEVER
from protocol.formats.messages import ANTHROPIC, Profile, parse
from protocol.formats.render import Piece, piece
from protocol.formats.render import render as written
from protocol.semconv import Category

from .caps import CAP_TOKENS_MIN, oversized
from .cut_plan import after_plan, least_tokens, plan_cut
from .entry import CATEGORIES, MESSAGE_TOKENS, Entry, verbatim
from .late_results import pieces_of
from .read_tool import more_tokens, named
from .running_hash import RunningHash
from .state import State
from .state_parts import Digest
from .text.count import Count
from .units import goes_on, instructions

GROWING_TRIES = 24
HALVING_TRIES = 10
"""Views that are tried to find the smallest budget: each may shorten every text."""


def tokens_by_category(entries: Iterable[Entry], digest_tokens: int) -> dict[Category, int]:
    """Return the tokens of *entries* and of the digest by what they are."""
    sums: dict[Category, int] = dict.fromkeys(CATEGORIES, 0)
    for entry in entries:
        for category, tokens in entry.by_category.items():
            sums[category] += tokens
    return sums | {"digest": digest_tokens}


class View(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One rendered view. `messages` are JSON objects; `level` names the step of cut that was needed."""

    messages: tuple[bytes, ...]
    profile: Profile
    """For Anthropic the instructions are the first of the messages, in the role system, and sent apart."""
    tokens: int
    level: str
    upto: int
    entries: tuple[Entry, ...]
    """What is shown of what was said."""
    digest_tokens: int
    filler_tokens: int = 0
    """Of what is said by nobody, because Anthropic's conversations begin with the user."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """Return the numbers of the messages that are shown."""
        return tuple(entry.number for entry in self.entries)

    @property
    def categories(self) -> dict[Category, int]:
        """Return the tokens by what they are."""
        categories = tokens_by_category(self.entries, self.digest_tokens)
        categories["user"] += self.filler_tokens
        return categories

    @cached_property
    def body(self) -> bytes:
        """Return the view as one JSON array."""
        return b"[" + b",".join(self.messages) + b"]"

    @cached_property
    def hash(self) -> str:
        """Return the SHA-256 of the JSON array, hex: what was served can be proved by it."""
        return self._running.of(self.messages)

    def begins_as(self, known: str) -> int:
        """Return how many of its messages are those of the view *known* by its hash; 0 if it is forgotten."""
        return self._running.begins(self.messages, known) if known else 0

    @property
    def _running(self) -> RunningHash:
        return self.entries[0].running if self.entries else RunningHash()


def unspilled(state: State) -> tuple[int, ...]:
    """Return the numbers of messages that a view would show in full although they are too big."""
    if state.policy is None:
        return tuple(entry.number for entry in state.arrived)
    policy = state.policy
    # asked after every step: of a long backlog, most are too small to be looked at
    coming = [one for one in state.coming if one[0].largest > CAP_TOKENS_MIN]
    return tuple(entry.number for entry, usable in coming if oversized(entry, policy, usable))


def view(state: State, *, budget: int, count: Count, profile: Profile | None = None) -> View:
    """Return the view of *state* within *budget* tokens, for *profile* or the policy's.

    Raises `NotReady` while a large part is not spilled, `BudgetRefused` if the least legal view is larger.
    """
    held = unspilled(state)
    if held:
        raise NotReady(f"messages {held[:5]} are not spilled yet", numbers=held)
    assert state.policy is not None
    profile = profile or state.policy.shape.profile
    found = _with_names(state, budget, profile=profile, count=count)
    if profile != ANTHROPIC or FILLER_MESSAGE not in found.messages[:2]:
        return found
    filler = count(FILLER) + MESSAGE_TOKENS
    if found.tokens + filler > budget:
        found = _with_names(state, budget - filler, profile=profile, count=count)
    return msgspec.structs.replace(found, tokens=found.tokens + filler, filler_tokens=filler)


def least_budget(state: State, *, refused: int, count: Count, profile: Profile | None = None) -> int:
    """Return a budget that a view fits, after *refused* was not: where one token less is refused too, if tries suffice.

    0 where none is found.
    """
    filler = count(FILLER) + MESSAGE_TOKENS
    least = least_tokens(state, _weighed(state), count=count)
    low, high = refused, max(refused + 1, least)
    for _ in range(GROWING_TRIES):
        if _fits(state, high, count=count, profile=profile):
            break
        # texts put together may cost a few tokens more, and Anthropic's conversations begin with a filler
        low, high = high, high + max(filler, (high - low) * 2)
    else:
        return 0
    low = max(low, least - 1)
    for _ in range(HALVING_TRIES):
        if high - low <= 1:
            break
        middle = (low + high) // 2
        low, high = (low, middle) if _fits(state, middle, count=count, profile=profile) else (middle, high)
    return high


def _fits(state: State, budget: int, *, count: Count, profile: Profile | None) -> bool:
    try:
        view(state, budget=budget, count=count, profile=profile)
    except BudgetRefused:
        return False
    return True


def _with_names(state: State, budget: int, *, profile: Profile, count: Count) -> View:
    """Return the view within *budget* with the names in it that were not counted."""
    assert state.policy is not None
    found = _within(state, budget, profile=profile, count=count)
    more = more_tokens(found.messages, state.policy, count, state.terms.name)
    if more and found.tokens + more > budget:
        found = _within(state, budget - more, profile=profile, count=count)
    return msgspec.structs.replace(found, tokens=found.tokens + more) if more else found


def _within(state: State, budget: int, *, profile: Profile, count: Count) -> View:
    plan = plan_cut(state, _weighed(state), down_to=budget, within=budget, count=count)
    if plan.tokens > budget:
        raise BudgetRefused(f"the view needs {plan.tokens} tokens", tokens=plan.tokens, budget=budget)
    staying = after_plan(state.entries, plan)
    digest = None if plan.digest_dropped else state.digest
    return View(
        messages=written(_shown(state, staying, digest), profile),
        profile=profile,
        tokens=plan.tokens,
        level=plan.level,
        upto=state.messages,
        entries=tuple(staying),
        digest_tokens=digest.tokens if digest else 0,
    )


def _weighed(state: State) -> Sequence[Entry]:
    """Return the entries with all that they cost, also what no rule decides by."""
    return [
        msgspec.structs.replace(entry, frame_tokens=entry.frame_tokens + entry.apart_tokens)
        if entry.apart_tokens
        else entry
        for entry in state.entries
    ]


def _shown(state: State, staying: Sequence[Entry], digest: Digest | None) -> list[Piece]:
    assert state.policy is not None
    role = state.policy.shape.summary_role
    head = _digest_place(staying, digest)
    out: list[Piece] = []
    notes: list[Piece] = []
    # asked of each message of each view: in most conversations no reasoning belongs to a view
    binds = any([entry.saw is not None for entry in staying])
    before = broken = 0
    for index, (entry, pieces) in enumerate(pieces_of(state, staying)):
        if notes and not goes_on(entry):
            out += notes
            notes = []
        if index == head and digest is not None:
            out.append(_digest_piece(state, digest))
        shown = [_with_tool_name(one, state) for one in pieces] if entry.shown else pieces
        if binds:
            broken = broken if entry.number <= before + 1 else entry.number - 1
            shown = [_bound(one, entry, broken) for one in shown]
            before = entry.number
            broken = broken if verbatim(entry) and not entry.notes and not entry.answers else before
        out += shown
        for note in entry.notes:
            notes.append(piece(msgspec.json.encode({"role": note.role or role, "content": note.text})))
    if not state.exchange.open_calls:
        # nobody speaks between a call and its results
        out += notes
    if digest is not None and head >= len(staying):
        out.append(_digest_piece(state, digest))
    return out


def _with_tool_name(one: Piece, state: State) -> Piece:
    """Return *one*, which we shortened, with the tool's name as the policy has it."""
    assert state.policy is not None
    raw = named(one.raw, state.policy, state.terms.name)
    return one if raw is one.raw else msgspec.structs.replace(one, raw=raw)


def _bound(one: Piece, entry: Entry, broken: int) -> Piece:
    """Return *one* with the view that its reasoning belongs to; *broken* is the newest changed message before it.

    Some providers take reasoning back only behind the very messages that the model saw when it thought so.
    """
    if entry.saw is None:
        return one
    saw = entry.saw.view_hash if broken <= entry.saw.upto else NEVER
    return msgspec.structs.replace(one, saw=saw)


def _digest_place(staying: Sequence[Entry], digest: Digest | None) -> int:
    """Return where the digest stands: behind the instructions; an account below the task, and above the
    newest request of a user who said something before.
    """
    place = head = len(instructions(staying))
    if digest is None or not digest.tells:
        return head
    while place < len(staying) and (staying[place].number < digest.stands_before or goes_on(staying[place])):
        place += 1
    return place


def _digest_piece(state: State, digest: Digest) -> Piece:
    """Return the message that stands for the digested history; who takes it depends on its role, not on its words."""
    assert state.policy is not None
    role = state.policy.shape.summary_role
    raw = b'{"role":"%s","content":%s}' % (role.encode(), named(digest.content, state.policy, state.terms.name))
    return Piece(raw=raw, native=parse({"role": role, "content": "[Notes]"}).native)


def message_bytes(entry: Entry) -> list[bytes]:
    """Return the JSON of an entry as it is shown."""
    return [one.raw for one in entry.pieces]
