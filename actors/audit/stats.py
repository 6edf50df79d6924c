"""Statistics: what compaction won over whole conversations, what it cost, and where it did not work.

A token that leaves the view is saved in every call after that. What a call would have had without Jettison is
the whole conversation as it was said, so far; the difference is shared among the stages by what each took away.
What it would have cost is that of the model's window at most: nobody is billed for what a provider refuses.
What a fork copied is counted where it happened; the fork's own calls are those after it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from statistics import median

import msgspec

from actors.core.outcome import outcome_of
from actors.core.state import State
from actors.model_info.prices import Price, price_of
from actors.model_info.windows import window_of
from actors.runtime.fold import Decision, head, tokens_of
from actors.runtime.said_log import said_facts
from protocol.errors import BadEnvelope, ChainBroken
from protocol.facts import ConversationForked, MessageRepaired, UsageReported
from protocol.ids import Address
from storage.ports import Record

from .loss import recorded
from .trail import reasons, stage_of, trail
from .versions import rebuilt, served_fact
from .why import dollars_of

_NUMBER = re.compile(r"\d[\d,.]*")

SLOWEST_MAX = 10
REASONS_MAX = 20


class StageSum(msgspec.Struct, kw_only=True):
    """All steps of one stage together. `saved_tokens` counts a token once for each call that went without it."""

    applied: int = 0
    declined: int = 0
    failed: int = 0
    removed_tokens: int = 0
    saved_tokens: int = 0
    saved_dollars: float = 0.0
    llm_dollars: float = 0.0
    seconds_median: float = 0.0
    seconds_max: float = 0.0


class SlowStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step, and the time from what it had to act upon to its commit."""

    address: str
    version: int
    stage: str
    seconds: float
    time: str


