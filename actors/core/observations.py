"""Observations: messages in the user's place that answer a call which the assistant wrote in its text, and notices.

Agents without tool calls get all their results so, and others what happened meanwhile. Where nobody knew them, they
would be requests: kept longest, and in the place of what the user wants. Known are the frames of programs
(`text/observed.py`), and only behind a call, and elements that programs write about themselves (`text/notices.py`).
A text that its client uploaded is not in the message, and so never known.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from msgspec.structs import replace

from protocol.formats import messages
from protocol.policy import Policy

from .entry import Entry
from .message_texts import MessageText, texts_of
from .state import State
from .state_parts import Arrived
from .text.browser import AGENT_OUTPUT, action_in, actions_in, as_result, follows, is_read, is_shown, with_address
from .text.notices import happened, is_notice
from .text.observed import answers_in, is_observation
from .text.written import Written, written_calls

_AGENT = re.compile(
    r"(?:[A-Za-z]{0,40}Surfer|ComputerTerminal|Code_?[Ee]xecutor(?:_?[Aa]gent)?|code_executor(?:_agent)?)\d{0,4}"
)
"""Names under which programs of AutoGen and Magentic-One speak in the user's place: no person has one of them."""

NOT_ANSWERED = "(no answer: it may not have run)"
"""Stands for what an action did, of several of which others were answered."""

CALL_ID = "written in #{}.{}"
"""Of a call that has none: by the number of the message that answers it, and the call's place."""


def marked(entry: Entry, before: Entry | None, policy: Policy | None) -> Entry:
    """Return *entry*, marked as an observation where it answers what *before* says, or is nothing but notices.

    What follows the instructions is the user's, whatever it looks like. Only what both say is looked at, as it was
    said: who folds may have seen it shortened, or not. *policy* is None until a conversation has one; under older rules
    a user's message is the user's.
    """
    if entry.role != "user" or entry.results or before is None or before.leading:
        return entry
    if policy is not None and not policy.digest.rules_3:
        return entry
    said, answers = _said(entry), before.role == "assistant" and not before.call_ids
    # somebody sent a picture, or a text that is not in the message
    alone = all(part.kind not in messages.MEDIA and not part.sha256 for part in entry.parts)
    texts = [part.text for part in _texts(entry) if part.text.strip()]
    if alone and texts and all(map(is_notice, texts)):
        return replace(entry, observed=True, notice=True)
    name = messages.decode(entry.raw).get("name")
    if isinstance(name, str) and name:
        # where several speak, each by a name, one of them may run programs for the others
        is_reply = (answers or before.observed) and bool(_AGENT.fullmatch(name))
        return replace(entry, observed=True) if is_reply else entry
    is_answer = answers and is_observation(said, _said(before))
    is_answer = is_answer or (is_shown(said) and follows(_said(before), is_result=bool(before.results)))
    return replace(entry, observed=True) if is_answer else entry


def _said(entry: Entry) -> str:
    return "\n".join(part.text for part in _texts(entry))


def _texts(entry: Entry) -> list[MessageText]:
    return texts_of([replace(entry, shown=()) if entry.shown else entry])


def without_marks(state: State, *, waiting: bool = True) -> State:
    """Return *state* as older rules see it, that know no observations; of *waiting* messages only where that is said.

    What waits for spill is told by the fold, whatever rules spill then decides by.
    """
    digest = state.digest
    if digest is not None and any(entry.observed for entry in digest.pending):
        digest = replace(digest, pending=tuple(map(_unmarked, digest.pending)))
    if digest is not state.digest or any(entry.observed for entry in state.live):
        live = tuple(map(_unmarked, state.live))
        state = replace(state, shown=replace(state.shown, live=live, digest=digest))
    if not waiting or not any(isinstance(one, Arrived) and one.entry.observed for one in state.waiting):
        return state
    left = (replace(one, entry=_unmarked(one.entry)) if isinstance(one, Arrived) else one for one in state.waiting)
    return replace(state, waiting=tuple(left))


