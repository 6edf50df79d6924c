"""Apply what was said: fold what agents said into the state, and repair what no provider would accept.

Repairs depend on the order of the messages alone: a result without a call is shown as a user message,
a call that was never answered gets a written answer, an id that repeats is made distinct, a message
that cannot be read is left out. The log keeps each as it was said, and spill records the repair.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import chain

from msgspec.structs import replace

from protocol import codec
from protocol.errors import BadEnvelope, BadMessage
from protocol.facts import (
    CompactionRequested,
    ConversationOpened,
    MessagesAppended,
    MessageSize,
    OverflowReported,
    SaidMessage,
    UsageReported,
)
from protocol.formats import messages
from protocol.formats.bound_reasoning import binds
from protocol.formats.messages import ANTHROPIC, CHAT, INSTRUCTION_ROLES, RESPONSES

from .admit import admit
from .entry import MESSAGE_TOKENS, Entry, ResultOf, measure, tokens_of_results
from .observations import marked
from .read_tool import with_namespace
from .recent_ids import among, with_newer
from .saw import Saw
from .sizes import NO_SIZES, Sizes, size_in
from .spent import with_said
from .state import State, remember_writer, repaired
from .state_parts import LATE_CALLS_MAX, RECENT_CALLS_MAX, RECENT_RESULTS_MAX, Arrived, BudgetWish, Counted, OpenCall
from .text.count import Count
from .written_words import ORPHAN_TOKENS

REPEATED_TOKENS_MIN = 160
"""A smaller result costs no more than a pointer to the first one like it."""


def apply_said(state: State, body: bytes, *, seq: int, count: Count, sizes: Sizes = NO_SIZES) -> State:
    """Return the state after the `said` envelope *body* at stream sequence *seq*, counting what *sizes* does not tell.

    Never raises: bytes that are no envelope are noted as refused and skipped, so that one bad publisher
    cannot stop a conversation. A repeated envelope changes nothing but the position.
    """
    said_hash = codec.roll(state.position.said_hash, body)
    state = replace(state, position=replace(state.position, seq=seq, said_seq=seq, said_hash=said_hash))
    if state.erased:
        return state
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
                    size = size_in(sizes, state.messages + 1, message.raw) if sizes else None
                    state = _arrive(state, message, said.at_ms, count, size)
            case ConversationOpened():
                if not state.terms.name:
                    terms = replace(
                        state.terms,
                        name=fact.name,
                        model=fact.model,
                        layer=fact.policy,
                        late_results=fact.late_results,
                        format=fact.format,
                    )
                    state = replace(state, terms=terms)
                if fact.tools:
                    state = replace(state, terms=replace(state.terms, tools=fact.tools))
            case CompactionRequested():
                state = replace(state, waiting=(*state.waiting, BudgetWish(budget=max(0, fact.budget))))
            case UsageReported():
                state = _usage(state, fact)
            case OverflowReported():
                state = _overflow(state, fact)
    return admit(state)


def _usage(state: State, fact: UsageReported) -> State:
    """Compare a provider's count with ours, where it is known for which view it is."""
    ours = dict(state.calibration.served).get(fact.view_hash, 0)
    if not ours or fact.input_tokens <= 0:
        return state
    told = max(0, fact.input_tokens - _tools(state))
    counted = Counted(ratio=told / ours, ours=ours, told=told)
    return replace(state, waiting=(*state.waiting, counted))


def _overflow(state: State, fact: OverflowReported) -> State:
    ours = dict(state.calibration.served).get(fact.view_hash, 0)
    told = max(0, fact.requested_tokens - _tools(state)) if ours else 0
    assumed = (state.calibration.ratio or 1.0) * (state.policy.emergency.ratio if state.policy else 1.25)
    ratio = told / ours if told else assumed
    counted = Counted(ratio=ratio, refused=True, window=max(0, fact.limit_tokens), ours=ours, told=told)
    return replace(state, waiting=(*state.waiting, counted))


def _tools(state: State) -> int:
    return state.policy.budget.tools if state.policy else 0


