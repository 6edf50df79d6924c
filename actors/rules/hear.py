"""Hear: fold what agents said into the state, and repair what no provider would accept.

Repairs depend on the order of the messages alone: a result without a call is shown as a user message,
a call that was never answered gets a written answer, an id that repeats is made distinct, a message
that cannot be read is left out. The log keeps each as it was said, and spill records the repair.
"""

from __future__ import annotations

import hashlib

import msgspec

from protocol import codec, messages
from protocol.errors import BadEnvelope, BadMessage
from protocol.facts import (
    CompactionRequested,
    ConversationOpened,
    MessagesAppended,
    OverflowReported,
    SaidMessage,
    UsageReported,
)
from protocol.messages import INSTRUCTION_ROLES

from .admit import admit
from .entry import LOOSE_TOKENS, Count, Entry, measure
from .state import (
    RECENT_CALLS_MAX,
    RECENT_RESULTS_MAX,
    Arrived,
    Asked,
    Counted,
    OpenCall,
    State,
    remember_writer,
    repaired,
)

REPEATED_TOKENS_MIN = 160
"""A smaller result costs no more than a pointer to the first one like it."""


def hear(state: State, body: bytes, *, seq: int, count: Count) -> State:
    """Return the state after the `said` envelope *body* at stream sequence *seq*.

    Never raises: bytes that are no envelope are noted as refused and skipped, so that one bad publisher
    cannot stop a conversation. A repeated envelope changes nothing but the position.
    """
    state = msgspec.structs.replace(state, seq=seq, said_seq=seq, said_hash=codec.roll(state.said_hash, body))
    try:
        said = codec.decode_said(body)
    except BadEnvelope as error:
        return repaired(state, 0, "refused", f"seq {seq}: {error}"[:200])
    known = remember_writer(state, said.writer, said.count)
    if known is None:
        return state
    state = known
    for fact in said.facts:
        match fact:
            case MessagesAppended():
                for message in fact.messages:
                    state = _arrive(state, message, said.at_ms, count)
            case ConversationOpened():
                if not state.name:
                    state = msgspec.structs.replace(state, name=fact.name, model=fact.model, layer=fact.policy)
            case CompactionRequested():
                state = msgspec.structs.replace(state, waiting=(*state.waiting, Asked(budget=max(0, fact.budget))))
            case UsageReported():
                state = _usage(state, fact)
            case OverflowReported():
                state = _overflow(state, fact)
    return admit(state)


def _usage(state: State, fact: UsageReported) -> State:
    """Compare a provider's count with ours, where it is known for which view it is."""
    ours = dict(state.served).get(fact.view_hash, 0)
    if not ours or fact.input_tokens <= 0:
        return state
    counted = Counted(ratio=max(0, fact.input_tokens - _tools(state)) / ours)
    return msgspec.structs.replace(state, waiting=(*state.waiting, counted))


def _overflow(state: State, fact: OverflowReported) -> State:
    ours = dict(state.served).get(fact.view_hash, 0)
    told = (fact.requested_tokens - _tools(state)) / ours if ours and fact.requested_tokens > 0 else 0.0
    assumed = (state.ratio or 1.0) * (state.policy.emergency.ratio if state.policy else 1.25)
    counted = Counted(ratio=told if told > 0 else assumed, refused=True)
    return msgspec.structs.replace(state, waiting=(*state.waiting, counted))


def _tools(state: State) -> int:
    return state.policy.budget.tools if state.policy else 0


