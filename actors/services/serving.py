"""Serving: what a call may have, what is told of the view that it gets, and how it is refused. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from actors.core.flow import next_actor
from actors.core.sizes import sizes_of
from actors.core.state import State
from actors.core.state_parts import BudgetWish
from actors.core.view import View, least_budget, unspilled
from actors.model_info.tokens import tokenizer_for
from actors.model_info.windows import window_of
from actors.runtime.fold import count_of
from actors.runtime.registry import asks_model
from protocol.errors import BudgetRefused, CallsOpen
from protocol.facts import ContextServed
from protocol.ids import Address
from protocol.limits import UNSENT_MAX
from protocol.service_messages import ContextAsked, ContextMeta

CALLS_TOLD_MAX = 20


def budget_of(asked: ContextAsked, state: State) -> int:
    """Return the tokens of the view: what is asked, within the standing budget and the model's own window."""
    assert state.policy is not None
    budget = min(asked.budget or state.usable_tokens, state.usable_tokens)
    window = window_of(asked.model)
    return budget if window is None else max(1, min(budget, window - state.policy.budget.reserve))


def fits_as_it_is(asked: ContextAsked, state: State) -> bool:
    """Tell whether *state* can be shown while a compaction is under way that only the trigger began: it fits whole."""
    if state.policy is None or state.episode is None or state.episode.cause != "trigger" or unspilled(state):
        return False
    digest_tokens = state.digest.tokens if state.digest else 0
    tokens = sum([entry.tokens + entry.apart_tokens for entry in state.entries], digest_tokens)
    return tokens <= budget_of(asked, state)


def fact_of(asked: ContextAsked, state: State, seen: View, budget: int) -> ContextServed:
    """Return the fact that *seen*, a view of *state*, is served."""
    return ContextServed(
        upto=seen.upto,
        budget=budget,
        profile=seen.profile,
        view_hash=seen.hash,
        tokens=seen.tokens,
        level=seen.level,
        asked=max(0, asked.budget),
        unsent=tuple(one for one in asked.unsent[-UNSENT_MAX:] if one > 0),
        sizes=sizes_of(state),
    )


def meta_of(asked: ContextAsked, state: State, seen: View, budget: int, version: int) -> ContextMeta:
    """Return the description of *seen*, which is served at *version*."""
    tokenizer = tokenizer_for(state.terms.model)
    entries = {entry.number: entry for entry in state.entries} if seen.level != "none" else {}
    there = {entry.number: entry for entry in seen.entries}
    return ContextMeta(
        version=version,
        upto=seen.upto,
        tokens=seen.tokens,
        budget=budget,
        hash=seen.hash,
        level=seen.level,
        profile=seen.profile,
        tokenizer=tokenizer.id,
        estimated=tokenizer.estimate,
        squeezing=asks_model(next_actor(state)),
        standing=state.usable_tokens,
        left_out=ranges(number for number in entries if number not in there),
        shortened=ranges(number for number, one in entries.items() if there.get(number, one).shown != one.shown),
        repeated=_is_repeated(asked, state),
        same=seen.begins_as(asked.have),
        compacted=state.counters.compacted is not None or seen.level != "none",
    )


def _is_repeated(asked: ContextAsked, state: State) -> bool:
    """Tell whether the call before, with less said, asked for the same, and a view has not that budget anyhow.

    The call itself may have been asked twice: then as much was said.
    """
    assert state.policy is not None
    standing = next((one.budget for one in reversed(state.waiting) if isinstance(one, BudgetWish)), state.terms.budget)
    again = asked.budget == state.terms.asked and state.terms.asked_upto < state.messages
    return bool(asked.budget) and again and asked.budget != standing and asked.budget < state.policy.usable_tokens


def refusal(state: State, budget: int, refused: BudgetRefused) -> BudgetRefused:
    """Return *refused* with the smallest budget that works, and how to get it."""
    least = least_budget(state, refused=budget, count=count_of(state))
    parts = refused.fields.get("parts")
    large = parts if isinstance(parts, list) else []
    named = ", ".join(f"message {number} ({role}, {tokens:,} tokens)" for number, role, tokens in large)
    told = f"what must stay needs {least:,} tokens, the budget is {budget:,}" if least else "no budget holds a view"
    way = ""
    if least > state.usable_tokens:
        way = "; set a larger budget" if state.terms.budget else "; the policy allows no more: set a larger window"
    return BudgetRefused(
        f"{told}{f'; largest: {named}' if named else ''}{way}", tokens=least, budget=budget, parts=large
    )


def calls_open(at: Address, state: State) -> CallsOpen:
    """Return the error that names the calls of *state* without a result."""
    calls = ", ".join(call.said for call in state.exchange.open_calls[:CALLS_TOLD_MAX])
    return CallsOpen(
        f"{at} waits for the results of calls {calls}: append them, or what a user says meanwhile",
        address=str(at),
        calls=calls,
    )


def ranges(numbers: Iterable[int]) -> str:
    """Return *numbers*, in order, as text: `4-9,12`."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in found)