def _arrive(state: State, said: SaidMessage, at_ms: int, count: Count, size: MessageSize | None) -> State:
    number = state.messages + 1
    state = replace(state, heard=replace(state.heard, messages=number))
    try:
        entry = measure(said, number=number, count=count, declared=state.terms.format, known=size)
    except BadMessage as error:
        return repaired(state, number, "refused", f"{error} at {error.fields.get('at', '')}"[:200])
    if entry.surrogates:
        state = repaired(state, number, "lone_surrogates", "")
    ended: tuple[str, ...] = ()
    if entry.results:
        state, entry, ended = _answer(state, entry)
    else:
        entry = replace(entry, joins=_joins(state, entry))
        if not entry.joins:
            state, ended = _abandon(state)
        if entry.role == "assistant":
            state, entry = _call(state, entry)
        if entry.call_ids and state.terms.late_results:
            entry = replace(entry, called_ms=at_ms)
    # what only a provider can read is followed by what came of it
    spoken = entry.role in ("user", "tool") or (
        entry.role == "assistant" and (entry.parts or entry.format != RESPONSES)
    )
    boundary = bool(spoken) and not state.exchange.open_calls
    leading = entry.role in INSTRUCTION_ROLES and not state.exchange.begun
    # what a size tells is of the message as it is now, with what was added since it was measured
    frame_tokens = size.frame_tokens if size else entry.frame_tokens
    entry = replace(entry, boundary=boundary, leading=leading, saw=_saw(state, entry), frame_tokens=frame_tokens)
    entry = marked(entry, _newest(state, notices=False), state.policy)
    if leading and state.terms.format:
        # sent apart, and not where it was said
        entry = replace(entry, native=tuple(one for one in entry.native if one != ANTHROPIC))
    awaited = state.terms.late_results and bool(ended)
    waiting = (*state.waiting, Arrived(entry=entry, ended=ended, at_ms=at_ms, awaited=awaited))
    state = replace(state, spent=with_said(state.spent, entry, at_ms=at_ms))
    begun, late_last = not leading, bool(entry.late)
    if (begun, late_last) == (state.exchange.begun, state.exchange.late_last):
        return replace(state, waiting=waiting)
    return replace(state, waiting=waiting, exchange=replace(state.exchange, begun=begun, late_last=late_last))


def _saw(state: State, entry: Entry) -> Saw | None:
    """Return the sight of the call that *entry* answers, where its reasoning may hold behind that alone."""
    thinks = entry.role == "assistant" and entry.format == ANTHROPIC and b'thinking"' in entry.raw
    if not thinks or state.terms.format != ANTHROPIC or not binds(state.terms.model):
        return None
    served = state.calibration.served
    return Saw(upto=state.calibration.upto, view_hash=served[-1][0]) if served else Saw()


def _newest(state: State, *, notices: bool = True) -> Entry | None:
    """Return the entry that was heard last, *notices* or not: it is still there, since the newest unit never leaves."""
    waiting = (one.entry for one in reversed(state.waiting) if isinstance(one, Arrived))
    return next((entry for entry in chain(waiting, reversed(state.live)) if notices or not entry.notice), None)


def _joins(state: State, entry: Entry) -> bool:
    """Tell whether *entry* is an item of the same answer as the one before it: a call, or what reasoning led to."""
    before = _newest(state)
    if (
        state.exchange.late_last
        or before is None
        or before.role != "assistant"
        or entry.role != "assistant"
        or before.format != RESPONSES
    ):
        return False
    return entry.format == RESPONSES or (RESPONSES in entry.native and not state.exchange.open_calls)


def _answer(state: State, entry: Entry) -> tuple[State, Entry, tuple[str, ...]]:
    """Match results with their calls; without any they are orphans and end the calls that are open."""
    open_calls, answered = list(state.exchange.open_calls), list(state.exchange.batch)
    waited_for = list(state.exchange.late_calls)
    found: list[ResultOf] = []
    sizes = tokens_of_results(entry)
    orphans: list[str] = []
    late: list[OpenCall] = []
    first: OpenCall | None = None
    renamed = False
    for result in entry.results:
        if call := _called(open_calls, result, entry):
            first = first or call
            renamed = renamed or call.shown != call.said
            answered.append(sizes.get(result.under, 0))
            open_calls.remove(call)
            found.append(replace(result, call=call.shown, tool=call.tool))
        elif call := _called(waited_for, result, entry):
            waited_for.remove(call)
            late.append(call)
            found.append(replace(result, call="", tool=call.tool, late=call.shown))
        else:
            found.append(replace(result, call=""))
            orphans.append(result.call)
    batch = state.exchange.batch if first is not None else ()
    if first is not None:
        left = tuple(answered) if open_calls else ()
        state = replace(state, exchange=replace(state.exchange, open_calls=tuple(open_calls), batch=left))
    if late:
        state = replace(state, exchange=replace(state.exchange, late_calls=tuple(waited_for)))
    # what stands behind its call disturbs nobody; of several messages' calls it cannot stand behind all
    alone = entry.role == "tool" and len(late) == len(entry.results) and len({call.number for call in late}) == 1
    # a provider reads nothing between a call and its results: what is open has ended where somebody else speaks
    ended: tuple[str, ...] = ()
    if entry.role == "user" or orphans or (late and not alone):
        state, ended = _abandon(state)
    for said in orphans:
        state = repaired(state, entry.number, "orphan_result", said[:80])
    uncalled = len(orphans) + len(late)
    if uncalled:
        # the lead of each, and a line end behind each part
        entry = replace(entry, frame_tokens=entry.frame_tokens + uncalled * ORPHAN_TOKENS + len(entry.parts))
    entry = replace(
        entry,
        results=tuple(found),
        orphan=first is None,
        renamed=renamed,
        tool=next((call.tool for call in (first, *late) if call), ""),
        batch=batch,
        late=tuple(call.shown for call in late) if alone else (),
    )
    return (*_recognised(state, entry), ended)


