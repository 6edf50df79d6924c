"""Lived: a recorded run, turn by turn: before every assistant message the view is asked for and measured.

What the message then really uses says what the view had to keep.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Protocol

import msgspec

from actors.core.extract import messages_text, values_of
from actors.model_info.tokens import counter
from protocol.formats import messages
from protocol.formats.validate import problems

Json = dict[str, Any]

FAR_MESSAGES = 6
"""What was last mentioned longer ago is no longer at hand in the newest messages."""

PREFIX_SHARE = 0.9
"""A view that keeps less of the one before it as its beginning is a bust of the provider's cache."""

CACHED, WRITTEN = 0.1, 1.25
"""Price of a token that the cache has, and of one that is written to it (Anthropic's; a plain token is 1)."""

FRAME_TOKENS = 4


class System(Protocol):
    """What makes views of one conversation. One with `recover(view)` also says what its pointers lead to."""

    def append(self, new: list[Json]) -> None:
        """Append OpenAI chat messages."""

    def view(self) -> list[Json]:
        """Return the messages for the next call."""


class Run(msgspec.Struct, kw_only=True):
    """What one system made of one conversation."""

    turns: int = 0
    used: int = 0
    kept: int = 0
    far_used: int = 0
    far_kept: int = 0
    far_behind: int = 0
    """Not in the view, but in what its pointers lead to."""
    sent: int = 0
    everything: int = 0
    cost: float = 0.0
    everything_cost: float = 0.0
    busts: int = 0
    illegal: int = 0
    over_budget: int = 0
    task_lost: int = 0
    """Views without what the user said last, or without the instructions."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What one system made of all conversations at one budget; shares are means over conversations for tokens,
    and of all values together for what is remembered."""

    system: str
    budget_tokens: int
    conversations: int
    turns: int
    sent_share: float
    cost: float
    busts_per_100: float
    kept_share: float
    far_share: float
    far_behind_share: float
    illegal: int
    over_budget: int
    task_lost: int


def lived(said: Sequence[Json], system: System, budget_tokens: int) -> Run:
    """Live through *said* with *system*."""
    run = Run()
    last_mention: dict[str, int] = {}
    before: list[str] = []
    done = full = 0
    for index, message in enumerate(said):
        values = values_of(messages_text(message))
        if message["role"] == "assistant" and index > 0:
            new = sum(_tokens(one) for one in said[done:index])
            system.append(json.loads(json.dumps(said[done:index])))
            done, full = index, full + new
            view = system.view()
            before = _price(run, view, before, full=full, new=new)
            _check(run, view, said[:index], budget_tokens)
            _remember(
                run, system, view, values, {one: last_mention[one] for one in values if one in last_mention}, index
            )
        last_mention |= dict.fromkeys(values, index)
    return run


def row(name: str, budget_tokens: int, runs: Sequence[Run]) -> Row:
    """Return *runs* as one line."""

    def total(of: Callable[[Run], int]) -> int:
        return sum(map(of, runs))

    far_used, far_kept = max(1, total(lambda one: one.far_used)), total(lambda one: one.far_kept)
    return Row(
        system=name,
        budget_tokens=budget_tokens,
        conversations=len(runs),
        turns=total(lambda one: one.turns),
        sent_share=statistics.mean(one.sent / max(1, one.everything) for one in runs),
        cost=statistics.mean(one.cost / max(1, one.everything_cost) for one in runs),
        busts_per_100=100 * total(lambda one: one.busts) / max(1, total(lambda one: one.turns)),
        kept_share=total(lambda one: one.kept) / max(1, total(lambda one: one.used)),
        far_share=far_kept / far_used,
        far_behind_share=(far_kept + total(lambda one: one.far_behind)) / far_used,
        illegal=total(lambda one: one.illegal),
        over_budget=total(lambda one: one.over_budget),
        task_lost=total(lambda one: one.task_lost),
    )


def cleaned(said: Sequence[Json]) -> list[Json]:
    """Return a recording without what is broken in it (calls that were aborted), so that no system is blamed for it."""
    answered = {one.get("tool_call_id") for one in said if one["role"] == "tool"}
    called = {call["id"] for one in said for call in one.get("tool_calls") or ()}
    out = []
    for one in said:
        if one["role"] == "tool" and one.get("tool_call_id") not in called:
            continue
        calls = [call for call in one.get("tool_calls") or () if call["id"] in answered]
        bare = {key: value for key, value in one.items() if key != "tool_calls" and value is not None}
        if one.get("tool_calls") and not calls and not one.get("content"):
            continue
        out.append(bare | {"content": one.get("content")} | ({"tool_calls": calls} if calls else {}))
    return out


def tokens_of(said: Sequence[Json]) -> int:
    """Return the tokens of *said*."""
    return sum(map(_tokens, said))


def _price(run: Run, view: list[Json], before: list[str], *, full: int, new: int) -> list[str]:
    keys = [json.dumps(one, sort_keys=True) for one in view]
    pairs = zip(before, keys, strict=False)
    same = next((at for at, (old, now) in enumerate(pairs) if old != now), min(len(before), len(keys)))
    sizes = [_tokens(one) for one in view]
    reused = sum(sizes[:same])
    run.turns += 1
    run.sent += sum(sizes)
    run.everything += full
    run.cost += CACHED * reused + WRITTEN * (sum(sizes) - reused)
    run.everything_cost += CACHED * (full - new) + WRITTEN * new
    run.busts += same < PREFIX_SHARE * len(before)
    return keys


def _check(run: Run, view: list[Json], said: Sequence[Json], budget_tokens: int) -> None:
    text = "\n".join(map(messages_text, view))
    run.illegal += len(problems(view))
    run.over_budget += tokens_of(view) > budget_tokens
    users = [one for one in said if one["role"] == "user"]
    must = [one for one in (*said[:1], *users[-1:]) if one["role"] in ("user", "system")]
    run.task_lost += any(messages_text(one)[:200] not in text for one in must)


def _remember(
    run: Run, system: System, view: list[Json], values: list[str], last_mention: dict[str, int], index: int
) -> None:
    text = "\n".join(map(messages_text, view))
    behind: str | None = None
    for value in values:
        if value not in last_mention:
            continue
        kept, far = value in text, last_mention[value] < index - FAR_MESSAGES
        run.used, run.kept = run.used + 1, run.kept + kept
        run.far_used, run.far_kept = run.far_used + far, run.far_kept + (far and kept)
        if far and not kept and hasattr(system, "recover"):
            behind = system.recover(view) if behind is None else behind
            run.far_behind += value in behind


def _tokens(message: Json) -> int:
    return FRAME_TOKENS + _counted(messages_text(messages.decode(messages.encode(message))))


@lru_cache(maxsize=20_000)
def _counted(text: str) -> int:
    return counter("o200k_base")(text)
