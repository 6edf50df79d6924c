"""Fold: what a log adds up to, and every commit of it with the state that it was decided on."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime

import msgspec
from msgspec.structs import replace

from actors.core.apply_done import apply_done
from actors.core.apply_said import apply_said
from actors.core.rewind import Past, Transition
from actors.core.sizes import NO_SIZES, Sizes
from actors.core.state import State, initial
from actors.core.text.count import Count
from actors.model_info.tokens import counter, tokenizer_for
from protocol import codec
from protocol.errors import BadEnvelope, ChainBroken, Erased, NotFound, PastNeeded, Rejected
from protocol.facts import ContextServed, ConversationErased, ConversationRewound, HistoryExpanded, MessageSize
from protocol.ids import Address
from storage.ports import Record
from storage.tombstones import is_erasure

NOTHING_RECORDED: Mapping[str, Sizes] = {}


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """One commit as it lies in the log, the state that it was decided on, and the state after it."""

    record: Record
    commit: codec.Commit
    before: State
    after: State


def fold(state: State, records: Iterable[Record]) -> State:
    """Return *state* after *records*, in order; sizes that they record are not counted again.

    Raises `ChainBroken` and `BadEnvelope`; `PastNeeded` where a commit goes back to a version before *state*.
    """
    records = list(records)
    sizes = recorded_sizes(records)
    for record in records:
        if record.side == "said":
            state = _heard(state, record, sizes)
        else:
            state = apply_done(state, codec.decode_commit(record.body), seq=record.seq, size=len(record.body))
    return state


def _heard(state: State, record: Record, sizes: Mapping[str, Sizes]) -> State:
    tokenizer = tokenizer_for(state.terms.model)
    known = sizes.get(tokenizer.id, NO_SIZES)
    return apply_said(state, record.body, seq=record.seq, count=counter(tokenizer.encoding), sizes=known)


def recorded_sizes(records: Iterable[Record]) -> dict[str, Sizes]:
    """Return the sizes of messages that commits in *records* tell, by the tokenizer that counted."""
    found: dict[str, dict[int, MessageSize]] = {}
    for record in records:
        if record.side == "done" and b"ContextServed" in record.body:
            with suppress(BadEnvelope):  # what is wrong with it, who folds it says
                commit = codec.decode_commit(record.body)
                for fact in commit.facts:
                    if isinstance(fact, ContextServed) and fact.sizes:
                        found.setdefault(commit.tokenizer, {}).update({one.number: one for one in fact.sizes})
    return dict(found)


def folded(at: Address, records: Sequence[Record]) -> State:
    """Return the state at the end of the whole log of *at*, whatever its commits go back to.

    Raises `ChainBroken` and `BadEnvelope`.
    """
    try:
        return fold(initial(codec.genesis(at)), records)
    except PastNeeded:
        (last,) = deque(decisions(at, records, needed=gone_back_to(records)), maxlen=1)
        state = head(last, at, records)
        # a message that its commit's writer had not seen was heard after it
        return replace(state, position=replace(state.position, seq=records[-1].seq))


def gone_back_to(records: Iterable[Record]) -> frozenset[int]:
    """Return the versions that commits in *records* go back to. Raises `BadEnvelope`."""
    versions: set[int] = set()
    for record in records:
        # most commits hold neither, and need not be read for this
        if record.side == "done" and (b"ConversationRewound" in record.body or b"HistoryExpanded" in record.body):
            for fact in codec.decode_commit(record.body).facts:
                if isinstance(fact, ConversationRewound):
                    versions.add(fact.to_version)
                elif isinstance(fact, HistoryExpanded):
                    versions |= {one.version for one in fact.restored}
    return frozenset(versions)


def decisions(
    at: Address,
    records: Iterable[Record],
    *,
    behind: Decision | None = None,
    past: Past | None = None,
    needed: frozenset[int] | None = None,
    sizes: Mapping[str, Sizes] = NOTHING_RECORDED,
) -> Iterator[Decision]:
    """Yield every commit in *records*, in order; they go on behind that decision, or begin the log.

    A commit names the messages its writer had seen (`said_hash`); those that landed between reading
    and writing are folded after it, as its writer did. *past* holds the commits up to it. Only the *needed*
    versions are remembered, where they are known (`gone_back_to`): all states of a long log fill the memory. Messages
    without a size in *sizes* are counted.
    Raises `ChainBroken`, `BadEnvelope`.
    """
    state = behind.after if behind else initial(codec.genesis(at))
    known = dict(past or {})
    unseen: list[Record] = []
    for record in records:
        if record.side == "said":
            unseen.append(record)
            continue
        commit = codec.decode_commit(record.body)
        # by hash, not by sequence: an imported record has another sequence here than where it was said
        while unseen and commit.said_hash != state.position.said_hash:
            state = _heard(state, unseen.pop(0), sizes)
        if commit.said_hash != state.position.said_hash and not commit.is_tombstone:
            raise ChainBroken(f"the messages up to {commit.upto} are not those that were said", version=commit.version)
        changed = apply_done(state, commit, seq=record.seq, size=len(record.body), past=known)
        if needed is None or commit.version in needed:
            known[commit.version] = Transition(before=state, after=changed)
        yield Decision(record=record, commit=commit, before=state, after=changed)
        state = changed


def check_place(*, version: int, upto: int) -> None:
    """Raise `Rejected` where a place in a conversation is named by numbers that cannot be, or twice."""
    for name, number in (("version", version), ("upto", upto)):
        if number < 0:
            raise Rejected(f"{name} is at least 1, and cannot be {number}")
    if version and upto:
        raise Rejected(f"version={version} and upto={upto} are two places: give one, not both")


def check_said(at: Address, state: State, *, upto: int) -> None:
    """Raise `NotFound` where *at* has no message *upto*."""
    if upto > state.messages:
        raise NotFound(
            f"{at} has no message {upto}; its last one is {state.messages}", address=str(at), last=state.messages
        )


def version_of(at: Address, past: Iterable[Decision], *, version: int = 0, upto: int = 0) -> Decision:
    """Return the decision with the number *version*, or the newest before message *upto* + 1 was said; else the newest.

    By messages none is found whose context has no message. Raises `NotFound`.
    """
    found, nearest, newest = None, None, 0
    for one in past:
        newest = one.commit.version
        if newest == version or not (version or upto):
            found = one
        elif upto and (one.after.live or one.after.arrived or one.after.digest):
            if one.before.messages <= upto:
                found = one
            else:
                nearest = nearest or one
    # the first version may have been decided before the first message was heard
    if found and (version or found.before.messages):
        return found
    told = f"no version of {at} has a message yet; call context() first, which makes one"
    if version:
        told = f"{at} has no version {version}; it has 1 to {newest}"
    elif nearest:
        told = (
            f"no version of {at} ends within {upto} messages; "
            f"the nearest is version {nearest.commit.version}, with {nearest.before.messages} messages"
        )
    raise NotFound(told, address=str(at), version=version, upto=upto, newest=newest)


def count_of(state: State) -> Count:
    """Return the token counter of *state*'s model."""
    return counter(tokenizer_for(state.terms.model).encoding)


def tokens_of(state: State) -> int:
    """Return the tokens of all that is in the view or waits for it."""
    return state.live_tokens + sum(entry.tokens for entry in state.arrived)


def check_living(at: Address, records: Sequence[Record]) -> None:
    """Raise `Erased` where *records* hold a tombstone: what agents said behind it is told to nobody."""
    newest = next((record for record in reversed(records) if record.side == "done"), None)
    if newest is not None and is_erasure(newest):
        facts = codec.decode_commit(newest.body).facts
        raise erased(at, next(fact.at_ms for fact in facts if isinstance(fact, ConversationErased)))


def erased(at: Address, at_ms: int) -> Erased:
    """Return the error for who asks about *at*, which was erased then."""
    when = f" on {datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d at %H:%M:%S} UTC" if at_ms else ""
    return Erased(f"{at} was erased{when}", address=str(at), at_ms=at_ms)


def head(last: Decision | None, at: Address, records: Sequence[Record]) -> State:
    """Return the state at the end of the log, whose newest commit is *last*."""
    state = last.after if last else initial(codec.genesis(at))
    return fold(state, [record for record in records if record.side == "said" and record.seq > state.position.said_seq])