class Reason(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """Why steps of a stage were declined or failed, and how often."""

    times: int
    stage: str
    outcome: str
    reason: str


class Sums(msgspec.Struct, kw_only=True):
    """What a group of conversations came to. Dollars leave out calls whose model has no known price."""

    conversations: int = 0
    messages: int = 0
    versions: int = 0
    calls: int = 0
    """Contexts that were served."""
    said_tokens: int = 0
    """Of those contexts, had nothing been taken away."""
    served_tokens: int = 0
    same_prefix_tokens: int = 0
    """Of those contexts, at their beginning and the same as in the call before: a provider may have them cached."""
    overflows_avoided: int = 0
    """Calls whose whole conversation would not have fitted the budget."""
    saved_dollars: float = 0.0
    """At the price of uncached tokens; of each call, at most what the model's window could have been sent."""
    saved_dollars_cached: float = 0.0
    """If providers cache every prefix that stays the same, with Jettison and without."""
    llm_dollars: float = 0.0
    unpriced_calls: int = 0
    reported_input_tokens: int = 0
    """What providers counted themselves, as far as agents reported it."""
    reported_cached_tokens: int = 0

    @property
    def saved_tokens(self) -> int:
        """Return the tokens that all calls together went without."""
        return self.said_tokens - self.served_tokens


class FateSum(msgspec.Struct, kw_only=True):
    """What became of the values of one category, all compactions together; of old logs, only what they recorded.

    Steps and sentences are counted alike.
    """

    retained: int = 0
    recoverable: int = 0
    lost: int = 0


class Course(msgspec.Struct, kw_only=True):
    """The calls with the same number of all conversations, from 1."""

    calls: int = 0
    said_tokens: int = 0
    served_tokens: int = 0


class ConversationStats(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation. `damage` says where its log could not be read on."""

    address: Address
    model: str
    sums: Sums
    stages: dict[str, StageSum]
    waits: tuple[SlowStep, ...]
    reasons: dict[tuple[str, str, str], int]
    values: dict[str, FateSum]
    course: tuple[Course, ...] = ()
    repairs: dict[str, int] = {}
    damage: str = ""


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """Everything together, and by stage, tenant and model."""

    total: Sums
    stages: dict[str, StageSum]
    tenants: dict[str, Sums]
    models: dict[str, Sums]
    reasons: tuple[Reason, ...]
    slowest: tuple[SlowStep, ...]
    values: dict[str, FateSum]
    """By category, as far as any was taken out of a view; `steps` and `sentences` are two of them."""
    course: tuple[Course, ...]
    """Of the first, second, … call of every conversation."""
    repairs: dict[str, int]
    """By kind: messages that no provider would have taken as they were, and what of policies was refused."""
    damaged: dict[str, str]


class _Calls:
    """Adds up the served contexts of one conversation."""

    def __init__(self, price_as: str) -> None:
        self._price_as = price_as
        self._said_tokens = self._counted = self._last_said = 0
        self._removed: dict[str, int] = {}
        self._last: tuple[bytes, ...] = ()
        self.begin()

    def begin(self) -> None:
        """Add up from here on; what was said and taken away before is the same for the calls that follow."""
        self.sums = Sums(conversations=1)
        self.stages: dict[str, StageSum] = {}
        self.course: list[Course] = []

    def heard(self, state: State) -> None:
        """Add the messages that came since, at their full size."""
        for entry in reversed((*state.live, *state.arrived)):
            if entry.number <= self._counted:
                break
            self._said_tokens += entry.frame_tokens + sum(part.tokens for part in entry.parts)
        self._counted = max(self._counted, state.messages)

    def removed(self, stage: str, tokens: int) -> None:
        """Add what a step took away."""
        self._removed[stage] = self._removed.get(stage, 0) + tokens

    def served(self, decision: Decision, served_tokens: int, budget: int) -> None:
        """Add one call."""
        sums, model = self.sums, decision.before.terms.model or self._price_as
        price, sendable = price_of(model), min(self._said_tokens, max(served_tokens, _window(decision, model)))
        prefix = self._same_prefix(decision, served_tokens)
        sums.calls += 1
        self.course.append(Course(calls=1, said_tokens=self._said_tokens, served_tokens=served_tokens))
        sums.said_tokens += self._said_tokens
        sums.served_tokens += served_tokens
        sums.same_prefix_tokens += prefix
        sums.overflows_avoided += self._said_tokens > budget
        sums.unpriced_calls += price is None
        by_stage = {**self._removed}
        saved = self._said_tokens - served_tokens
        by_stage["serve"] = saved - sum(by_stage.values())
        priced = (sendable - served_tokens) / saved if saved > 0 else 1.0
        for stage, tokens in by_stage.items():
            if stage != "serve" or tokens:
                found = self.stages.setdefault(stage, StageSum())
                found.saved_tokens += tokens
                found.saved_dollars += tokens * priced * price.input if price else 0.0
        if price is not None:
            sums.saved_dollars += priced * saved * price.input
            # what does not fit any more leaves at the front, and nothing of the prompt is cached then
            cached = self._last_said if sendable == self._said_tokens else 0
            without = _dollars(price, sendable, cached=cached)
            sums.saved_dollars_cached += without - _dollars(price, served_tokens, cached=prefix)
        self._last_said = self._said_tokens

    def _same_prefix(self, decision: Decision, served_tokens: int) -> int:
        """Return the tokens, estimated by bytes, of the messages that begin this view and the one before alike."""
        seen = rebuilt(decision).view
        if seen is None:
            return 0
        same = 0
        for old, new in zip(self._last, seen.messages, strict=False):
            if old != new:
                break
            same += len(new)
        self._last = seen.messages
        return served_tokens * same // max(1, sum(map(len, seen.messages)))


def _window(decision: Decision, model: str) -> int:
    """Return the tokens that a call of *model* can have; of an unknown one, what the policy says of it."""
    policy = decision.before.policy
    assert policy is not None
    return window_of(model) or policy.budget.window


def conversation_stats(at: Address, records: Sequence[Record], *, price_as: str = "") -> ConversationStats:
    """Add up one conversation. Where its model is not named, calls are priced as those of *price_as*."""
    calls = _Calls(price_as)
    times = {record.seq: record.time for record in records}
    waits: list[SlowStep] = []
    why_not: dict[tuple[str, str, str], int] = {}
    values: dict[str, FateSum] = {}
    repairs: Counter[str] = Counter()
    model = damage = ""
    copied_messages = copied_seq = 0
    last: Decision | None = None
    try:
        for decision in trail(at, records):
            if any(isinstance(fact, ConversationForked) for fact in decision.commit.facts):
                calls.begin()
                waits, why_not, values = [], {}, {}
                repairs.clear()
                copied_messages, copied_seq = decision.before.messages, decision.record.seq
            calls.sums.versions += 1
            last = decision
            model = decision.before.terms.model
            calls.heard(decision.before)
            repairs.update(one.kind for one in decision.commit.facts if isinstance(one, MessageRepaired))
            fact = served_fact(decision)
            if fact is not None:
                calls.served(decision, fact.tokens, fact.budget)
                continue
            stage = stage_of(decision.commit)
            if not stage:
                continue
            _add_step(calls.stages.setdefault(stage, StageSum()), decision, calls, why_not)
            _add_values(values, decision)
            seconds = _seconds(decision, times)
            if seconds is not None:
                waits.append(_step(at, decision, stage, seconds))
        calls.sums.messages = head(last, at, records).messages - copied_messages
    except (BadEnvelope, ChainBroken) as error:
        damage = str(error)
    sums = calls.sums
    sums.llm_dollars = sum(stage.llm_dollars for stage in calls.stages.values())
    _add_reported(sums, at, records, after=copied_seq)
    return ConversationStats(
        address=at,
        model=model,
        sums=sums,
        stages=calls.stages,
        waits=tuple(waits),
        reasons=why_not,
        values=values,
        course=tuple(calls.course),
        repairs=dict(repairs),
        damage=damage,
    )


def stats(conversations: Iterable[ConversationStats]) -> Stats:
    """Add up *conversations*."""
    total, tenants, models = Sums(), dict[str, Sums](), dict[str, Sums]()
    stages: dict[str, StageSum] = {}
    counted: dict[tuple[str, str, str], int] = {}
    waits: list[SlowStep] = []
    values: dict[str, FateSum] = {}
    course: list[Course] = []
    repairs: Counter[str] = Counter()
    damaged: dict[str, str] = {}
    for one in conversations:
        for group in (
            total,
            tenants.setdefault(one.address.tenant, Sums()),
            models.setdefault(one.model or "(not named)", Sums()),
        ):
            _add(group, one.sums)
        for name, stage in one.stages.items():
            _add(stages.setdefault(name, StageSum()), stage)
        for key, times in one.reasons.items():
            counted[key] = counted.get(key, 0) + times
        waits += one.waits
        for name, kept in one.values.items():
            _add(values.setdefault(name, FateSum()), kept)
        course += [Course() for _ in one.course[len(course) :]]
        for total_call, call in zip(course, one.course, strict=False):
            _add(total_call, call)
        repairs.update(one.repairs)
        if one.damage:
            damaged[str(one.address)] = one.damage
    for name, stage in stages.items():
        seconds = [wait.seconds for wait in waits if wait.stage == name]
        stage.seconds_median, stage.seconds_max = median(seconds or [0.0]), max(seconds, default=0.0)
    told = sorted((Reason(times=times, stage=key[0], outcome=key[1], reason=key[2]) for key, times in counted.items()))
    return Stats(
        total=total,
        stages=stages,
        tenants=tenants,
        models=models,
        reasons=tuple(reversed(told))[:REASONS_MAX],
        slowest=tuple(sorted(waits, key=lambda wait: -wait.seconds)[:SLOWEST_MAX]),
        values=dict(sorted(values.items())),
        course=tuple(course),
        repairs=dict(repairs.most_common()),
        damaged=damaged,
    )


def _add_step(stage: StageSum, decision: Decision, calls: _Calls, why_not: dict[tuple[str, str, str], int]) -> None:
    outcome, name = outcome_of(decision.commit.facts), stage_of(decision.commit)
    removed = tokens_of(decision.before) - tokens_of(decision.after)
    calls.removed(name, removed)
    stage.removed_tokens += removed
    stage.applied += outcome == "applied"
    stage.declined += outcome in ("declined", "rejected")
    stage.failed += outcome == "failed"
    # refused answers and failures were paid for too
    paid = (dollars_of(fact) for fact in decision.commit.facts if hasattr(fact, "output_tokens"))
    stage.llm_dollars += sum(dollars or 0.0 for dollars in paid)
    if outcome in ("declined", "rejected", "failed"):
        for reason in reasons(decision.commit):
            # the same reason with other numbers is the same reason
            key = (name, outcome, _NUMBER.sub("N", reason))
            why_not[key] = why_not.get(key, 0) + 1


def _add_values(values: dict[str, FateSum], decision: Decision) -> None:
    found = recorded(*decision.commit.facts)
    for name, one in (found.rows if found else {}).items():
        _add(values.setdefault(name, FateSum()), one)


def _dollars(price: Price, tokens: int, *, cached: int) -> float:
    return cached * price.cached + (tokens - cached) * price.input


def _seconds(decision: Decision, times: Mapping[int, str]) -> float | None:
    """Return the seconds from the newest record that the step looked at to its commit, as the server stored them."""
    causes = (decision.before.position.said_seq, decision.before.position.done_seq)
    began = [_moment(times.get(seq, "")) for seq in causes if seq]
    ended = _moment(decision.record.time)
    known = [moment for moment in began if moment is not None]
    if ended is None or len(known) < len(began) or not known:
        return None
    return max(0.0, (ended - max(known)).total_seconds())


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _step(at: Address, decision: Decision, stage: str, seconds: float) -> SlowStep:
    version, time = decision.commit.version, decision.record.time
    return SlowStep(address=str(at), version=version, stage=stage, seconds=seconds, time=time)


def _add_reported(sums: Sums, at: Address, records: Iterable[Record], *, after: int) -> None:
    for record, fact in said_facts(at, records):
        if isinstance(fact, UsageReported) and record.seq > after:
            sums.reported_input_tokens += fact.input_tokens
            sums.reported_cached_tokens += fact.cached_tokens


def _add(into: msgspec.Struct, other: msgspec.Struct) -> None:
    for name in into.__struct_fields__:
        setattr(into, name, getattr(into, name) + getattr(other, name))