def _called(calls: Sequence[OpenCall], result: ResultOf, entry: Entry) -> OpenCall | None:
    """Return the call in *calls* that *result* answers, if one does."""
    return next((call for call in calls if call.said == result.call and _same_kind(call, entry)), None)


def _same_kind(call: OpenCall, entry: Entry) -> bool:
    return not (call.kind and entry.kind) or call.kind == entry.kind


def _recognised(state: State, entry: Entry) -> tuple[State, Entry]:
    """Tell a result that was given before; among several in one message none is looked for."""
    tokens = sum(part.tokens for part in entry.parts)
    if entry.orphan or len(entry.results) != 1 or entry.role != "tool" or tokens < REPEATED_TOKENS_MIN:
        return state, entry
    same = _hash_of(entry)
    exchange = state.exchange
    known = dict(exchange.recent_results).get(same, 0)
    if not known:
        recent = (*exchange.recent_results, (same, entry.number))[-RECENT_RESULTS_MAX:]
        return replace(state, exchange=replace(exchange, recent_results=recent)), entry
    last = dict(exchange.recent_repeats).get(same, known)
    others = tuple(one for one in exchange.recent_repeats if one[0] != same)
    repeats = (*others, (same, entry.number))[-RECENT_RESULTS_MAX:]
    state = replace(state, exchange=replace(exchange, recent_repeats=repeats))
    return state, replace(entry, same_as=known, same_last=last)


def _call(state: State, entry: Entry) -> tuple[State, Entry]:
    """Open the calls of an assistant message, under ids that are distinct in any view."""
    if entry.format == CHAT and not entry.native and not entry.call_ids and b'"tool_calls"' in entry.raw:
        state = repaired(state, entry.number, "empty_tool_calls", "")
    if not entry.call_ids:
        return state, entry
    if entry.format == RESPONSES and not entry.joins:
        # in other formats the call needs a message around it
        entry = replace(entry, frame_tokens=entry.frame_tokens + MESSAGE_TOKENS)
    taken, shown = state.heard.recent_calls, list[str]()
    for index, ident in enumerate(entry.call_ids):
        distinct = ident if not among(taken, ident) and ident not in shown else f"{ident[:40]}-{entry.number}-{index}"
        while among(taken, distinct) or distinct in shown:
            distinct += "x"
        shown.append(distinct)
    if tuple(shown) != entry.call_ids:
        state = repaired(state, entry.number, "duplicate_call_id", "")
    opened = tuple(
        OpenCall(said=said, shown=new, number=entry.number, tool=with_namespace(tool, entry.raw), kind=entry.kind)
        for said, new, tool in zip(entry.call_ids, shown, entry.call_names, strict=True)
    )
    recent_calls = with_newer(state.heard.recent_calls, shown, most=RECENT_CALLS_MAX)
    state = replace(
        state,
        exchange=replace(state.exchange, open_calls=(*state.exchange.open_calls, *opened)),
        heard=replace(state.heard, recent_calls=recent_calls),
    )
    return state, replace(entry, call_ids=tuple(shown), renamed=tuple(shown) != entry.call_ids)


def _abandon(state: State) -> tuple[State, tuple[str, ...]]:
    """End the calls that no result came for; return the ids that a written answer must close."""
    if not state.exchange.open_calls:
        return state, ()
    open_calls, late = state.exchange.open_calls, state.exchange.late_calls
    missing = tuple(call.shown for call in open_calls)
    state = repaired(state, open_calls[0].number, "unanswered_calls", ",".join(missing)[:200])
    if state.terms.late_results:
        late = (*late, *open_calls)[-LATE_CALLS_MAX:]
    return replace(state, exchange=replace(state.exchange, open_calls=(), batch=(), late_calls=late)), missing


def _hash_of(entry: Entry) -> str:
    """Return the identity of a result: all its texts, inline or uploaded."""
    message = messages.decode(entry.raw)
    texts = [part.sha256 or messages.leaf(message, part.pointer) for part in entry.parts]
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:16]
