"""Refolding: a log's chain, its kept state and every view that was served, compared, with nothing decided again.

What it proves: nobody changed, dropped or moved anything behind the workers' backs, each model saw what the log says it
saw, and a snapshot holds what the log adds up to. That the rules decide the same again, only `replay` proves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from actors.core.state import State
from actors.runtime.fold import Decision, decisions, fold, gone_back_to, head, recorded_sizes
from actors.runtime.kept_states import opened
from protocol.errors import UNREADABLE, BadEnvelope, ChainBroken
from protocol.ids import Address
from storage.ports import Record

from .replay import Divergence, Replayed, broken_at, final_view, is_view, view_again


def refolded(at: Address, records: Iterable[Record], *, snapshot: bytes = b"") -> Replayed:
    """Fold *records*, rebuild every served view, and compare a *snapshot* with the state at its place."""
    records = list(records)
    found = Replayed(address=str(at), folded_only=True)
    kept, divergence = _opened(snapshot)
    last: Decision | None = None
    same = 0
    try:
        for last in decisions(at, records, needed=gone_back_to(records), sizes=recorded_sizes(records)):
            found = _counted(found, last)
            if is_view(last.commit):
                divergence = divergence or view_again(last.before, last.commit)
            if kept is not None and last.after.version == kept.version:
                same = 1
                divergence = divergence or _kept_again(kept, last, records)
        state = head(last, at, records)
    except (ChainBroken, BadEnvelope) as error:
        version = last.after.version if last else 0
        return replace(found, divergence=divergence or broken_at(version + 1, error))
    if kept is not None and not same:
        divergence = divergence or _state_gap(kept.version, f"the log ends at version {state.version}")
    return replace(
        found,
        version=state.version,
        messages=state.messages,
        states=same,
        tokens=state.live_tokens,
        hash=state.hash.hex(),
        view_hash=final_view(state),
        divergence=divergence,
    )


def _counted(found: Replayed, last: Decision) -> Replayed:
    return replace(
        found,
        commits=found.commits + 1,
        facts=found.facts + len(last.commit.facts),
        views=found.views + is_view(last.commit),
    )


def _opened(snapshot: bytes) -> tuple[State | None, Divergence | None]:
    """Return the state in *snapshot*; None where there is no state or it is of another schema, which nobody reads."""
    if not snapshot:
        return None, None
    try:
        return opened(snapshot), None
    except UNREADABLE as error:
        return None, _state_gap(0, f"is not readable: {error}"[:200])


def _kept_again(kept: State, last: Decision, records: Sequence[Record]) -> Divergence | None:
    """Compare *kept* with the fold up to its place, which is at the commit *last* or among the messages behind it."""
    state = fold(last.after, _between(records, last.after.position.said_seq, kept.seq))
    # a message that the commit's writer had not seen was heard before it by who kept the state
    state = replace(state, position=replace(state.position, seq=kept.seq))
    return None if state == kept else _state_gap(kept.version, "is not what the log folds to")


def _between(records: Iterable[Record], after: int, upto: int) -> Iterator[Record]:
    return (record for record in records if record.side == "said" and after < record.seq <= upto)


def _state_gap(version: int, reason: str) -> Divergence:
    return Divergence(version=version, fact="", field="snapshot", reason=reason)
