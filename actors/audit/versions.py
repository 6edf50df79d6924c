"""Versions: one row for each commit of a conversation, and the served contexts among them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import cast

import msgspec
from msgspec.structs import replace

from actors.core.outcome import outcome_of
from actors.core.view import View, view
from actors.runtime.fold import Decision, count_of, tokens_of
from protocol import codec
from protocol.errors import BadEnvelope, BudgetRefused, NotFound, NotReady
from protocol.facts import ContextServed
from protocol.formats.messages import Profile
from protocol.history import Version
from protocol.ids import Address
from storage.ports import Record

from .folded_log import Folded
from .loss import loss, recorded
from .trail import reasons, stage_of, touches, trace_of, trail

UNSENT = "no model got this view"
_SERVED = ContextServed.__name__.encode()


class Rebuilt(msgspec.Struct, frozen=True, kw_only=True):
    """A context as it was served, rebuilt from the log; `view` is None where the rules refuse it today."""

    version: int
    time: str
    served: ContextServed
    view: View | None
    refused: str = ""
    unsent: bool = False
    """No model got it, as who had asked for it says later in the log."""

    @property
    def same(self) -> bool:
        """Tell whether the rebuilt bytes are those that were served."""
        return self.view is not None and self.view.hash == self.served.view_hash


def versions(at: Address, records: Sequence[Record], *, losses: bool = False, after: int = 0) -> Iterator[Version]:
    """Yield a row for each version behind *after*.

    What each step lost is counted anew and named if *losses* are asked for.

    Raises `ChainBroken`, `BadEnvelope` where the log is damaged, after the rows before it.
    """
    unsent = unsent_views(records)
    for decision in trail(at, records):
        if decision.commit.version > after:
            row = version_of(decision, losses=losses)
            yield replace(row, reasons=(*row.reasons, UNSENT)) if row.version in unsent else row


def served_context(at: Address, records: Sequence[Record], *, version: int | None = None) -> Rebuilt:
    """Rebuild the context that was served at *version*, or the newest one. Raises `NotFound` if none was."""
    others: list[int] = []
    newest: Decision | None = None
    for decision in trail(at, records, upto=version):
        if served_fact(decision) is not None:
            newest = decision
            others.append(decision.commit.version)
    if newest is None or (version is not None and newest.commit.version != version):
        before = f"; the newest served before it is {others[-1]}" if others else ""
        what = f"at version {version} of {at}" if version is not None else f"in {at}"
        raise NotFound(f"no context was served {what}{before}", address=str(at), version=version or 0)
    return replace(rebuilt(newest), unsent=newest.commit.version in unsent_views(records))


def unsent_views(records: Iterable[Record]) -> frozenset[int]:
    """Return the versions of the views that no model got, as who asked for them says in a later one's fact."""
    commits = (one.commit for one in records.commits) if isinstance(records, Folded) else _serving(records)
    served = (fact for commit in commits for fact in commit.facts if isinstance(fact, ContextServed))
    return frozenset(version for fact in served for version in fact.unsent)


def _serving(records: Iterable[Record]) -> Iterator[codec.Commit]:
    """Yield the commits of *records* that may serve a view."""
    for record in records:
        if record.side == "done" and _SERVED in record.body:
            with suppress(BadEnvelope):  # told by who folds it
                yield codec.decode_commit(record.body)


def served_fact(decision: Decision) -> ContextServed | None:
    """Return the view that *decision* served, if it did."""
    return next((fact for fact in decision.commit.facts if isinstance(fact, ContextServed)), None)


def rebuilt(decision: Decision) -> Rebuilt:
    """Rebuild the context that *decision* served."""
    fact = served_fact(decision)
    assert fact is not None, "nothing was served"
    seen, refused = None, ""
    try:
        profile = cast(Profile, fact.profile)
        seen = view(decision.before, budget=fact.budget, count=count_of(decision.before), profile=profile)
    except (BudgetRefused, NotReady) as error:
        refused = str(error)
    return Rebuilt(version=decision.commit.version, time=decision.record.time, served=fact, view=seen, refused=refused)


def version_of(decision: Decision, *, losses: bool = False) -> Version:
    """Return the row of one commit, with what it lost as it says itself, by name if *losses* are asked for."""
    commit, state = decision.commit, decision.after
    fact = served_fact(decision)
    names: dict[str, int] = {"PolicyAdopted": 1} if commit.policy else {}
    for name in (type(one).__name__ for one in commit.facts):
        names[name] = names.get(name, 0) + 1
    return Version(
        version=commit.version,
        time=decision.record.time,
        seq=decision.record.seq,
        stage=stage_of(commit),
        outcome=outcome_of(commit.facts),
        facts=names,
        before_tokens=tokens_of(decision.before),
        after_tokens=tokens_of(state),
        served_tokens=fact.tokens if fact is not None else 0,
        usable_tokens=state.usable_tokens if state.policy else 0,
        messages=decision.before.messages,
        upto_seq=commit.upto,
        policy_hash=commit.policy_hash,
        trace_id=trace_of(decision.record),
        writer=commit.writer,
        hash=commit.hash.hex(),
        reasons=reasons(commit),
        loss=loss(decision.before, state) if losses and touches(decision) else recorded(*commit.facts),
    )