def _unmarked(entry: Entry) -> Entry:
    return replace(entry, observed=False, notice=False) if entry.observed else entry


def with_calls(parts: Sequence[MessageText], entries: Sequence[Entry]) -> list[MessageText]:
    """Return the *parts* of a unit's *entries* with the calls that an observation answers, apart from what was said.

    Of notices the events are left.
    """
    observed = {entry.number: entry.notice for entry in entries if entry.observed}
    if not observed:
        return list(parts)
    answer = min((number for number, notice in observed.items() if not notice), default=0)
    tools: list[str] = []
    out: list[MessageText] = []
    for part in _with_actions(parts, observed):
        said = part.trust == "assistant" and not part.tool and answer
        if part.number in observed and (observed[part.number] or is_notice(part.text)):
            out += [replace(part, text=text)] if (text := happened(part.text)) else []
        elif said and (written := written_calls(part.text)).calls:
            out += _apart(part, written, answer)
            tools = [call.tool for call in written.calls]
        elif part.number == answer and part.trust == "tool" and not part.call:
            out += _answers(part, tools)
        else:
            out.append(part)
    return out


def _with_actions(parts: Sequence[MessageText], observed: Collection[int]) -> list[MessageText]:
    """Return *parts* with browser-use's actions, each with what it did: its own call has them all."""
    out: list[MessageText] = []
    acting: list[str] = []
    answered: list[int] = []
    reads = False
    for part in parts:
        if part.tool == AGENT_OUTPUT and (actions := actions_in(part.text)):
            thoughts = [*_actions(part, actions)]
            acting, answered, reads = [one.call for one in thoughts if one.tool], [], False
            out += thoughts
        elif (part.number in observed or part.call in acting) and _is_browsers(part):
            # each action answers in its turn, and the page shows what the last of them did
            last = answered[-1] if answered else -1
            if (place := action_in(part.text, last + 1)) is not None:
                answered.append(last := min(place, len(acting) - 1))
                reads = is_read(part.text)
            elif reads:
                # the same page again: its address is new
                out[-1] = replace(out[-1], text=with_address(out[-1].text, part.text))
                continue
            out.append(replace(part, text=as_result(part.text), call=acting[max(0, last)] if acting else ""))
        else:
            out.append(part)
    # where the page changed, those behind the one that changed it are not run
    silent = [call for place, call in enumerate(acting) if answered and place not in answered]
    return out + [replace(parts[-1], text=NOT_ANSWERED, tool="", trust="tool", call=call) for call in silent]


def _is_browsers(part: MessageText) -> bool:
    return part.trust == "tool" and is_shown(part.text) and not is_notice(part.text)


def _apart(part: MessageText, written: Written, answer: int) -> Iterator[MessageText]:
    yield replace(part, text=written.said)
    for place, (tool, arguments) in enumerate(written.calls):
        yield replace(part, text=arguments, tool=tool, call=CALL_ID.format(answer, place))


def _actions(part: MessageText, actions: Written) -> Iterator[MessageText]:
    """Yield the thoughts of *part*, a call that has *actions*, and these; the first one has its id."""
    yield replace(part, text=actions.said, tool="", call="")
    for place, (tool, arguments) in enumerate(actions.calls):
        call = f"{part.call}.{place}" if place else part.call
        yield replace(part, text=arguments, tool=tool, call=call)


def _answers(part: MessageText, tools: Sequence[str]) -> Iterator[MessageText]:
    """Yield the answers in *part*, each to its call of *tools*; to the last one where there are not as many.

    Without calls it answers none.
    """
    answers = answers_in(part.text, tools)
    if not tools:
        yield replace(part, text="\n".join(answers))
        return
    if len(answers) != len(tools):
        yield replace(part, text="\n".join(answers), call=CALL_ID.format(part.number, len(tools) - 1))
        return
    for place, text in enumerate(answers):
        yield replace(part, text=text, call=CALL_ID.format(part.number, place))
