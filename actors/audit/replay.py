"""Replay: fold a log again, decide again, and compare, without any LLM and without any store.

Every commit of spill, digest, squeeze and cut is decided a second time on the state that it was decided
on; the facts must be equal. What came from outside (an LLM's answer, an upload's text) is taken from the
log. A step of older rules rests on the record: it is folded and counted apart, since today's rules decide
otherwise on purpose. Every served view is rebuilt, whichever rules decided it. The first difference is named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from actors.core.older_rules import under
from actors.core.sizes import sizes_of
from actors.core.state import State
from actors.core.view import view
from actors.runtime.fold import Decision, count_of, decisions, gone_back_to, head
from protocol import codec
from protocol.errors import BadEnvelope, BudgetRefused, ChainBroken, NotReady, UnknownRules
from protocol.facts import (
    ContextServed,
    DoneFact,
    StageFailed,
)
from protocol.ids import Address
from storage.ports import Record

if TYPE_CHECKING:  # the rules of all actors: who only folds needs none
    from actors.runtime.decided import Outside


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """The first place where a second decision differs from the recorded one."""

    version: int
    fact: str
    field: str
    reason: str


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """What a replay found."""

    address: str
    version: int = 0
    messages: int = 0
    commits: int = 0
    facts: int = 0
    decided_again: int = 0
    """Steps whose decision was made a second time; the others rest on what settings, a store or a model said."""
    rests: dict[str, int] = {}
    """Steps of older rules, by their version: they rest on the record, and only their own release decides them."""
    decided_elsewhere: int = 0
    """Steps of older rules that the release which wrote them decided again, in its own environment."""
    views: int = 0
    states: int = 0
    """Kept states (a snapshot) that were compared; only where nothing was decided again."""
    folded_only: bool = False
    """Nothing was decided again: chain, kept state and views were compared (`refolding.py`)."""
    tokens: int = 0
    hash: str = ""
    view_hash: str = ""
    divergence: Divergence | None = None


def replay(at: Address, records: Iterable[Record], *, rules: Iterable[str] = ()) -> Replayed:
    """Fold *records*, decide every commit again, and rebuild every served view.

    Older *rules* by which the workers still decide, with this release, are decided again too.
    """
    decided = {codec.RULES_VERSION, *rules}
    records = list(records)
    commits = facts = again = views = version = 0
    rests: Counter[str] = Counter()
    divergence: Divergence | None = None
    last: Decision | None = None
    try:
        for last in decisions(at, records, needed=gone_back_to(records)):
            commit, version = last.commit, last.after.version
            commits += 1
            facts += len(commit.facts)
            if is_view(commit):
                views += 1
                found = view_again(last.before, commit)
            elif (outside := _outside(last.before, commit.facts)) is None:
                continue
            elif commit.rules_version not in decided:
                rests[commit.rules_version] += 1
                continue
            else:
                again += 1
                before = under(commit.rules_version, last.before)
                found = _difference(commit, _decided(before, commit.facts, outside))
            divergence = divergence or found
        state = head(last, at, records)
    except (ChainBroken, BadEnvelope) as error:
        broken = broken_at(version + 1, error)
        return Replayed(
            address=str(at), commits=commits, facts=facts, rests=dict(rests), divergence=divergence or broken
        )
    final = final_view(state)
    return Replayed(
        address=str(at),
        version=state.version,
        messages=state.messages,
        commits=commits,
        facts=facts,
        decided_again=again,
        rests=dict(rests),
        views=views,
        tokens=state.live_tokens,
        hash=state.hash.hex(),
        view_hash=final,
        divergence=divergence,
    )


def broken_at(version: int, error: ChainBroken | BadEnvelope) -> Divergence:
    """Return the divergence of a log that cannot be folded from *version* on."""
    field = "rules_version" if isinstance(error, UnknownRules) else "chain"
    return Divergence(version=version, fact="", field=field, reason=str(error))


def is_view(commit: codec.Commit) -> bool:
    """Tell whether *commit* says that a view was served."""
    return bool(commit.facts) and isinstance(commit.facts[0], ContextServed)


def _outside(before: State, recorded: tuple[DoneFact, ...]) -> Outside | None:
    """Return the outside of these facts; None if not rules decided them, or the log does not have it."""
    from actors.runtime.registry import spec_of

    act = spec_of(recorded)
    if act is None or any(isinstance(fact, StageFailed) for fact in recorded):
        return None
    return act.recorded(before, recorded)


def _decided(before: State, recorded: tuple[DoneFact, ...], outside: Outside) -> tuple[DoneFact, ...]:
    """Return the facts that the rules decide today."""
    from actors.runtime.registry import spec_of

    act = spec_of(recorded)
    assert act is not None
    return act.rule(before, outside, count_of(before)).facts


def view_again(before: State, commit: codec.Commit) -> Divergence | None:
    """Build a served view again: its bytes, by their hash, and what was told of it must be the same."""
    served = commit.facts[0]
    assert isinstance(served, ContextServed)
    count = count_of(before)
    try:
        seen = view(before, budget=served.budget, count=count)
    except (BudgetRefused, NotReady) as error:
        reason = f"refused today: {type(error).__name__}"
        return Divergence(version=commit.version, fact="ContextServed", field="view_hash", reason=reason)
    if seen.hash != served.view_hash:
        reason = f"rebuilt {seen.hash[:16]}"
        return Divergence(version=commit.version, fact="ContextServed", field="view_hash", reason=reason)
    again = ContextServed(
        upto=seen.upto,
        budget=served.budget,
        profile=seen.profile,
        view_hash=seen.hash,
        tokens=seen.tokens,
        level=seen.level,
        # the agent's word, as the budget: no rule decides these
        asked=served.asked,
        unsent=served.unsent,
        # an older release recorded none
        sizes=sizes_of(before) if served.sizes else (),
    )
    return _difference(commit, (again,))


def _difference(commit: codec.Commit, wanted: tuple[object, ...]) -> Divergence | None:
    if commit.facts == wanted:
        return None
    for recorded, decided in zip(commit.facts, wanted, strict=False):
        name = type(recorded).__name__
        if type(recorded) is not type(decided):
            reason = f"decided {type(decided).__name__} today"
            return Divergence(version=commit.version, fact=name, field="", reason=reason)
        for field in recorded.__struct_fields__:
            if getattr(recorded, field) != getattr(decided, field):
                return Divergence(version=commit.version, fact=name, field=field, reason="another value today")
    reason = f"{len(commit.facts)} facts recorded, {len(wanted)} decided today"
    return Divergence(version=commit.version, fact="", field="", reason=reason)


def final_view(state: State) -> str:
    """Return the hash of the view that would be served at the end of the log; empty where none would."""
    if state.policy is None:
        return ""
    try:
        return view(state, budget=state.usable_tokens, count=count_of(state)).hash
    except (BudgetRefused, NotReady):
        return ""