def _arrive(state: State, said: SaidMessage, at_ms: int, count: Count) -> State:
    number = state.messages + 1
    state = msgspec.structs.replace(state, messages=number)
    try:
        entry, _ = measure(said, number=number, count=count)
    except BadMessage as error:
        return repaired(state, number, "refused", f"{error} at {error.fields.get('at', '')}"[:200])
    if entry.surrogates:
        state = repaired(state, number, "lone_surrogates", "")
    ended: tuple[str, ...] = ()
    if entry.role == "tool":
        state, entry, ended = _answer(state, entry)
    else:
        state, ended = _abandon(state)
        if entry.role == "assistant":
            state, entry = _call(state, entry)
    boundary = entry.role in ("user", "tool", "assistant") and not state.open_calls
    leading = entry.role in INSTRUCTION_ROLES and not state.begun
    entry = msgspec.structs.replace(entry, boundary=boundary, leading=leading)
    waiting = (*state.waiting, Arrived(entry=entry, ended=ended, at_ms=at_ms))
    return msgspec.structs.replace(state, waiting=waiting, begun=not leading)


def _answer(state: State, entry: Entry) -> tuple[State, Entry, tuple[str, ...]]:
    """Match a result with its call; without one it is loose and ends the calls that are open."""
    for index, call in enumerate(state.open_calls):
        if call.said == entry.result_of:
            left = state.open_calls[:index] + state.open_calls[index + 1 :]
            tokens = sum(part.tokens for part in entry.parts)
            same = _hash_of(entry) if tokens >= REPEATED_TOKENS_MIN else ""
            first = dict(state.recent_results).get(same, 0)
            shown = msgspec.structs.replace(
                entry,
                result_of=call.shown,
                renamed=call.shown != call.said,
                tool=call.tool,
                batch=call.batch,
                same_as=first,
            )
            left = tuple(msgspec.structs.replace(other, batch=(*other.batch, tokens)) for other in left)
            recent = state.recent_results
            if same and not first:
                recent = (*recent, (same, entry.number))[-RECENT_RESULTS_MAX:]
            return msgspec.structs.replace(state, open_calls=left, recent_results=recent), shown, ()
    # a provider reads nothing between a call and its results: what is open has ended here
    state, ended = _abandon(state)
    state = repaired(state, entry.number, "orphan_result", entry.result_of[:80])
    # its lead, and a line end behind each part
    frame = entry.frame_tokens + LOOSE_TOKENS + len(entry.parts)
    return state, msgspec.structs.replace(entry, loose=True, result_of="", frame_tokens=frame), ended


def _call(state: State, entry: Entry) -> tuple[State, Entry]:
    """Open the calls of an assistant message, under ids that are distinct in any view."""
    if b'"tool_calls":[]' in entry.raw:
        state = repaired(state, entry.number, "empty_tool_calls", "")
    if not entry.call_ids:
        return state, entry
    taken = set(state.recent_calls)
    shown = []
    for index, ident in enumerate(entry.call_ids):
        distinct = ident if ident not in taken else f"{ident[:40]}-{entry.number}-{index}"
        while distinct in taken:
            distinct += "x"
        taken.add(distinct)
        shown.append(distinct)
    if tuple(shown) != entry.call_ids:
        state = repaired(state, entry.number, "duplicate_call_id", "")
    opened = tuple(
        OpenCall(said=said, shown=new, number=entry.number, tool=tool)
        for said, new, tool in zip(entry.call_ids, shown, entry.call_names, strict=True)
    )
    state = msgspec.structs.replace(
        state, open_calls=opened, recent_calls=(*state.recent_calls, *shown)[-RECENT_CALLS_MAX:]
    )
    return state, msgspec.structs.replace(entry, call_ids=tuple(shown), renamed=tuple(shown) != entry.call_ids)


def _abandon(state: State) -> tuple[State, tuple[str, ...]]:
    """End the calls that no result came for; return the ids that a written answer must close."""
    if not state.open_calls:
        return state, ()
    missing = tuple(call.shown for call in state.open_calls)
    state = repaired(state, state.open_calls[0].number, "unanswered_calls", ",".join(missing)[:200])
    return msgspec.structs.replace(state, open_calls=()), missing


def _hash_of(entry: Entry) -> str:
    """Return what tells one result from another: all its texts, inline or uploaded."""
    message = messages.decode(entry.raw)
    texts = [part.sha256 or messages.leaf(message, part.pointer) for part in entry.parts]
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:16]
