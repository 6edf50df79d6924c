"""Observations: messages in the user's place that answer a call which the assistant wrote in its text.

Agents without tool calls get all their results so. Where nobody knew them, they would be requests: kept longest, and
in the place of what the user wants. Known are the frames of programs (`text/observed.py`), and only behind a call.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from protocol.formats import messages
from protocol.policy import Policy

from .entry import Entry
from .message_texts import MessageText, texts_of
from .state import State
from .state_parts import Arrived
from .text.observed import is_observation, without_frame, written_call

CALL = "written in #{}"
"""Id of a call that has none: by the number of the message that answers it."""


def marked(entry: Entry, before: Entry | None, policy: Policy | None) -> Entry:
    """Return *entry*, marked as an observation where it answers what *before* says.

    *policy* is None until a conversation has one; under older rules a user's message is the user's.
    """
    if entry.role != "user" or entry.results or before is None or before.role != "assistant" or before.call_ids:
        return entry
    if policy is not None and policy.digest.records != "fields":
        return entry
    if not is_observation(_text(entry)) or written_call(_text(before)) is None:
        return entry
    # where several speak, each by a name, one of them may run programs for the others
    return entry if messages.decode(entry.raw).get("name") else replace(entry, observed=True)


def _text(entry: Entry) -> str:
    return "\n".join(part.text for part in texts_of([entry]))


def with_marks_of(state: State, policy: Policy) -> State:
    """Return *state* as *policy* sees it: without marks where a user's message is the user's."""
    if policy.digest.records == "fields":
        return state
    if any(entry.observed for entry in state.live):
        state = replace(state, shown=replace(state.shown, live=tuple(map(_unmarked, state.live))))
    waiting = tuple(
        replace(one, entry=_unmarked(one.entry)) if isinstance(one, Arrived) else one for one in state.waiting
    )
    return state if waiting == state.waiting else replace(state, waiting=waiting)


def _unmarked(entry: Entry) -> Entry:
    return replace(entry, observed=False) if entry.observed else entry


def with_calls(parts: Sequence[MessageText], entries: Sequence[Entry]) -> list[MessageText]:
    """Return the *parts* of a unit's *entries* with the call that an observation answers, apart from what was said."""
    answer = next((entry.number for entry in entries if entry.observed), 0)
    if not answer:
        return list(parts)
    call = CALL.format(answer)
    out: list[MessageText] = []
    for part in parts:
        if part.number == answer and part.trust == "tool":
            out.append(replace(part, text=without_frame(part.text), call=call))
        elif part.trust == "assistant" and not part.tool and (written := written_call(part.text)) is not None:
            out.append(replace(part, text=written.said))
            out.append(replace(part, text=written.arguments, tool=written.tool, call=call))
        else:
            out.append(part)
    return out
