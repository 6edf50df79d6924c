"""Call failures: why a call did not do what it was to, or what failed in it, as its result tells."""

from __future__ import annotations

from typing import NamedTuple

from actors.core.message_texts import MessageText
from actors.core.text.error_text import error_text

from .calls import delegates, only_looks, patches, reads_file
from .failures import (
    failure_in,
    is_made,
    refusal_in,
    refused_for,
    rejection_in,
    trace_before,
    trace_in,
    undone_in,
)


class CallFailure(NamedTuple):
    """What failed, in the words of a result; empty where nothing did."""

    why: str
    is_undone: bool
    """Whether the call changed nothing: a test that fails behind it does not undo what it wrote."""


def failure_of(call: MessageText, result: str, *, changes: bool, rules_3: bool) -> CallFailure:
    """Return what failed by the *result* of *call*, of which is known whether it *changes* something."""
    why = _undone_for(call, result, changes=changes, rules_3=rules_3)
    is_undone = bool(why) and (patches(call) or not (trace_in(result) or failure_in(result, rules_3=True)))
    if not why and not only_looks(call) and not (rules_3 and delegates(call)):
        why = (trace_in(result) if rules_3 else "") or failure_in(result, rules_3=rules_3)
    if why and rules_3 and (before := trace_before(result)).rsplit("\n", 1)[-1] not in why:
        why = before
    return CallFailure(why, is_undone)


def _undone_for(call: MessageText, result: str, *, changes: bool, rules_3: bool) -> str:
    """Return why *call* was not done, by its *result*; an empty text where it was."""
    if not rules_3:
        return rejection_in(result) or error_text(result) or (refusal_in(result, rules_3=False) if changes else "")
    if changes and (patches(call) or reads_file(call)) and is_made(result):
        return ""
    # a report of another agent speaks of refusals
    refused = "" if delegates(call) else rejection_in(result)
    refused = refused or ("" if only_looks(call) else undone_in(result)) or error_text(result)
    if refused or not changes or not (refused := refusal_in(result, rules_3=True)):
        return refused
    return f"{why}. {refused}" if (why := refused_for(result)) else refused
